"""The file of a crash goes where those of errors go: to text, and to Sentry."""

import json
import os
import subprocess
import sys
from pathlib import Path

import stacksplice
import stacksplice.sentry

subprocess.run([sys.executable, "crash.py"], stderr=subprocess.DEVNULL)
(path,) = Path(os.environ["STACKSPLICE_REPORT_DIR"]).iterdir()
info = stacksplice.ErrorInfo.from_json(path.read_text())
event = stacksplice.sentry.event(info)
value = event["exception"]["values"][-1]
print(info.format(newest_last=True))
print(json.dumps([event["level"], value["type"], value["value"], value["mechanism"]["handled"]]))
print(json.dumps([frame["lineno"] for frame in value["stacktrace"]["frames"] if "crash.py" in str(frame)]))
