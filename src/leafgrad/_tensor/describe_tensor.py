"""`describe_tensor`: read the facts about a tensor that matter to autograd."""

import torch

from leafgrad import _autograd
from leafgrad._arguments.signature import public_function
from leafgrad._messages import has_message, message
from leafgrad._tensor.description import TensorDescription, TensorRole, role_text


@public_function()
def describe_tensor(tensor: torch.Tensor, *, name: str | None = None) -> TensorDescription:
    """Return what autograd knows about a tensor, and whether ``backward()`` fills its ``.grad``.

    The description also says why, in sentences. The elements of the tensor are never read, so the
    cost does not depend on its size.

    Args:
        tensor: Any tensor, of any shape, dtype, device and layout.
        name: The name of the tensor in the printed description.

    Returns:
        The description, which does not keep the tensor alive.

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
          .grad          None; backward() does not fill it
          version        0
          - It was computed by a recorded operation, `MulBackward0`, so it is not a
            leaf.
          - `backward()` does not store the gradients of intermediate tensors, so
            `.grad` stays None.
          - To store it, call `retain_grad()` before `backward()`.
            `torch.autograd.grad()` returns it without storing it.

    Raises:
        TypeError: If `tensor` is not a tensor, or `name` is not a string.

    Note:
        The description follows the documentation of ``torch.Tensor.is_leaf`` and
        ``torch.Tensor.retain_grad``. Where this documentation leaves something open, it follows
        what PyTorch does.

        A call changes no values or gradients, and issues no warning. It runs no code of a tensor
        subclass, unless the subclass itself computes its shape, device or layout. But a call can
        change two things inside PyTorch. If a view was written to, PyTorch updates the node of the
        view, as it does whenever you use the view. And a ``grad_fn`` gets a private entry in its
        ``metadata``, which makes deep graphs safe to free.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(message("errors.tensor.type", type=type(tensor).__name__))
    if not isinstance(name, str | None):
        raise TypeError(message("errors.tensor.name", type=type(name).__name__))
    with _autograd.unobserved():
        facts = _facts(tensor, name, _role(tensor))
        now, variant = "filled" if facts.has_grad else "empty", _variant(facts)
        why = _reasons(facts.role, variant, now, facts.grad_fn, facts.wrapped)
        if facts.wrapped is not None:
            inner = role_text(_role(_autograd.unwrapped(tensor)))
            why = *why, message("tensor.inner", role=inner)
    # The frozen value has not been shared yet, and a copy would double the time.
    object.__setattr__(facts, "why", why)
    return facts


def _role(tensor: torch.Tensor) -> TensorRole:
    """Return the role of a tensor in autograd."""
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
    """Return the description of a tensor, without the sentences in `why`."""
    is_valid = role is not TensorRole.INVALID_VIEW
    kind = type(tensor)
    return TensorDescription(
        name=name,
        shape=_autograd.shape(tensor),
        dtype=_autograd.plain(tensor, "dtype"),
        device=_autograd.plain(tensor, "device"),
        layout=_autograd.plain(tensor, "layout"),
        requires_grad=_autograd.plain(tensor, "requires_grad"),
        is_leaf=_autograd.plain(tensor, "is_leaf") if is_valid else None,
        grad_fn=_autograd.grad_fn_name(tensor) if is_valid else None,
        output_nr=_autograd.plain(tensor, "output_nr"),
        retains_grad=_autograd.plain(tensor, "retains_grad"),
        has_grad=_autograd.held_grad(tensor) is not None,
        version=_autograd.version(tensor),
        is_view=_autograd.is_view(tensor),
        is_parameter=_autograd.is_parameter(tensor),
        is_inference=_autograd.plain(tensor, "is_inference")(),
        wrapped=_autograd.functorch_wrapper(tensor),
        subclass=None if kind in {torch.Tensor, torch.nn.Parameter} else kind.__name__,
        role=role,
        will_accumulate_grad=role is TensorRole.LEAF or role is TensorRole.RETAINED,
        why=(),
        **_autograd.spread(tensor),
    )


def _reasons(
    role: TensorRole, variant: str, now: str, node: str | None, transform: str | None
) -> tuple[str, ...]:
    """Return sentences: why the tensor is a leaf or not, what happens to ``.grad``, what to do.

    Args:
        role: The role of the tensor.
        variant: The special case that `_variant` returned.
        now: ``"filled"`` or ``"empty"``: whether ``.grad`` holds a gradient.
        node: The name of the tensor's node, None for a leaf.
        transform: The `torch.func` transform around the tensor, None if there is none.
    """
    table = f"tensor.{role.name.lower().replace('_', '-')}"
    slots = {
        "node": node,
        "transform": transform,
        "stays": message(f"tensor.stays.{now}"),
        "stores": message(f"tensor.stores.{now}"),
    }
    pairs = ((f"{table}.{variant}.{part}", f"{table}.{part}") for part in ("leaf", "grad", "do"))
    keys = (next(filter(has_message, pair), None) for pair in pairs)
    return tuple(message(key, **slots) for key in keys if key is not None)


def _variant(facts: TensorDescription) -> str:
    """Return the name of a special case that may have its own sentences, or an empty text.

    `facts` describes the tensor.
    """
    if not (facts.dtype.is_floating_point or facts.dtype.is_complex):
        return "integer"
    if facts.shape is None and facts.requires_grad:
        return "lazy"
    if facts.is_inference:
        return "inference"
    if facts.wrapped == "ended":
        return "ended"
    return "parameter" if facts.is_parameter else ""
