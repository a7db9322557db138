"""`describe_tensor` agrees with PyTorch."""

import dataclasses
import pickle
import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Self
from xml.etree import ElementTree as ET

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import TensorDescription, describe_tensor
from leafgrad.types import TensorRole
from tests.messages import exactly, message
from tests.tensors import Doubled, outcome_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]


# --- Tensors of every role


def leaf(*shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.ones(*shape or (2,), dtype=dtype, requires_grad=True)


def detached() -> torch.Tensor:
    return (leaf() * 2).detach()


def frozen() -> torch.Tensor:
    return torch.nn.Parameter(torch.ones(2), requires_grad=False)


def retained() -> torch.Tensor:
    result = leaf() * 2
    result.retain_grad()
    return result


def retained_stale_view() -> torch.Tensor:
    base = leaf() * 2
    view = base[:]
    view.retain_grad()
    base.mul_(2)
    return view


def filled_then_turned_non_leaf() -> torch.Tensor:
    return with_grad(torch.ones(2)).mul_(leaf())


def with_grad(tensor: torch.Tensor) -> torch.Tensor:
    tensor.grad = torch.ones_like(tensor)
    return tensor


def inference(*, requires_grad: bool) -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2, requires_grad=requires_grad)


def view_under(mode: Callable[[], Any], base: torch.Tensor) -> torch.Tensor:
    with mode():
        return base[:]


def stale_view() -> torch.Tensor:
    base = torch.ones(2)
    view = base[:]
    base.mul_(leaf())
    return view


