"""Helpers for tests that build small sites."""

from functools import partial
from types import CodeType
from typing import Any

from sphinx.application import Sphinx

_COMPILED: dict[tuple[Any, ...], CodeType] = {}


def build(app: Sphinx, **options: Any) -> None:
    """Build a site, but compile templates only once: this takes half of a small build.

    The templates are those of the pages and the static files of a theme. Jinja can cache only the
    pages.
    """
    if templates := getattr(app.builder, "templates", None):
        environment = templates.environment
        environment.compile = partial(_compiled, environment.compile)
    app.build(**options)


def _compiled(compile_: Any, source: str, *arguments: Any) -> CodeType:
    """Compile a template unless this process has done so before."""
    key = (source, *arguments)
    if key not in _COMPILED:
        _COMPILED[key] = compile_(*key)
    return _COMPILED[key]
