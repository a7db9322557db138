"""The one door: every private or undocumented part of PyTorch that leafgrad relies on.

One fact a function, one test a fact in ``tests/test_autograd.py``, so that a PyTorch that moves
shows here first.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from types import FunctionType
from typing import Any, Literal, NamedTuple

import torch
from torch.autograd.graph import Node
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

# --- tensors


def unobserved() -> AbstractContextManager[None]:
    """Keep ``__torch_function__`` of subclasses and modes from being called inside."""
    return torch._C.DisableTorchFunction()


def plain(tensor: torch.Tensor, name: str) -> Any:
    """Read what `torch.Tensor` itself has under `name`, whatever a subclass put in its place."""
    return getattr(torch.Tensor, name).__get__(tensor)


def is_parameter(tensor: torch.Tensor) -> bool:
    """Say whether `nn.Module` would take the tensor as a parameter (some carry a mark instead)."""
    marked = "_is_param" in object.__getattribute__(tensor, "__dict__")
    return issubclass(type(tensor), torch.nn.Parameter) or marked


def is_view(tensor: torch.Tensor) -> bool:
    """Say whether autograd tracks the tensor as a view of another (a detached one is not)."""
    return bool(plain(tensor, "_is_view")())


def version(tensor: torch.Tensor) -> int | None:
    """Count the writes into the tensor's memory, or give None for an inference tensor."""
    return None if plain(tensor, "is_inference")() else plain(tensor, "_version")


def shape(tensor: torch.Tensor) -> tuple[int | str, ...] | None:
    """Read the shape, with words for sizes that are not numbers; None for a lazy parameter."""
    if issubclass(type(tensor), UninitializedTensorMixin):
        return None
    if plain(tensor, "is_nested") and plain(tensor, "layout") is torch.strided:
        return tuple(_nested_extent(tensor, dim) for dim in range(plain(tensor, "dim")()))
    return tuple(_extent(size) for size in plain(tensor, "shape"))


def _extent(size: int | torch.SymInt) -> int | str:
    """Turn a size into a value; asking a symbolic one for its number would fix it for good."""
    if isinstance(size, int):
        return size
    return "ragged" if size.node.is_nested_int() else str(size)


def _nested_extent(tensor: torch.Tensor, dim: int) -> int | str:
    """Read one size of a strided nested tensor, which has no shape as a whole."""
    try:
        return _extent(plain(tensor, "size")(dim))
    except RuntimeError:
        return "ragged"


# CPython drops a warning unseen, before any filter is asked, when `__name__` of the code that
# warns is None. So nobody's filters, registries or recorders are touched, in any thread.
_read_without_warning = FunctionType(
    (lambda attribute, tensor: attribute.__get__(tensor)).__code__, {"__name__": None}
)


def has_grad(tensor: torch.Tensor) -> bool:
    """Say whether ``.grad`` holds a tensor, without the warning that reading it may give."""
    return _read_without_warning(torch.Tensor.grad, tensor) is not None


def is_invalid_view(tensor: torch.Tensor) -> bool:
    """Say whether PyTorch refuses to place this view in the graph, after a write in place.

    Asking makes PyTorch rebuild the node of a valid view that was written into, as any use would.
    """
    try:
        plain(tensor, "is_leaf")
    except RuntimeError:
        return True
    return False


def grad_fn_name(tensor: torch.Tensor) -> str | None:
    """Name the node that recorded the tensor, or give None for a leaf.

    Looking at a node leaves a trace in it: see `keep_successors`.
    """
    node = plain(tensor, "grad_fn")
    if node is None:
        return None
    keep_successors(node, next_functions(node))
    return node_name(node)


class _Waiting(threading.local):
    """What is to be freed in this thread, and whether a loop is at it."""

    def __init__(self) -> None:
        self.queue: list[Successors] = []
        self.is_emptied = False


_KEPT = "leafgrad: successors"


