"""One test a fact about the private parts of PyTorch that leafgrad relies on."""

import gc
import re
import subprocess
import sys
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import Node
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import _autograd

# --- tensors


class Watching(torch.Tensor):
    """A subclass that records every call of its own code."""

    calls: ClassVar[list[object]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]

    @property
    def shape(self) -> Any:  # type: ignore[override]
        self.calls.append("shape")
        return "anything"

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        raise AttributeError(name)


class WatchingMode(TorchFunctionMode):
    """A mode that records every call that it is shown."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


class WatchingDispatchMode(TorchDispatchMode):
    """A mode that records every operation that reaches PyTorch's kernels."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def watched() -> Watching:
    tensor = leaf(2).as_subclass(Watching)
    Watching.calls.clear()
    return tensor


def view_under_no_grad(base: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return base[:]


def test_a_subclass_sees_reads_from_outside_and_none_while_unobserved() -> None:
    tensor = watched()
    with _autograd.unobserved():
        assert tensor.requires_grad
    assert Watching.calls == []
    assert tensor.requires_grad
    assert len(Watching.calls) == 1


def test_a_mode_sees_reads_and_none_while_unobserved() -> None:
    tensor = watched()
    with WatchingMode() as mode:
        with _autograd.unobserved():
            assert tensor.requires_grad
        assert mode.calls == []
        assert tensor.requires_grad
        assert len(mode.calls) == 1


def test_a_plain_read_passes_by_what_a_subclass_puts_in_its_place() -> None:
    tensor = watched()
    with _autograd.unobserved():
        assert tensor.shape == "anything"
        Watching.calls.clear()
        assert _autograd.plain(tensor, "shape") == (2,)
    assert Watching.calls == []


@pytest.mark.parametrize(
    ("tensor", "is_parameter"),
    [
        (torch.nn.Parameter(torch.ones(2)), True),
        (torch.nn.Parameter(watched()), True),
        (torch.nn.LazyLinear(2).weight, True),
        (torch.ones(2), False),
        (torch.nn.Buffer(torch.ones(2)), False),
        (watched(), False),
    ],
    ids=["plain", "subclass", "lazy", "tensor", "buffer", "watching"],
)
def test_a_parameter_is_told_by_its_type_or_by_its_mark(
    tensor: torch.Tensor, *, is_parameter: bool
) -> None:
    Watching.calls.clear()
    assert _autograd.is_parameter(tensor) is is_parameter
    assert Watching.calls == []


def test_a_slice_is_a_view_and_a_detached_tensor_is_none() -> None:
    assert _autograd.is_view(leaf(2)[:1])
    assert not _autograd.is_view(leaf(2).detach())
    assert not _autograd.is_view(leaf(2))


def test_the_version_counts_writes_and_an_inference_tensor_has_none() -> None:
    assert _autograd.version(torch.ones(2).add_(1).mul_(2)) == 2
    with torch.inference_mode():
        tensor = torch.ones(2)
    assert _autograd.version(tensor) is None
    with pytest.raises(RuntimeError, match="do not track version"):
        tensor._version  # noqa: B018


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_has_a_ragged_size(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    assert _autograd.shape(nested) == (2, "ragged", 3)


def test_a_symbolic_size_is_read_as_its_symbol_and_not_settled() -> None:
    environment = ShapeEnv()
    sizes = [DimDynamic.DYNAMIC, DimDynamic.STATIC]
    tensor = FakeTensorMode(shape_env=environment).from_tensor(
        torch.ones(5, 3), symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes)
    )
    symbol, columns = _autograd.shape(tensor) or ()
    assert isinstance(symbol, str)
    assert re.fullmatch(r"s\d+", symbol)
    assert columns == 3
    assert environment.guards == []


@pytest.mark.parametrize("size", [(), (0,), (2, 3)])
def test_any_other_shape_is_a_tuple_of_numbers(size: tuple[int, ...]) -> None:
    assert _autograd.shape(torch.empty(size)) == size


def test_a_lazy_parameter_has_no_shape_until_it_has_a_value() -> None:
    module = torch.nn.LazyLinear(2)
    assert _autograd.shape(module.weight) is None
    module(torch.ones(5, 3))
    assert _autograd.shape(module.weight) == (2, 3)


def with_grad(tensor: torch.Tensor) -> torch.Tensor:
    tensor.grad = torch.ones_like(tensor)
    return tensor


@pytest.mark.parametrize(
    ("tensor", "has_grad"),
    [
        (leaf(2), False),
        (with_grad(leaf(2)), True),
        (with_grad(torch.ones(2)), True),
        (leaf(2) * 2, False),
        (with_grad(leaf(2) * 2), True),
        (with_grad(torch.ones(2)).mul_(leaf(2)), True),
    ],
    ids=["leaf", "filled leaf", "constant", "non-leaf", "assigned", "turned non-leaf"],
)
def test_a_gradient_is_seen_wherever_it_is(tensor: torch.Tensor, *, has_grad: bool) -> None:
    assert _autograd.has_grad(tensor) is has_grad


def test_asking_a_non_leaf_for_its_gradient_is_silent_and_spoils_no_later_warning() -> None:
    tensor = leaf(2) * 2
    filters = list(warnings.filters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not _autograd.has_grad(tensor)
    assert caught == []
    assert warnings.filters == filters
    with pytest.warns(UserWarning, match="not a leaf"):
        assert tensor.grad is None


def test_a_write_makes_some_views_invalid_and_brings_others_up_to_date() -> None:
    base = leaf(2)
    followed, from_unbind, from_no_grad = base[:], base.unbind()[0], view_under_no_grad(base)
    views = [followed, from_unbind, from_no_grad]
    assert [_autograd.is_invalid_view(view) for view in views] == [False] * 3
    with torch.no_grad():
        base.add_(1)
    assert [_autograd.is_invalid_view(view) for view in views] == [False, True, True]
    with pytest.raises(RuntimeError, match="modified inplace"):
        from_unbind.is_leaf  # noqa: B018


def test_the_gradient_of_an_invalid_view_is_seen_as_well() -> None:
    base = leaf(2)
    empty, filled = base.unbind()
    with_grad(filled)
    with torch.no_grad():
        base.add_(1)
    assert [_autograd.has_grad(view) for view in (empty, filled)] == [False, True]


def test_a_node_is_named_as_pytorch_names_it() -> None:
    assert _autograd.grad_fn_name(leaf(2) * 2) == "MulBackward0"
    assert _autograd.grad_fn_name(leaf(2)) is None
    written = torch.ones(2)
    written[:1] = leaf(1)
    assert _autograd.grad_fn_name(written) == "CopySlices"


NAME_STEP_BY_STEP = """
import threading
import torch
from leafgrad import _autograd

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
    print(stride, len(_autograd._KeptSuccessors.waiting.queue))

threading.stack_size(256 * 1024)
for stride in (1, -1, 3):
    thread = threading.Thread(target=build_name_and_free, args=(stride,))
    thread.start()
    thread.join()
"""


def test_a_deep_graph_whose_steps_were_named_can_be_freed_on_a_small_stack() -> None:
    run = subprocess.run(
        [sys.executable, "-c", NAME_STEP_BY_STEP], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "1 0\n-1 0\n3 0\n", "")


def depth_of_the_stack() -> int:
    return sum(1 for _ in traceback.walk_stack(None))


class Falling:
    """Stands for a node: notes how deep the stack is when it dies, and what it holds dies next."""

    depths: ClassVar[list[int]] = []

    def __init__(self, held: object) -> None:
        self.held = held

    def __del__(self) -> None:
        self.depths.append(depth_of_the_stack())


def test_successors_die_after_one_another_and_not_within_one_another() -> None:
    chain: Any = None
    for _ in range(20):
        chain = Falling(_autograd._KeptSuccessors(((chain, 0),)))
    Falling.depths.clear()
    del chain
    assert len(Falling.depths) == 20
    assert max(Falling.depths) <= depth_of_the_stack() + 2


def test_only_a_leaf_with_a_flag_of_its_own_has_an_accumulator() -> None:
    base = leaf(2)
    constant = torch.ones(2)
    early = constant[:]
    constant.requires_grad_()
    assert _autograd.has_accumulator(base)
    assert _autograd.has_accumulator(torch.ones(2)[:].requires_grad_())
    assert _autograd.has_accumulator(view_under_no_grad(base).requires_grad_())
    assert not _autograd.has_accumulator(view_under_no_grad(base))
    assert not _autograd.has_accumulator(early)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_view_of_a_nested_tensor_is_told_apart_as_well() -> None:
    base = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], requires_grad=True)
    with torch.no_grad():
        view = base.transpose(1, 2)
    assert not _autograd.has_accumulator(view)
    assert _autograd.has_accumulator(view.requires_grad_())


