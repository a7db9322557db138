"""Facts about nodes, one test each."""

import threading
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from leafgrad import _autograd
from tests.tensors import Doubled, leaf, node_of, outcome_of


def test_name_of_node_of_shared_type() -> None:
    node = node_of(torch._foreach_exp([leaf(2)])[0])
    assert _autograd.node_name(node) == "ForeachExpBackward0"
    assert type(node).__name__ == "CppFunction"


class Named(Doubled):
    """A custom function that sets `ctx.name`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.name = "doubled"
        return 2 * x


def test_name_attribute_on_ctx_does_not_hide_name() -> None:
    result = outcome_of(Named, leaf(2))
    node = node_of(result)
    assert node.name == "doubled"
    assert _autograd.node_name(node) == "NamedBackward"


def test_nodes_of_one_type_share_a_name() -> None:
    assert _autograd.is_of_its_own_type(node_of(leaf(2).sin()))
    assert _autograd.is_of_its_own_type(node_of(outcome_of(Doubled, leaf(2))))
    assert not _autograd.is_of_its_own_type(node_of(torch._foreach_exp([leaf(2)])[0]))


def test_types_of_builtin_operations_are_permanent() -> None:
    assert _autograd.has_lasting_type(node_of(leaf(2).sin()))
    assert not _autograd.has_lasting_type(node_of(outcome_of(Doubled, leaf(2))))
    assert not _autograd.has_lasting_type(node_of(torch._foreach_exp([leaf(2)])[0]))


def seen_alone(node: Any) -> tuple[object, ...]:
    outputs = _autograd.forward_outputs(node)
    return tuple(output.shape for output in outputs), outputs[0].dtype, outputs[0].device


def test_equal_outputs_are_one_value() -> None:
    several = leaf(2, 3).unbind()
    for tensor, other in (leaf(3).sin(), leaf(3).cos()), (several[0], leaf(2, 3).unbind()[0]):
        read, same = _autograd.outputs_of([node_of(tensor), node_of(other)])
        assert read == seen_alone(node_of(tensor))
        assert read is same


def test_outputs_of_nodes_keep_no_tensor() -> None:
    x = leaf(2, 3)
    y, parts = x.exp(), x.unbind()
    read = _autograd.outputs_of([node_of(y), node_of(parts[0])])
    tensors = [weakref.ref(one) for one in (x, y, *parts)]
    del x, y, parts
    assert [one() for one in tensors] == [None] * 4
    assert [shapes for shapes, _, _ in read] == [((2, 3),), ((3,), (3,))]


def test_ragged_outputs_are_read() -> None:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    read = _autograd.outputs_of([node_of(leaf(2, 1, 3).sin()), node_of(ragged.sin())])
    assert [shapes for shapes, _, _ in read] == [((2, 1, 3),), ((2, "ragged", 3),)]


def test_symbolic_outputs_add_no_guard() -> None:
    environment = ShapeEnv()
    sizes = [DimDynamic.DYNAMIC, DimDynamic.STATIC]
    x = FakeTensorMode(shape_env=environment).from_tensor(
        leaf(5, 3), symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes)
    )
    settled = len(environment.guards)
    same, other = x.sin(), x.t().cos()
    nodes = [node_of(same), node_of(other), node_of(same.exp())]
    first, second, third = [shape or () for (shape,), _, _ in _autograd.outputs_of(nodes)]
    assert isinstance(first[0], str)
    assert (first, second) == ((first[0], 3), (3, first[0]))
    assert third == first
    assert len(environment.guards) == settled


def test_variable_on_ctx_is_no_leaf() -> None:
    x = leaf(2)
    result = outcome_of(Doubled, x)
    doubled = node_of(result)
    doubled.variable = x
    assert _autograd.leaf_variable(doubled) is None
    assert _autograd.leaf_variable(doubled.next_functions[0][0]) is x


def test_leaf_with_history_is_detected() -> None:
    x, row = leaf(2), torch.ones(2, 2)[0].requires_grad_()
    product = node_of(x * row)
    nodes = [product, *(node for node, _ in product.next_functions)]
    assert not any(map(_autograd.is_leaf_with_history, nodes))
    x.requires_grad = False
    x.mul_(leaf(2))
    assert [*map(_autograd.is_leaf_with_history, nodes)] == [False, True, False]


def test_sequence_numbers_are_per_thread() -> None:
    leaf(2).sin()
    numbers: list[int] = []
    thread = threading.Thread(target=lambda: numbers.append(_autograd.next_sequence_nr()))
    thread.start()
    thread.join()
    assert numbers == [0]


class Numbered(torch.autograd.Function):
    seen: int

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        Numbered.seen = _autograd.next_sequence_nr()
        return 2 * x

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


def test_custom_function_is_numbered_before_its_forward() -> None:
    function: Any = Numbered
    result = function.apply(leaf(2))
    node = node_of(result)
    assert _autograd.sequence_nr(node) == Numbered.seen - 1 == _autograd.next_sequence_nr() - 1


def test_reentrant_checkpoint_shows_the_modules_that_it_runs() -> None:
    layer = torch.nn.Linear(2, 2)
    for function in (layer, layer.forward, lambda x: layer(x + 1)):
        y = torch.utils.checkpoint.checkpoint(function, leaf(2), use_reentrant=True)
        assert y.grad_fn is not None
        assert _autograd.is_reentrant_checkpoint(y.grad_fn)
        assert _autograd.modules_of_reentrant_checkpoint(y.grad_fn) == [layer]
    plain = leaf(2).exp().grad_fn
    assert plain is not None
    assert not _autograd.is_reentrant_checkpoint(plain)
