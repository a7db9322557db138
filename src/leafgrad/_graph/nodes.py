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
    """An edge of a traced graph: one input of an operation, and the node that gets its gradient.

    Attributes:
        source: The index of the node that the edge starts from.
        target: The index of the node that the edge leads to. None if the input does not require
            grad.
        input_nr: The position of the input among the outputs of the target, as in
            ``next_functions``.
        output_nr: The position of the input among the inputs of the source's operation.
        gradient: A summary of the gradient that the source passed along the edge. None if
            `trace_graph` ran without ``gradients=True``, or if no gradient was passed.
        gradient_so_far: The sum of this gradient and of those that had arrived before it at the
            same output of the target.
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

    This is the innermost line of the user's own code. If only installed packages ran, it is their
    innermost line.

    Attributes:
        file: The path of the file, as Python reports it.
        line: The line number.
        function: The qualified name of the function that contains the line.
        library: The line of the installed package that contains the operation, if the user's line
            called the package.
        column: The column where the expression begins, counted from 0. None if it is not known.
        end_line: The line where the expression ends.
        end_column: The column after the last character of the expression.
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
        version_before: The version of the memory before the write.
        version_after: The version of the memory after the write.
        through_view: Whether the function was called on a view of another tensor.
        source: The line of code, if it is known.
        within: The call that contained the write, if the user's code did not write directly:
            ``"Adam.step"`` for an optimizer, or ``"load_state_dict"``.
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

    A ``"live"`` or ``"offloaded"`` tensor has a shape, a dtype and a device. For a ``"packed"``
    tensor, the number of bytes is known if the hook packed it into a single tensor. All other facts
    are None.

    Attributes:
        node: The index of the node that saved the tensor.
        name: The name of the tensor at the node, such as ``"self"`` or ``"result"``. Some nodes
            have names of their own: ``"saved_tensors[0]"`` in a custom function, ``"ctx.mask"`` for
            an attribute of its ``ctx``, ``"primals_1"`` or ``"exp"`` in the code of
            `torch.compile`, ``"checkpoint.inputs[0]"`` for an input of a block under
            `torch.utils.checkpoint`, ``"checkpoint.cache[0]"`` for a result that selective
            checkpointing keeps, and ``"self._local_tensor"`` for a tensor inside a tensor subclass.
        state: ``"live"`` for a tensor in memory; ``"freed"``, for example by a backward pass;
            ``"packed"`` by a hook of `torch.autograd.graph.saved_tensors_hooks`; ``"offloaded"`` by
            `torch.autograd.graph.save_on_cpu`; or ``"recompute"`` if `torch.utils.checkpoint` will
            compute it again.
        shape: The sizes. Sizes that are not numbers are strings.
        dtype: The data type.
        device: The device of the memory.
        nbytes: The number of bytes of the storage that is kept alive. This is the whole storage,
            even if the tensor is a view of a part. None if there is no single storage (sparse
            tensors), or if its size is unknown. A tensor subclass that wraps other tensors has 0,
            and the other tensors follow it.
        storage: A number that is equal for equal storages within one trace.
        is_parameter: Whether the storage belongs to a parameter.
        saved_version: The version when the tensor was saved. None if PyTorch does not show it.
        current_version: The version now.
        writes: The recorded writes to the tensor since it was saved.
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
        """Whether a custom function stores the tensor on its ``ctx``. Backward never frees it."""
        return self.name.startswith("ctx.")

    @property
    def is_modified(self) -> bool:
        """Whether the tensor was changed in place since it was saved, so that backward fails."""
        return self.saved_version is not None and self.saved_version != self.current_version


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomFunction:
    """The `torch.autograd.Function` that made a node.

    Attributes:
        name: The module and the qualified name of the function.
        file: The file of its ``forward``. None if it is not known.
        line: The line where its ``forward`` starts. None if it is not known.
    """

    name: str
    file: str | None
    line: int | None

    def __str__(self) -> str:
        where = "" if self.file is None else f", {short_path(self.file)}:{self.line}"
        return f"{self.name}{where}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedNode:
    """A node of a traced graph: a leaf, or the backward function of one operation.

    Attributes:
        index: The position of the node in `GraphTrace.nodes`.
        name: The node's name in PyTorch, such as ``"MulBackward0"``.
        shapes: The shape of each output of the operation. None for a strided nested tensor. An
            output without a gradient may have the shape ``()``.
        dtype: The data type of the first output.
        device: The device of the first output.
        edges: The edges to the nodes of the operation's inputs.
        saved: The tensors that the node saved for backward.
        tensor_names: The names of the node's tensors, from the argument `names` of `trace_graph`.
        is_leaf: Whether the node accumulates gradients into a leaf tensor.
        retains_grad: Whether one of the node's tensors retains its gradient. None if the trace
            knows none of its tensors. It knows outputs, named tensors and leaves.
        custom_function: The `torch.autograd.Function` that made the node, or None.
        created: The position among the traced nodes in the order of the operations, starting with 0
            for the oldest. None for a leaf.
        module: The path of the module that ran the operation, as in ``named_modules()``. Empty for
            the outermost module. None outside of modules, or if the module is not known.
        is_module_inferred: Whether the module was not recorded, but inferred from the parameters
            that operations use.
        source: The line of code that ran the operation, from a recording. None if it is not known.
            A recording only sees the thread that started it.
        derivative_order: The highest order of derivative in the result, from recorded passes with
            ``create_graph=True``. None if nothing was recorded.
        derivative: The derivative that the node helps to compute, such as ``"u_xx"``. This is the
            name of the result, or one composed of the names of the differentiated tensors. None
            outside of recorded passes with ``create_graph=True``.
        hides_saved: Whether PyTorch hides the saved tensors, so that `saved` is empty. This is the
            case for writes into views (``"CopySlices"``) and most foreach functions.
        values: A summary of each output of the operation, or of the leaf's value. None if the value
            is not known. Empty if `trace_graph` ran without ``values=True``.
        gradients: A summary of the gradient that arrived for each output. None if no gradient
            arrived. Empty if `trace_graph` ran without ``gradients=True``.
        visited: The position in the order of the backward pass that `trace_graph` ran. None if the
            pass did not reach the node.
        value_turns: Whether a NaN or infinity first appeared at this node and reached a root. All
            inputs from other nodes were finite, or a NaN was computed from infinities.
        value_turn_kind: ``"NaN"`` or ``"infinity"``, whichever appeared.
        value_turn_given: The recorded non-finite inputs that no edge leads to: their names, or
            texts such as ``"argument 0 of linear"``.
        value_turn_is_near: Whether the value of a node directly before this one is not known, so
            that the NaN or infinity may have appeared there.
        gradient_turns: Whether a NaN or infinity first appeared in the gradients at this node and
            reached a node without successors. It was computed from finite gradients or from
            infinities, or a hook or a sum produced it.
        gradient_turn_kind: ``"NaN"`` or ``"infinity"``, whichever appeared.
        settings: The arguments of the operation that are not tensors, such as
            ``("stride", "(2, 2)")``, as far as PyTorch saved them.
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
        """The name of the leaf tensor that this node accumulates into. None if it has no name."""
        return self.tensor_names[0] if self.is_leaf and self.tensor_names else None

    @property
    def recomputes(self) -> bool:
        """Whether backward runs forward code again for this node, as in checkpointing."""
        name = self.custom_function.name if self.custom_function else None
        by_hook = any(saved.state == "recompute" for saved in self.saved)
        return by_hook or name == "torch.utils.checkpoint.CheckpointFunction"

    @property
    def is_freed(self) -> bool:
        """Whether a saved tensor was freed, so that a backward pass through this node would fail.

        PyTorch frees the node of a custom function as a whole, even if it saved nothing.
        """
        return any(saved.state == "freed" for saved in self.saved)


