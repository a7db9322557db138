"""Facts about nodes, edges and walks over graphs, one test each."""

import threading
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import _autograd
from leafgrad._autograd import traversal
from tests.apart import RunApart
from tests.tensors import Doubled, holding, leaf, node_of, outcome_of


def test_node_of_shared_type_has_the_name_of_its_operation() -> None:
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


def test_nodes_of_foreach_operations_share_a_python_type() -> None:
    assert _autograd.is_of_its_own_type(node_of(leaf(2).sin()))
    assert _autograd.is_of_its_own_type(node_of(outcome_of(Doubled, leaf(2))))
    assert not _autograd.is_of_its_own_type(node_of(torch._foreach_exp([leaf(2)])[0]))


def test_types_of_builtin_operations_are_permanent() -> None:
    assert _autograd.has_lasting_type(node_of(leaf(2).sin()))
    assert not _autograd.has_lasting_type(node_of(outcome_of(Doubled, leaf(2))))
    assert not _autograd.has_lasting_type(node_of(torch._foreach_exp([leaf(2)])[0]))


def test_ragged_size_of_nested_output_is_read() -> None:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    (read,) = _autograd.forward_outputs(node_of(ragged.sin()))
    assert read.shape == (2, "ragged", 3)


def test_symbolic_outputs_add_no_guard() -> None:
    environment = ShapeEnv()
    sizes = [DimDynamic.DYNAMIC, DimDynamic.STATIC]
    x = FakeTensorMode(shape_env=environment).from_tensor(
        leaf(5, 3), symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes)
    )
    settled = len(environment.guards)
    same, other = x.sin(), x.t().cos()
    nodes = [node_of(same), node_of(other), node_of(same.exp())]
    first, second, third = [_autograd.forward_outputs(node)[0].shape or () for node in nodes]
    assert isinstance(first[0], str)
    assert (first, second) == ((first[0], 3), (3, first[0]))
    assert third == first
    assert len(environment.guards) == settled


def test_variable_on_ctx_is_not_mistaken_for_a_leaf() -> None:
    x = leaf(2)
    result = outcome_of(Doubled, x)
    doubled = node_of(result)
    doubled.variable = x
    assert _autograd.leaf_variable(doubled) is None
    assert _autograd.leaf_variable(doubled.next_functions[0][0]) is x


def test_leaf_that_became_a_result_is_detected() -> None:
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


def test_modules_that_a_reentrant_checkpoint_runs_are_found() -> None:
    layer = torch.nn.Linear(2, 2)
    for function in (layer, layer.forward, lambda x: layer(x + 1)):
        y = torch.utils.checkpoint.checkpoint(function, leaf(2), use_reentrant=True)
        assert y.grad_fn is not None
        assert _autograd.is_reentrant_checkpoint(y.grad_fn)
        assert _autograd.modules_of_reentrant_checkpoint(y.grad_fn) == [layer]
    plain = leaf(2).exp().grad_fn
    assert plain is not None
    assert not _autograd.is_reentrant_checkpoint(plain)


# --- Edges and paths


class WatchingDispatchMode(TorchDispatchMode):
    """A mode that records each operation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def view_under_no_grad(base: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return base[:]


def test_has_accumulator_runs_no_operation(watching_mode: Any) -> None:
    view = view_under_no_grad(leaf(2))
    sequence_number = torch._C._autograd._get_sequence_nr()
    modes = watching_mode, WatchingDispatchMode()
    with modes[0] as functions, modes[1] as operations, _autograd.unobserved():
        assert not _autograd.has_accumulator(view)
    assert (functions.calls, operations.calls) == ([], [])
    assert torch._C._autograd._get_sequence_nr() == sequence_number
    with torch.inference_mode():
        assert not _autograd.has_accumulator(view)


def test_path_between_is_empty_for_equal_tensors_and_none_without_path() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in "xy")
    edge = _autograd.edge_by_use(x)
    assert edge is not None
    assert _autograd.path_between(x, x) == ({}, edge, edge)
    assert _autograd.path_between(x * 2, y) is None
    assert _autograd.path_between(torch.ones(2), y) is None
    assert _autograd.path_between(y, torch.ones(2)) is None


# --- Sequence numbers and the living graph


def test_leaves_and_results_have_distinct_numbers() -> None:
    x = leaf(2)
    y, z = x.sin(), x.cos()
    assert _autograd.number_of(x) < 0 <= _autograd.number_of(y) < _autograd.number_of(z)
    assert _autograd.number_of(x) != _autograd.number_of(leaf(2))


def test_view_taken_under_no_grad_has_sequence_number_of_its_base() -> None:
    x = leaf(2)
    y = x.exp()
    with torch.no_grad():
        views = x[0], y[0]
    assert list(map(_autograd.number_of, views)) == [_autograd.number_of(x), _autograd.number_of(y)]
    assert _autograd.number_of(y[0]) > _autograd.number_of(y)


def test_graph_structure_is_usable_after_the_graph_is_freed() -> None:
    x, other = leaf(2), leaf(2)
    structure = _autograd.GraphStructure()
    inner = structure.add(x.sin())
    numbers = structure.add(x.sin() * other), structure.add(other.cos())
    assert structure.depend_on(x) >= {inner, numbers[0], _autograd.number_of(x)}
    assert numbers[1] not in structure.depend_on(x)
    assert structure.depend_on(other) >= {*numbers}


def test_graph_structure_adds_each_node_once() -> None:
    structure = _autograd.GraphStructure()
    y = leaf(2).sin()
    structure.add(y)
    before = len(structure.successors)
    structure.add(y)
    structure.add(y.cos())
    assert len(structure.successors) == before + 1


DEEP = """
import torch
from leafgrad import _autograd
structure = _autograd.GraphStructure()
x = torch.ones(1, requires_grad=True)
for number in range(20_000):
    x = x.sin()
    if number % 2_000 == 0:
        structure.add(x)
