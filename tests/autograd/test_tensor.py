"""One test a fact about what a tensor is."""

import re
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from leafgrad import _autograd
from leafgrad._autograd.tensor import facts, inner_tensors, is_parameter_or_view
from tests.tensors import leaf
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


def test_a_mode_sees_reads_and_none_while_unobserved(watching_mode: Any) -> None:
    tensor = watched()
    with watching_mode as mode:
        with _autograd.unobserved():
            assert tensor.requires_grad
        assert mode.calls == []
        assert tensor.requires_grad
        assert len(mode.calls) == 1


def test_a_plain_computation_passes_by_modes_and_transforms(watching_mode: Any) -> None:
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


def test_a_view_knows_its_base() -> None:
    leaf = torch.ones(2, 3, requires_grad=True)
    assert _autograd.base(leaf[:, 1:][0]) is leaf
    assert _autograd.base(leaf) is None


def test_a_view_of_a_parameter_is_told_from_other_tensors() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)
    tensors = [weight, weight.t(), weight.detach(), torch.ones(2)]
    assert [is_parameter_or_view(t) for t in tensors] == [True, True, False, False]


class Marked(torch.Tensor):
    """A subclass without code of its own."""


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_facts_of_a_tensor_are_those_that_are_told_one_by_one() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)
    plain = torch.ones(2, 3, dtype=torch.float64)
    strided = torch.nested.nested_tensor([torch.ones(2), torch.ones(4)], layout=torch.strided)
    tensors = [weight, weight.t(), weight.detach(), plain, plain[0], strided]
    for one in (*tensors, plain.to_sparse(), *(tensor.as_subclass(Marked) for tensor in tensors)):
        identity, nbytes = _autograd.storage(one) or (None, None)
        is_own = is_parameter_or_view(one)
        told = _autograd.shape(one), one.dtype, one.device, nbytes
        assert facts(one) == (identity, (*told, is_own))
        assert facts(one, {identity}) == (identity, (*told, True))


def test_the_version_counts_writes_and_an_inference_tensor_has_none() -> None:
    assert _autograd.version(torch.ones(2).add_(1).mul_(2)) == 2
    with torch.inference_mode():
        tensor = torch.ones(2)
    assert _autograd.version(tensor) is None
    with pytest.raises(RuntimeError, match="do not track version"):
        tensor._version  # noqa: B018


def test_a_storage_is_told_by_its_identity_and_has_its_bytes_where_there_is_one() -> None:
    whole = torch.ones(4, dtype=torch.float64)
    assert _autograd.storage(whole[1:]) == _autograd.storage(whole)
    assert _autograd.storage(whole.clone()) != _autograd.storage(whole)
    memory = _autograd.storage(whole[1:])
    assert memory is not None
    assert memory[1] == 32
    assert memory[0] == whole.untyped_storage()._cdata
    assert _autograd.storage(whole.to_sparse()) is None


def test_of_parameters_the_storages_are_told_those_that_there_are() -> None:
    whole, other = torch.ones(4), torch.ones(2)
    parameters = [torch.nn.Parameter(whole), torch.nn.Parameter(torch.eye(2).to_sparse())]
    other._is_param = True
    own = {tensor.untyped_storage()._cdata for tensor in (whole, other)}
    assert _autograd.storages_of_parameters([*parameters, other, torch.ones(3)]) == own


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_has_a_ragged_size(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    assert _autograd.shape(nested) == (2, "ragged", 3)


def symbolic(environment: ShapeEnv) -> torch.Tensor:
    sizes = [DimDynamic.DYNAMIC, DimDynamic.STATIC]
    return FakeTensorMode(shape_env=environment).from_tensor(
        torch.ones(5, 3), symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes)
    )


def test_a_symbolic_size_is_read_as_its_symbol_and_not_settled() -> None:
    environment = ShapeEnv()
    tensor = symbolic(environment)
    symbol, columns = _autograd.shape(tensor) or ()
    assert isinstance(symbol, str)
    assert re.fullmatch(r"s\d+", symbol)
    assert columns == 3
    assert environment.guards == []


def test_symbolic_bytes_are_no_number_and_not_settled() -> None:
    environment = ShapeEnv()
    y = symbolic(environment).requires_grad_().sin()
    _, (*_, nbytes, _) = facts(y)
    assert nbytes is None
    (kept,) = _autograd.read_saved([_autograd.gradient_edge(y)[0]], ())  # type: ignore[index]
    assert (kept.name, kept.state) == ("self", "live")
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


def test_the_modes_that_see_calls_are_counted(watching_mode: Any) -> None:
    before = _autograd.function_modes()
    with watching_mode:
        inside = _autograd.function_modes()
    assert (before, inside) == (0, 1)


def test_what_a_tensor_wraps_is_shown_if_it_tells() -> None:
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    wrapped = dict(inner_tensors(ragged) or [])
    assert {"._values", "._offsets"} <= wrapped.keys()
    assert wrapped["._values"].shape == (5,)
    assert inner_tensors(Wrapped.around(torch.ones(2))) == []
    others = [torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.eye(2).to_sparse()]
    with torch._subclasses.FakeTensorMode():
        others.append(torch.ones(2))
    assert [inner_tensors(other) for other in others] == [None] * 4


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


def test_a_batch_of_gradients_is_told_whoever_sends_it() -> None:
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            seen.append(_autograd.is_batch(gradients[0]))
            return gradients[0]

    x, units = leaf(2), torch.eye(2)
    y: Any = Look.apply(x)  # type: ignore[no-untyped-call]
    torch.autograd.grad(y, x, units[0], retain_graph=True)
    torch.autograd.grad(y, x, units, is_grads_batched=True, retain_graph=True)
    torch.func.vmap(lambda unit: torch.autograd.grad(y, x, unit, retain_graph=True))(units)
    assert seen == [False, True, True]
