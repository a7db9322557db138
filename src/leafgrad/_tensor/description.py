"""The facts about one tensor that matter to autograd, as a value."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.units import shape_text, torch_name
from leafgrad._messages import message


class TensorRole(StrEnum):
    """The part that a tensor plays in autograd; ``str()`` of it reads as prose.

    Attributes:
        CONSTANT: Does not require grad, and is a leaf by convention.
        LEAF: Requires grad and no recorded operation made it: ``backward()`` fills its ``.grad``.
        NON_LEAF: The result of a recorded operation.
        RETAINED: A non-leaf whose ``.grad`` is filled as well, since ``retain_grad()``.
        UNRECORDED_VIEW: Counts as a leaf that requires grad, as its base does, but no gradient
            reaches it: the view was taken while nothing was recorded.
        INVALID_VIEW: A view which PyTorch refuses to place in the graph since a write in place.
        WRAPPED: Lives inside a ``torch.func`` transform, which has a graph of its own.

    Example:
        >>> import torch
        >>> from leafgrad import describe_tensor
        >>> from leafgrad.types import TensorRole
        >>> describe_tensor(torch.ones(3)).role is TensorRole.CONSTANT
        True
    """

    CONSTANT = "constant"
    LEAF = "leaf"
    NON_LEAF = "non-leaf"
    RETAINED = "non-leaf that retains its gradient"
    UNRECORDED_VIEW = "unrecorded view"
    INVALID_VIEW = "invalid view"
    WRAPPED = "wrapped by torch.func"


@dataclass(frozen=True, kw_only=True, repr=False)
class TensorDescription(ShownAsCard):
    """What one tensor is to autograd; `describe_tensor` makes it.

    It keeps no tensor alive, is equal to a description with the same facts, prints itself for a
    terminal and shows itself in a notebook.

    Attributes:
        name: The name that was given, or None.
        shape: The sizes: numbers, or words where a size is none (``"ragged"`` in a nested tensor,
            a symbol such as ``"s0"`` in a traced one). None for a lazy parameter before its first
            input.
        dtype: The data type.
        device: Where the data is.
        layout: Strided, sparse, ...
        requires_grad: What ``tensor.requires_grad`` says.
        is_leaf: What ``tensor.is_leaf`` says; None for an invalid view, where it raises.
        grad_fn: The name of the node that recorded the tensor, such as ``"MulBackward0"``; None for
            a leaf and for an invalid view.
        output_nr: Which of that node's outputs the tensor is.
        retains_grad: What ``tensor.retains_grad`` says; leaves keep ``.grad`` without it.
        has_grad: Whether ``.grad`` holds a gradient now.
        version: What in-place writes raise, but for those through ``.data``; None for an inference
            tensor.
        is_view: Whether autograd tracks the tensor as a view of another.
        is_parameter: Whether it is an ``nn.Parameter``.
        is_inference: Whether it was made in ``torch.inference_mode()``.
        wrapped: The ``torch.func`` transform around the tensor and its level, such as
            ``"vmap, level 1"``; ``"ended"`` when the transform is over; None outside.
        subclass: The name of the tensor's class, such as ``"DTensor"`` or ``"NestedTensor"``; None
            for ``torch.Tensor`` and ``nn.Parameter``.
        local_shape: The shape of the part of a DTensor that is in this process, where `shape` is
            that of the whole; None for any other tensor.
        placements: How a DTensor is spread over each dimension of its mesh, such as
            ``("Shard(dim=0)",)``; None for any other tensor.
        mesh: The sizes of the mesh of a DTensor, after the names of its dimensions if they have
            any, and the kind of device, such as ``"dp=4 x tp=2 on cuda"``; None for any other
            tensor.
        role: The part that the tensor plays.
        will_accumulate_grad: Whether a plain ``backward()`` from a result that depends on the
            tensor stores a gradient in ``.grad``.
        why: Sentences: why it is or is not a leaf, whether ``.grad`` will be filled and why, and
            what to do about it.
    """

    name: str | None
    shape: tuple[int | str, ...] | None
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    requires_grad: bool
    is_leaf: bool | None
    grad_fn: str | None
    output_nr: int
    retains_grad: bool
    has_grad: bool
    version: int | None
    is_view: bool
    is_parameter: bool
    is_inference: bool
    wrapped: str | None
    subclass: str | None
    role: TensorRole
    will_accumulate_grad: bool
    why: tuple[str, ...]
    local_shape: tuple[int | str, ...] | None = None
    placements: tuple[str, ...] | None = None
    mesh: str | None = None

    def _card(self) -> Card:
        """Return a card with the facts as rows and the reasons as sentences."""
        node = str(self.grad_fn)
        if self.output_nr:
            node = _words("output", node=node, number=self.output_nr)
        rows = (
            (_words("tensor"), message("lists.facts").join(_traits(self))),
            *_rows_of_subclass(self),
            ("requires_grad", str(self.requires_grad)),
            ("is_leaf", _words("unknown") if self.is_leaf is None else str(self.is_leaf)),
            ("grad_fn", node),
            ("retains_grad", str(self.retains_grad)),
            (".grad", message(f"tensor.grad.{GRAD[self.has_grad, self.will_accumulate_grad]}")),
            (
                _words("version"),
                str(_words("no-version") if self.version is None else self.version),
            ),
        )
        title = f"{self.name or message('tensor.unnamed')}: {role_text(self.role)}"
        return Card(title=title, rows=rows, sentences=self.why)


def role_text(role: TensorRole) -> str:
    """Return a role in the reader's language."""
    return message(f"tensor.role.{role.name.lower().replace('_', '-')}")


def _words(key: str, **slots: object) -> str:
    return message(f"tensor.rows.{key}", **slots)


def _rows_of_subclass(description: TensorDescription) -> Iterator[tuple[str, str]]:
    """Yield the class of a tensor subclass, and the parts of a DTensor."""
    d = description
    if d.subclass is not None:
        yield _words("class"), d.subclass
    if d.placements is not None:
        shape = _words("shape", shape=shape_text(d.local_shape))
        yield _words("local-part"), message("lists.facts").join([shape, *d.placements])
        yield _words("mesh"), str(d.mesh)


GRAD = {
    (False, False): "stays-empty",
    (False, True): "is-filled",
    (True, False): "stays-filled",
    (True, True): "is-added",
}
"""The key of what backward() does to ``.grad``, by whether it is filled now and will be."""


def _traits(description: TensorDescription) -> Iterator[str]:
    """Yield data type, shape and device, then unusual properties."""
    shape, layout = description.shape, torch_name(description.layout)
    yield torch_name(description.dtype)
    yield _words("no-shape") if shape is None else _words("shape", shape=shape_text(shape))
    yield str(description.device)
    if layout != "strided":
        yield layout
    if description.is_parameter:
        yield _words("parameter")
    if description.is_view:
        yield _words("view")
    if description.is_inference:
        yield _words("inference")
    if description.wrapped is not None:
        yield _words("transform", transform=description.wrapped)