def age_order(node: TracedNode) -> int:
    """Return a sort key: leaves first, then nodes in the order of their operations."""
    return -1 if node.created is None else node.created


def short_name(node: TracedNode) -> str:
    """Return the name of a node's tensor; if it has none, a text with the node's index."""
    return node.tensor_names[0] if node.tensor_names else message("nodes.unnamed", index=node.index)


def place_text(node: TracedNode) -> str:
    """Return a text with the node's index and name, and its line and module if known."""
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
    """Return a node's values as text, None if `trace_graph` ran without ``values=True``."""
    return _join_outputs(node.values, "not-recorded")


def gradient_text(node: TracedNode) -> str | None:
    """Return the gradients that arrived at a node as text, None if none arrived."""
    return _join_outputs(node.gradients, "none") if any(node.gradients) else None


def _join_outputs(summaries: tuple[TensorSummary | None, ...], missing: str) -> str | None:
    """Join the summaries of all outputs; the message `missing` stands for an unknown one.

    A summary is None if it is unknown. Return None if there are no outputs.
    """
    if not any(summaries):
        return message(f"nodes.{missing}") if summaries else None
    return "; ".join(
        message(f"nodes.{missing}") if summary is None else str(summary) for summary in summaries
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class InputUse:
    """An operation that uses an input of the graph.

    Attributes:
        node: The index of the operation's node.
        argument: The name of the input in the operation, as in `SavedTensor.name`.
    """

    node: int
    argument: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedInput:
    """A named tensor that does not require grad and that operations of the graph saved.

    Data and targets are such tensors. Frozen parameters and buffers do not count.

    Attributes:
        name: The name from `names`, or the name of the module's argument in a recording.
        shape: The sizes.
        dtype: The data type.
        device: The device.
        uses: The operations that are known to use the tensor.
    """

    name: str
    shape: Shape
    dtype: torch.dtype
    device: torch.device
    uses: tuple[InputUse, ...]