class _KeptSuccessors:
    """Holds a node's successors while it lives; then frees them in one loop, not each in the next.

    A node drops its edges before its metadata, so this is the last to hold them.
    """

    waiting = _Waiting()

    def __init__(self, successors: Successors) -> None:
        self.successors = successors

    def __del__(self) -> None:
        waiting = self.waiting
        waiting.queue.append(self.successors)
        del self.successors
        if waiting.is_emptied:
            return
        waiting.is_emptied = True
        try:
            while waiting.queue:
                waiting.queue.pop()
        finally:  # an interrupt must not leave the queue shut
            waiting.is_emptied = False


def has_accumulator(leaf: torch.Tensor) -> bool:
    """Say whether a gradient has somewhere to go at a leaf that says that it requires grad.

    A view says so as soon as its base does, with or without a flag of its own.
    """
    return not is_view(leaf) or _gradient_target(leaf) is not None


def _gradient_target(leaf: torch.Tensor) -> Node | None:
    """Find the node that a gradient of `leaf` goes to, by recording a use of it.

    In a thread of its own: modes, hooks and sequence numbers of the caller's stay out of it.
    """
    found: list[Node | None] = []

    def record() -> None:
        with unobserved(), suppress(RuntimeError):  # nested tensors fail, after they were recorded
            _Use.apply(leaf, found)  # type: ignore[no-untyped-call]

    thread = threading.Thread(target=record)
    thread.start()
    thread.join()
    return found[0]


class _Use(torch.autograd.Function):
    """Uses a tensor without an operation on it, and shows where its gradient would go."""

    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, found: list[Node | None]) -> None:
        found.append(ctx.next_functions[0][0])


def functorch_wrapper(tensor: torch.Tensor) -> str | None:
    """Name the `torch.func` transform that wraps the tensor and its level, or give None."""
    functorch = torch._C._functorch
    if not functorch.is_functorch_wrapped_tensor(tensor):
        return None
    level = functorch.maybe_get_level(tensor)
    running = {entry.level(): entry.key() for entry in functorch.get_interpreter_stack() or ()}
    return f"{running[level].name.lower()}, level {level}" if level in running else "ended"


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Give the tensor inside a `torch.func` wrapper, one level deeper."""
    return torch._C._functorch.get_unwrapped(tensor)


# --- nodes

Successors = tuple[tuple[Node | None, int], ...]


class ForwardOutput(NamedTuple):
    """What a node knows of one tensor that its operation made."""

    shape: tuple[int | str, ...] | None
    dtype: torch.dtype
    device: torch.device


class Slot(NamedTuple):
    """What a node keeps in one place for backward; only a live slot shows its tensor."""

    name: str
    state: Literal["live", "freed", "packed", "recompute"]
    tensor: torch.Tensor | None = None
    saved_version: int | None = None
    current_version: int | None = None


def node_name(node: Node) -> str:
    """Name the node as PyTorch does, without the C++ namespace (``type(node)`` may lie)."""
    return node.name().rpartition("::")[2]


def next_functions(node: Node) -> Successors:
    """Pair each forward input's node (None where it needed no gradient) with its output number."""
    return node.next_functions


def forward_outputs(node: Node) -> tuple[ForwardOutput, ...]:
    """Tell shape, dtype and device of each tensor that the node's operation made."""
    outputs = getattr(node, "_input_metadata")  # noqa: B009 (the class does not declare it)
    return tuple([ForwardOutput(_output_shape(o), o.dtype, o.device) for o in outputs])


def _output_shape(output: Any) -> tuple[int | str, ...] | None:
    """Read the shape of a forward output, None where it was a strided nested tensor."""
    try:
        return tuple(map(_extent, output.shape))
    except RuntimeError:
        return None


def leaf_variable(node: Node) -> torch.Tensor | None:
    """Give the leaf tensor that the node accumulates into, None for any other node."""
    accumulate_grad: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]
    return node.variable if isinstance(node, accumulate_grad) else None


