"""Read the directives of Sphinx's doctest, such as `{doctest}`, `{testcode}`, `{testoutput}`.

They run in the namespace of the page, at their place on it. Groups have no separate namespaces.
"""

import dataclasses
import platform
from collections.abc import Iterable, Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sphinx_claims._config import is_flag
from sphinx_claims._page import Doctest, Escape, Item, Problem
from sphinx_claims._reading.directive import Directive
from sphinx_claims._reading.fence import has_examples, read_examples

TESTING = frozenset({"doctest", "testcleanup", "testcode", "testoutput", "testsetup"})


def read_testing(directive: Directive, python_fences: str) -> Iterator[Doctest | Escape | Problem]:
    """Yield the `Doctest` of a directive in `TESTING`, and problems.

    The `Doctest` of a `{testoutput}` has an output but no source, until `join_outputs` merges it.
    """
    line, options, body = directive.above + 1, directive.options, directive.body
    flags = tuple(str(options.get("options") or "").replace(",", " ").split())
    for flag in flags:
        if not is_flag(flag):
            yield Problem(directive.line, f":options: must hold flags of doctest, not {flag!r}")
            return
    try:
        if not _is_version(str(options.get("pyversion") or "")):
            return
    except InvalidSpecifier as error:
        yield Problem(directive.line, f":pyversion: must read like '>= 3.12': {error}")
        return
    is_code, skip_if = directive.name != "doctest", str(options.get("skipif") or "")
    if directive.name == "testoutput":
        yield Doctest(
            line=directive.line,
            source="",
            is_code=True,
            output=body,
            output_line=line,
            options=flags,
        )
    elif is_code or has_examples(body):
        step = Doctest(line=line, source=body, is_code=is_code, options=flags, skip_if=skip_if)
        yield from [step] if is_code else read_examples(step, python_fences)
    else:
        message = "a {doctest} must hold >>> examples: use {testcode} for statements"
        yield Problem(directive.line, message)


def join_outputs(items: Iterable[Item | Problem]) -> list[Item | Problem]:
    """Return `items` with each `{testoutput}` merged into the `{testcode}` before it."""
    joined: list[Item | Problem] = []
    code: Doctest | None = None
    for item in items:
        if not (isinstance(item, Doctest) and item.is_code):
            joined.append(item)
        elif item.source:
            joined.append(code := item)
        elif code is None:
            joined.append(Problem(item.line, "a {testoutput} must follow its {testcode}"))
        else:
            whole = dataclasses.replace(item, line=code.line, source=code.source)
            whole = dataclasses.replace(whole, output=f"{item.output}\n", skip_if=code.skip_if)
            joined[joined.index(code)], code = whole, None
    return joined


def _is_version(specifier: str) -> bool:
    return SpecifierSet(specifier).contains(platform.python_version())
