"""What tests that build small sites share."""

from functools import partial
from types import CodeType
from typing import Any

from sphinx.application import Sphinx

_COMPILED: dict[tuple[Any, ...], CodeType] = {}


def build(app: Sphinx, **options: Any) -> None:
    """Build a site, with templates that are compiled once: it takes half of a small build.

    Of each theme these are its pages, for which Jinja can be given a cache, and its static files,
    for which it cannot.
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