def written_to(base: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        base.add_(1)
    return view


def invalid_view_of_several() -> torch.Tensor:
    base = leaf()
    return written_to(base, base.unbind()[0])


def nested(layout: torch.layout) -> torch.Tensor:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    return torch.nested.nested_tensor(parts, layout=layout, requires_grad=True)


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return leaf()


def dual(primal: torch.Tensor) -> torch.Tensor:
    with forward_ad.dual_level():
        made: torch.Tensor = forward_ad.make_dual(primal, torch.ones_like(primal))
        return made * 1


class Plain(torch.Tensor):
    """A subclass that changes nothing."""


def doubled() -> torch.Tensor:
    return outcome_of(Doubled, leaf())  # type: ignore[no-any-return]


CONSTANT, LEAF, NON_LEAF = TensorRole.CONSTANT, TensorRole.LEAF, TensorRole.NON_LEAF
RETAINED, WRAPPED = TensorRole.RETAINED, TensorRole.WRAPPED
UNRECORDED, INVALID = TensorRole.UNRECORDED_VIEW, TensorRole.INVALID_VIEW

CASES: dict[str, tuple[TensorRole, Callable[[], torch.Tensor]]] = {
    "constant": (CONSTANT, lambda: torch.ones(2)),
    "integer result": (CONSTANT, lambda: leaf().argmax()),
    "frozen parameter": (CONSTANT, frozen),
    "detached": (CONSTANT, detached),
    "inference": (CONSTANT, lambda: inference(requires_grad=False)),
    "leaf": (LEAF, leaf),
    "filled leaf": (LEAF, lambda: with_grad(leaf())),
    "parameter": (LEAF, lambda: torch.nn.Parameter(torch.ones(2))),
    "no_grad view asked for": (LEAF, lambda: view_under(torch.no_grad, leaf()).requires_grad_()),
    "inference leaf": (LEAF, lambda: inference(requires_grad=True)),
    "sparse": (LEAF, lambda: torch.eye(2).to_sparse().requires_grad_()),
    "nested": (LEAF, lambda: nested(torch.strided)),
    "jagged": (LEAF, lambda: nested(torch.jagged)),
    "meta": (LEAF, lambda: torch.empty(10**9, 10**9, device="meta", requires_grad=True)),
    "fake": (LEAF, fake),
    "subclass": (LEAF, lambda: torch.ones(2).as_subclass(Plain).requires_grad_()),
    "result": (NON_LEAF, lambda: leaf() * 2),
    "view": (NON_LEAF, lambda: leaf()[:]),
    "second of several": (NON_LEAF, lambda: leaf().unbind()[1]),
    "stale view": (NON_LEAF, stale_view),
    "filled, then turned non-leaf": (NON_LEAF, filled_then_turned_non_leaf),
    "custom function": (NON_LEAF, doubled),
    "dual": (NON_LEAF, lambda: dual(leaf())),
    "retained": (RETAINED, retained),
    "retained stale view": (RETAINED, retained_stale_view),
    "no_grad view of a leaf": (UNRECORDED, lambda: view_under(torch.no_grad, leaf())),
    "written view of several": (INVALID, invalid_view_of_several),
}

every_role = pytest.mark.parametrize("make", [make for _, make in CASES.values()], ids=CASES)


@pytest.mark.parametrize(("role", "make"), CASES.values(), ids=CASES)
def test_description_has_role_of_tensor(role: TensorRole, make: Callable[[], torch.Tensor]) -> None:
    assert describe_tensor(make()).role is role


# --- Facts match PyTorch


def grad_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return `.grad` without the warning of PyTorch."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
        return tensor.grad


def backward_stores_a_gradient(tensor: torch.Tensor) -> bool:
    """Run backward() from a result of the tensor and check its `.grad`."""
    try:
        tensor.grad = None
        result = tensor.clone()
    except RuntimeError:
        return False
    if result.requires_grad:
        result.backward(result.detach())
    return grad_of(tensor) is not None


@every_role
def test_will_accumulate_grad_matches_what_backward_does(make: Callable[[], torch.Tensor]) -> None:
    tensor = make()
    assert describe_tensor(tensor).will_accumulate_grad == backward_stores_a_gradient(tensor)


@every_role
def test_description_matches_attributes_of_tensor(make: Callable[[], torch.Tensor]) -> None:
    tensor = make()
    facts = describe_tensor(tensor)
    assert facts.dtype is tensor.dtype
    assert facts.device == tensor.device
    assert facts.layout is tensor.layout
    assert facts.requires_grad is tensor.requires_grad
    assert facts.retains_grad is tensor.retains_grad
    assert facts.output_nr == tensor.output_nr
    assert facts.has_grad == (grad_of(tensor) is not None)
    assert facts.is_view is tensor._is_view()
    assert facts.is_inference is tensor.is_inference()
    assert facts.is_parameter is isinstance(tensor, torch.nn.Parameter)
    assert facts.version == (None if tensor.is_inference() else tensor._version)
    assert facts.wrapped is None


@every_role
def test_is_leaf_and_grad_fn_match_pytorch(make: Callable[[], torch.Tensor]) -> None:
    tensor = make()
    facts = describe_tensor(tensor)
    if facts.role is INVALID:
        assert (facts.is_leaf, facts.grad_fn) == (None, None)
        with pytest.raises(RuntimeError, match="modified inplace"):
            tensor.is_leaf  # noqa: B018
    else:
        node = tensor.grad_fn
        assert facts.is_leaf is tensor.is_leaf is (node is None)
        assert facts.grad_fn == (node and node.name().rpartition("::")[2])


STEPS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "make a leaf": lambda _a, _b: leaf(),
    "make a constant": lambda _a, _b: torch.ones(2),
    "make an inference leaf": lambda _a, _b: inference(requires_grad=True),
    "multiply": lambda a, b: a * b,
    "detach": lambda a, _: a.detach(),
    "detach in place": lambda a, _: a.detach_(),
    "view": lambda a, _: a[:],
    "view under no_grad": lambda a, _: view_under(torch.no_grad, a),
    "view under inference_mode": lambda a, _: view_under(torch.inference_mode, a),
    "view as one of several": lambda a, _: a.view(2, 1).unbind(1)[0],
    "ask for grad": lambda a, _: a.requires_grad_(),
    "freeze": lambda a, _: a.requires_grad_(False),
    "retain": lambda a, _: a.retain_grad(),
    "write": lambda a, b: a.add_(b),
    "write under no_grad": written_to,
    "write into a part": lambda a, _: a[0].mul_(2),
    "backward": lambda a, _: a.sum().backward(retain_graph=True),
}


