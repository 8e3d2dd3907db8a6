"""An exception wrapped by the usual `raise ... from`: as a log has it, and as data."""

import io
import json
import logging

import shop
import stacksplice.logging


class QuoteError(Exception):
    pass


def quote():
    try:
        return shop.total(3, "XAU")
    except KeyError as error:
        raise QuoteError("no quote for order 17") from error


log = io.StringIO()
handler = logging.StreamHandler(log)
handler.setFormatter(stacksplice.logging.JsonFormatter())
logging.getLogger().addHandler(handler)
try:
    quote()
except QuoteError as error:
    logging.exception("failed")
    logged, info = json.loads(log.getvalue()), stacksplice.error_info(error)
    print(logged["error.stack_trace"])
    print(json.dumps([logged["stacksplice"]["type"], info.type, info.transformed.type]))
