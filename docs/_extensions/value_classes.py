"""Document value classes by their attributes, because users never construct them.

Each attribute that the docstring lists gets its type, or an enum's value, beside its name.
napoleon could add the types, but sphinx_autodoc_typehints removes them.
"""

import dataclasses
import enum
from typing import Any, get_type_hints

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata, stringify_annotation

from leafgrad import GraphTrace

ATTRIBUTE = ".. attribute:: "
AFTER_NAPOLEON = 501
BEFORE_TYPEHINTS = 499
PUBLIC = {GraphTrace.__base__: GraphTrace}  # private class -> the public one to show


def options(listed: type) -> dict[str, str]:
    """Return for each attribute the text to show beside its name: a type or an enum's value."""
    if issubclass(listed, enum.Enum):
        return {member.name: f":value: {member.value!r}" for member in listed}
    hints = get_type_hints(listed)
    shown = {
        name: stringify_annotation(PUBLIC.get(hint, hint), "smart") for name, hint in hints.items()
    }
    return {name: f":type: {hint}" for name, hint in shown.items()}


def annotate(
    _app: Sphinx, what: str, _name: str, listed: Any, _options: Any, lines: list[str]
) -> None:
    """Insert the texts of `options` into the docstring that napoleon has converted.

    `what` is the kind of the documented object, and `lines` is its docstring, which is changed.
    """
    if what != "class":
        return
    known = options(listed)
    for index in reversed(range(len(lines))):
        attribute = lines[index].removeprefix(ATTRIBUTE)
        if attribute != lines[index] and attribute in known:
            lines.insert(index + 1, "   " + known[attribute])


def without_constructor(
    _app: Sphinx, _what: str, _name: str, listed: Any, *_signature: Any
) -> tuple[str, None] | None:
    """Return an empty signature for a dataclass, enum or named tuple.

    Return None for other objects.
    """
    is_value = isinstance(listed, type) and (
        dataclasses.is_dataclass(listed) or issubclass(listed, enum.Enum | tuple)
    )
    return ("", None) if is_value else None


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect both handlers; `annotate` runs after napoleon."""
    app.connect("autodoc-process-signature", without_constructor, priority=BEFORE_TYPEHINTS)
    app.connect("autodoc-process-docstring", annotate, priority=AFTER_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