def tensors_after(steps: list[tuple[str, int, int]]) -> list[torch.Tensor]:
    """Apply the steps that PyTorch allows, each to two of the tensors so far."""
    tensors = [leaf(), torch.ones(2)]
    for step, first, second in steps:
        try:
            made = STEPS[step](tensors[first % len(tensors)], tensors[second % len(tensors)])
        except (RuntimeError, IndexError):
            continue
        tensors += [made] if isinstance(made, torch.Tensor) else []
    return tensors


@hypothesis.given(
    st.lists(
        st.tuples(st.sampled_from(list(STEPS)), st.integers(0, 9), st.integers(0, 9)), max_size=12
    )
)
def test_description_is_right_after_any_operations(steps: list[tuple[str, int, int]]) -> None:
    for tensor in tensors_after(steps):
        facts = describe_tensor(tensor)
        assert facts == describe_tensor(tensor)
        assert facts.has_grad == (grad_of(tensor) is not None)
        assert facts.will_accumulate_grad == sum_stores_a_gradient(tensor)


def sum_stores_a_gradient(tensor: torch.Tensor) -> bool:
    """Like `backward_stores_a_gradient`, but skip graphs that a write has invalidated."""
    hypothesis.event(describe_tensor(tensor).role)
    seen = []
    try:
        tensor.grad = None
        result = tensor * 1.0
        if result.requires_grad:
            result.sum().backward(retain_graph=True)
    except RuntimeError as error:
        seen.append(str(error))
    hypothesis.assume(not any("needed for gradient computation" in text for text in seen))
    return grad_of(tensor) is not None


# --- Inside torch.func


def described_inside(
    transform: Callable[..., Any], argument: torch.Tensor
) -> tuple[TensorDescription, TensorDescription]:
    """Describe the argument and a result of a transformed function inside it."""
    seen: list[TensorDescription] = []

    def look(tensor: torch.Tensor) -> torch.Tensor:
        seen.extend(map(describe_tensor, (tensor, tensor * 2)))
        with pytest.raises(RuntimeError, match="inside a functorch transform"):
            (tensor * 2).sum().backward()
        return tensor.sum()

    transform(look)(argument)
    return seen[0], seen[1]


def pushed_forward(look: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensor: torch.func.jvp(look, (tensor,), (tensor,))


@pytest.mark.parametrize(
    ("transform", "wrapped", "requires_grad"),
    [
        (torch.vmap, "vmap, level 1", False),
        (torch.func.grad, "grad, level 1", True),
        (pushed_forward, "jvp, level 1", False),
        (lambda look: torch.vmap(torch.func.grad(look)), "grad, level 2", True),
    ],
    ids=["vmap", "grad", "jvp", "grad in vmap"],
)
def test_tensor_inside_transform_is_described_as_wrapped(
    transform: Callable[..., Any], wrapped: str, *, requires_grad: bool
) -> None:
    argument, result = described_inside(transform, leaf(2, 3))
    for facts in (argument, result):
        assert facts.wrapped == wrapped
        assert facts.role is WRAPPED
        assert facts.requires_grad is requires_grad
        assert not facts.will_accumulate_grad
    assert result.grad_fn == ("MulBackward0" if requires_grad else None)


@pytest.mark.parametrize(
    ("argument", "inside"),
    [(leaf(), "leaf"), (torch.ones(2), "constant"), (leaf() * 2, "non-leaf")],
)
def test_why_states_role_of_tensor_inside_transform(argument: torch.Tensor, inside: str) -> None:
    facts, _ = described_inside(torch.vmap, argument)
    assert facts.why[-1] == message("tensor.inner", role=inside)


def test_tensor_that_outlived_its_transform_gets_no_gradient() -> None:
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor * 2)
        return tensor.sum()

    weight = leaf()
    torch.func.grad(keep)(weight)
    facts = describe_tensor(kept[0])
    assert (facts.role, facts.wrapped) == (WRAPPED, "ended")
    kept[0].retain_grad()
    (kept[0] * 1).sum().backward()
    assert weight.grad is not None
    assert not describe_tensor(kept[0]).has_grad
    assert not describe_tensor(kept[0]).will_accumulate_grad


