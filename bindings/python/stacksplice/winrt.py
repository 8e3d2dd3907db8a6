"""The Windows Runtime names of the error functions.

HRESULTs are ints, signed or unsigned when given and signed when returned; messages are str or None;
error objects are ErrorInfo.  The pages of Microsoft's documentation hold.
"""

from __future__ import annotations

from ._stacksplice import (
    GetRestrictedErrorInfo,
    IsErrorPropagationEnabled,
    RoCaptureErrorContext,
    RoClearError,
    RoFailFastWithErrorContext,
    RoGetErrorReportingFlags,
    RoGetMatchingRestrictedErrorInfo,
    RoOriginateError,
    RoOriginateLanguageException,
    RoReportUnhandledError,
    RoResolveRestrictedErrorInfoReference,
    RoSetErrorReportingFlags,
    RoTransformError,
    RtlCaptureStackBackTrace,
    SetRestrictedErrorInfo,
)

CaptureStackBackTrace = RtlCaptureStackBackTrace

RO_ERROR_REPORTING_NONE = 0x0
RO_ERROR_REPORTING_SUPPRESSEXCEPTIONS = 0x1
RO_ERROR_REPORTING_FORCEEXCEPTIONS = 0x2
RO_ERROR_REPORTING_USESETERRORINFO = 0x4
RO_ERROR_REPORTING_SUPPRESSSETERRORINFO = 0x8

__all__ = [
    "CaptureStackBackTrace",
    "GetRestrictedErrorInfo",
    "IsErrorPropagationEnabled",
    "RO_ERROR_REPORTING_FORCEEXCEPTIONS",
    "RO_ERROR_REPORTING_NONE",
    "RO_ERROR_REPORTING_SUPPRESSEXCEPTIONS",
    "RO_ERROR_REPORTING_SUPPRESSSETERRORINFO",
    "RO_ERROR_REPORTING_USESETERRORINFO",
    "RoCaptureErrorContext",
    "RoClearError",
    "RoFailFastWithErrorContext",
    "RoGetErrorReportingFlags",
    "RoGetMatchingRestrictedErrorInfo",
    "RoOriginateError",
    "RoOriginateLanguageException",
    "RoReportUnhandledError",
    "RoResolveRestrictedErrorInfoReference",
    "RoSetErrorReportingFlags",
    "RoTransformError",
    "RtlCaptureStackBackTrace",
    "SetRestrictedErrorInfo",
]
