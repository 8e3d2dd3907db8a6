"""How long the first request takes whose error nobody handles: Flask logs it, with or without stacksplice.

usage: first_flask.py [install]
"""

import io
import logging
import sys

import bench_once
import flask
import lupa

if sys.argv[1:] == ["install"]:
    import stacksplice

    stacksplice.install()

application, runtime, rates = flask.Flask("shop"), lupa.LuaRuntime(), {"EUR": 2.0}
runtime.globals().rate = lambda currency: rates[currency]
price = runtime.eval("function(amount, currency) local found = rate(currency) return amount * found end")
log = io.StringIO()
application.logger.addHandler(logging.StreamHandler(log))


@application.route("/price/<currency>")
def in_currency(currency):
    return flask.jsonify(price=price(3, currency))


client = application.test_client()
assert client.get("/price/EUR").status_code == 200
bench_once.begin()
response = client.get("/price/XXX")
bench_once.end()
assert response.status_code == 500
assert "KeyError: 'XXX'" in log.getvalue()
assert ("<python>" in log.getvalue()) == (sys.argv[1:] == ["install"]), log.getvalue()