# --- Advice


@pytest.mark.parametrize("make", [lambda: torch.ones(2), frozen], ids=["constant", "frozen"])
def test_suggested_requires_grad_gives_constant_gradient(make: Callable[[], torch.Tensor]) -> None:
    tensor = make()
    assert "requires_grad_()" in describe_tensor(tensor).why[-1]
    assert backward_stores_a_gradient(tensor.requires_grad_())


def test_suggested_clone_of_inference_tensor_can_require_grad() -> None:
    tensor = inference(requires_grad=False)
    assert "clone()" in describe_tensor(tensor).why[-1]
    with pytest.raises(RuntimeError, match="outside InferenceMode is not allowed"):
        tensor.requires_grad_()
    assert backward_stores_a_gradient(tensor.clone().requires_grad_())


def test_suggested_clone_of_inference_leaf_is_tracked_by_autograd() -> None:
    tensor, weight = inference(requires_grad=True), leaf()
    assert "clone()" in describe_tensor(tensor).why[-1]
    assert not tensor.exp().requires_grad
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        tensor * weight
    assert (tensor.clone().exp() * weight).requires_grad


DTYPES = sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype)}, key=str)


@pytest.mark.filterwarnings("ignore:(ComplexHalf|BComplex32) support is experimental")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_why_states_correctly_whether_dtype_can_require_grad(dtype: torch.dtype) -> None:
    tensor = torch.empty(0, dtype=dtype, device="meta")
    if describe_tensor(tensor).why[-1] == message("tensor.constant.integer.do"):
        with pytest.raises(RuntimeError, match="floating point"):
            tensor.requires_grad_()
    else:
        assert tensor.requires_grad_().requires_grad


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_view_taken_again_as_suggested_passes_gradient_to_base(mode: Callable[[], Any]) -> None:
    base = leaf()
    view = view_under(mode, base)
    assert describe_tensor(view).why[-1] == message("tensor.unrecorded-view.do")
    (view * 3).sum().backward()
    assert base.grad is None
    assert describe_tensor(view.detach()).role is CONSTANT
    (base[:] * 3).sum().backward()
    assert base.grad is not None


def test_invalid_view_taken_again_as_suggested_can_be_used() -> None:
    base = leaf()
    view = written_to(base, base.unbind()[0])
    assert describe_tensor(view).why[-1] == message("tensor.invalid-view.do")
    with pytest.raises(RuntimeError, match="modified inplace"):
        view * 2
    assert describe_tensor(base.unbind()[0] * 2).role is NON_LEAF


def test_lazy_parameter_gets_its_shape() -> None:
    module = torch.nn.LazyLinear(2)
    facts = describe_tensor(module.weight)
    assert (facts.shape, facts.role, facts.is_parameter) == (None, LEAF, True)
    module(torch.ones(5, 3)).sum().backward()
    facts = describe_tensor(module.weight)
    assert (facts.shape, facts.role, facts.has_grad) == ((2, 3), LEAF, True)


# --- No side effects


class Forbidding(TorchFunctionMode):
    """Raises when any function is called on a tensor."""

    def __torch_function__(self, func: Any, *_: Any) -> Any:
        raise AssertionError(func)


class ForbiddingDispatch(TorchDispatchMode):
    """Raises when any operation is run."""

    def __torch_dispatch__(self, func: Any, *_: Any) -> Any:
        raise AssertionError(func)


