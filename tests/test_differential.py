"""Reports on gradients compared with backward; `benchmarks` compares thousands."""

import gc
from collections.abc import Callable
from importlib import import_module

import pytest

from tests.models_compared import MODELS, compared_models, disturbances
from tests.programs import Count, planted_cut, random_program

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True, scope="module")
def _the_compiler_is_not_searched() -> None:
    """Import the compiler first and freeze it: each report searches all live objects."""
    import_module("torch._dynamo")
    gc.freeze()


def total(count: int, first: int, run: Callable[[int], Count]) -> Count:
    found = Count()
    for seed in range(first, first + count):
        found.add(run(seed))
    return found


# The last fifty programs run every line that the others run.
@pytest.mark.parametrize(
    "first",
    [pytest.param(0, marks=pytest.mark.sweep), pytest.param(50, marks=pytest.mark.sweep), 100],
)
def test_reports_on_random_programs_match_their_backward_pass(first: int) -> None:
    found = total(50, first, random_program)
    assert found.mismatches == []
    assert found.tensors > 350
    assert 0 < found.unseen < found.tensors / 20


@pytest.mark.sweep
def test_diagnosis_of_random_programs_names_planted_cut() -> None:
    found = total(300, 0, planted_cut)
    assert found.mismatches == []
    assert found.culprits == 300


@pytest.mark.sweep
def test_reports_on_models_match_their_backward_pass() -> None:
    found = compared_models()
    assert found.mismatches == []
    assert found.programs == len(MODELS)


# A reentrant checkpoint hides its operations, and torch.autograd.grad() refuses it.
LOOKED_AT = [name for name in MODELS if name != "reentrant_blocks"]
# Only this model runs the code that restores the caches of a checkpoint.
ALONE = "selectively_checkpointed"


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "not recorded"])
@pytest.mark.parametrize(
    "model",
    [pytest.param(name, marks=[] if name == ALONE else pytest.mark.sweep) for name in LOOKED_AT],
)
def test_tracing_model_changes_nothing_and_names_parameters(model: str, *, recorded: bool) -> None:
    assert [*disturbances(model, recorded=recorded)] == []
