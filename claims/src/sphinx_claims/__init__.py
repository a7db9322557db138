"""Prove documentation: execute every snippet and check every claim against its evidence."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Pages can be executed without Sphinx.
    from sphinx.application import Sphinx

__all__ = ["setup"]


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the Sphinx extension with `app`. Return its metadata for Sphinx."""
    from sphinx_claims._sphinx.extension import setup as set_up  # noqa: PLC0415 - not needed to run pages

    return set_up(app)
