"""Why a mutant survives: it changes nothing, it is not what the claim says, or it is a gap."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from sphinx_claims._executing.processes import usual_kind
from sphinx_claims._executing.workers import Workers
from sphinx_claims._mutating.causes import CAUSES, names_said
from sphinx_claims._mutating.flow import Flow
from sphinx_claims._mutating.mutate import mutate_page
from sphinx_claims._mutating.outcomes import MutatedClaim
from sphinx_claims._mutating.values import mark, others
from sphinx_claims._page import Cell, Doctest, Inline
from sphinx_claims._reading.read import parse_page

pytestmark = [
    pytest.mark.skipif(usual_kind() == "spawn", reason="of forked processes"),
    pytest.mark.covered_elsewhere,
]

OF_TORCH = Path(__file__).parents[2] / "docs" / "_faults.py"

PAGE = ":::{{claim}} a/b\n{sentence}\n:::\n\n```{{code-cell}} python\n{source}\n```\n"

Mutated = Callable[..., MutatedClaim]
WorkersFor = Callable[[str], Workers]


@pytest.fixture
def mutated(workers_for: WorkersFor, tmp_path: Path) -> Mutated:
    def mutate(source: str, sentence: str = "A sentence.", options: str = "") -> MutatedClaim:
        text = PAGE.format(sentence=sentence, source=f"{options}{source}")
        page = parse_page(text, "page.md")
        faults = OF_TORCH if "torch" in text else None
        given = (page, tmp_path, {"a/b"}, 20.0, tmp_path / "tally", faults)
        outcome = workers_for(text).run(mutate_page, *given, seconds=120)
        assert outcome.failure is None
        (claim,) = outcome.messages
        return claim  # type: ignore[no-any-return]

    return mutate


def causes(claim: MutatedClaim) -> Mapping[str, str]:
    """Return the cause of each survivor, under what was changed."""
    assert claim.fault is None
    return {mutant.words: mutant.cause for mutant in claim.outcomes if mutant.survived}


NEXT = "\n```\n\n```{code-cell} python\n"
SURVIVORS = {
    "another-number": ("x = 3\ny = x * 0\nassert y == 0", "A.", "constant 3 -> 4", "number"),
    "the-number-said": ("x = 3\ny = x * 3 * 0\nassert y == 0", "At 3.", "constant 3 -> 4", "named"),
    "no-part-of-it": ("x = 3\nz = 1\nassert z == 1", "A.", "constant 3 -> 4", "unread"),
    "set-up": (
        "x = []\nx.clear()\nassert x == []",
        "A list is empty.",
        "deleted `x.clear()`",
        "setup",
    ),
    "what-is-said": (
        "x = []\nx.clear()\nassert x == []",
        "It is empty after `clear()`.",
        "deleted `x.clear()`",
        "named",
    ),
    "the-number-said-is-checked-elsewhere": (
        "x = 3\ny = x * 3 * 0\nassert y == 0\nassert x == 3",
        "At 3.",
        "constant 3 -> 4",
        "elsewhere",
    ),
    "shown-and-checked-elsewhere": (
        f"x = [1]\nx.clear()\nassert x == []{NEXT}y = []\ny.clear()\nprint(y)\n#> []",
        "It is empty after `clear()`.",
        "deleted `y.clear()`",
        "elsewhere",
    ),
    "shown-alone": (
        "y = []\ny.clear()\nprint(y)\n#> []",
        "It is empty after `clear()`.",
        "deleted `y.clear()`",
        "named",
    ),
    "checked-twice": (
        "x = [1]\nx.clear()\nassert x == []\ny = []\ny.clear()\nassert y == []",
        "It is empty after `clear()`.",
        "deleted `y.clear()`",
        "named",
    ),
    "fewer-members": (
        "several = [1, 2]\nseveral += [3, 4]\nfor one in several:\n    assert one * 0 == 0",
        "All are nothing.",
        "deleted `several += [3, 4]`",
        "setup",
    ),
    "members-that-are-made": (
        "several = [1, 2]\nseveral += [int(3)]\nfor one in several:\n    assert one * 0 == 0",
        "All of the type int are nothing.",
        "deleted `several += [int(3)]`",
        "setup",
    ),
    "what-makes-members": (
        "several = [1, 2]\nseveral += sorted([3])\nfor one in several:\n    assert one * 0 == 0",
        "All of the sorted are nothing.",
        "deleted `several += sorted([3])`",
        "named",
    ),
    "other-members": (
        "import math\nfor one in [60.0, 60.1]:\n    assert math.isclose(one, 60.0, rel_tol=0.05)",
        "All are close.",
        "constant 60.1 -> 61.1",
        "accepted",
    ),
    "both-sides": ("x = 3\nassert x + x == 2 * x", "A.", "constant 3 -> 4", "instance"),
    "a-bound": ("x = 3\nassert x > 0", "A.", "constant 3 -> 4", "bound"),
    "a-wide-tolerance": (
        "import math\nx = 60.0\nassert math.isclose(x, 60.1, rel_tol=0.05)",
        "A.",
        "constant 60.0 -> 61.0",
        "accepted",
    ),
    "either": ("x = 6\ny = 1\nassert x == 6 or y == 1", "A.", "constant 6 -> 7", "bound"),
    "of-a-message": (
        "x = 6\nraise ValueError(f'the number {x}')",
        "A.",
        "constant 6 -> 7",
        "bound",
    ),
}


@pytest.mark.parametrize(
    ("source", "sentence", "words", "cause"), SURVIVORS.values(), ids=SURVIVORS
)
def test_a_survivor_has_a_cause(
    source: str, sentence: str, words: str, cause: str, mutated: Mutated
) -> None:
    options = ':raises: "ValueError: the number"\n' if "raise " in source else ""
    found = causes(mutated(source, sentence, options))
    assert found[words] == cause


VALUES: dict[str, tuple[str, dict[str, str]]] = {
    "equal": ("x = [1.0, 2.0]\nassert x == [1.0, 2.0]", {}),
    "both-signs": ("x = 3.0\nassert abs(x) == 3.0", {"`x` negated": "symmetric"}),
    "even-power": ("x = 3.0\nassert x**2 == 9.0", {}),
    "twice-the-same": (
        "x = 0.0\ny = 5.0\nassert x * y == 0.0",
        {
            "`y` negated": "accepted",
            "`y` replaced by zero": "accepted",
            "`y` doubled": "accepted",
            "`y` off by a tenth": "accepted",
        },
    ),
    "wide": (
        "import math\nx = 0.5\nassert math.isclose(x, 0.5, abs_tol=0.1)",
        {"`x` off by a tenth": "accepted"},
    ),
    "distance": ("x = 3.0\nassert abs(x - 3.1) < 0.5", {"`x` off by a tenth": "accepted"}),
    "small-error": ("x = 3.0 + 1e-9\nassert 0 < x - 3.0 < 1e-6", {}),
    "far-bound": ("x = 3.0\nassert x < 1e9", {"any other value of `x`": "vacuous"}),
    "always-so": (
        "x = [1, 2]\nassert len(x) == 2 or sum(x) == 3",
        {},
    ),
    "no-one-object": ("x, y = [1], [1]\nassert x is not y", {}),
    "no-one-place": ("x, y = [1], [1]\nassert id(x) != id(y)", {}),
    "no-one-object-or-true": (
        "x, y, z = [1], [1], [2]\nassert x is not y or z",
        {"any other value of `x`, `y`": "vacuous"},
    ),
    "another-number": (
        "x, y = 3.0, 9.0\nassert x != y",
        {"any other value of `x`, `y`": "vacuous"},
    ),
    "something": ("x = [1]\nassert x is not None", {"any other value of `x`": "vacuous"}),
    "several-lines": (
        "x = 3.0\nassert x < sum(\n    [\n        1e9,\n    ]\n)",
        {"any other value of `x`": "vacuous"},
    ),
    "arrays": ("import torch\nx = torch.tensor([1.0, 2.0])\nassert (x == x.clone()).all()", {}),
    "each": ("assert all(x % 2 == 0 for x in [2, 4, 6])", {}),
}


@pytest.mark.parametrize(("source", "expected"), VALUES.values(), ids=VALUES)
def test_other_values_are_given_to_each_check(
    source: str, expected: dict[str, str], mutated: Mutated
) -> None:
    claim = mutated(source)
    survived = {
        mutant.words: mutant.cause
        for mutant in claim.outcomes
        if mutant.survived and mutant.group == "value"
    }
    assert survived == expected


def test_a_bound_that_a_change_of_the_code_breaks_says_something(mutated: Mutated) -> None:
    source = "x = 3.0\nx -= 4e9\nassert x < 1e-9"
    assert causes(mutated(source)) == {
        "constant 3.0 -> 4.0": "bound",
        "constant 4000000000.0 -> 4000000001.0": "bound",
    }


SINE = """\
import torch
y = torch.tensor(POINT, requires_grad=True)
torch.sin(2 * y).backward()
assert abs(y.grad.item() - SLOPE) < 1e-5"""


def test_a_point_where_a_wrong_derivative_gives_the_right_number_is_a_gap(
    mutated: Mutated,
) -> None:
    at_pi = causes(mutated(SINE.replace("POINT", "torch.pi").replace("SLOPE", "2.0")))
    assert at_pi["that sines pass gradients on unchanged"] == "point"
    assert "that sines negate gradients" not in at_pi
    at_one = causes(mutated(SINE.replace("POINT", "1.0").replace("SLOPE", "-0.8322937")))
    assert "that sines pass gradients on unchanged" not in at_one


def test_only_operations_that_a_pass_goes_through_are_broken(mutated: Mutated) -> None:
    source = "import torch\nx = torch.ones(2, requires_grad=True)\nz = x.exp() * 3.0\n"
    without = mutated(f"{source}assert z.requires_grad")
    assert not [mutant for mutant in without.outcomes if "gradients" in mutant.words]
    backward = mutated(
        f"{source}z.sum().backward()\nassert x.grad.tolist() == (3 * x.exp()).tolist()"
    )
    words = [mutant.words for mutant in backward.outcomes if mutant.words.endswith("gradients")]
    assert "that exponentials negate gradients" in words
    assert "that products double gradients" in words
    assert not [word for word in words if "sines" in word]


def test_an_operation_that_nothing_records_has_no_derivative(mutated: Mutated) -> None:
    source = (
        "import torch\nleaf = torch.ones(2, requires_grad=True)\nx = leaf.clone()\n"
        "with torch.no_grad():\n    x.mul_(3.0)\nx.sum().backward()\n"
        "assert leaf.grad.tolist() == [1.0, 1.0]"
    )
    found = causes(mutated(source))
    products = [found[words] for words in found if words.startswith("that products ")]
    assert set(products) == {"idle"}
    recorded = source.replace("with torch.no_grad():\n    x", "x").replace(
        "[1.0, 1.0]", "[3.0, 3.0]"
    )
    assert "that products double gradients" not in causes(mutated(recorded))


def test_what_the_sentence_says_is_broken_and_not_looked_at_is_a_gap(mutated: Mutated) -> None:
    source = "import torch\nx = torch.ones(1, requires_grad=True)\n(x * x).backward()\n"
    source += "assert x.grad == 2"
    words = "that no graph is ever freed"
    assert causes(mutated(source))[words] == "unseen"
    assert causes(mutated(source, "A pass frees its graph."))[words] == "named"


def test_gaps_are_listed_with_their_line(mutated: Mutated) -> None:
    (gap,) = mutated("x = 3.0\n\nassert x < 1e9").gaps
    assert gap.line == 8
    why = CAUSES["vacuous"][1]
    assert gap.message == f"gap in claim a/b: any other value of `x`: {why}"


def test_names_are_words_and_numbers_of_the_sentence() -> None:
    sentence = "With `no_grad`, a tensor requires grad at 2 and 0.5."
    assert [*names_said(sentence, ["no_grad"])]
    assert [*names_said(sentence, ["requires_grad"])]
    assert [*names_said(sentence, ["x", "0.5"])]
    assert [*names_said(sentence, ["2.0"])]
    assert not [*names_said(sentence, ["grad_fn", "", "5", "1j"])]
    quoting = "Of `ones(3)` it says `element 0 of tensors has no grad_fn`."
    assert [*names_said(quoting, ["3", "grad_fn"])]
    assert not [*names_said(quoting, ["0"])]


def test_code_feeds_checks_by_the_names_that_it_shares() -> None:
    cell = Cell(
        line=1,
        fence=0,
        source="import os\nx = os.sep\ny = [x]\ny.clear()\nz = os.sep\ndef f():\n    return z\n"
        "os.sync()\nassert x\nz = 1",
    )
    flow = Flow([cell, Doctest(line=20, source=">>> w = 1\n>>> w\n1\n")], {"os": pytest})
    assert [line for line in range(1, 11) if flow.feeds(line)] == [1, 2, 3, 4, 8, 9]
    assert flow.feeds(20)
    inline = Flow([Inline(line=3, role="claim", source="x == 1")], {})
    assert inline.feeds(3)
    assert inline.feeds(99)


def test_a_value_has_a_mark_that_others_do_not_have() -> None:
    values: list[Any] = [1, 1.5, 1.5 + 0j, 1.5j, "a", None, [1], (1,), {1}, {1: 2}, int, b"", True]
    assert len({mark(value) for value in values}) == len(values)
    assert mark(0.0) == mark(-0.0)
    assert mark(1.0000001, digits=5) == mark(1.0, digits=5)
    assert mark(1.0000001 + 2j, digits=5) == mark(1.0 + 2.0000001j, digits=5) != mark(1.1 + 2j)
    assert mark({1, 2}) == mark({2, 1})
    assert mark(object()) == mark(object())


def test_other_values_differ_from_the_one_in_whose_place_they_stand() -> None:
    assert dict(others(2.0)) == {
        "negated": -2.0,
        "replaced by zero": 0.0,
        "doubled": 4.0,
        "off by a tenth": 2.2,
        "a thousand times as large": 2000.0,
    }
    assert dict(others(True)) == {"negated": False}
    assert dict(others(0)) == {"off by a tenth": 1}
    assert others("a") == others(None) == others([]) == []
    assert others(torch.nn.Parameter(torch.zeros(2))) == []
    assert len(others(torch.nn.Parameter(torch.ones(2)))) == 6
    assert dict(others([1, 2]))["doubled in its first element"] == [2, 2]
