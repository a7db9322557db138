"""The parts of a traced graph as values: nodes, edges and saved tensors."""

from dataclasses import dataclass, field
from math import prod
from typing import Literal

import torch

from leafgrad._graph.code_files import short_path
from leafgrad._graph.summary import NotFinite, TensorSummary
from leafgrad._messages import message

Shape = tuple[int | str, ...]
SavedState = Literal["live", "packed", "offloaded", "recompute", "freed"]


def element_count(shape: Shape | None) -> int | None:
    """Return the number of elements of a tensor, None if a size is not a number."""
    if shape is None or not all(isinstance(size, int) for size in shape):
        return None
    return prod(map(int, shape))


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedEdge:
    """An edge of a traced graph: one input of an operation, and where its gradient goes.

    Attributes:
        source: The index of the node that the edge starts from.
        target: The index of the node that it leads to; None if the input needs no gradient.
        input_nr: The number of the target's output that the input was, as in ``next_functions``.
        output_nr: The number of the input among the inputs of the source's operation.
        gradient: A summary of the gradient that the source passed on along it; None if
            `trace_graph` ran without ``gradients=True``, or if no gradient was passed.
        gradient_so_far: The sum of the gradients that had arrived at the same place by then.
    """

    source: int
    target: int | None
    input_nr: int
    output_nr: int
    gradient: TensorSummary | None = None
    gradient_so_far: TensorSummary | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A line of code that recorded an operation or wrote to a tensor.

    It is the innermost line of the user's own code. If only installed packages ran, it is their
    innermost line.

    Attributes:
        file: The file, as Python knows it.
        line: The line number.
        function: The qualified name of the function that contains the line.
        library: The line of the installed package that contains the operation, if the user's line
            called the package.
        column: The column where the expression begins, from 0; None if it is not known.
        end_line: The line where it ends.
        end_column: The column after its last character.
    """

    file: str
    line: int
    function: str
    library: str | None = None
    column: int | None = field(default=None, compare=False)
    end_line: int | None = field(default=None, compare=False)
    end_column: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        path = short_path(self.file)
        place = message("sources.text", path=path, line=self.line, function=self.function)
        if self.library is None:
            return place
        return message("sources.through", place=place, library=self.library)


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """A recorded in-place write to the memory of a tensor.

    Attributes:
        operation: The function that wrote, such as ``"add_"`` or ``"__setitem__"``.
        version_before: The version of the memory before it.
        version_after: The version after it.
        through_view: Whether it was called on a view of another tensor.
        source: The line of code, if it is known.
        within: The call that the operation was part of, if the user's code did not call it
            directly: ``"Adam.step"`` for an optimizer, or ``"load_state_dict"``.
    """

    operation: str
    version_before: int
    version_after: int
    through_view: bool
    source: Source | None
    within: str | None = None

    def __str__(self) -> str:
        return message(
            "writes.text",
            operation=self.operation,
            part=message("writes.part", whole=self.within) if self.within else "",
            place=message("writes.place", source=self.source) if self.source else "",
            view=message("writes.view") if self.through_view else "",
            before=self.version_before,
            after=self.version_after,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedTensor:
    """A tensor that a node saved for backward, as far as it can be read without side effects.

    Only ``"live"`` and ``"offloaded"`` tensors have a shape, dtype and device. A ``"packed"``
    tensor also has bytes, if the hook packed it into a single tensor. All other facts are None.

    Attributes:
        node: The index of the node that saved it.
        name: Its name at the node: ``"self"``, ``"result"``, ``"saved_tensors[0]"`` in a custom
            function, ``"ctx.mask"`` for an attribute of its ``ctx``, ``"primals_1"`` or ``"exp"``
            in the code of `torch.compile`, ``"checkpoint.inputs[0]"`` for an input of a block under
            `torch.utils.checkpoint`, ``"checkpoint.cache[0]"`` for a result that selective
            checkpointing keeps, ``"self._local_tensor"`` for a tensor inside a tensor subclass.
        state: ``"live"``; ``"freed"``, for example by a backward pass; ``"packed"`` by a hook of
            `torch.autograd.graph.saved_tensors_hooks`; ``"offloaded"`` by
            `torch.autograd.graph.save_on_cpu`; ``"recompute"`` if `torch.utils.checkpoint` will
            compute it again.
        shape: The sizes, with words for sizes that are not numbers.
        dtype: The data type.
        device: The device of the memory.
        nbytes: The bytes of the storage that is kept alive: the whole storage, even if the tensor
            is a view of a part. None if there is no single storage (sparse tensors) or it is
            unknown. A tensor subclass that wraps other tensors has 0, and the other tensors follow
            it.
        storage: A number that is equal for equal storages within one trace.
        is_parameter: Whether the storage belongs to a parameter.
        saved_version: The version when it was saved; None if PyTorch does not show it.
        current_version: The version now.
        writes: The recorded writes to it since it was saved.
    """

    node: int
    name: str
    state: SavedState
    shape: Shape | None = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    nbytes: int | None = None
    storage: int | None = None
    is_parameter: bool | None = None
    saved_version: int | None = None
    current_version: int | None = None
    writes: tuple[Write, ...] = ()

    @property
    def is_on_ctx(self) -> bool:
        """Whether a custom function stores it on its ``ctx``. Backward never frees it."""
        return self.name.startswith("ctx.")

    @property
    def is_modified(self) -> bool:
        """Whether it was changed in place since it was saved, so that backward fails."""
        return self.saved_version is not None and self.saved_version != self.current_version


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomFunction:
    """The `torch.autograd.Function` that made a node.

    Attributes:
        name: Its module and qualified name.
        file: The file of its ``forward``, if it has one.
        line: The line where its ``forward`` starts.
    """

    name: str
    file: str | None
    line: int | None

    def __str__(self) -> str:
        where = "" if self.file is None else f", {short_path(self.file)}:{self.line}"
        return f"{self.name}{where}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedNode:
    """One node of a traced graph: the backward of one operation, or a leaf.

    Attributes:
        index: Its place in `GraphTrace.nodes`.
        name: Its name in PyTorch, such as ``"MulBackward0"``.
        shapes: The shapes of what its operation made, one for each output; None for a strided
            nested tensor. An output that takes part in no gradient may show as ``()``.
        dtype: The data type of the first output.
        device: Where the first output is.
        edges: One `TracedEdge` for each tensor input of the operation, in order.
        saved: What it keeps for backward.
        tensor_names: The names given to its tensors.
        is_leaf: Whether it accumulates into a leaf tensor.
        retains_grad: Whether a tensor of it retains its gradient, as far as tensors were at hand:
            among the outputs, the named ones and the leaves; None where none was.
        custom_function: The `torch.autograd.Function` behind it, with its file and line, or None.
        created: Its place among the nodes of the trace in the order in which the operations ran,
            the oldest 0; None for a leaf, which no operation made.
        module: The path of the module that recorded it, as in ``named_modules()``, where the
            outermost has an empty one; None outside of all, and where it is not known.
        is_module_inferred: Whether the module was not recorded but follows from whose parameters
            were used around it.
        source: The line of code that made it, from a recording, which is of the thread in which it
            was entered; None where it is not known.
        derivative_order: The highest order of derivative that its result is made of, as far as a
            recording saw the passes with ``create_graph=True``; None where nothing was recorded.
        derivative: The derivative that it was recorded for, such as ``"u_xx"``: the name of the
            result, else one made of the names of what was differentiated; None outside of passes
            with ``create_graph=True``, and where nothing was recorded.
        hides_saved: Whether PyTorch shows nothing of what it saved, as where an operation wrote
            into a view (``"CopySlices"``) and for most foreach functions: `saved` is empty there,
            whatever is kept.
        values: What its operation made, one for each output, where `trace_graph` was asked for
            values; None where that is not known. A leaf's is what it holds.
        gradients: The gradients that arrived at it, one for each output, where `trace_graph` was
            asked for them; None where none arrived.
        visited: Its place in the order in which that backward took the nodes; None where it did
            not come to it.
        value_turns: Whether a value that is not finite came up here, though all that its operation
            was given by other nodes was finite, or a NaN was made of infinities, and was not gone
            by the time it came to a root.
        value_turn_kind: ``"NaN"`` or ``"infinity"``, whichever it is that came up.
        value_turn_given: What a recording saw its operation be given that was not finite and that
            no edge leads to: by name where it has one, else as in ``"argument 0 of linear"``.
        value_turn_is_near: Whether the value of a node right before it is not known, which may be
            the one.
        gradient_turns: Whether a gradient that is not finite came up here and was not gone by the
            time it came to a sink: it is passed on although all that arrived were finite, or a NaN
            was made of infinities, or a hook or a sum made it.
        gradient_turn_kind: ``"NaN"`` or ``"infinity"``, whichever it is that came up.
        settings: What its operation was called with beside tensors, such as
            ``("stride", "(2, 2)")``, as far as PyTorch keeps it for backward.
    """

    index: int
    name: str
    shapes: tuple[Shape | None, ...]
    dtype: torch.dtype
    device: torch.device
    edges: tuple[TracedEdge, ...]
    saved: tuple[SavedTensor, ...]
    tensor_names: tuple[str, ...]
    is_leaf: bool
    retains_grad: bool | None
    custom_function: CustomFunction | None
    created: int | None = None
    module: str | None = None
    is_module_inferred: bool = False
    source: Source | None = None
    derivative_order: int | None = None
    derivative: str | None = None
    hides_saved: bool = False
    values: tuple[TensorSummary | None, ...] = ()
    gradients: tuple[TensorSummary | None, ...] = ()
    visited: int | None = None
    value_turns: bool = False
    value_turn_kind: NotFinite | None = None
    value_turn_given: tuple[str, ...] = ()
    value_turn_is_near: bool = False
    gradient_turns: bool = False
    gradient_turn_kind: NotFinite | None = None
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def leaf_name(self) -> str | None:
        """The name of the leaf tensor that it accumulates into, if that has one."""
        return self.tensor_names[0] if self.is_leaf and self.tensor_names else None

    @property
    def recomputes(self) -> bool:
        """Whether backward will run code of the forward again, as `torch.utils.checkpoint` does."""
        name = self.custom_function.name if self.custom_function else None
        by_hook = any(saved.state == "recompute" for saved in self.saved)
        return by_hook or name == "torch.utils.checkpoint.CheckpointFunction"

    @property
    def is_freed(self) -> bool:
        """Whether a saved tensor is gone, so that a backward through this node would fail.

        PyTorch frees a custom function's node as a whole, even one that saved nothing.
        """
        return any(saved.state == "freed" for saved in self.saved)


def age_order(node: TracedNode) -> int:
    """Return a key that sorts leaves first, then nodes in the order of their operations."""
    return -1 if node.created is None else node.created


def short_name(node: TracedNode) -> str:
    """Return the name of a node's tensor, or the node's number."""
    return node.tensor_names[0] if node.tensor_names else message("nodes.unnamed", index=node.index)


def place_text(node: TracedNode) -> str:
    """Return the index and the name of a node, and its line and module if known."""
    name = message("nodes.leaf") if node.is_leaf else node.name
    if node.leaf_name:
        name = message("nodes.named-leaf", name=node.leaf_name)
    place = message("nodes.place", index=node.index, name=name)
    if node.source is not None:
        place = message("nodes.at", place=place, source=node.source)
    if node.module and not node.is_leaf:
        place = message("nodes.in-module", place=place, module=node.module)
    return place


def value_text(node: TracedNode) -> str | None:
    """Return the values of a node as text; None if they were not requested."""
    return _join_outputs(node.values, "not-recorded")


def gradient_text(node: TracedNode) -> str | None:
    """Return the gradients that arrived at a node as text; None if none did."""
    return _join_outputs(node.gradients, "none") if any(node.gradients) else None


def _join_outputs(summaries: tuple[TensorSummary | None, ...], missing: str) -> str | None:
    """Join the summaries of all outputs, with the message `missing` for one without."""
    if not any(summaries):
        return message(f"nodes.{missing}") if summaries else None
    return "; ".join(
        message(f"nodes.{missing}") if summary is None else str(summary) for summary in summaries
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class InputUse:
    """One operation that an input of the graph was given to.

    Attributes:
        node: The index of its node.
        argument: What the operation calls it, as in `SavedTensor.name`.

    Example:
        >>> import torch
        >>> from leafgrad import trace_graph
        >>> data, weight = torch.ones(3, 2), torch.ones(2, requires_grad=True)
        >>> trace = trace_graph(weight * data, names={"data": data})
        >>> trace.inputs[0].uses
        (InputUse(node=0, argument='other'),)
    """

    node: int
    argument: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedInput:
    """A tensor with a name that needs no gradient and that operations of the graph saved.

    Data and targets are such tensors. Frozen parameters and buffers do not count.

    Attributes:
        name: The name given to it, or the argument of the module that a recording saw it passed to.
        shape: Its sizes.
        dtype: Its data type.
        device: Where it is.
        uses: The operations that are known to have been given it.

    Example:
        >>> import torch
        >>> from leafgrad import trace_graph
        >>> data = torch.ones(3, 2)
        >>> model = torch.nn.Linear(2, 1)
        >>> (given,) = trace_graph(model(data), names={"model": model, "data": data}).inputs
        >>> given.name, given.shape, given.dtype, [use.argument for use in given.uses]
        ('data', (3, 2), torch.float32, ['mat1'])
    """

    name: str
    shape: Shape
    dtype: torch.dtype
    device: torch.device
    uses: tuple[InputUse, ...]
