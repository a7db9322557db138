"""HTML anchors of claims, on their pages and in the ledger."""

import hashlib

from docutils import nodes


def anchor(text: str) -> str:
    """Return an HTML anchor for a text.

    If the text is not ASCII, the anchor ends in a hash of it.
    """
    plain = nodes.make_id(text)
    if text.isascii():
        return plain
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def claim_anchor(identifier: str) -> str:
    """Return the anchor of a claim on its page."""
    return anchor(f"claim-{identifier}")
