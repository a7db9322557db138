"""What a translation says otherwise than the sentence that was proven, as far as can be told."""

from collections import Counter
from collections.abc import Iterator

from sphinx_claims._translating.facts import Facts, counts_of, facts_of
from sphinx_claims._translating.glossary import Words

_KINDS = {
    "numbers": "the number",
    "formulas": "the formula",
    "code": "the code",
    "roles": "the role",
    "links": "the link to",
}


def differences(source: str, translation: str, words: Words) -> Iterator[str]:
    """Yield what a translation lacks, what it adds, and terms that it calls by another word."""
    proven, told = facts_of(source), facts_of(translation)
    written_out = counts_of(source)
    for kind, name in _KINDS.items():
        before, after = Counter(getattr(proven, kind)), Counter(getattr(told, kind))
        yield from (f"it lacks {name} {_shown(fact)}" for fact in before - after)
        for fact in after - before:
            if kind != "numbers" or fact not in written_out:
                yield f"it adds {name} {_shown(fact)}"
    for term, shown in told.terms:
        if shown not in words.get(term, {shown}):
            known = " or ".join(sorted(words[term]))
            yield f"it calls {term} {shown}, and the glossary {known}"


def is_reordered(source: str, translation: str) -> bool:
    """Return whether a translation names its facts in another order: only it says which is which.

    A link or a term may stand anywhere, for its own words go with it.
    """
    before, after = facts_of(source), facts_of(translation)
    return any(_in_order(before, kind) != _in_order(after, kind) for kind in _KINDS)


def _in_order(facts: Facts, kind: str) -> list[str | float]:
    if kind == "links":
        return []
    if kind == "roles":
        return [role for role in facts.roles if not role.startswith("{term}")]
    return [*getattr(facts, kind)]


def _shown(fact: str | float) -> str:
    return f"{fact:g}" if isinstance(fact, float) else fact
