"""HTML anchors of claims, on their pages and in the ledger."""

import hashlib

from docutils import nodes


def anchor(text: str) -> str:
    """Return an anchor for a text; append a hash if the text has characters outside ASCII."""
    plain = nodes.make_id(text)
    if text.isascii():
        return plain
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def claim_anchor(identifier: str) -> str:
    """Return the anchor of a claim on its page."""
    return anchor(f"claim-{identifier}")
