"""Facts about tensors, one test each."""

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import _autograd
from leafgrad._autograd.tensor import facts, inner_tensors
from tests.tensors import custom, leaf
from tests.trace.test_trace_graph import Wrapped


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


def watched() -> Watching:
    tensor = leaf(2).as_subclass(Watching)
    Watching.calls.clear()
    return tensor


def test_plain_computation_bypasses_modes_and_transforms(watching_mode: Any) -> None:
    made: list[torch.Tensor] = []

    def compute(x: torch.Tensor) -> torch.Tensor:
        with _autograd.plain_computation():
            made.append(torch.arange(2) + 1)
        return x

    x = torch.ones(2)
    with FakeTensorMode():
        compute(x)
    with torch.inference_mode():
        compute(x)
    torch.func.functionalize(compute)(x)
    with watching_mode:
        watching_mode.calls.clear()
        compute(x)
        assert not watching_mode.calls
    for one in made:
        assert type(one) is torch.Tensor
        assert not one.is_inference()
        assert not torch._is_functional_tensor(one)
        assert one.tolist() == [1, 2]


def test_is_parameter_recognises_type_and_mark() -> None:
    parameters = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(watched())]
    others = [torch.ones(2), torch.nn.Buffer(torch.ones(2)), watched()]
    Watching.calls.clear()
    assert [*map(_autograd.is_parameter, parameters + others)] == [True] * 2 + [False] * 3
    assert _autograd.is_parameter(torch.nn.LazyLinear(2).weight)
    assert Watching.calls == []


def test_base_of_view_is_the_viewed_tensor() -> None:
    leaf = torch.ones(2, 3, requires_grad=True)
    assert _autograd.base(leaf[:, 1:][0]) is leaf
    assert _autograd.base(leaf) is None


class Marked(torch.Tensor):
    """A subclass without code."""


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_facts_equal_the_values_of_separate_functions() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)
    plain = torch.ones(2, 3, dtype=torch.float64)
    strided = torch.nested.nested_tensor([torch.ones(2), torch.ones(4)], layout=torch.strided)
    tensors = [weight, weight.t(), weight.detach(), plain, plain[0], strided]
    for one in (*tensors, plain.to_sparse(), *(tensor.as_subclass(Marked) for tensor in tensors)):
        identity, nbytes = _autograd.storage(one) or (None, None)
        is_own = any(map(_autograd.is_parameter, (one, one if one._base is None else one._base)))
        told = _autograd.shape(one), one.dtype, one.device, nbytes
        assert facts(one) == (identity, (*told, is_own))
        assert facts(one, {identity}) == (identity, (*told, True))


def test_storages_of_parameters_leave_out_other_tensors() -> None:
    whole, other = torch.ones(4), torch.ones(2)
    parameters = [torch.nn.Parameter(whole), torch.nn.Parameter(torch.eye(2).to_sparse())]
    other._is_param = True
    own = {tensor.untyped_storage()._cdata for tensor in (whole, other)}
    assert _autograd.storages_of_parameters([*parameters, other, torch.ones(3)]) == own


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_shape_of_nested_tensor_contains_ragged(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    assert _autograd.shape(nested) == (2, "ragged", 3)


def symbolic(environment: ShapeEnv) -> torch.Tensor:
    sizes = [DimDynamic.DYNAMIC, DimDynamic.STATIC]
    return FakeTensorMode(shape_env=environment).from_tensor(
        torch.ones(5, 3), symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes)
    )


def test_symbolic_size_adds_no_guard() -> None:
    environment = ShapeEnv()
    tensor = symbolic(environment)
    symbol, columns = _autograd.shape(tensor) or ()
    assert isinstance(symbol, str)
    assert re.fullmatch(r"s\d+", symbol)
    assert columns == 3
    assert environment.guards == []


def test_number_of_bytes_of_symbolic_size_is_none() -> None:
    environment = ShapeEnv()
    y = symbolic(environment).requires_grad_().sin()
    _, (*_, nbytes, _) = facts(y)
    assert nbytes is None
    (kept,) = _autograd.read_saved([_autograd.gradient_edge(y)[0]], ())  # type: ignore[index]
    assert (kept.name, kept.state) == ("self", "live")
    assert environment.guards == []


def test_function_modes_are_counted(watching_mode: Any) -> None:
    before = _autograd.function_modes()
    with watching_mode:
        inside = _autograd.function_modes()
    assert (before, inside) == (0, 1)


