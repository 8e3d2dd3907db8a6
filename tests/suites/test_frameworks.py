"""What an error that crosses Lua looks like where web servers and workers write it.

Each real server runs its program here, one request fails, and what the server itself wrote or handed on
has the frames of both languages in true order.  None of the programs does more than `install()`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

MANUAL = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to"

SHOP = """
import lupa.lua54
import stacksplice

stacksplice.install()
lua = lupa.lua54.LuaRuntime()

def rate(currency):
    return {"EUR": 1}[currency]

lua.globals().rate = rate
lua.execute("function price(c)\\n  local r = rate(c)\\n  return r\\nend", name="@pricing.lua")

def ask(currency):
    return lua.globals().price(currency)
"""
FLASK = """
import flask, shop
app = flask.Flask(__name__)

@app.get("/quote")
def quote():
    return str(shop.ask("USD"))
"""
FASTAPI = """
import fastapi, shop
app = fastapi.FastAPI()

@app.get("/quote")
def quote():
    return shop.ask("USD")

@app.get("/later")
async def later():
    return shop.ask("USD")
"""
DJANGO = """
import sys
import django.conf, django.core.management, django.http, django.urls
import shop

def quote(request):
    return django.http.HttpResponse(shop.ask("USD"))

urlpatterns = [django.urls.path("quote", quote)]
if not django.conf.settings.configured:
    django.conf.settings.configure(DEBUG=True, ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="-")
if __name__ == "__main__":
    django.core.management.execute_from_command_line(sys.argv)
"""
CELERY = """
import os
import celery
import shop
folder = os.path.join(os.getcwd(), "queue")
os.makedirs(folder, exist_ok=True)
app = celery.Celery("celery_app", broker="filesystem://", backend="file://" + folder)
app.conf.broker_transport_options = {name: folder for name in ("data_folder_in", "data_folder_out")}

@app.task
def quote():
    return shop.ask("USD")
"""
# In newest-last order.
INNER = ["ask", "price", "rate"]


@pytest.fixture
def shop(tmp_path):
    """A folder with the programs; the children find the package where this Python has it."""
    for name, text in {"shop": SHOP, "flask_app": FLASK, "fast_app": FASTAPI, "django_app": DJANGO}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "celery_app.py").write_text(CELERY)
    return tmp_path


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def running(folder, *arguments):
    """`python -m ARGUMENTS` in FOLDER; its output is in the file log of FOLDER."""
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until(is_done, folder, server):
    for _ in range(600):
        if is_done():
            return
        assert server.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)
    pytest.fail((folder / "log").read_text())


def failing(folder, server, port, path):
    """The body of the answer, which is an error of the server."""

    def is_up():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_up, folder, server)
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60)
    assert failed.value.code == 500
    return failed.value.read().decode()


def functions(text):
    """The functions of the traceback in TEXT, of which there is one, and what stands below it."""
    assert text.count("Traceback (most recent call last):") == 1, text
    *frames, last = re.split(r'^ *(?:\(\w+\) )?File "', text.partition("Traceback (most")[2], flags=re.M)
    names = [re.search(r", in (\S+)", frame) for frame in [*frames[1:], last]]
    assert '"EUR": 1' in last, last
    return [name[1].rpartition(".")[2] for name in names if name], last


def check_log(folder, server, *outer):
    """The log has one traceback: OUTER, then the shop's functions, then what was raised."""
    wait_until(lambda: "KeyError: 'USD'\n" in (folder / "log").read_text(), folder, server)
    names, last = functions((folder / "log").read_text())
    wanted = [*outer, *INNER]
    assert [name for name in names if name in wanted] == wanted
    assert re.search(r"^KeyError: 'USD'$", last, re.M)


