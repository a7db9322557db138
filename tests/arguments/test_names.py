"""The forms of the argument `names`."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import diagnose, trace_graph


def optimizer_of(model: nn.Module, *, is_named: bool) -> torch.optim.Optimizer:
    parameters = model.named_parameters() if is_named else model.parameters()
    return torch.optim.SGD(parameters, lr=0.1)


FORMS: dict[str, Callable[[nn.Module], Any]] = {
    "module": lambda model: model,
    "optimizer with names": lambda model: optimizer_of(model, is_named=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_the_names_argument_names_the_parameters(form: str) -> None:
    model = nn.Linear(3, 1)
    loss = model(torch.ones(2, 3)).sum()
    trace = trace_graph(loss, names=FORMS[form](model), gradients=True)
    assert {leaf.leaf_name for leaf in trace.leaves} == {"weight", "bias"}
    with torch.no_grad():
        model.weight[0, 0] = torch.nan
    report = diagnose(model(torch.ones(2, 3)).sum(), FORMS[form](model), gradients=True)
    assert report.codes == ("nan-input",)
    (unused,) = diagnose(torch.ones(1, requires_grad=True) * 2, FORMS[form](model))
    assert unused.subject == ("weight", "bias")


class Overriding(nn.Linear):
    """A layer whose listing of parameters does not accept `remove_duplicate`."""

    def named_parameters(self) -> Any:  # type: ignore[override]
        return super().named_parameters()


def test_parameters_of_model_that_overrides_named_parameters_have_names() -> None:
    model = Overriding(3, 1)
    leaves = trace_graph(model(torch.ones(2, 3)).sum(), names=model).leaves
    assert {leaf.leaf_name for leaf in leaves} == {"weight", "bias"}


def test_parameters_of_optimizer_without_names_are_named_by_position() -> None:
    model = nn.Linear(3, 1)
    optimizer = optimizer_of(model, is_named=False)
    trace = trace_graph(model(torch.ones(2, 3)).sum(), names=optimizer)
    names = {"param_groups[0].params[0]", "param_groups[0].params[1]"}
    assert {leaf.leaf_name for leaf in trace.leaves} == names


@pytest.mark.parametrize(
    ("names", "error", "match"),
    [
        (lambda _: torch.ones(2), TypeError, "not Tensor; pass the model"),
        (lambda _: {"x": 3}, TypeError, r"names\['x'\] must be a tensor, not int"),
        (lambda model: {1: model.weight}, TypeError, "keys of names must be strings, not int"),
        (lambda model: model.named_parameters(), TypeError, "or a mapping .* not generator"),
    ],
)
def test_invalid_names_argument_is_refused_with_a_fix(
    names: Callable[[nn.Module], Any], error: type[Exception], match: str
) -> None:
    model = nn.Linear(2, 2)
    loss = model(torch.ones(1, 2)).sum()
    with pytest.raises(error, match=match):
        trace_graph(loss, names=names(model))