def test_looking_for_an_accumulator_leaves_no_trace_in_the_thread_that_asks() -> None:
    view = view_under_no_grad(leaf(2))
    sequence_number = torch._C._autograd._get_sequence_nr()
    modes = WatchingMode(), WatchingDispatchMode()
    with modes[0] as functions, modes[1] as operations, _autograd.unobserved():
        assert not _autograd.has_accumulator(view)
    assert (functions.calls, operations.calls) == ([], [])
    assert torch._C._autograd._get_sequence_nr() == sequence_number
    with torch.inference_mode():
        assert not _autograd.has_accumulator(view)


def wrappers_seen(transform: Callable[..., Any]) -> list[str | None]:
    """Name the wrapper of the argument inside a transform, and of the tensor in that, and so on."""
    seen: list[str | None] = []

    def look(tensor: torch.Tensor) -> torch.Tensor:
        inside = tensor
        while seen[-1:] != [None]:
            seen.append(_autograd.functorch_wrapper(inside))
            inside = _autograd.unwrapped(inside) if seen[-1] else inside
        return tensor.sum()

    transform(look)(leaf(2, 2))
    return seen


def pushed_forward(look: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensor: torch.func.jvp(look, (tensor,), (tensor,))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("transform", "wrappers"),
    [
        (lambda look: look, [None]),
        (torch.vmap, ["vmap, level 1", None]),
        (torch.func.grad, ["grad, level 1", None]),
        (pushed_forward, ["jvp, level 1", None]),
        (torch.func.functionalize, ["functionalize, level 1", None]),
        (lambda look: torch.vmap(torch.func.grad(look)), ["grad, level 2", "vmap, level 1", None]),
    ],
    ids=["none", "vmap", "grad", "jvp", "functionalize", "grad in vmap"],
)
def test_a_wrapper_tells_its_transform_and_level(
    transform: Callable[..., Any], wrappers: list[str | None]
) -> None:
    assert wrappers_seen(transform) == wrappers


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.grad])
def test_a_wrapper_that_outlives_its_transform_is_told_apart(
    transform: Callable[..., Any],
) -> None:
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor * 1)
        return tensor.sum()

    transform(keep)(leaf(2))
    assert _autograd.functorch_wrapper(kept[0]) == "ended"


