"""Facts about running and compiled code of PyTorch, one test each."""

import inspect
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd, record
from tests.tensors import leaf


def is_grad_mode(frame: FrameType) -> bool:
    return _autograd.is_grad_mode(frame.f_code.co_filename)


class Switches(TorchFunctionMode):
    """Records each switch of the grad mode and whether PyTorch's frames lead to it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[bool, bool]] = []

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _autograd.SET_GRAD_ENABLED:
            frame = inspect.currentframe()
            frames = [frame] if frame and frame.f_back is None else []
            frame = frame.f_back if frame else None
            while frame is not None and frame.f_code.co_filename != __file__:
                frames.append(frame)
                frame = frame.f_back
            self.seen.append((args[0], all(map(is_grad_mode, frames))))
        return func(*args, **(kwargs or {}))


def block() -> None:
    with torch.no_grad():
        pass


def call() -> None:
    torch.set_grad_enabled(False)
    torch.set_grad_enabled(True)


@torch.no_grad()
def decorated() -> None:
    pass


class Decorated(nn.Module):
    @torch.no_grad()
    def forward(self) -> None:
        pass


@pytest.mark.parametrize("switch", [block, call, decorated, Decorated()])
def test_function_mode_sees_each_switch_of_grad_mode(switch: Callable[[], None]) -> None:
    with Switches() as switches:
        switch()
    assert switches.seen == [(False, True), (True, True)]


def test_grad_mode_switch_inside_pytorch_is_detected() -> None:
    with Switches() as switches:
        torch.distributions.Normal(torch.ones(2), 1.0).sample()
    assert switches.seen == [(False, False), (True, False)]


class Custom(torch.optim.Optimizer):
    """An optimizer that inspects the frames around its step."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self.found: list[str | None] = []

    def step(self, _: Any = None) -> None:  # type: ignore[override]
        frame: FrameType | None = inspect.currentframe()
        while frame is not None:
            self.found.append(_autograd.stepping_optimizer(frame))
            frame = frame.f_back


def test_optimizer_whose_step_is_running_is_found() -> None:
    optimizer = Custom([torch.ones(1, requires_grad=True)])
    optimizer.step()
    assert [name for name in optimizer.found if name] == ["Custom"]


# --- Creation of parameters


def test_watched_parameters_reports_own_thread_only() -> None:
    seen: list[Any] = []
    x = torch.ones(2)
    with _autograd.watched_parameters(lambda data, made: seen.append((data, made))):
        with _autograd.watched_parameters(lambda *_: None):
            first = nn.Parameter(x)
        second = nn.Parameter(data=x, requires_grad=False)
        nn.Parameter()
        thread = threading.Thread(target=nn.Parameter, args=(x,))
        thread.start()
        thread.join()
    third = nn.Parameter(x)
    assert [made for _, made in seen] == [first, second]
    assert all(data is x for data, _ in seen)
    assert type(third) is nn.Parameter
    assert "__call__" not in vars(type(nn.Parameter))


# --- Removal of global module hooks


def hooked() -> torch.utils.hooks.RemovableHandle:
    return register_module_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)


def left(handle: torch.utils.hooks.RemovableHandle) -> bool:
    return handle.id in vars(module)["_global_forward_hooks_with_kwargs"]


def test_remove_hook_on_all_removes_hooks_that_remove_leaves_behind() -> None:
    handle = hooked()
    handle.remove()
    assert left(handle)
    _autograd.remove_hook_on_all(handle)
    assert not left(handle)


def test_recording_leaves_no_hook() -> None:
    before = module._has_any_global_hook()
    with record():
        torch.nn.Linear(2, 1)(torch.ones(2))
    assert module._has_any_global_hook() == before


# --- Compiled code


def compiled(function: Any, *inputs: torch.Tensor, dynamic: bool = False) -> Any:
    faster: Any = torch.compile(function, backend="aot_eager", dynamic=dynamic)
    return faster(*inputs)


@pytest.mark.parametrize("dynamic", [False, True], ids=["numbers", "symbols"])
def test_compiled_code_names_its_saved_tensors(*, dynamic: bool) -> None:
    x = leaf(2, 3)
    y = compiled(lambda x: x.exp() * x.sum(), x, dynamic=dynamic)
    slots = {slot.name: slot.tensor for slot in _autograd.saved_slots(y.grad_fn)}
    assert set(slots) == {"exp", "sum_1"}
    assert slots["exp"] is not None
    assert slots["sum_1"] is not None
    assert torch.equal(slots["exp"], x.exp())
    assert slots["sum_1"].item() == 6


