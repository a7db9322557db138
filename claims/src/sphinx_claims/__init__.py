"""Prove documentation: execute every snippet and check every claim against its evidence."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Sphinx is not needed to run pages
    from sphinx.application import Sphinx

__all__ = ["setup"]


def setup(app: "Sphinx") -> dict[str, Any]:
    """Set up the Sphinx extension."""
    from sphinx_claims._sphinx.extension import setup as set_up  # noqa: PLC0415 - and so here

    return set_up(app)
