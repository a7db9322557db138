"""Find differences between a sentence and its translation: numbers, code, links, terms."""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

from sphinx_claims._reading.inline import ROLES
from sphinx_claims._reading.markdown import parser
from sphinx_claims._translating.glossary import Words

_FIGURE = re.compile(r"(?<![A-Za-z0-9_.])[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?![A-Za-z0-9_])", re.ASCII)
"""A number. In scripts without spaces, such as Chinese, letters may be right beside it."""

_TITLED = re.compile(r"(.*?)\s*<([^<>]*)>", re.DOTALL)
_WORDS = dict(
    zip(
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
        " sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty"
        " ninety hundred".split(),
        (*range(2, 20), *range(20, 110, 10)),
        strict=True,
    ),
    thousand=1000,
    million=1_000_000,
)
_FORMULAS = ("math_inline", "math_inline_double", "math_single")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """The parts of a Markdown sentence that are the same in any language, in their order.

    `numbers` are the numbers written in digits. `terms` are the glossary entries to which it links,
    each with the word that the sentence shows.
    """

    numbers: tuple[float, ...]
    formulas: tuple[str, ...]
    code: tuple[str, ...]
    roles: tuple[str, ...]
    links: tuple[str, ...]
    terms: tuple[tuple[str, str], ...]


@functools.cache
def facts_of(sentence: str) -> Facts:
    """Return the facts of a Markdown sentence: numbers, formulas, code, roles, links and terms."""
    (inline,) = parser().parseInline(sentence)
    tokens = inline.children or []
    texts = [token.content for token in tokens if token.type == "text"]
    roles = [(token.meta["name"], token.content) for token in tokens if token.type == "myst_role"]
    return Facts(
        numbers=tuple(number for text in texts for number in figures_of(text)),
        formulas=tuple("".join(text.split()) for text in _contents(tokens, *_FORMULAS)),
        code=tuple(_contents(tokens, "code_inline")),
        roles=tuple(f"{{{name}}}`{_target(name, content)}`" for name, content in roles),
        links=tuple(_links(tokens)),
        terms=tuple(_term(content) for name, content in roles if name == "term"),
    )


def counts_of(sentence: str) -> set[float]:
    """Return the numbers that are written as words in an English sentence."""
    words = re.findall(r"[a-z]+", sentence.lower())
    return {float(_WORDS[word]) for word in words if word in _WORDS}


def figures_of(text: str) -> Iterator[float]:
    """Yield the numbers that are written in digits in a text of any language."""
    for found in _FIGURE.finditer(text):
        yield float(found[0].replace(",", "").replace("−", "-"))


def _contents(tokens: Sequence[Token], *kinds: str) -> list[str]:
    return [token.content for token in tokens if token.type in kinds]


def _links(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "link_open":
            yield str(token.attrs.get("href"))
        elif token.type == "image":
            yield str(token.attrs.get("src"))


def _target(name: str, content: str) -> str:
    """Return the target of a role, without its title. For a term, it is in lower case."""
    titled = None if name in ROLES else _TITLED.fullmatch(content)
    target = titled[2] if titled else content
    return target.lower() if name == "term" else target


def _term(content: str) -> tuple[str, str]:
    titled = _TITLED.fullmatch(content)
    target, shown = (titled[2], titled[1]) if titled else (content, content)
    return target.lower(), shown


_KINDS = {
    "numbers": "the number",
    "formulas": "the formula",
    "code": "the code",
    "roles": "the role",
    "links": "the link to",
}


def differences(source: str, translation: str, words: Words) -> Iterator[str]:
    """Yield a text for each fact that `translation` lacks or adds, and for each wrong term.

    A fact is a part that no translation changes: a number, a formula, code, a role or a link.
    `words` contains the words that the glossary has for each term.
    """
    proven, told = facts_of(source), facts_of(translation)
    written_out = counts_of(source)
    for kind, name in _KINDS.items():
        before, after = Counter(getattr(proven, kind)), Counter(getattr(told, kind))
        yield from (f"it lacks {name} {_format_fact(fact)}" for fact in before - after)
        for fact in after - before:
            if kind != "numbers" or fact not in written_out:
                yield f"it adds {name} {_format_fact(fact)}"
    for term, shown in told.terms:
        if shown not in words.get(term, {shown}):
            known = " or ".join(sorted(words[term]))
            yield f"it calls {term} {shown}, and the glossary {known}"


def is_reordered(source: str, translation: str) -> bool:
    """Return whether numbers, formulas, code or roles are in another order in the translation.

    Then only a person can check which of them belongs to which part of the sentence. The order of
    links and terms does not matter, because their own words identify them.
    """
    before, after = facts_of(source), facts_of(translation)
    return any(_in_order(before, kind) != _in_order(after, kind) for kind in _KINDS)


def _in_order(facts: Facts, kind: str) -> list[str | float]:
    if kind == "links":
        return []
    if kind == "roles":
        return [role for role in facts.roles if not role.startswith("{term}")]
    return [*getattr(facts, kind)]


def _format_fact(fact: str | float) -> str:
    return f"{fact:g}" if isinstance(fact, float) else fact