def test_compiled_code_names_its_saved_arguments_by_position() -> None:
    x, w = leaf(2), leaf(2)
    y = compiled(lambda x, w: x.sin() * w.cos(), x, w)
    slots = _autograd.saved_slots(y.grad_fn)
    assert [(slot.name, slot.tensor) for slot in slots] == [("primals_1", x), ("primals_2", w)]
    assert [slot.state for slot in slots] == ["live", "live"]


# The compiler causes this warning and hides it, unless warnings are errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_function_wrapped_by_outside_compiled_code_runs_eagerly() -> None:
    def graph_name(x: torch.Tensor) -> str | None:
        return _autograd.grad_fn_name(x.sin())

    outside = _autograd.outside_compiled_code(graph_name)

    def step(x: torch.Tensor) -> tuple[torch.Tensor, str | None]:
        return x.cos(), outside(x)

    y, name = compiled(step, leaf(2))
    assert (_autograd.grad_fn_name(y), name) == ("CompiledFunctionBackward", "SinBackward0")


def test_node_of_compiled_code_is_one_call_with_traced_backward() -> None:
    def cube(x: torch.Tensor) -> torch.Tensor:
        assert x.requires_grad
        return x**3

    called: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        called.extend(node.name for node in graph.graph.nodes if node.op == "call_function")
        return graph

    node = _autograd.node_of_compiled_code(cube)
    x = leaf(2)

    def total(x: torch.Tensor) -> torch.Tensor:
        return node(x).sum()

    faster: Any = torch.compile(total, backend=backend, fullgraph=True)
    (gradient,) = torch.autograd.grad(faster(x), x)
    assert torch.equal(gradient, 3 * x**2)
    assert called == ["node"]
    assert torch.equal(node(x), x**3)


def test_graph_breaks_before_node_that_raises() -> None:
    def refusing(_: torch.Tensor) -> torch.Tensor:
        raise ValueError("first line\nsecond line")

    node = _autograd.node_of_compiled_code(refusing)
    message = r"leave out fullgraph=True; without values it says: first line\n"
    with pytest.raises(Exception, match=message):
        torch.compile(node, backend="eager", fullgraph=True)(leaf(2))
    torch.compiler.reset()
    with pytest.raises(ValueError, match="second line"):
        torch.compile(node, backend="eager")(leaf(2))


@pytest.mark.parametrize("is_within", [True, False], ids=["a compiler's", "a user's mode"])
def test_fake_tensor_is_reported_without_values(*, is_within: bool) -> None:
    from torch._subclasses import FakeTensorMode  # noqa: PLC0415 (takes long)
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    assert not _autograd.is_without_values(leaf(2))
    mode: Any = FakeTensorMode() if is_within else FlopCounterMode(display=False)
    with mode:
        assert _autograd.is_without_values(torch.ones(2)) == is_within


# --- Donated buffers


def is_donating() -> bool:
    return bool(torch._functorch.config.donated_buffer)


def test_donated_buffers_are_restored_without_a_new_version() -> None:
    def waves(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp().sin()

    faster: Any = torch.compile(waves, backend="aot_eager")
    x = torch.ones(2, requires_grad=True)
    y = faster(x)  # older versions of PyTorch free the node with its output
    node = y.grad_fn
    kept = [*node.saved_tensors]
    before = [(tensor.clone(), tensor._version) for tensor in kept]
    with _autograd.preserve_donated_buffers([node]):
        assert not is_donating()
        for tensor in kept:
            tensor.detach().untyped_storage().fill_(0)
    assert is_donating()
    for (numbers, version), tensor in zip(before, kept, strict=True):
        assert torch.equal(numbers, tensor)
        assert tensor._version == version


def test_buffer_donation_stays_on_without_compiled_code() -> None:
    y = torch.ones(2, requires_grad=True).exp()
    assert y.grad_fn is not None
    with _autograd.preserve_donated_buffers([y.grad_fn]):
        assert is_donating()


def test_leafgrad_function_called_by_compiled_code_is_not_compiled_alone() -> None:
    def is_alone(x: torch.Tensor) -> torch.Tensor:
        return x + _autograd.is_compiled_alone()

    assert compiled(is_alone, torch.zeros(())).item() == 0