def test_inner_tensors_of_a_wrapper_are_those_that_it_shows() -> None:
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    wrapped = dict(inner_tensors(ragged) or [])
    assert {"._values", "._offsets"} <= wrapped.keys()
    assert wrapped["._values"].shape == (5,)
    assert inner_tensors(Wrapped.around(torch.ones(2))) == []
    others = [torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.eye(2).to_sparse()]
    with torch._subclasses.FakeTensorMode():
        others.append(torch.ones(2))
    assert [inner_tensors(other) for other in others] == [None] * 4


def test_batched_gradient_is_detected() -> None:
    seen = []

    def look(gradient: torch.Tensor) -> torch.Tensor:
        seen.append(_autograd.is_batch(gradient))
        return gradient

    x, units = leaf(2), torch.eye(2)
    y = custom(look)(x)
    torch.autograd.grad(y, x, units[0], retain_graph=True)
    torch.autograd.grad(y, x, units, is_grads_batched=True, retain_graph=True)
    torch.func.vmap(lambda unit: torch.autograd.grad(y, x, unit, retain_graph=True))(units)
    assert seen == [False, True, True]


# --- Reading values


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(2)


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


def emptied(nbytes: int) -> torch.Tensor:
    tensor = torch.ones(2)
    tensor.untyped_storage().resize_(nbytes)
    return tensor


READABLE: dict[str, Callable[[], torch.Tensor]] = {
    "float": lambda: torch.ones(2),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "complex view": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "boolean": lambda: torch.ones(2, dtype=torch.bool),
    "inference": lambda: torch.inference_mode()(torch.ones)(2),
    "empty": lambda: torch.ones(0),
    "expanded": lambda: torch.ones(1).expand(1000),
    "at the end of its memory": lambda: torch.ones(9)[8:],
    "transposed": lambda: torch.ones(2, 3).T,
}
UNREADABLE: dict[str, Callable[[], torch.Tensor]] = {
    "meta": lambda: torch.ones(2, device="meta"),
    "sparse": lambda: torch.ones(2).to_sparse(),
    "fake": fake,
    "jagged": nested,
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
    "packed bits": lambda: torch.ones(2, dtype=torch.uint8).view(torch.bits8),
    "functionalized": lambda: torch._to_functional_tensor(torch.ones(2)),
    "without memory": lambda: emptied(0),
    "with too little memory": lambda: emptied(4),
}


@pytest.mark.parametrize("made", READABLE.values(), ids=READABLE)
def test_ordinary_tensors_are_readable(made: Callable[[], torch.Tensor]) -> None:
    assert _autograd.why_unread(made()) is None


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("made", UNREADABLE.values(), ids=UNREADABLE)
def test_tensors_without_numbers_are_unreadable(made: Callable[[], torch.Tensor]) -> None:
    assert _autograd.why_unread(made()) is not None


WITHOUT_ONE_STORAGE: dict[str, Callable[[], torch.Tensor]] = {
    "sparse": UNREADABLE["sparse"],
    "fake": fake,
    "jagged": nested,
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("made", WITHOUT_ONE_STORAGE.values(), ids=WITHOUT_ONE_STORAGE)
def test_tensor_without_single_storage_lacks_no_memory(made: Callable[[], torch.Tensor]) -> None:
    assert _autograd.lacking_memory(made()) is None


@pytest.mark.parametrize(
    ("nbytes", "why"), [(0, "its storage holds nothing"), (4, "its storage holds too little")]
)
def test_shrunk_storage_lacks_memory(nbytes: int, why: str) -> None:
    assert _autograd.why_unread(emptied(nbytes)) == why


def test_tensor_inside_transform_is_unreadable() -> None:
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(_autograd.why_unread(x))
        return x * x

    torch.func.grad(look)(torch.tensor(2.0))
    assert seen == ["it is inside torch.func"]


def test_below_autograd_hides_operations_from_modes_and_graph() -> None:
    calls = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(1, requires_grad=True)
    watch: Any = Watch
    with watch():
        with _autograd.below_autograd():
            y = x + 1.0
        assert calls == []
        assert (x + 1.0).requires_grad
        assert calls != []
    assert not y.requires_grad


def test_stack_of_function_modes_leaves_out_the_default_device(watching_mode: Any) -> None:
    before = _autograd.function_mode_stack()
    with watching_mode as mode, torch.device("cpu"):
        assert _autograd.function_mode_stack() == [*before, mode]


def test_joint_norm_accepts_any_dtype_without_overflow() -> None:
    tensors = [torch.tensor([3.0, 4.0]), torch.tensor([12.0], dtype=torch.float64)]
    assert _autograd.joint_norm(tensors, 2).item() == 13.0
    large = [torch.full((9,), 6e4, dtype=torch.float16)] * 3
    assert _autograd.joint_norm(large, torch.inf).item() == large[0][0]
