"""Secrets that the rules find in texts that were written before them, and other texts that they change."""

from __future__ import annotations

import pathlib
import re

import pytest
from stacksplice import _stacksplice
from stacksplice._base.redaction import MESSAGE, SOURCE, text_of

FILE = pathlib.Path(__file__).with_name("unseen_texts.txt")
SIGNS = str.maketrans("␊␍␉␣", "\n\r\t\xa0")
# At least as many as when they were first measured: of each class, those that are right.
FLOORS = {"page": 94, "tool": 103, "source": 36, "innocent": 243, "source-innocent": 32}
PIECE = 4  # so many characters of a secret tell of it


def rows(name: str) -> list[str]:
    lines = [line.partition(" ") for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [text.translate(SIGNS) for kind, _, text in lines if kind == name]


def pieces(text: str) -> set[str]:
    return {text[at : at + PIECE] for at in range(max(1, len(text) - PIECE + 1))}


def is_right(text: str, kind: int) -> bool:
    secrets = re.findall("⟦([^⟧]*)⟧", text)
    shown = text_of(re.sub("[⟦⟧]", "", text), kind)
    if not secrets:
        return shown == text
    others = re.sub("⟦[^⟧]*⟧", "", text)
    left = re.sub(r"\[redacted: [^\]]*\]", "", shown)
    return not any(piece in left and piece not in others for secret in secrets for piece in pieces(secret))


@pytest.mark.parametrize("name", FLOORS)
def test_no_class_is_worse_than_it_was(name):
    kind = SOURCE if name.startswith("source") else MESSAGE
    wrong = [text for text in rows(name) if not is_right(text, kind)]
    assert len(rows(name)) - len(wrong) >= FLOORS[name], wrong


def test_what_is_removed_stays_so():
    for name in FLOORS:
        for text in rows(name):
            shown = text_of(re.sub("[⟦⟧]", "", text))
            assert text_of(shown) == shown


def test_each_name_that_sentry_removes_is_removed():
    scrubber = pytest.importorskip("sentry_sdk.scrubber", reason="sentry_sdk is not installed")
    assert [name for name in scrubber.DEFAULT_DENYLIST if not _stacksplice._redact_name(name)] == []


NAMES = """
password passwords passwd passphrase passcode userpwd storepass keypass pwd pw pass secret
secrets token jwt bearer apikey accesskey secretkey privatekey authkey encryptionkey signingkey
masterkey accountkey sharedkey amzsignature sharedaccesssignature credential credentials
authorization cookie sessionid phpsessid sessid sid symfony usersession aiohttpsession session
csrf xsrf auth xforwardedfor
"""


def test_each_name_is_known():
    assert [name for name in NAMES.split() if not _stacksplice._redact_name(name)] == []
    others = "author db_session compass bypass keyword secretary tokenizer sig place"
    assert [name for name in others.split() if _stacksplice._redact_name(name)] == []