# --- nodes


def recorded(tensor: torch.Tensor) -> Any:
    """Give the node of a result."""
    assert tensor.grad_fn is not None
    return tensor.grad_fn


def outcome_of(function: Any, *inputs: torch.Tensor) -> Any:
    return function.apply(*inputs)


class Doubled(torch.autograd.Function):
    """Keeps its input, nothing, and its output; and some of it on ctx."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        doubled = 2 * x
        ctx.save_for_backward(x, None, doubled)
        ctx.factor, ctx.mask, ctx.pair = 2, x > 0, [x.detach(), "two"]
        return doubled

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.factor * gradients[0]


def test_a_node_knows_its_name_where_its_type_does_not() -> None:
    node = recorded(torch._foreach_exp([leaf(2)])[0])
    assert _autograd.node_name(node) == "ForeachExpBackward0"
    assert type(node).__name__ == "CppFunction"


def test_a_node_pairs_each_input_with_the_output_that_it_was() -> None:
    x = leaf(3)
    first, _, third = x.unbind()
    unbind = recorded(first)
    assert _autograd.next_functions(recorded(first * third)) == ((unbind, 0), (unbind, 2))
    assert _autograd.next_functions(recorded(x * torch.ones(3)))[1] == (None, 0)


def test_a_node_knows_what_its_operation_made() -> None:
    node = recorded(torch.ones(2, 3, dtype=torch.complex64, requires_grad=True).unbind()[0])
    cpu = torch.device("cpu")
    assert _autograd.forward_outputs(node) == (((3,), torch.complex64, cpu),) * 2


def test_a_node_knows_no_shape_of_a_strided_nested_tensor_and_words_of_a_ragged_one() -> None:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    with warnings.catch_warnings(action="ignore"):
        strided = torch.nested.nested_tensor(parts, layout=torch.strided, requires_grad=True)
    assert _autograd.forward_outputs(recorded(ragged * 2))[0].shape == (2, "ragged", 3)
    assert _autograd.forward_outputs(recorded(strided * 2))[0].shape is None


def test_only_an_accumulator_has_a_leaf_whatever_else_stands_on_a_ctx() -> None:
    x = leaf(2)
    doubled = recorded(outcome_of(Doubled, x))
    doubled.variable = x
    assert _autograd.leaf_variable(doubled) is None
    assert _autograd.leaf_variable(doubled.next_functions[0][0]) is x


def test_a_node_knows_the_custom_function_that_made_it() -> None:
    assert _autograd.forward_class(recorded(outcome_of(Doubled, leaf(2)))) is Doubled
    assert _autograd.forward_class(recorded(leaf(2) * 2)) is None


def test_a_gradient_arrives_where_autograd_would_send_it() -> None:
    x = leaf(3)
    third = x.unbind()[2]
    node = recorded(x * 2).next_functions[0][0]
    assert _autograd.gradient_edge(third) == (recorded(third), 2)
    with torch.inference_mode():
        assert _autograd.gradient_edge(x) == (node, 0)
    assert _autograd.gradient_edge(torch.ones(3)) is None
    with torch.no_grad():
        unrecorded = x[0]
    assert _autograd.gradient_edge(unrecorded) is None


def test_a_storage_is_told_by_its_identity_and_has_its_bytes_where_there_is_one() -> None:
    whole = torch.ones(4, dtype=torch.float64)
    assert _autograd.storage(whole[1:]) == _autograd.storage(whole)
    assert _autograd.storage(whole.clone()) != _autograd.storage(whole)
    memory = _autograd.storage(whole[1:])
    assert memory is not None
    assert memory[1] == 32
    assert _autograd.storage(whole.to_sparse()) is None


def test_a_view_of_a_parameter_is_told_from_other_tensors() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)
    tensors = [weight, weight.t(), weight.detach(), torch.ones(2)]
    assert [_autograd.is_parameter_or_view(t) for t in tensors] == [True, True, False, False]


def slot_states(tensor: torch.Tensor) -> dict[str, str]:
    return {slot.name: slot.state for slot in _autograd.saved_slots(recorded(tensor))}


def versions(tensor: torch.Tensor) -> dict[str, tuple[int | None, int | None]]:
    slots = _autograd.saved_slots(recorded(tensor))
    return {slot.name: (slot.saved_version, slot.current_version) for slot in slots}


def refuse(*_: object) -> Any:
    raise AssertionError("a hook was called")


def test_a_saved_tensor_is_read_where_it_is() -> None:
    x = leaf(2)
    (slot,) = _autograd.saved_slots(recorded(x.sin()))
    assert slot.name == "self"
    assert slot.tensor is x
    (own,) = _autograd.saved_slots(recorded(y := x.exp()))
    assert own.name == "result"
    assert own.tensor is not None
    assert own.tensor.data_ptr() == y.data_ptr()


def test_a_freed_slot_is_told_from_one_that_never_held_a_tensor() -> None:
    y = torch.nn.functional.layer_norm(leaf(2), (2,))
    before = slot_states(y)
    y.sum().backward()
    assert before == {"input": "live", "result1": "live", "result2": "live"}
    assert slot_states(y) == {"input": "freed", "result1": "freed", "result2": "freed"}


def test_a_hook_is_seen_and_not_called() -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda _: None, refuse):
        y = leaf(2).sin()
    assert slot_states(y) == {"self": "packed"}


def test_a_checkpoint_is_seen_and_not_run_again() -> None:
    runs: list[None] = []

    def block(x: torch.Tensor) -> torch.Tensor:
        runs.append(None)
        return x.sin()

    y = torch.utils.checkpoint.checkpoint(block, leaf(2), use_reentrant=False)
    assert slot_states(y) == {"self": "recompute"}
    assert len(runs) == 1


def test_a_list_of_saved_tensors_is_numbered() -> None:
    y = torch._foreach_div([leaf(2), leaf(2)], [leaf(2), leaf(2)])[0]
    names = ["other[0]", "other[1]", "self[0]", "self[1]"]
    assert slot_states(y) == dict.fromkeys(names, "live")


def test_a_custom_function_shows_what_it_saved_and_what_it_keeps_on_its_ctx() -> None:
    x = leaf(2)
    y = outcome_of(Doubled, x)
    names = ["saved_tensors[0]", "saved_tensors[2]", "ctx.mask", "ctx.pair[0]"]
    assert slot_states(y) == dict.fromkeys(names, "live")
    assert _autograd.saved_slots(recorded(y))[0].tensor is x


def test_a_custom_function_is_freed_as_one_but_for_what_is_on_its_ctx() -> None:
    y = outcome_of(Doubled, leaf(2))
    y.sum().backward()
    assert slot_states(y) == {"saved_tensors": "freed", "ctx.mask": "live", "ctx.pair[0]": "live"}


def test_a_write_in_place_shows_in_the_versions() -> None:
    a = leaf(2) * 1
    y = a.sin()
    assert versions(y) == {"self": (0, 0)}
    a.add_(1)
    assert versions(y) == {"self": (0, 1)}
    assert versions(a.cos()) == {"self": (1, 1)}


def test_a_write_into_a_nodes_own_saved_output_shows_as_well() -> None:
    y = leaf(2).exp()
    node = recorded(y)
    y.add_(1)
    (slot,) = _autograd.saved_slots(node)
    assert (slot.saved_version, slot.current_version) == (0, 1)
    relu = torch.relu_(leaf(2) * 1)
    assert versions(relu) == {"result": (1, 1)}


class Kept(torch.autograd.Function):
    """Keeps its two inputs and its two outputs."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = a * b, a + b
        ctx.save_for_backward(a, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return ctx.saved_tensors[0], None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param((), [(0, 0), (0, 0), (0, 0)], id="nothing"),
        pytest.param((0,), [(0, 1), (0, 0), (0, 0)], id="the input"),
        pytest.param((1,), [(0, 0), (0, 1), (0, 0)], id="an output"),
        pytest.param((0, 1), [(0, 1), (None, 1), (0, 0)], id="the input and an output"),
        pytest.param((1, 2), [(0, 0), (None, 1), (None, 1)], id="both outputs"),
    ],
)
def test_a_saved_version_is_told_only_where_pytorch_lets_it_be_known(
    written: tuple[int, ...], expected: list[tuple[int | None, int]]
) -> None:
    a = leaf(2) * 1
    outputs = outcome_of(Kept, a, leaf(2))
    node = recorded(outputs[0])
    for number in written:
        with torch.no_grad():
            (a, *outputs)[number].add_(1)
    found = [(slot.saved_version, slot.current_version) for slot in _autograd.saved_slots(node)]
    assert found == expected


