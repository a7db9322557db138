"""What one tensor is to autograd, read off it once, as a value."""

from dataclasses import dataclass, fields
from enum import StrEnum

import torch

from leafgrad import _autograd
from leafgrad._arguments.signature import public_function
from leafgrad._tensor import reasons
from leafgrad._tensor.card import card


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
        >>> from leafgrad import TensorRole, describe_tensor
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


@dataclass(frozen=True, kw_only=True)
class TensorDescription:
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
    role: TensorRole
    will_accumulate_grad: bool
    why: tuple[str, ...]

    def __str__(self) -> str:
        return card(self).to_text()

    def _repr_html_(self) -> str:
        return card(self).to_html()

    def to_dict(self) -> dict[str, object]:
        """Give every field under its name, as JSON types only.

        Returns:
            Types of data, layouts and devices by their names (``"float32"``, ``"strided"``,
            ``"cuda:0"``), tuples as lists, the role as its text.

        Example:
            >>> import torch
            >>> from leafgrad import describe_tensor
            >>> facts = describe_tensor(torch.ones(2, 3)).to_dict()
            >>> facts["shape"], facts["dtype"], facts["role"]
            ([2, 3], 'float32', 'constant')
        """
        return {field.name: _as_json(getattr(self, field.name)) for field in fields(self)}


@public_function()
def describe_tensor(tensor: torch.Tensor, *, name: str | None = None) -> TensorDescription:
    """Say what a tensor is to autograd, and whether ``backward()`` will fill its ``.grad``.

    The data is never looked at, so the cost does not depend on the size. Nothing warns, and no
    code of a tensor subclass runs, except where the subclass itself supplies its shape, device or
    layout. Two traces remain, neither with an effect on values or gradients: PyTorch brings the
    node of a view up to date that was written into, as any use of the view would; and a
    ``grad_fn`` gets a private entry in its ``metadata``, which makes long graphs safe to free.

    Args:
        tensor: Any tensor, of any shape, dtype, device and layout.
        name: What to call it in what is printed.

    Returns:
        The facts as a value that keeps nothing alive.

    Raises:
        TypeError: If `tensor` is not a tensor, or `name` not a string.

    Example:
        >>> import torch
        >>> from leafgrad import describe_tensor
        >>> weight = torch.ones(3, requires_grad=True)
        >>> print(describe_tensor(2 * weight, name="doubled"))
        doubled: non-leaf
          tensor         float32, shape (3,), cpu
          requires_grad  True
          is_leaf        False
          grad_fn        MulBackward0
          retains_grad   False
          .grad          None; backward() leaves it so
          version        0
          - It is the result of a recorded operation (MulBackward0), so it is not a
            leaf.
          - backward() passes its gradient on without storing it, so .grad stays None.
          - To store it, call retain_grad() before backward(); torch.autograd.grad()
            returns it without storing.

    The rules are those of ``torch.Tensor.is_leaf`` and ``torch.Tensor.retain_grad``, and what
    PyTorch was seen to do where these are silent.
    """
    _check(tensor, name)
    with _autograd.unobserved():
        facts = _facts(tensor, name, _role(tensor))
        inside = _inside(tensor) if facts.wrapped else ()
    why = *REASONS[facts.role](facts), *inside
    object.__setattr__(facts, "why", why)  # nobody has seen it; to make it anew takes as long again
    return facts


def _check(tensor: object, name: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        cure = next((cure for kind, cure in CURES.items() if isinstance(tensor, kind)), ANY_CURE)
        raise TypeError(f"tensor must be a torch.Tensor, not {type(tensor).__name__}; {cure}")
    if not isinstance(name, str | None):
        raise TypeError(
            f"name must be a str or None, not {type(name).__name__}; give the text to print"
        )


CURES: dict[type | tuple[type, ...], str] = {
    torch.nn.Module: "describe its parameters one by one: module.named_parameters() gives them",
    (list, tuple, dict, set): "describe the tensors in it one by one",
    torch.autograd.graph.Node: "describe the tensor whose grad_fn it is, or trace_graph() it",
}
ANY_CURE = "only tensors take part in autograd: torch.as_tensor() makes one of numbers and arrays"


def _role(tensor: torch.Tensor) -> TensorRole:
    if _autograd.functorch_wrapper(tensor) is not None:
        return TensorRole.WRAPPED
    if _autograd.is_invalid_view(tensor):
        return TensorRole.INVALID_VIEW
    if not _autograd.plain(tensor, "requires_grad"):
        return TensorRole.CONSTANT
    if not _autograd.plain(tensor, "is_leaf"):
        retained = _autograd.plain(tensor, "retains_grad")
        return TensorRole.RETAINED if retained else TensorRole.NON_LEAF
    return TensorRole.LEAF if _autograd.has_accumulator(tensor) else TensorRole.UNRECORDED_VIEW


def _facts(tensor: torch.Tensor, name: str | None, role: TensorRole) -> TensorDescription:
    valid = role is not TensorRole.INVALID_VIEW
    return TensorDescription(
        name=name,
        shape=_autograd.shape(tensor),
        dtype=_autograd.plain(tensor, "dtype"),
        device=_autograd.plain(tensor, "device"),
        layout=_autograd.plain(tensor, "layout"),
        requires_grad=_autograd.plain(tensor, "requires_grad"),
        is_leaf=_autograd.plain(tensor, "is_leaf") if valid else None,
        grad_fn=_autograd.grad_fn_name(tensor) if valid else None,
        output_nr=_autograd.plain(tensor, "output_nr"),
        retains_grad=_autograd.plain(tensor, "retains_grad"),
        has_grad=_autograd.has_grad(tensor),
        version=_autograd.version(tensor),
        is_view=_autograd.is_view(tensor),
        is_parameter=_autograd.is_parameter(tensor),
        is_inference=_autograd.plain(tensor, "is_inference")(),
        wrapped=_autograd.functorch_wrapper(tensor),
        role=role,
        will_accumulate_grad=role in {TensorRole.LEAF, TensorRole.RETAINED},
        why=(),
    )


def _inside(wrapper: torch.Tensor) -> tuple[str, ...]:
    return (f"The tensor inside the wrapper is: {_role(_autograd.unwrapped(wrapper))}.",)


REASONS = {
    TensorRole.CONSTANT: reasons.constant,
    TensorRole.LEAF: reasons.leaf,
    TensorRole.NON_LEAF: reasons.non_leaf,
    TensorRole.RETAINED: reasons.retained,
    TensorRole.UNRECORDED_VIEW: reasons.unrecorded_view,
    TensorRole.INVALID_VIEW: reasons.invalid_view,
    TensorRole.WRAPPED: reasons.wrapped,
}


def _as_json(value: object) -> object:
    """Turn a field into JSON types: numbers, None and booleans stay, the rest has a name."""
    if isinstance(value, tuple):
        return list(value)
    if value is None or isinstance(value, int):
        return value
    return str(value).removeprefix("torch.")
