"""What stands in the body of a directive, by its name."""

import difflib
import enum
import re

from sphinx_claims._reading.languages import DRAWN


class Body(enum.Enum):
    """How the body of a directive is read."""

    MARKDOWN = enum.auto()
    """As the page around it."""
    CODE = enum.auto()
    """As a snippet in the language that is the directive's argument."""
    PYTHON = enum.auto()
    """As Python that another extension would execute."""
    PLAIN = enum.auto()
    """As it is: something that is shown and not executed."""
    NAMES = enum.auto()
    """As names or formulas: nothing in it can look like code."""
    UNKNOWN = enum.auto()
    """As Markdown, or as code: nobody knows the directive."""


_OWN = {"codecell": "code-cell", "claim": "claim", "unproven": "unproven"}
_BODIES = {
    Body.MARKDOWN: frozenset(
        "admonition attention button-link button-ref card card-carousel caution centered claim"
        " claims-total class compound container danger deprecated details div dropdown epigraph"
        " error exercise figure figure-md fold glossary grid grid-item grid-item-card highlights"
        " hint hlist ifconfig image important index margin note only proof pull-quote rubric"
        " seealso sidebar solution tab-item tab-set table tabs theorem tip todo topic versionadded"
        " versionchanged versionremoved warning".split()
    ),
    Body.CODE: frozenset({"code", "code-block", "sourcecode"}),
    Body.PYTHON: frozenset("doctest testcode testoutput testsetup testcleanup".split()),
    Body.PLAIN: DRAWN | {"inheritance-diagram", "parsed-literal", "raw-cell"},
    Body.NAMES: frozenset(
        "autosummary bibliography claims-ledger contents highlight math meta productionlist role"
        " tabularcolumns toctree".split()
    ),
}
_BODY_OF = {name: body for body, names in _BODIES.items() for name in names}
_EXECUTING = re.compile("cell|exec|ipython|jupyter|plot|^py|runblock|try_examples|marimo|replite")


def body_of(name: str) -> Body:
    """Return how the body of the directive `name` is read."""
    if name in _BODY_OF:
        return _BODY_OF[name]
    is_executing = ":" not in name and _EXECUTING.search(name.lower())
    return Body.PYTHON if is_executing else Body.UNKNOWN


def meant_by(name: str) -> str | None:
    """Return the directive of ours that is meant by `name`, which is misspelt; None if none is."""
    plain = re.sub(r"[\W_]", "", name.lower())
    close = difflib.get_close_matches(plain, _OWN, n=1, cutoff=0.8)
    return _OWN[close[0]] if close else None