def test_no_hook_is_called_to_learn_the_version_of_an_own_output() -> None:
    outputs = outcome_of(Kept, leaf(2) * 1, leaf(2))
    node = recorded(outputs[0])
    node._raw_saved_tensors[0].register_hooks(lambda _: None, refuse)
    node._raw_saved_tensors[2].register_hooks(lambda _: None, refuse)
    with torch.no_grad():
        outputs[0].add_(1)
    slots = _autograd.saved_slots(node)
    assert [slot.state for slot in slots] == ["packed", "live", "packed"]
    assert slots[1].saved_version is None


def test_reading_what_a_custom_function_saved_does_not_keep_its_class_alive() -> None:
    def made() -> weakref.ref[type]:
        class Passing(Doubled):
            pass

        assert _autograd.saved_slots(recorded(outcome_of(Passing, leaf(2))))
        return weakref.ref(Passing)

    passing = made()
    gc.collect()
    assert passing() is None


def test_a_walk_meets_every_node_once_and_before_its_successors() -> None:
    x = leaf(2)
    a = x.sin()
    b = a * a + x.cos()
    names = [_autograd.node_name(node) for node in _autograd.walk([recorded(b), recorded(a)])]
    kinds = ["Add", "Mul", "Cos", "Sin"]
    assert names == [*(f"{kind}Backward0" for kind in kinds), "AccumulateGrad"]


