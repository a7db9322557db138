"""The messages and codes of the library, for tests that compare words by key and slots."""

import re

from leafgrad._diagnosis.checks.gradient import CODES
from leafgrad._messages import message

__all__ = ["CODES", "exactly", "message"]


def exactly(key: str, **slots: object) -> str:
    """Return a regular expression that matches only the message `key` with these slots."""
    return f"^{re.escape(message(key, **slots))}$"