# Classes that supply their own device or layout are called, which a mode sees.
HAS_ITS_FACTS = {
    name: make for name, (_, make) in CASES.items() if not re.search("fake|jagged", name)
}


@pytest.mark.parametrize("name", HAS_ITS_FACTS)
def test_describing_runs_and_records_nothing(name: str) -> None:
    tensor = HAS_ITS_FACTS[name]()
    random_state, before = torch.get_rng_state(), next_sequence_number()
    with Forbidding(), ForbiddingDispatch():  # type: ignore[no-untyped-call]
        facts = describe_tensor(tensor)
        str(facts)
        facts._repr_html_()
    assert torch.equal(torch.get_rng_state(), random_state)
    assert "stale" in name or next_sequence_number() == before + 1


def next_sequence_number() -> int:
    node = (leaf() * 1).grad_fn
    assert node is not None
    return node._sequence_nr()


def test_describing_stale_view_does_not_change_gradients() -> None:
    def gradient(*, look: bool) -> torch.Tensor | None:
        weight = leaf()
        base = weight * 2
        view = base[:1]
        base.mul_(weight)
        if look:
            assert describe_tensor(view).grad_fn == "AsStridedBackward0"
        base.add_(weight)
        view.sum().backward()
        return weight.grad

    looked, unlooked = gradient(look=True), gradient(look=False)
    assert looked is not None
    assert unlooked is not None
    assert torch.equal(looked, unlooked)


class Hostile(torch.Tensor):
    """A subclass whose code must not run."""

    @classmethod
    def __torch_function__(cls, func: Any, *_: Any) -> Any:
        raise AssertionError(func)

    @property
    def shape(self) -> Any:  # type: ignore[override]
        raise AssertionError

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


def hostile_view() -> torch.Tensor:
    with torch.no_grad():
        return leaf().as_subclass(Hostile)


class Wrapper(torch.Tensor):
    """A wrapper subclass whose operations must not run."""

    @staticmethod
    def __new__(cls: type[Self], *sizes: int) -> Self:
        return torch.Tensor._make_wrapper_subclass(cls, sizes, requires_grad=True)

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any) -> Any:
        raise AssertionError(func)


@pytest.mark.parametrize(
    ("make", "role"),
    [
        (lambda: torch.ones(2).as_subclass(Hostile), CONSTANT),
        (lambda: leaf().as_subclass(Hostile), NON_LEAF),
        (hostile_view, UNRECORDED),
        (lambda: Wrapper(2), LEAF),
    ],
    ids=["constant", "result", "view", "wrapper"],
)
def test_no_code_of_subclass_runs(make: Callable[[], torch.Tensor], role: TensorRole) -> None:
    facts = describe_tensor(make())
    assert (facts.shape, facts.dtype, facts.is_parameter) == ((2,), torch.float32, False)
    assert facts.role is role


def test_description_keeps_no_tensor_alive() -> None:
    weight = leaf()
    result = weight * 2
    facts = describe_tensor(weight), describe_tensor(result)
    alive = [weakref.ref(weight), weakref.ref(result)]
    del weight, result
    assert [tensor() for tensor in alive] == [None, None]
    assert facts[1].grad_fn == "MulBackward0"


# --- A description is a value


def test_description_is_immutable_comparable_hashable_and_picklable() -> None:
    facts = describe_tensor(leaf() * 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        facts.is_leaf = True  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(facts)) == facts
    assert describe_tensor(leaf(2)) != describe_tensor(leaf(3))
    assert describe_tensor(leaf(), name="a") != describe_tensor(leaf(), name="b")
    assert len({describe_tensor(leaf()), describe_tensor(leaf())}) == 1


# --- Text and HTML


