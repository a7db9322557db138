"""The anchors of claims, and of what the ledger says of them: no two of a site are alike."""

import hashlib
import re

from docutils import nodes

_WORDS = r"(?:[-/][a-z0-9]+)*"
_FAITHFUL = re.compile(rf"[a-z0-9]+{_WORDS}(?:\.md{_WORDS})?")
"""What docutils turns into an anchor in which it can still be told, but for slashes."""


def anchor(text: str) -> str:
    """Return the anchor for a text; where docutils drops some of it, a hash tells it apart."""
    plain = nodes.make_id(text)
    if _FAITHFUL.fullmatch(text):
        return plain
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def claim_anchor(identifier: str) -> str:
    """Return the anchor of a claim on its page."""
    return anchor(f"claim-{identifier}")
