"""Reports on models that two processes share."""

from pathlib import Path
from typing import Any

import pytest

from tests.several_processes import in_two_processes, needs_distributed

pytestmark = needs_distributed
PROGRAM = Path(__file__).with_name("models_in_processes.py")

TWO = ["0.bias", "0.weight", "2.bias", "2.weight"]
BEHIND_MODULE = [f"module.{name}" for name in TWO]
USED, IDLE, NEVER = (
    [f"module.{head}.{kind}" for kind in ("bias", "weight")] for head in ("used", "idle", "never")
)
NAMES: dict[str, list[str]] = {
    "replicated": BEHIND_MODULE,
    "replicated_with_an_idle_head": IDLE + USED,
    "replicated_with_a_static_graph": BEHIND_MODULE,
    "replicated_and_divided_by_zero": BEHIND_MODULE,
    "sharded_anew_after_forward": TWO,
    "sharded_anew_after_backward": TWO,
    "sharded_with_an_idle_head": ["0.bias", "0.weight", "1.used.bias", "1.used.weight"],
    "sharded_without_synchronising": TWO,
    "parallel_in_its_tensors": TWO,
    "parallel_in_two_ways": TWO,
    "parallel_and_of_no_number": TWO,
}
"""The leaves of each model, alike in both processes."""
MODELS = [*NAMES, "replicated_with_another_head_in_each"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the reports on each model in each process."""
    return in_two_processes(PROGRAM, tmp_path_factory.mktemp("told"))


@pytest.mark.parametrize("model", MODELS)
def test_distributed_reports_match_backward_and_change_nothing(model: str, told: list[Any]) -> None:
    for one in (process[model] for process in told):
        assert one.get("error") is None
        assert (one["false"], one["unlike"], one["warnings"]) == ([], [], [])
        assert (one["fatal"], one["hidden"]) == ([], 0)


@pytest.mark.parametrize("model", NAMES)
def test_leaves_of_distributed_models_have_parameter_names(model: str, told: list[Any]) -> None:
    assert [process[model]["leaves"] for process in told] == [NAMES[model]] * 2
    modules = {name.rpartition(".")[0] for name in NAMES[model]} - {""}
    assert all(modules <= {*process[model]["modules"]} for process in told)


NOT_COUNTED = {
    "parallel_and_of_no_number": 8  # It is saved as a Python number, which hooks do not see.
}


@pytest.mark.parametrize("model", MODELS)
def test_memory_counts_tensors_of_own_process_only(model: str, told: list[Any]) -> None:
    for one in (process[model] for process in told):
        assert one["bytes"] == one["counted bytes"] + NOT_COUNTED.get(model, 0) > 0


def test_memory_counts_gathered_parameter_while_it_is_alive(told: list[Any]) -> None:
    (first, _) = told
    weight_and_batch = 4 * (4 * 8 + 2 * 8)
    assert first["sharded_anew_after_backward"]["bytes"] == 4 * 16 + weight_and_batch
    assert (
        first["sharded_anew_after_forward"]["bytes"]
        == first["sharded_anew_after_backward"]["bytes"] - 4 * 8 * 4
    )


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("sharded_anew_after_forward", {"0.weight": [4, 4], "0.bias": [4], "2.weight": [2, 8]}),
        ("parallel_in_its_tensors", {"0.weight": [4, 4], "0.bias": [4], "2.weight": [4, 4]}),
        ("parallel_in_two_ways", {"0.weight": [4, 4], "0.bias": [4], "2.weight": [4, 4]}),
    ],
)
def test_local_part_of_dtensor_is_shown(model: str, parts: dict[str, Any], told: list[Any]) -> None:
    for process in told:
        assert process[model]["classes"] == ["DTensor"]
        assert parts.items() <= process[model]["parts"].items()


def test_only_parameters_without_gradient_are_reported(told: list[Any]) -> None:
    unused = {"1.idle.bias": "unused", "1.idle.weight": "unused"}
    expected = {"sharded_with_an_idle_head": unused}
    for process in told:
        codes = {model: one["codes"] for model, one in process.items() if one.get("codes")}
        assert codes == expected


@pytest.mark.parametrize("model", MODELS)
def test_nan_is_found_in_each_process(model: str, told: list[Any]) -> None:
    expected = {
        "replicated_and_divided_by_zero": ["nan-value"],
        "parallel_and_of_no_number": ["nan-gradient"],
    }
    assert [process[model]["nan"] for process in told] == [expected.get(model, [])] * 2