def test_text_of_leaf_lists_its_facts_and_reasons() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    weight.sum().backward()
    assert str(describe_tensor(weight, name="weight")) == (
        "weight: leaf\n"
        "  tensor         float32, shape (3,), cpu, parameter\n"
        "  requires_grad  True\n"
        "  is_leaf        True\n"
        "  grad_fn        None\n"
        "  retains_grad   False\n"
        "  .grad          filled; backward() adds to it\n"
        "  version        0\n"
        "  - It requires grad and no recorded operation computed it, so it is a leaf.\n"
        "  - `backward()` from a result that depends on it adds its gradient to `.grad`."
    )


@pytest.mark.parametrize(
    ("tensor", "line"),
    [
        (torch.tensor(1.0), "tensor         float32, shape (), cpu"),
        (torch.eye(2).to_sparse(), "tensor         float32, shape (2, 2), cpu, sparse_coo"),
        (torch.nn.LazyLinear(2).bias, "tensor         float32, no shape yet, cpu, parameter"),
        (invalid_view_of_several(), "is_leaf        not known"),
        (filled_then_turned_non_leaf(), ".grad          filled; backward() does not change it"),
        (retained(), ".grad          None; backward() fills it"),
        (leaf() * 2, ".grad          None; backward() does not fill it"),
        (leaf(2, 3).unbind()[1], "grad_fn        UnbindBackward0, output 1"),
        (inference(requires_grad=False), "version        not counted"),
        (inference(requires_grad=False), "tensor         float32, shape (2,), cpu, inference"),
    ],
)
def test_text_of_description_has_a_line_for_each_fact(tensor: torch.Tensor, line: str) -> None:
    assert line in [shown.strip() for shown in str(describe_tensor(tensor)).splitlines()]


@every_role
def test_text_and_html_are_well_formed(make: Callable[[], torch.Tensor]) -> None:
    facts = describe_tensor(make())
    assert len(facts.why) >= 2
    assert all(re.fullmatch(r"[A-Z`].*\.", why) for why in facts.why)
    assert max(map(len, str(facts).splitlines())) < 80
    assert ET.fromstring(facts._repr_html_()).text == str(facts)


def test_name_is_escaped_in_html() -> None:
    html = describe_tensor(leaf(), name="<script>alert('&')</script>")._repr_html_()
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;: leaf" in html
    assert "<script" not in html


# --- Classes, parts and hooks


CLASSES: dict[str, tuple[Callable[[], torch.Tensor], str | None]] = {
    "tensor": (lambda: torch.ones(2), None),
    "parameter": (lambda: torch.nn.Parameter(torch.ones(2)), None),
    "subclass": (lambda: torch.ones(2).as_subclass(Plain), "Plain"),
    "lazy": (lambda: torch.nn.LazyLinear(2).weight, "UninitializedParameter"),
    "jagged": (lambda: nested(torch.jagged), "NestedTensor"),
    "nested": (lambda: nested(torch.strided), None),
    "wrapper": (lambda: Wrapper(2), "Wrapper"),
}


@pytest.mark.parametrize(("make", "name"), CLASSES.values(), ids=CLASSES)
def test_description_names_the_subclass(make: Callable[[], torch.Tensor], name: str | None) -> None:
    facts = describe_tensor(make())
    assert facts.subclass == name
    assert (f"  class          {name}" in str(facts).splitlines()) is (name is not None)
    assert (facts.local_shape, facts.placements, facts.mesh) == (None, None, None)


# --- Other types


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (1.0, "not float; .*torch.as_tensor"),
        (None, "not NoneType"),
        ([torch.ones(2)], "not list; describe the tensors in it"),
        (torch.nn.Linear(1, 1), "not Linear"),
        ((leaf() * 2).grad_fn, "not MulBackward0"),
    ],
    ids=["number", "None", "list", "module", "node"],
)
def test_object_that_is_not_a_tensor_is_refused_with_a_fix(thing: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"^tensor must be a torch.Tensor, {words}"):
        describe_tensor(thing)


def test_name_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(TypeError, match=exactly("errors.tensor.name", type="int")):
        describe_tensor(leaf(), name=3)  # type: ignore[arg-type]
