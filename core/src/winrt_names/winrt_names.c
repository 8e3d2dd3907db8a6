/*
 * libstacksplice-winrt: the Windows functions under their bare names, for programs that link or
 * look them up by name.  Each is one jump to the core's function, which so sees its real caller on
 * the stack.  The identifiers are copies of the core's.
 */
#include "com/iid_list.h"

#include <stacksplice/winrt/wtypesbase.h>

#if defined(__x86_64__)
#define JUMP(target) "endbr64\n\tjmp " target "@PLT"
#elif defined(__aarch64__)
#define JUMP(target) "bti c\n\tb " target
#elif defined(__riscv)
#define JUMP(target) "tail " target "@plt"
#else
#error "say how this machine jumps to a function of another library"
#endif

/* clang-format off */
#define FORWARD(name)                              \
    __asm__(".pushsection .text\n\t"               \
            ".balign 16\n\t"                       \
            ".globl " #name "\n\t"                 \
            ".type " #name ", %function\n"         \
            #name ":\n\t"                          \
            ".cfi_startproc\n\t"                   \
            JUMP("stacksplice_" #name) "\n\t"      \
            ".cfi_endproc\n\t"                     \
            ".size " #name ", . - " #name "\n\t"   \
            ".popsection");
/* clang-format on */

FORWARD(GetErrorInfo)
FORWARD(GetRestrictedErrorInfo)
FORWARD(IsErrorPropagationEnabled)
FORWARD(RoCaptureErrorContext)
FORWARD(RoClearError)
FORWARD(RoFailFastWithErrorContext)
FORWARD(RoGetErrorReportingFlags)
FORWARD(RoGetMatchingRestrictedErrorInfo)
FORWARD(RoInspectCapturedStackBackTrace)
FORWARD(RoInspectThreadErrorInfo)
FORWARD(RoOriginateError)
FORWARD(RoOriginateErrorW)
FORWARD(RoOriginateLanguageException)
FORWARD(RoReportFailedDelegate)
FORWARD(RoReportUnhandledError)
FORWARD(RoResolveRestrictedErrorInfoReference)
FORWARD(RoSetErrorReportingFlags)
FORWARD(RoTransformError)
FORWARD(RoTransformErrorW)
FORWARD(RtlCaptureStackBackTrace)
FORWARD(RtlWalkFrameChain)
FORWARD(SetErrorInfo)
FORWARD(SetRestrictedErrorInfo)
FORWARD(SysAllocString)
FORWARD(SysAllocStringByteLen)
FORWARD(SysAllocStringLen)
FORWARD(SysFreeString)
FORWARD(SysStringByteLen)
FORWARD(SysStringLen)
FORWARD(WindowsCreateString)
FORWARD(WindowsCreateStringReference)
FORWARD(WindowsDeleteString)
FORWARD(WindowsDuplicateString)
FORWARD(WindowsGetStringLen)
FORWARD(WindowsGetStringRawBuffer)
FORWARD(WindowsIsStringEmpty)

/* The headers declare NAME with the core's link name; BARE(NAME) has the bare one. */
#define BARE(name) bare_##name
#define DEFINE(name, ...)                                                                \
    EXTERN_C __attribute__((visibility("default"))) const IID BARE(name) __asm__(#name); \
    const IID BARE(name) = __VA_ARGS__;
STACKSPLICE_IID_LIST(DEFINE)
