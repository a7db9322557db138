"""Errors of derivatives, found by the key of the message instead of its words."""

import re

from tests.messages import message

ANYTHING = "\x00"


def words(key: str, **slots: object) -> str:
    """Return a pattern of the message `derivative.` plus `key`.

    Placeholders without a value in `slots` match any text.
    """
    while True:
        try:
            text = message(f"derivative.{key}", **slots)
        except KeyError as missing:
            (slot,) = missing.args
            if "." in slot:
                raise
            slots[slot] = _Anything()
        else:
            return re.escape(text).replace(ANYTHING, "(?s:.*)")


class _Anything:
    def __format__(self, _: str) -> str:
        return ANYTHING

    def __repr__(self) -> str:
        return ANYTHING