def marks(tensor: torch.Tensor) -> list[object]:
    nodes: Iterable[Any] = _autograd.walk([recorded(tensor)])
    return [mark for node in nodes for mark in node.metadata]


def test_a_walk_leaves_a_shallow_graph_as_it_is() -> None:
    x = leaf(2)
    for _ in range(_autograd._LONGEST_FALL - 1):
        x = x.sin()
    assert marks(x) == []


def test_a_walk_marks_one_node_in_every_so_many_of_a_deep_graph() -> None:
    x = leaf(2)
    for _ in range(3 * _autograd._LONGEST_FALL):
        x = x.sin()
    assert marks(x) == [_autograd._KEPT] * 3


# --- paths


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


def test_the_edge_of_a_leaf_leads_to_its_accumulator() -> None:
    leaf = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        edge = _autograd.edge(leaf)
    assert edge == node_of(leaf * 2).next_functions[0]


def test_the_edge_of_a_result_leads_to_the_node_and_output_that_made_it() -> None:
    parts = torch.ones(2, requires_grad=True).unbind()
    assert _autograd.edge(parts[1]) == (parts[0].grad_fn, 1)


def test_a_constant_and_an_unrecorded_view_have_no_edge() -> None:
    leaf = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        view = leaf[:1]
    assert view.requires_grad
    assert _autograd.edge(view) is _autograd.edge(torch.ones(2)) is None