structure.add(x)
print(len(structure.successors))
del x
print("freed")
"""


def test_deep_graph_of_structure_can_be_freed(run_apart: RunApart) -> None:
    run = run_apart(DEEP)
    assert (run.returncode, run.stdout, run.stderr) == (0, "20001\nfreed\n", "")


# --- Walks


NAME_STEP_BY_STEP = """
import threading
import torch
from leafgrad import _autograd
from leafgrad._autograd import traversal

class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1
    @staticmethod
    def backward(ctx, grad):
        return grad

def build_name_and_free(stride):
    steps = [torch.ones(1, requires_grad=True)]
    for number in range(10_000):
        x = steps[-1]
        steps.append(Custom.apply(x) if number % 50 == 0 else x + x if number % 7 == 0 else x + 1)
    for step in steps[::stride]:
        _autograd.grad_fn_name(step)
    del step, x, steps[:-1]
    steps.pop()
    print(stride, len(traversal._KeptSuccessors.waiting.queue))

threading.stack_size(256 * 1024)
for stride in (1, -1, 3):
    thread = threading.Thread(target=build_name_and_free, args=(stride,))
    thread.start()
    thread.join()
"""


def test_deep_graph_can_be_freed_after_naming_its_nodes(run_apart: RunApart) -> None:
    run = run_apart(NAME_STEP_BY_STEP)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1 0\n-1 0\n3 0\n", "")


def test_interrupted_walk_marks_nodes_of_a_deep_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    x = leaf(1)
    for _ in range(2 * traversal._LONGEST_FALL):
        x = x.sin()
    begun: list[object] = []

    def interrupted(roots: Iterable[Node]) -> object:
        begun.append(roots)
        if len(begun) == 1:
            next(iter(roots)).next_functions  # noqa: B018 (what makes a node dangerous to free)
            raise KeyboardInterrupt
        return walked(roots)

    walked = traversal._walked
    monkeypatch.setattr(traversal, "_walked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _autograd.walk([node_of(x)])
    node, guarded = node_of(x), 0
    while (after := node.next_functions) and after[0][0] is not None:
        guarded += bool(node.metadata)
        node = after[0][0]
    assert guarded > 0


def marks(tensor: torch.Tensor) -> list[object]:
    nodes: Iterable[Any] = _autograd.walk([node_of(tensor)])
    return [mark for node in nodes for mark in node.metadata]


def test_walk_marks_nodes_so_that_a_deep_graph_can_be_freed() -> None:
    x = leaf(2)
    for _ in range(3 * traversal._LONGEST_FALL):
        x = x.sin()
    assert marks(x) == [traversal._KEPT] * 3


def test_walk_marks_nodes_of_a_deep_graph_with_a_shortcut() -> None:
    x = leaf(2)
    steps = [x.sin()]
    for _ in range(3 * traversal._LONGEST_FALL):
        steps.append(steps[-1].sin())
    ends = steps[1] + steps[-1]
    del steps
    assert marks(ends) == [traversal._KEPT] * 3


def test_walk_to_an_edge_returns_the_nodes_on_the_way_in_forward_order() -> None:
    x = leaf(2)
    a = x.sin()
    b = (a * a + x.cos()) * leaf(2)
    nodes, edge = traversal.walk_to((node_of(a), 0), node_of(b))
    assert edge == (node_of(a), 0)
    assert [_autograd.node_name(node) for node in nodes] == [
        *("MulBackward0", "AddBackward0", "MulBackward0")
    ]
    assert traversal.walk_to((node_of(leaf(2).sin()), 0), node_of(b))[0] == {}


def test_walk_to_a_leaf_returns_its_edge() -> None:
    x, y = leaf(2), leaf(2)
    a = x.sin() * y
    nodes, edge = traversal.walk_to(y, node_of(a))
    assert list(nodes) == [node_of(a)]
    assert edge == _autograd.edge_by_use(y)
    assert traversal.walk_to(leaf(2), node_of(a)) == ({}, None)


def test_numbered_output_is_sequence_number_of_node_and_output_number() -> None:
    x = holding(1.0, 2.0) * 1
    first, second = map(_autograd.numbered_output, x.unbind())
    assert first is not None
    assert (first[1], second) == (0, (first[0], 1))
    assert _autograd.numbered_output(holding(1.0)) is None
    assert _autograd.numbered_output(torch.ones(1)) is None
    invalid, _ = x.unbind()
    x.mul_(2.0)
    assert _autograd.numbered_output(invalid) is None
