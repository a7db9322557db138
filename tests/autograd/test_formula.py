"""One test a fact about whose formula a node runs, and what running it records."""

from typing import Any

import pytest
import torch
from torch.autograd.graph import Node

from leafgrad import _autograd


class Cube(torch.autograd.Function):
    """Records its backward whole."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, None)
        ctx.label, ctx.kept, ctx.places = "cube", x, [torch.tensor([0])]
        return x**3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * gradients[0]


class CubeOnce(Cube):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (3 * ctx.saved_tensors[0] ** 2 * gradients[0], None)


def applied(function: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = function.apply(x)
    return result


def node_of(tensor: torch.Tensor) -> Node:
    assert tensor.grad_fn is not None
    return tensor.grad_fn


def test_a_formula_of_pytorch_has_a_type_of_its_own() -> None:
    x = torch.ones(2, requires_grad=True)
    assert _autograd.is_own_formula(node_of(x.exp()))
    assert not _autograd.is_own_formula(node_of(applied(Cube, x)))
    assert not _autograd.is_own_formula(node_of(torch._foreach_exp([x])[0]))


def test_a_node_without_a_type_of_its_own_hides_what_it_saved() -> None:
    x = torch.ones(2, requires_grad=True)
    written = x * 1
    written[:1].mul_(x[:1])
    hiding = [node_of(torch._foreach_exp([x])[0]), node_of(written)]
    showing = [
        node_of(x.exp()),
        node_of(applied(Cube, x)),
        node_of(torch._foreach_div([x], [x])[0]),
    ]
    assert [_autograd.hides_saved(node) for node in hiding + showing] == [True] * 2 + [False] * 3
    assert not any(_autograd.saved_slots(node) for node in hiding)
    assert all(_autograd.saved_slots(node) for node in showing)


def test_a_write_into_a_view_hides_its_formula() -> None:
    x = torch.ones(2, requires_grad=True)
    result = x * 1
    result[0] = 3.0
    assert _autograd.is_write_into_view(node_of(result))
    assert not _autograd.is_own_formula(node_of(result))
    assert not _autograd.is_write_into_view(node_of(x * 1))
    gradients = _autograd.backward_alone(node_of(result))
    assert [gradient.tolist() for gradient in gradients] == [[0.0, 1.0]]


def test_a_compiled_backward_is_known() -> None:
    x = torch.ones(2, requires_grad=True)
    compiled = torch.compile(torch.exp, backend="aot_eager")
    assert _autograd.is_compiled(node_of(compiled(x)))
    assert not _autograd.is_compiled(node_of(applied(Cube, x)))
    assert not _autograd.is_compiled(node_of(x.exp()))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_what_torchscript_differentiates_is_known() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x)

    scripted: Any = torch.jit.script(function)
    x = torch.ones(2, requires_grad=True)
    results = [scripted(x) for _ in range(4)]
    assert _autograd.is_scripted(node_of(results[-1]))
    assert not _autograd.is_scripted(node_of(function(x)))


def test_an_operator_without_a_backward_is_known() -> None:
    library = torch.library.Library("leafgrad_door", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x.detach().exp(), "CPU")
    x = torch.ones(2, requires_grad=True)
    assert _autograd.lacks_formula(node_of(torch.ops.leafgrad_door.f(x)))
    assert not _autograd.lacks_formula(node_of(x.exp()))


def test_a_once_differentiable_backward_leads_to_a_refusal() -> None:
    x = torch.ones(2, requires_grad=True)
    cube = applied(CubeOnce, x)
    (gradient,) = _autograd.backward_alone(node_of(cube))
    assert _autograd.is_refusal(node_of(gradient))
    assert not _autograd.is_refusal(node_of(x.exp()))


def test_batch_norm_says_whether_it_is_training() -> None:
    model, x = torch.nn.BatchNorm1d(2), torch.rand(3, 2, requires_grad=True)
    assert _autograd.is_training_batch_norm(node_of(model(x)))
    assert not _autograd.is_training_batch_norm(node_of(model.eval()(x)))


def test_other_nodes_are_no_batch_norm_in_training() -> None:
    assert not _autograd.is_training_batch_norm(node_of(torch.ones(2, requires_grad=True).exp()))


def test_a_second_derivative_of_batch_norm_says_whose_statistics_it_uses() -> None:
    x = torch.rand(3, 2, requires_grad=True)
    uses = []
    for model in (torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2).eval()):
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        uses.append(_autograd.uses_running_statistics(node_of(gradient)))
    assert uses == [False, True]
    assert not _autograd.uses_running_statistics(node_of(x.exp()))


def test_a_custom_function_keeps_saved_tensors_and_what_is_on_its_ctx() -> None:
    x = torch.ones(2, requires_grad=True)
    cube = applied(Cube, x)
    assert [kept is x for kept in _autograd.kept_tensors(node_of(cube))] == [True, True]


class Settings(Cube):
    """Keeps numbers of another library."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *kept: Any) -> torch.Tensor:
        ctx.kept = kept
        return x**3


def test_an_array_of_numbers_is_told_from_a_number_and_from_indices() -> None:
    x = torch.ones(2, requires_grad=True)
    numbers = x.detach().numpy()
    kept = [(numbers,), (numbers[0],), (numbers.astype(int),), (x, 2.0)]
    settings: Any = Settings
    results = [_autograd.keeps_array(node_of(settings.apply(x, *one))) for one in kept]
    assert results == [True, False, False, False]


def test_a_backward_run_alone_records_and_fires_no_hook() -> None:
    x = torch.full((2,), 2.0, requires_grad=True)
    result = applied(Cube, x)
    result.register_hook(lambda _: pytest.fail("a hook ran"))
    (gradient,) = _autograd.backward_alone(node_of(result))
    assert gradient.tolist() == [12.0, 12.0]
    assert gradient.requires_grad
    assert x.grad is None
