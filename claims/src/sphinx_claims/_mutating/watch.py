"""What the checks of a claim compare, and what other values they hold with."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from sphinx_claims._mutating.causes import by_comparison, cause_of_value
from sphinx_claims._mutating.observed import Operand, observed
from sphinx_claims._mutating.outcomes import ALIVE, MutantOutcome
from sphinx_claims._mutating.values import MUCH
from sphinx_claims._page import Step

Seen = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Watch:
    """The operands of a claim's checks, what they were, and the other values that were tried.

    `is_proven` tells whether the claim is true by what was watched.
    """

    operands: Mapping[str, Operand]
    heard: Mapping[str, Sequence[str]]
    tried: Mapping[str, Mapping[str, bool]]
    is_proven: bool

    @classmethod
    def of(cls, steps: Sequence[Step], once: Seen, tried: Seen) -> Self | None:
        """Make it of two runs; None where the checks do not hold while they are watched.

        What is not the same in both tells nothing.
        """
        if not (once.get("is_true") and tried.get("is_true")):
            return None
        again = tried["heard"]
        return cls(
            operands={operand.key: operand for step in steps for operand in observed(step)[1]},
            heard={key: value for key, value in once["heard"].items() if again.get(key) == value},
            tried=tried["tried"],
            is_proven=once["is_proven"],
        )

    def changed(self, seen: Seen) -> list[Operand]:
        """List the operands of which another run found a value that they did not have.

        That a check in a loop is evaluated more or less often is no other value.
        """
        return [
            self.operands.get(key) or _message(key)
            for key, value in seen.get("heard", {}).items()
            if not set(value) <= set(self.heard.get(key, value))
        ]


def with_other_values(watch: Watch, falsified: Collection[int]) -> Iterator[MutantOutcome]:
    """Yield what became of the other values that the checks of a claim were given.

    Of a bound one change is enough that makes it false: of its values or, on the lines that are
    `falsified`, of the code.
    """
    for here in by_comparison(list(watch.operands.values())).values():
        tried = [operand for operand in here if watch.tried.get(operand.key)]
        if here[0].kind in {"close", "equal"} and here[0].is_required:
            for operand in tried:
                yield from _each(operand, watch.tried[operand.key])
        elif tried and here[0].kind == "bound":
            noticed = any(any(watch.tried[operand.key].values()) for operand in tried)
            noticed = noticed or here[0].line in falsified
            names = ", ".join(f"`{operand.text}`" for operand in tried)
            yield MutantOutcome(
                line=here[0].line,
                group="value",
                words=f"any other value of {names}",
                end="check" if noticed else ALIVE,
                cause="" if noticed else "vacuous",
            )


def _each(operand: Operand, tried: Mapping[str, bool]) -> Iterator[MutantOutcome]:
    for words, noticed in ((words, found) for words, found in tried.items() if words != MUCH):
        yield MutantOutcome(
            line=operand.line,
            group="value",
            words=f"`{operand.text}` {words}",
            end="check" if noticed else ALIVE,
            cause="" if noticed else cause_of_value(operand, words),
            of=f"`{operand.text}`",
        )


def _message(key: str) -> Operand:
    """Return what stands for the message of an error or a warning, of which a part is checked."""
    line = int(key.partition(":")[0])
    return Operand(line=line, place=0, comparison=0, side=0, kind="bound", text="the message")
