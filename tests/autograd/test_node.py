"""One test a fact about what a node of the graph is."""

import threading
import warnings
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from leafgrad import _autograd
from tests.tensors import leaf, node_of, outcome_of


class Doubled(torch.autograd.Function):
    """A custom function with nothing to it."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


def test_a_node_knows_its_name_where_its_type_does_not() -> None:
    node = node_of(torch._foreach_exp([leaf(2)])[0])
    assert _autograd.node_name(node) == "ForeachExpBackward0"
    assert type(node).__name__ == "CppFunction"


class Named(Doubled):
    """A custom function that uses the attribute that a node's name is under."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.name = "doubled"
        return 2 * x


def test_a_custom_function_may_keep_a_name_of_its_own() -> None:
    result = outcome_of(Named, leaf(2))
    node = node_of(result)
    assert node.name == "doubled"
    assert _autograd.node_name(node) == "NamedBackward"


def test_a_node_pairs_each_input_with_the_output_that_it_was() -> None:
    x = leaf(3)
    first, _, third = x.unbind()
    unbind = node_of(first)
    assert _autograd.next_functions(node_of(first * third)) == ((unbind, 0), (unbind, 2))
    assert _autograd.next_functions(node_of(x * torch.ones(3)))[1] == (None, 0)


def test_a_node_knows_what_its_operation_made() -> None:
    node = node_of(torch.ones(2, 3, dtype=torch.complex64, requires_grad=True).unbind()[0])
    cpu = torch.device("cpu")
    assert _autograd.forward_outputs(node) == (((3,), torch.complex64, cpu),) * 2


def test_a_node_knows_no_shape_of_a_strided_nested_tensor_and_words_of_a_ragged_one() -> None:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    with warnings.catch_warnings(action="ignore"):
        strided = torch.nested.nested_tensor(parts, layout=torch.strided, requires_grad=True)
    assert _autograd.forward_outputs(node_of(ragged * 2))[0].shape == (2, "ragged", 3)
    assert _autograd.forward_outputs(node_of(strided * 2))[0].shape is None


def test_all_nodes_of_a_type_have_one_name_but_for_the_type_that_many_kinds_share() -> None:
    assert _autograd.is_of_its_own_type(node_of(leaf(2).sin()))
    assert _autograd.is_of_its_own_type(node_of(outcome_of(Doubled, leaf(2))))
    assert not _autograd.is_of_its_own_type(node_of(torch._foreach_exp([leaf(2)])[0]))


def test_the_types_of_pytorchs_own_operations_alone_last() -> None:
    assert _autograd.has_lasting_type(node_of(leaf(2).sin()))
    assert not _autograd.has_lasting_type(node_of(outcome_of(Doubled, leaf(2))))
    assert not _autograd.has_lasting_type(node_of(torch._foreach_exp([leaf(2)])[0]))


def seen_alone(node: Any) -> tuple[object, ...]:
    outputs = _autograd.forward_outputs(node)
    return tuple(output.shape for output in outputs), outputs[0].dtype, outputs[0].device


def test_what_equal_nodes_made_is_read_into_one_value() -> None:
    several = leaf(2, 3).unbind()
    for tensor, other in (leaf(3).sin(), leaf(3).cos()), (several[0], leaf(2, 3).unbind()[0]):
        read, same = _autograd.outputs_of([node_of(tensor), node_of(other)])
        assert read == seen_alone(node_of(tensor))
        assert read is same


def test_what_is_read_of_what_nodes_made_keeps_no_tensor() -> None:
    x = leaf(2, 3)
    y, parts = x.exp(), x.unbind()
    read = _autograd.outputs_of([node_of(y), node_of(parts[0])])
    tensors = [weakref.ref(one) for one in (x, y, *parts)]
    del x, y, parts
    assert [one() for one in tensors] == [None] * 4
    assert [shapes for shapes, _, _ in read] == [((2, 3),), ((3,), (3,))]


def test_sizes_that_are_no_numbers_are_told_from_those_that_are() -> None:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    read = _autograd.outputs_of([node_of(leaf(2, 1, 3).sin()), node_of(ragged.sin())])
    assert [shapes for shapes, _, _ in read] == [((2, 1, 3),), ((2, "ragged", 3),)]


def test_symbolic_sizes_of_what_nodes_made_are_read_and_not_settled() -> None:
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


def test_only_an_accumulator_has_a_leaf_whatever_else_stands_on_a_ctx() -> None:
    x = leaf(2)
    result = outcome_of(Doubled, x)
    doubled = node_of(result)
    doubled.variable = x
    assert _autograd.leaf_variable(doubled) is None
    assert _autograd.leaf_variable(doubled.next_functions[0][0]) is x


def test_a_leaf_that_has_become_a_result_is_told_from_others() -> None:
    x, row = leaf(2), torch.ones(2, 2)[0].requires_grad_()
    product = node_of(x * row)
    nodes = [product, *(node for node, _ in product.next_functions)]
    assert not any(map(_autograd.is_leaf_with_history, nodes))
    x.requires_grad = False
    x.mul_(leaf(2))
    assert [*map(_autograd.is_leaf_with_history, nodes)] == [False, True, False]


def test_the_leaves_of_many_nodes_are_known_by_their_places() -> None:
    x, y = leaf(2), leaf(2)
    product = node_of(x * y)
    nodes = [product, *(node for node, _ in product.next_functions)]
    leaves = _autograd.leaf_variables(nodes, map(type, nodes))
    assert [*leaves] == [1, 2]
    assert (leaves[1] is x, leaves[2] is y) == (True, True)


def test_a_node_knows_the_custom_function_that_made_it() -> None:
    assert _autograd.forward_class(node_of(outcome_of(Doubled, leaf(2)))) is Doubled
    assert _autograd.forward_class(node_of(leaf(2) * 2)) is None


def test_nodes_are_numbered_as_they_are_made_and_asking_takes_no_number() -> None:
    x = leaf(2)
    number = _autograd.next_sequence_nr()
    assert _autograd.next_sequence_nr() == number
    first, second = x.sin(), x.cos()
    assert _autograd.sequence_nr(node_of(first)) == number
    assert _autograd.sequence_nr(node_of(second)) == number + 1


def test_many_nodes_give_the_numbers_that_each_of_them_gives() -> None:
    nodes = _autograd.walk([node_of(leaf(2).sin().cos())])
    numbers = _autograd.sequence_nrs(nodes)
    assert numbers == [*map(_autograd.sequence_nr, nodes)]
    assert numbers[-1] is None


def test_a_leaf_has_no_number() -> None:
    assert _autograd.sequence_nr(torch.autograd.graph.get_gradient_edge(leaf(2)).node) is None


def test_each_thread_counts_for_itself() -> None:
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


def test_a_custom_function_has_its_number_before_its_forward_runs() -> None:
    function: Any = Numbered
    result = function.apply(leaf(2))
    node = node_of(result)
    assert _autograd.sequence_nr(node) == Numbered.seen - 1 == _autograd.next_sequence_nr() - 1
