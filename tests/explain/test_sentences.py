"""Every cause has its words, and every way of a cut its cause."""

import pytest

from leafgrad import CutKind, GradCause
from leafgrad._explain.grad_explanation import CAUSE_OF_CUT
from leafgrad._explain.sentences import BECAUSE, CURES


@pytest.mark.parametrize("words", [BECAUSE, CURES], ids=["because", "cures"])
def test_every_cause_has_its_words(words: dict[GradCause, str]) -> None:
    assert set(words) == set(GradCause)


def test_every_way_of_a_cut_is_a_cause_of_its_own() -> None:
    assert set(CAUSE_OF_CUT) == set(CutKind)
    assert all(cause.name == kind.name for kind, cause in CAUSE_OF_CUT.items())
