"""Run rules over the zoo: the collection of tensors, operations and modules (its members).

A rule is a predicate and one or more nouns, such as "leaf". The predicate is called with all
combinations of members that the nouns select. Members outside the scope of the claim are left out.
"""

import itertools
import re
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sphinx_claims._executing.raised import describe
from sphinx_claims._executing.recorder import Recorder
from sphinx_claims._page import Claim

FOR_ALL = "for_all"
_FILE = "<zoo>"
_EVERY = r"\b(?:an?|all|any|each|every|no)\s+(?:[\w-]+\s+)?"
Predicate = Callable[..., object]
Names = tuple[str, ...]
Member = tuple[str, Callable[..., Any]]
"""The name of a member, and the function that makes it."""


class ForAll:
    """The decorator `for_all`: runs predicates over members of a zoo.

    `source` is the Python code that defines the zoo. Members outside the scope of `claim` are left
    out.
    """

    def __init__(self, source: str | None, recorder: Recorder) -> None:
        self._source, self._recorder = source, recorder
        self._zoo: dict[str, Any] = {}
        self.claim: Claim | None = None

    def __call__(self, *nouns: str) -> Callable[[Predicate], Predicate]:
        """Return a decorator that runs a predicate over the members that `nouns` select."""
        if self._source is None or self.claim is None:
            raise RuntimeError("for_all needs a claim, and zoo in [tool.claims]")
        if not self._zoo:
            self._zoo = {"__name__": "zoo"}
            exec(compile(self._source, _FILE, "exec"), self._zoo)
        chosen = {noun: [*self._members(noun)] for noun in nouns}

        def run(predicate: Predicate) -> Predicate:
            found, counts = [*_unnamed(self.claim, nouns, self._zoo["NOUNS"])], []
            red, checked = self._ask(predicate, [*chosen.values()])
            for noun, names in zip(nouns, map(set, zip(*checked, strict=True)), strict=False):
                counts.append(f"{noun}: {len(names)} of {len(chosen[noun])}")
                if 2 * len(names) < len(chosen[noun]):
                    found.append(f"fewer than half of every {noun} reach a check")
            found += [f"false for {_named(names)}: {why}" for why, names in red.items()]
            told = "; ".join(found if checked else [*found, "no situation reaches a check"])
            self._recorder.note_rule(f"{FOR_ALL} {', '.join(counts or nouns)}", told)
            return predicate

        return run

    def _members(self, noun: str) -> Iterator[Member]:
        """Yield the members of the zoo that `noun` selects and that the claim covers."""
        if noun not in self._zoo["NOUNS"]:
            raise ValueError(f"a noun is one of {', '.join(self._zoo['NOUNS'])}, not {noun!r}")
        outside = self.claim.outside if self.claim else frozenset()
        for nouns, name, function, tags in self._zoo["MEMBERS"]:
            if noun in nouns and not tags & outside:
                yield name, function

    def _ask(
        self, predicate: Predicate, chosen: Sequence[Sequence[Member]]
    ) -> tuple[dict[str, list[Names]], list[Names]]:
        """Call a predicate with all combinations of members. `chosen` contains them for each noun.

        Return the combinations for which it is false, grouped by reason, and all combinations for
        which it evaluated a check.
        """
        red: defaultdict[str, list[Names]] = defaultdict(list)
        kept, checked = self._recorder.take(), []
        for combination in itertools.product(*chosen):
            reason = self._reason(predicate, combination)
            checks = self._recorder.take()
            names = tuple(name for name, _ in combination)
            kept += [check if check.passed else check.as_caught() for check in checks]
            false = next((check for check in checks if not check.passed), None)
            if checks:
                checked.append(names)
            if false is not None:
                reason = ", where ".join(filter(None, (false.text, false.found)))
            if reason is not None:
                red[reason].append(names)
        self._recorder.restore(dict.fromkeys(kept))
        return red, checked

    def _reason(self, predicate: Predicate, combination: Sequence[Member]) -> str | None:
        """Call a predicate. Return a text about its exception, or None.

        Return None also if the zoo raised NotImplementedError: then the combination does not apply.
        """
        try:
            predicate(*(function for _, function in combination))
        except Exception as error:  # noqa: BLE001 - any exception makes the rule fail
            frames = traceback.extract_tb(error.__traceback__)
            is_apart = isinstance(error, NotImplementedError) and frames[-1].filename == _FILE
            return None if is_apart else describe(error)
        return None


def _unnamed(claim: Claim | None, nouns: Sequence[str], words: Mapping[str, str]) -> Iterator[str]:
    """Yield the objections to the nouns of a rule, compared with the sentence of its claim.

    Each noun must occur in the sentence. The noun that the sentence is about must be among them:
    the first noun that follows an article or a word such as "every". "The gradient of a leaf" is
    about leaves. `words` maps each noun to a pattern. There are no objections if the rule belongs
    to no claim, or to a claim that is not a rule.
    """
    if claim is None or claim.kind != "rule":
        return
    text = re.sub(r"`[^`]*`", "`", claim.statement)
    for noun in nouns:
        if not re.search(rf"\b(?:{words[noun]})\b", text, re.IGNORECASE):
            yield f"the sentence names no {noun}"
    subjects = [
        (one.start(), noun)
        for noun, pattern in words.items()
        if (one := re.search(rf"{_EVERY}(?:{pattern})\b", text, re.IGNORECASE))
    ]
    first = [noun for place, noun in subjects if place == min(subjects)[0]]
    if first and not {*first} & {*nouns}:
        yield f"the sentence is about every {first[0]}, and this does not run over them"


def _named(red: Iterable[Names]) -> str:
    """Return the combinations for which a rule is false as text.

    They are grouped by their last member, as in "write with leaf (and 2 more)".
    """
    by_last: defaultdict[str, list[str]] = defaultdict(list)
    for *others, last in red:
        by_last[last].append(" × ".join(others))
    shown = []
    for last, others in by_last.items():
        more = f" (and {len(others) - 1} more)" if others[1:] else ""
        shown.append(f"{last} with {others[0]}{more}" if others[0] else last)
    return ", ".join(shown)