def test_the_nodes_between_are_those_on_a_path_and_no_others() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in "xy")
    inner = x.exp()
    outputs = inner.sin() * y.cos() + inner
    between = _autograd.nodes_between(outputs, x)
    assert between is not None
    assert {_autograd.node_name(node) for node in between} == {
        *("AddBackward0", "MulBackward0", "SinBackward0", "ExpBackward0")
    }


def test_nothing_is_between_a_tensor_and_itself_and_no_path_is_none() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in "xy")
    assert _autograd.nodes_between(x, x) == []
    assert _autograd.nodes_between(x * 2, y) is None
    assert _autograd.nodes_between(torch.ones(2), y) is None
    assert _autograd.nodes_between(y, torch.ones(2)) is None


def test_another_output_of_the_same_node_is_not_on_the_path() -> None:
    first, second = torch.ones(2, requires_grad=True).unbind()
    assert _autograd.nodes_between(first * 2, second) is None


def test_a_view_knows_its_base() -> None:
    leaf = torch.ones(2, 3, requires_grad=True)
    assert _autograd.base(leaf[:, 1:][0]) is leaf
    assert _autograd.base(leaf) is None


def test_a_formula_of_pytorch_has_a_type_of_its_own() -> None:
    x = torch.ones(2, requires_grad=True)
    assert _autograd.is_own_formula(node_of(x.exp()))
    assert not _autograd.is_own_formula(node_of(applied(Cube, x)))
    assert not _autograd.is_own_formula(node_of(torch._foreach_exp([x])[0]))


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


def test_an_operator_without_a_backward_is_known() -> None:
    library = torch.library.Library("leafgrad_door", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x.detach().exp(), "CPU")
    x = torch.ones(2, requires_grad=True)
    assert _autograd.lacks_formula(node_of(torch.ops.leafgrad_door.f(x)))
    assert not _autograd.lacks_formula(node_of(x.exp()))


def test_a_once_differentiable_backward_leads_to_a_refusal() -> None:
    x = torch.ones(2, requires_grad=True)
    (gradient,) = _autograd.backward_alone(node_of(applied(CubeOnce, x)))
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
    assert [kept is x for kept in _autograd.kept_tensors(node_of(applied(Cube, x)))] == [True, True]


def test_a_backward_run_alone_records_and_fires_no_hook() -> None:
    x = torch.full((2,), 2.0, requires_grad=True)
    result = applied(Cube, x)
    result.register_hook(lambda _: pytest.fail("a hook ran"))
    (gradient,) = _autograd.backward_alone(node_of(result))
    assert gradient.tolist() == [12.0, 12.0]
    assert gradient.requires_grad
    assert x.grad is None
