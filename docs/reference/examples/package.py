"""The Python package: errors are shown, read, saved, and passed to native code."""

import json
import logging
import pickle
import signal
import subprocess
import sys

import lupa.lua54
import sentry_sdk
import stacksplice
import stacksplice.logging
import stacksplice.opentelemetry
import stacksplice.sentry
from opentelemetry.sdk import _logs as logs
from opentelemetry.sdk import trace
from stacksplice import winrt

# Once, at the start of a program: errors are shown with all languages, and crashes are reported.
stacksplice.install(crash=True)

# For a runtime of lupa with a limit of its own: its scripts may take 50 milliseconds.
runtime = lupa.lua54.LuaRuntime()
stacksplice.attach(runtime, limit=0.05)

# Print what is there and what is missing.
complete = stacksplice.doctor()

# From now on __traceback__ gets no frames of other languages.
before = stacksplice.foreign_frames(False)
stacksplice.foreign_frames(before)

# Reports leave out e-mail addresses, too, and the values of these names.
stacksplice.redaction(emails=True, names=["pin", "iban"])

price = runtime.eval("function(rate, currency) return 25 * rate(currency) end")


def rate(currency):
    raise KeyError(currency)


# In a handler, as of the module traceback.
try:
    price(rate, "XXX")
except KeyError as error:
    exc = error
    stacksplice.print_exc()
    text = stacksplice.format_exc()

# The same for an exception that was kept.
stacksplice.print_exception(exc)
text = "".join(stacksplice.format_exception(exc))

# The error of an exception that crossed a border; None for any other.
info = stacksplice.error_info(exc)

assert info.type == "KeyError" and info.message == "'XXX'" and info.language == "python"

assert info.hresult == -2147483637 and info.description.startswith("The operation attempted")  # E_BOUNDS

assert info.language_exception is exc

print(info.thread_id, info.reference)

# The frames, the innermost first.
for frame in info.stack:
    print(frame.language, frame.function, frame.file, frame.line)


# Who has received the error, the first one first.
def receivers(chain: list[stacksplice.Propagation]) -> list[str]:
    return [f"{node.language} on thread {node.thread_id}, {len(node.stack)} frames" for node in chain]


print(receivers(info.propagation))

# Nothing was cut: the stack had not more frames than set_max_frames allows.
assert info.frames_left_out == info.stack.frames_left_out == 0

# What was going on, which every language sees.
exc.add_note("order 17")
assert info.notes == ["order 17"]

# For people: in the order of tracebacks, and with the inside of interpreters.
print(info.format(all_frames=True))
page = info.to_html()

# Group equal errors; the loose one stays after a rebuild.
print(info.fingerprint, info.loose_fingerprint)

# Save the error, and read it back.
line = info.to_json()
again = stacksplice.ErrorInfo.from_json(line)

# A tenth as long, for a log that many errors fill.
assert len(info.to_json(brief=True)) < len(line)

# The same as plain values, for a structured log.
data = info.to_dict()
assert stacksplice.ErrorInfo.from_dict(data).message == "'XXX'"

# What the error was made from: its cause, or what was being handled.
try:
    raise ValueError("no price") from exc
except ValueError as error:
    info = stacksplice.originate(error)
assert info.transformed == info.cause and info.context is None and info.causes_left_out == 0

# The members of a group.
group = ExceptionGroup("two orders", [exc, ValueError("no price")])
info = stacksplice.originate(group)
assert [member.type for member in info.exceptions] == ["KeyError", "ValueError"]
assert info.exceptions_left_out == 0

# An error that was pickled in another process says which one.  What its exception goes through here stands
# behind what it went through there, in one stack.
there = "import pickle, stacksplice, sys; e = KeyError('XXX'); stacksplice.originate(e); "
there += "sys.stdout.buffer.write(pickle.dumps(e))"
info = stacksplice.error_info(pickle.loads(subprocess.check_output([sys.executable, "-c", there])))
print(info.process["id"], info)

# The stack of this moment.
stack = stacksplice.capture(limit=10)
print(stack.format())

# Without its first frame.
rest = stacksplice.Stack.from_frames(stack[1:], stack.frames_left_out)

# A frame as plain values, and back.
data = stack[0].to_dict()
frame = stacksplice.Frame.from_dict(data)
assert frame.to_dict() == data

# Keep 5,000 frames of each error, for code that recurs deeply.
before = stacksplice.set_max_frames(5000)

# What reports count in one line: libraries, and a package of one's own.
stacksplice.hide("pandas", "sqlalchemy", module="shop.middleware")

