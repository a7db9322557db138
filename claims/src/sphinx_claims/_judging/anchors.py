"""The anchors of claims, and of what the ledger says of them."""

import hashlib

from docutils import nodes


def anchor(text: str) -> str:
    """Return the anchor for a text; letters that docutils has no place for leave a hash of it."""
    plain = nodes.make_id(text)
    if text.isascii():
        return plain
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def claim_anchor(identifier: str) -> str:
    """Return the anchor of a claim on its page."""
    return anchor(f"claim-{identifier}")