def forward_class(node: Node) -> type[torch.autograd.Function] | None:
    """Give the custom `torch.autograd.Function` that made the node, None for any other node."""
    return getattr(type(node), "_forward_cls", None)


def gradient_edge(tensor: torch.Tensor) -> tuple[Node, int] | None:
    """Find the node at which the tensor's gradient arrives, and which output of it this is.

    None where no gradient can arrive. A leaf's node may be made for the occasion.
    """
    node = plain(tensor, "grad_fn")
    if node is not None:
        return node, plain(tensor, "output_nr")
    leaf_node = _gradient_target(tensor) if plain(tensor, "requires_grad") else None
    return None if leaf_node is None else (leaf_node, 0)


def storage(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Give the identity of the tensor's storage and its bytes, None where it has no single one.

    The identity is good for as long as the storage lives.
    """
    try:
        memory = plain(tensor, "untyped_storage")()
    except NotImplementedError:
        return None
    return memory._cdata, memory.nbytes()


def is_parameter_or_view(tensor: torch.Tensor) -> bool:
    """Say whether the tensor is a parameter or autograd's view of one."""
    base = plain(tensor, "_base")
    return is_parameter(tensor) or (base is not None and is_parameter(base))


def saved_slots(node: Node) -> tuple[Slot, ...]:
    """Read what the node saved: no hook is called, nothing recomputed, nothing complains.

    A slot that never held a tensor is left out, and a custom function's slots are freed as one.
    Drop the slots when the facts are read: each of them keeps its tensor alive.
    """
    custom = forward_class(node) is not None
    names = _slot_names(torch._C._FunctionBase if custom else type(node))
    slots = [slot for raw, public in names for slot in _slots(node, raw, public)]
    return (*slots, *_kept_on_ctx(node)) if custom else tuple(slots)


@functools.cache  # of PyTorch's own types only, as it keeps them alive
def _slot_names(kind: type) -> tuple[tuple[str, str], ...]:
    """Pair each attribute that holds slots with the one that unpacks what they hold."""
    raw = [name for name in dir(kind) if name.startswith("_raw_saved_")]
    unpacked = [name.removeprefix("_raw") for name in raw]
    public = [name if hasattr(kind, name) else name.removeprefix("_") for name in unpacked]
    return tuple(zip(raw, public, strict=True))


def _slots(node: Node, raw: str, public: str) -> list[Slot]:
    """Read the slots behind one attribute, which holds one of them or a tuple."""
    name = public.removeprefix("_saved_")
    try:
        saved = getattr(node, raw)
    except RuntimeError:
        return [Slot(name, "freed")]
    named = [(name, saved)]
    if isinstance(saved, tuple):
        named = [(f"{name}[{number}]", slot) for number, slot in enumerate(saved)]
    slots = [slot for name, saved in named if (slot := _slot(name, saved)) is not None]
    if None in [slot.saved_version for slot in slots]:
        return _with_version_of_own_output(node, public, slots)
    return slots


def _slot(name: str, saved: Any) -> Slot | None:
    """Read one slot, None where it never held a tensor."""
    kept, hook = saved.data, saved.unpack_hook
    if hook is not None:
        recomputes = getattr(hook, "__module__", None) == "torch.utils.checkpoint"
        return Slot(name, "recompute" if recomputes else "packed")
    if kept is not None:
        current = plain(kept, "_version")
        return Slot(name, "live", kept, _expected_version(saved.unpack, current), current)
    try:
        saved.unpack()
    except RuntimeError:
        return Slot(name, "freed")
    return None


_EXPECTED = re.compile(r"is at version \d+; expected version (\d+)")


def _expected_version(unpack: Callable[[], object], current: int) -> int | None:
    """Tell which version of a tensor backward expects, None where the complaint is another."""
    if current == 0:  # never written to, thus as it was saved
        return 0
    try:
        unpack()
    except RuntimeError as error:
        expected = _EXPECTED.search(str(error))
        return int(expected[1]) if expected else None
    return current


def _with_version_of_own_output(node: Node, public: str, slots: list[Slot]) -> list[Slot]:
    """Fill in the version of a saved output of the node itself, which only the node can check.

    It checks all slots of the attribute and complains of one, so the answer is sure only where
    one slot alone can be meant.
    """
    unsure = [slot for slot in slots if slot.saved_version is None]
    agreeing = [slot for slot in slots if slot.saved_version == slot.current_version]
    match unsure:
        case [Slot(current_version=int(current)) as own]:
            if len(agreeing) + 1 == len(slots):
                version = _expected_version(lambda: getattr(node, public), current)
                return [s._replace(saved_version=version) if s is own else s for s in slots]
    return slots


def _kept_on_ctx(node: Node) -> Iterator[Slot]:
    """Find the tensors that a custom function keeps as attributes of its ctx, never freed."""
    for name, kept in vars(node).items():
        if isinstance(kept, torch.Tensor):
            yield Slot(f"ctx.{name}", "live", kept)
        elif isinstance(kept, list | tuple):
            for number, item in enumerate(kept):
                if isinstance(item, torch.Tensor):
                    yield Slot(f"ctx.{name}[{number}]", "live", item)


def walk(roots: Iterable[Node]) -> dict[Node, Successors]:
    """Map every node that `roots` lead to onto its successors, predecessors first.

    Whoever looks at a whole graph does it through here, so that the graph can be freed later on:
    see `_break_fall`. The mapping keeps the nodes alive; drop it when the facts are read.
    """
    roots = [*roots]
    graph: dict[Node, Successors] = {}

    def look(node: Node) -> Successors:
        return graph.setdefault(node, next_functions(node))

    try:
        finished = list(_depth_first(roots, look))
        _break_fall(finished, graph)
    except BaseException:  # an interrupted walk leaves a graph that is to be freed as well
        _break_fall(_depth_first(roots, lambda node: graph.get(node, ())), graph)
        raise
    return {node: graph[node] for node in reversed(finished)}


def _depth_first(roots: Iterable[Node], successors: Callable[[Node], Successors]) -> Iterator[Node]:
    """Yield each node after all its successors, which are entered from the last to the first."""
    seen: set[Node] = set()
    path: list[tuple[Node | None, Iterator[tuple[Node | None, int]]]]
    path = [(None, reversed([(root, 0) for root in roots]))]
    while path:
        node, ahead = path[-1]
        for successor, _ in ahead:
            if successor is not None and successor not in seen:
                seen.add(successor)
                path.append((successor, reversed(successors(successor))))
                break
        else:
            path.pop()
            if node is not None:
                yield node


def keep_successors(node: Any, successors: Successors) -> None:
    """Let the node hold its successors once more, so that they are freed after it, not within."""
    if _KEPT not in node.metadata:
        node.metadata[_KEPT] = _KeptSuccessors(successors)


_LONGEST_FALL = 500


def _break_fall(finished: Iterable[Node], graph: Mapping[Node, Successors]) -> None:
    """Make a graph that Python has looked at safe to free, however deep it is.

    PyTorch frees a graph in a loop, but a node that Python has seen is freed by its Python object,
    and its successors from within that call, and so on down until the stack overflows. So
    wherever more than `_LONGEST_FALL` such calls could pile up, `_KeptSuccessors` breaks the fall.
    As every node is still held by its predecessors alone, nothing lives longer and no cycle
    arises, and a graph that is not that deep stays as it is.
    """
    fall: dict[Node, int] = {}
    for node in finished:
        successors = graph.get(node, ())
        falls = (fall[successor] for successor, _ in successors if successor is not None)
        longest = max(falls, default=0)
        if longest == _LONGEST_FALL:
            keep_successors(node, successors)
            longest = 0
        fall[node] = longest + 1


# --- paths

Edge = tuple[Node, int]


def edge(tensor: torch.Tensor) -> Edge | None:
    """Find the node at which the tensor's gradient arrives, None where no gradient can.

    Uses a leaf in the caller's thread: `gradient_edge` leaves no trace, at many times the cost.
    """
    if (node := plain(tensor, "grad_fn")) is not None:
        return node, plain(tensor, "output_nr")
    with torch.enable_grad():
        use = plain(tensor, "view_as")(tensor).grad_fn
    node, output_nr = (None, 0) if use is None else use.next_functions[0]
    return None if node is None else (node, output_nr)


def nodes_between(outputs: torch.Tensor, inputs: torch.Tensor) -> list[Node] | None:
    """List the nodes on every path from `outputs` to `inputs`, None where there is no path."""
    root, target = edge(outputs), edge(inputs)
    if root is None or target is None:
        return None
    leading: set[Node] = set()
    for node, successors in reversed(walk([root[0]]).items()):
        if any(successor == target or successor[0] in leading for successor in successors):
            leading.add(node)
    return list(leading) if root[0] in leading or root == target else None


def base(view: torch.Tensor) -> torch.Tensor | None:
    """Give the tensor that autograd tracks `view` as a view of, None where it is no view."""
    tracked: torch.Tensor | None = plain(view, "_base")
    return tracked


def is_own_formula(node: Node) -> bool:
    """Say whether the node's backward is one of PyTorch's own formulas for its operations.

    Those have a Python type each; what is defined elsewhere in C++ shares one type.
    """
    others = ("CppFunction", "CopySlices")
    return forward_class(node) is None and type(node).__name__ not in others


def is_write_into_view(node: Node) -> bool:
    """Say whether the node stands for a write into a view, of which it hides the formula."""
    return node_name(node) == "CopySlices"


def is_compiled(node: Node) -> bool:
    """Say whether the node runs a backward that `torch.compile` made."""
    return hasattr(forward_class(node), "_lazy_backward_info")


def lacks_formula(node: Node) -> bool:
    """Say whether the node stands for an operator without a backward, which gives no gradient."""
    return node_name(node) == "WarnNotImplemented"


def is_refusal(node: Node) -> bool:
    """Say whether the node is the one that raises for ``@once_differentiable``."""
    return node_name(node) == "Error"


def is_training_batch_norm(node: Node) -> bool:
    """Say whether the node normalises by statistics of the batch that it was given."""
    return "BatchNorm" in node_name(node) and getattr(node, "_saved_training", False)


def uses_running_statistics(node: Node) -> bool:
    """Say whether the node is of a batch normalisation's second derivative, in eval mode."""
    return not getattr(node, "_saved_train", True)


def kept_tensors(node: Node) -> list[torch.Tensor]:
    """Give the differentiable tensors that a custom function keeps, as its backward gets them."""
    custom: Any = node
    kept = [*custom.saved_tensors, *(slot.tensor for slot in _kept_on_ctx(node))]
    return [t for t in kept if t is not None and (t.is_floating_point() or t.is_complex())]


def backward_alone(node: Node) -> list[torch.Tensor]:
    """Run a node's backward by itself, on ones that require grad, past the engine and its hooks.

    Gives the gradients of the inputs that need one, where the backward gives any.
    """
    run: Any = node
    ones = [
        torch.ones(output.shape, dtype=output.dtype, device=output.device, requires_grad=True)
        for output in run._input_metadata
    ]
    custom = forward_class(node) is not None
    gradients = run.apply(*ones) if custom else run(*ones)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    needed = run.needs_input_grad if custom else (True,) * len(gradients)
    pairs = zip(gradients, needed, strict=False)  # a backward may give a few Nones more
    return [gradient for gradient, is_needed in pairs if is_needed and gradient is not None]
