"""The scope of claims: the cases that a claim covers.

One page defines words for cases. Other pages and claims add a case with `+word` and exclude one
with `-word`.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from sphinx_claims._config import TABLE, Config
from sphinx_claims._page import Claim, Page, Problem, Scope
from sphinx_claims._reading.markdown import parser


@dataclasses.dataclass(frozen=True)
class DefaultScope:
    """The words of the scope page: cases that claims exclude or include by default."""

    outside: frozenset[str] = frozenset()
    inside: frozenset[str] = frozenset()


def read_scope(config: Config) -> DefaultScope:
    """Read the scope page that `config` names. Return no words if it names none.

    The terms of its first definition list are excluded by default. Those of its other definition
    lists are included, unless a page or a claim excludes them.
    """
    if config.scope is None:
        return DefaultScope()
    lists: list[set[str]] = [set()]
    tokens = parser().parse((config.root / config.scope).read_text(encoding="utf-8"))
    for before, token in itertools.pairwise(tokens):
        if before.type == "dl_open":
            lists.append(set())
        if before.type == "dt_open":
            lists[-1].add(token.content.strip("`"))
    return DefaultScope(frozenset(*lists[1:2]), frozenset().union(*lists[2:]))


def with_scope(page: Page, claim: Claim, default: DefaultScope) -> Claim:
    """Return the claim with `outside` set to the words for the cases that it does not cover.

    The default applies first, then the scope of the page, then the scope of the claim.
    """
    words = (*(word for scope in page.of(Scope) for word in scope.words), *claim.scope)
    outside = set(default.outside)
    for word in words:
        (outside.discard if word[0] == "+" else outside.add)(word[1:])
    return dataclasses.replace(claim, outside=frozenset(outside))


def scope_problems(item: Claim | Scope, default: DefaultScope, config: Config) -> Iterator[Problem]:
    """Yield a problem for each word of `item` that the scope page does not define.

    `item` is a claim, or the scope of a page.
    """
    words = item.words if isinstance(item, Scope) else item.scope
    known = default.outside | default.inside
    for word in words:
        if config.scope is None:
            yield Problem(item.line, f"a scope needs scope in {TABLE}: the page with its words")
        elif word[0] not in "+-" or word[1:] not in known:
            rule = f"a word of a scope is + or - and one of {', '.join(sorted(known))}"
            yield Problem(item.line, f"{rule}, not {word!r}")
