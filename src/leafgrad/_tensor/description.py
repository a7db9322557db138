"""The facts about one tensor that matter to autograd, as a value."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.units import shape_text, torch_name
from leafgrad._messages import message


class TensorRole(StrEnum):
    """The role that a tensor plays in autograd. ``str()`` returns it as readable text.

    Attributes:
        CONSTANT: The tensor does not require grad, and is a leaf by convention.
        LEAF: The tensor requires grad, and no recorded operation made it. ``backward()`` fills its
            ``.grad``.
        NON_LEAF: The tensor is the result of a recorded operation.
        RETAINED: The tensor is a non-leaf whose ``.grad`` is filled because of ``retain_grad()``.
        UNRECORDED_VIEW: The tensor counts as a leaf that requires grad, because its base does. But
            the view was taken while nothing was recorded, so no gradient reaches it.
        INVALID_VIEW: The tensor is a view that PyTorch cannot place in the graph after an in-place
            write.
        WRAPPED: The tensor is inside a ``torch.func`` transform, which has its own graph.

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
    """What autograd knows about one tensor. `describe_tensor` returns it.

    A description keeps no tensor alive, and two descriptions with the same facts are equal.
    ``print`` shows it as text, and a notebook shows it as a card.

    Attributes:
        name: The name that was passed to `describe_tensor`, or None.
        shape: The sizes as numbers. Other sizes are strings: ``"ragged"`` in a nested tensor, or a
            symbol such as ``"s0"`` in a traced tensor. None for a lazy parameter before its first
            input.
        dtype: The data type.
        device: The device of the data.
        layout: The memory layout, such as ``torch.strided``.
        requires_grad: The value of ``tensor.requires_grad``.
        is_leaf: The value of ``tensor.is_leaf``. None for an invalid view, where reading it raises
            an error.
        grad_fn: The name of the node that recorded the tensor, such as ``"MulBackward0"``. None for
            a leaf and for an invalid view.
        output_nr: The position of the tensor among the outputs of this node.
        retains_grad: The value of ``tensor.retains_grad``. Leaves store ``.grad`` even if it is
            False.
        has_grad: Whether ``.grad`` contains a gradient now.
        version: The version counter. In-place writes increase it, except writes through ``.data``.
            None for an inference tensor.
        is_view: Whether autograd tracks the tensor as a view of another tensor.
        is_parameter: Whether the tensor is an ``nn.Parameter``.
        is_inference: Whether the tensor was created in ``torch.inference_mode()``.
        wrapped: The ``torch.func`` transform around the tensor and its level, such as
            ``"vmap, level 1"``. ``"ended"`` after the transform, and None outside of transforms.
        subclass: The name of the tensor's class, such as ``"DTensor"`` or ``"NestedTensor"``. None
            for ``torch.Tensor`` and ``nn.Parameter``.
        role: The role that the tensor plays.
        will_accumulate_grad: Whether a plain ``backward()`` from a result that depends on the
            tensor stores a gradient in ``.grad``.
        why: Sentences that say why the tensor is or is not a leaf, whether and why ``.grad`` will
            be filled, and what you can do about it.
        local_shape: The shape of the part of a DTensor that this process holds. `shape` is the
            shape of the whole DTensor. None for other tensors.
        placements: The placement of a DTensor on each dimension of its mesh, such as
            ``("Shard(dim=0)",)``. None for other tensors.
        mesh: The mesh of a DTensor: the sizes and names of its dimensions and the kind of device,
            such as ``"dp=4 x tp=2 on cuda"``. None for other tensors.
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
    """Return the name of a role in the current language."""
    return message(f"tensor.role.{role.name.lower().replace('_', '-')}")


def _words(key: str, **slots: object) -> str:
    """Return the message with this key under ``tensor.rows``."""
    return message(f"tensor.rows.{key}", **slots)


def _rows_of_subclass(description: TensorDescription) -> Iterator[tuple[str, str]]:
    """Yield card rows for the class of a tensor subclass, and the parts of a DTensor."""
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
"""Message keys for the effect of backward(), by whether ``.grad`` is filled now and will be."""


def _traits(description: TensorDescription) -> Iterator[str]:
    """Yield texts: the data type, shape and device, then unusual properties."""
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