def from_the_manual(language):
    page = (MANUAL / "web-servers.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)


SERVERS = {
    "flask": ("flask", "--app", "flask_app", "run", "--port", "{}"),
    "gunicorn": ("gunicorn", "--workers", "2", "--bind", "127.0.0.1:{}", "flask_app:app"),
    "uvicorn": ("uvicorn", "--port", "{}", "fast_app:app"),
    "uvicorn's workers": ("uvicorn", "--workers", "2", "--port", "{}", "fast_app:app"),
    "hypercorn": ("hypercorn", "--bind", "127.0.0.1:{}", "fast_app:app"),
    "django": ("django_app", "runserver", "--noreload", "{}"),
}
GRANIAN = {"granian": ("granian", "--interface", "asgi", "--port", "{}", "fast_app:app")}
SERVERS_AND_GRANIAN = {**SERVERS, **GRANIAN}


@pytest.mark.parametrize("name", SERVERS_AND_GRANIAN)
def test_the_log_of_a_web_server_has_the_frames_of_lua(shop, name):
    port = free_port()
    with running(shop, *[part.format(port) for part in SERVERS_AND_GRANIAN[name]]) as server:
        body = failing(shop, server, port, "/quote")
        check_log(shop, server, "quote")
    if name == "django":  # its page for developers
        assert [name for name in re.findall(r"<code[^>]*>.*?</code>, line \d+, in (\w+)", body)][-1:] == [
            "rate"
        ]
        assert re.search(r"line 2, in price\b", body)


def test_the_program_of_the_manual(tmp_path):
    (tmp_path / "manual.py").write_text(from_the_manual("python")[0])
    port = free_port()
    with running(tmp_path, "flask", "--app", "manual", "run", "--port", str(port)) as server:
        failing(tmp_path, server, port, "/quote")
        wait_until(lambda: "KeyError: 'USD'\n" in (tmp_path / "log").read_text(), tmp_path, server)
    names, _ = functions((tmp_path / "log").read_text())
    assert [name for name in names if name in ("quote", *INNER)] == ["quote", "price", "rate"]


# ---- The short report ------------------------------------------------------------------------------

WORKER = ("celery", "-A", "celery_app", "worker", "--pool", "solo")
ASK = """
import celery_app
try: celery_app.quote.delay().get(timeout=60)
except Exception as exc: print(type(exc).__name__)
"""


def log_of(shop, name, *more):
    """What the server or worker of that NAME, with MORE options, logs of a request or task that fails."""
    port = free_port()
    arguments = WORKER if name == "celery" else [part.format(port) for part in SERVERS_AND_GRANIAN[name]]
    with running(shop, *arguments, *more) as server:
        if name == "celery":
            subprocess.run([sys.executable, "-c", ASK], cwd=shop, check=True, timeout=120)
        else:
            failing(shop, server, port, "/quote")
        wait_until(lambda: re.search("^[\\w.]*Error(: |$)", text_of(shop), re.M), shop, server)
    return text_of(shop)


def text_of(shop):
    return (shop / "log").read_text()


def check_short(log):
    assert log.count("Traceback (most recent call last):") == 1, log
    assert '(Lua) File "pricing.lua", line 2, in price' in log and ".pyx" not in log, log
    hidden = re.findall(r"^  \.\.\. \d+ frames? of (.+) hidden$", log, re.M)
    assert 1 <= len(hidden) <= 2 and re.search("starlette|flask|django|celery", " ".join(hidden)), log
    shown = set(re.findall(r'^  File "[^"]*/(\w+)\.py"', log, re.M))
    assert shown <= {"shop", "flask_app", "fast_app", "django_app", "celery_app"}, log


@pytest.mark.parametrize("name", [*SERVERS, "celery"])
def test_the_lines_of_the_manual_give_the_short_report(shop, name):
    of_flask = "import stacksplice.logging\napp.logger.addFilter(stacksplice.logging.Filter())\n"
    for file, more in (("shop.py", from_the_manual("python")[1]), ("flask_app.py", of_flask)):
        (shop / file).write_text((shop / file).read_text() + more)
    check_short(log_of(shop, name))


def test_the_configuration_of_the_manual_does_so_for_uvicorn(shop):
    (shop / "logging.json").write_text(from_the_manual("json")[0])
    check_short(log_of(shop, "uvicorn", "--log-config", "logging.json"))


@pytest.mark.parametrize("name", [*SERVERS, "celery"])
def test_the_log_has_the_words_of_a_table(shop, name):
    fail_with_a_table(shop)
    log = log_of(shop, name)
    assert log.count('\n{code = 7, words = "no stock"}\n') == 1 and "lupa.lua54.LuaError" in log, log


def fail_with_a_table(shop):
    text = (shop / "shop.py").read_text()
    (shop / "shop.py").write_text(text.replace("local r = rate(c)", "error({code = 7, words = 'no stock'})"))


MIDDLEWARE = """
import logging
import stacksplice.logging

handler = logging.StreamHandler()
handler.addFilter(stacksplice.logging.Filter())
logging.getLogger("shop").addHandler(handler)


@app.middleware("http")
async def log_errors(request, call_next):
    try:
        return await call_next(request)
    except Exception:
        logging.getLogger("shop").exception("%s failed", request.url.path)
        raise
"""


def test_granian_writes_its_own_text_and_the_middleware_of_the_manual_the_report(shop):
    """Its log has no notes, and no logger that a filter could reach, as web-servers.md says."""
    fail_with_a_table(shop)
    log = log_of(shop, "granian")
    assert "LuaError: \n" in log + "\n" and "no stock" not in log and "in price" in log
    assert MIDDLEWARE.strip() in (MANUAL / "web-servers.md").read_text()
    (shop / "fast_app.py").write_text((shop / "fast_app.py").read_text() + MIDDLEWARE)
    port = free_port()
    with running(shop, *[part.format(port) for part in GRANIAN["granian"]]) as server:
        failing(shop, server, port, "/quote")
        wait_until(lambda: "/quote failed" in text_of(shop), shop, server)
    assert 'LuaError: {code = 7, words = "no stock"}\n' in text_of(shop)


@pytest.mark.parametrize("server_name", ["uvicorn", "uvicorn's workers"])
def test_the_log_of_an_asynchronous_endpoint_has_them(shop, server_name):
    port = free_port()
    with running(shop, *[part.format(port) for part in SERVERS[server_name]]) as server:
        failing(shop, server, port, "/later")
        check_log(shop, server, "run_endpoint_function", "later")


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_celery_logs_them_and_hands_them_to_the_caller(shop, pool):
    arguments = ("celery", "-A", "celery_app", "worker", "--pool", pool, "--concurrency", "1")
    ask = (
        "import celery_app, sys\n"
        "result = celery_app.quote.delay()\n"
        "try: result.get(timeout=60)\n"
        "except KeyError: sys.stdout.write(result.traceback)\n"
    )
    with running(shop, *arguments) as worker:
        done = subprocess.run(
            [sys.executable, "-c", ask], cwd=shop, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        check_log(shop, worker, "quote")
    names, _ = functions(done.stdout)
    assert [name for name in names if name in ("quote", *INNER)] == ["quote", *INNER]


def test_the_caller_of_celery_gets_the_words_of_a_table_in_the_text(shop):
    """The exception is made of lupa's arguments: it is empty."""
    fail_with_a_table(shop)
    ask = (
        "import celery_app\n"
        "result = celery_app.quote.delay()\n"
        "try: result.get(timeout=60)\n"
        "except Exception as exc: print([type(exc).__name__, str(exc), result.traceback])\n"
    )
    with running(shop, *WORKER):
        done = subprocess.run(
            [sys.executable, "-c", ask], cwd=shop, capture_output=True, text=True, timeout=120
        )
    name, text, traceback = ast.literal_eval(done.stdout)
    assert (name, text) == ("LuaError", "")
    assert '\nlupa.lua54.LuaError\n{code = 7, words = "no stock"}\n' in traceback
    assert ".pyx" not in traceback


# ---- The same frames for each reader ---------------------------------------------------------------

CALLS = {
    "flask": """
import flask_app
flask_app.app.testing = True
call = lambda: flask_app.app.test_client().get("/quote")
""",
    "fastapi": """
import fast_app, fastapi.testclient
call = lambda: fastapi.testclient.TestClient(fast_app.app).get("/quote")
""",
    "fastapi, async": """
import fast_app, fastapi.testclient
call = lambda: fastapi.testclient.TestClient(fast_app.app).get("/later")
""",
    "django": """
import django_app, django, django.test
django.setup()
call = lambda: django.test.Client().get("/quote")
""",
    "celery": """
import celery_app
call = lambda: celery_app.quote.apply(throw=True).get()
""",
}
READ = """
import json, re, traceback
import stacksplice, stacksplice.sentry

def names_of(text):
    return re.findall(r'(?:File "[^"]*(?:_app|shop|pricing)\\.(?:py|lua)>?", line \\d+, in )(\\w+)', text)

def told(exc):
    info = stacksplice.error_info(exc)
    yield "text", names_of("".join(stacksplice.format_exception(exc)))
    yield "traceback", names_of("".join(traceback.format_exception(exc)))
    ours = re.compile(r"(_app|shop|pricing)\\.(py|lua)$")
    for name, stack in ("stack", info.stack), ("json", stacksplice.ErrorInfo.from_json(info.to_json()).stack):
        frames = [frame for frame in stack if frame.kind == "script" and ours.search(frame.file or "")]
        yield name, [(frame.function or "").rpartition(".")[2] for frame in reversed(frames)]
    values = stacksplice.sentry.event(info)["exception"]["values"]
    frames = [f for f in values[-1]["stacktrace"]["frames"] if ours.search(f.get("filename") or "")]
    yield "sentry", [(frame.get("function") or "").rpartition(".")[2] for frame in frames]

try:
    call()
except KeyError as exc:
    print("told:" + json.dumps(list(told(exc))))
"""


@pytest.mark.parametrize("name", CALLS)
def test_every_reader_shows_the_same_frames(shop, name):
    done = subprocess.run(
        [sys.executable, "-c", CALLS[name] + READ], cwd=shop, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = dict(json.loads(re.search("^told:(.*)", done.stdout, re.M)[1]))
    outer = "later" if name == "fastapi, async" else "quote"
    assert told == dict.fromkeys(told, [outer, *INNER])
    assert len(told) == 5