# HRESULTs from native code are also the exception that fits.
try:
    stacksplice.raise_error(-2147483637)  # E_BOUNDS is the HRESULT of IndexError
except IndexError as error:
    assert isinstance(error, stacksplice.HResultError) and error.hresult == -2147483637

# A group of another language is an ExceptionGroup here.
assert issubclass(stacksplice.HResultErrorGroup, ExceptionGroup)

# If this takes more than five seconds, the stacks of all threads are reported.
with stacksplice.deadline(5, name="prices"):
    sum(range(1000))

# kill -USR1 PID shows the stacks of all threads.
stacksplice.report_on_signal(signal.SIGUSR1)

# Python is called by C: what C is told, and what it may ask for.
hresult = stacksplice.originate(exc).hresult
assert stacksplice.peek_error().language_exception is exc

# Clean-up that may fail.
with stacksplice.saved_error():
    assert stacksplice.peek_error() is None

# C has returned the HRESULT: the exception is raised again.
try:
    stacksplice.raise_error(hresult)
except KeyError as same:
    assert same is exc and stacksplice.take_error() is None

# Record that the error came through here.
stacksplice.propagate(exc)


# Where nobody can handle it: the host's handler may, else the process ends, with a report.
def end_of_thread(exc):
    stacksplice.report_unhandled(exc)


# It ends in any case.
def books_are_damaged(exc):
    stacksplice.fail_fast(exc)


# Combined reports in a log, or each record as JSON.
handler = logging.StreamHandler()
handler.setFormatter(stacksplice.logging.Formatter("%(levelname)s %(message)s"))
handler.setFormatter(stacksplice.logging.JsonFormatter())
logging.getLogger("orders").addHandler(handler)
logging.getLogger("orders").error("no price", exc_info=exc)


# A storm of equal errors is one record, and a count.
storm = stacksplice.logging.DedupHandler(handler, window=10)
logging.getLogger("orders").addHandler(storm)
storm.flush()


# For a formatter of somebody else.
class Formatter(stacksplice.logging.FormatterMixin, logging.Formatter):
    datefmt = "%H:%M"


# Where formatters cannot be chosen.
handler.addFilter(stacksplice.logging.Filter())

# Sentry gets the frames of all languages; a saved error is sent as an event.
sentry_sdk.init(dsn=None, integrations=[stacksplice.sentry.StackspliceIntegration()])
sentry_sdk.capture_event(stacksplice.sentry.event(again))

# So do spans and logs of OpenTelemetry.
trace.TracerProvider().add_span_processor(stacksplice.opentelemetry.SpanProcessor())
logs.LoggerProvider().add_log_record_processor(stacksplice.opentelemetry.LogRecordProcessor())

# What an exporter of one's own sends of an exception.
attributes = stacksplice.opentelemetry.exception_attributes(exc)
assert json.loads(attributes["stacksplice.report"])["type"] == "KeyError"

# The Windows Runtime's names.
winrt.RoOriginateError(-2147483637, "no rate")
winrt.RoTransformError(-2147483637, -2147467259, "no price")
info = winrt.GetRestrictedErrorInfo()
assert info.message == "no price" and info.cause.message == "no rate"

# A text that names the error in this process.
assert winrt.RoResolveRestrictedErrorInfoReference(info.reference) == info

# Leave the error to native code.
winrt.SetRestrictedErrorInfo(info)
assert winrt.RoGetMatchingRestrictedErrorInfo(-2147467259) == info

# An exception with an HRESULT and a text of one's own.
winrt.RoOriginateLanguageException(-2147467259, "no price", exc)
winrt.RoClearError()

# Errors that are expected are not stored.
flags = winrt.RoGetErrorReportingFlags()
winrt.RoSetErrorReportingFlags(flags | winrt.RO_ERROR_REPORTING_SUPPRESSSETERRORINFO)
assert winrt.IsErrorPropagationEnabled() and winrt.RoOriginateError(-2147467259)
winrt.RoSetErrorReportingFlags(flags)

# Native frames alone, by either name.
addresses, hashed = winrt.RtlCaptureStackBackTrace(0, 62)
addresses, hashed = winrt.CaptureStackBackTrace(0, 62)


# The end, with the stack of the place where it is known that nothing can go on.
def end(hresult):
    winrt.RoCaptureErrorContext(hresult)
    winrt.RoFailFastWithErrorContext(hresult)


# The end unless the host's handler says that it handled the error.
def nobody_handles(info):
    winrt.RoReportUnhandledError(info)


# The runtime, and everything that install() changed, are as before.
stacksplice.detach(runtime)
stacksplice.uninstall()
print("\nok")
