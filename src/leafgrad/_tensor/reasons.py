"""Why a tensor is what it is to autograd, in sentences, one function a role."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leafgrad._tensor.describe_tensor import TensorDescription

Sentences = tuple[str, ...]


def constant(facts: "TensorDescription") -> Sentences:
    """Explain a tensor that does not require grad."""
    return (
        "It does not require grad, so it is a leaf by convention.",
        f"backward() computes no gradient for it, so .grad {_stays(facts)}.",
        _how_to_make_it_require_grad(facts),
    )


def _how_to_make_it_require_grad(facts: "TensorDescription") -> str:
    if not (facts.dtype.is_floating_point or facts.dtype.is_complex):
        return (
            "Only floating-point and complex tensors can require grad; "
            "if it is meant to be trained, start from a floating-point copy."
        )
    if facts.is_inference:
        return (
            "An inference tensor cannot start to require grad outside inference_mode(); "
            "its clone(), made outside, can."
        )
    if facts.is_parameter:
        return "It is a frozen parameter; requires_grad_() makes it trainable again."
    return (
        "To get a gradient, call requires_grad_() on it before it is used; if it was computed "
        "from tensors that require grad, look for what kept that from being recorded: "
        "no_grad(), detach(), .data."
    )


def leaf(facts: "TensorDescription") -> Sentences:
    """Explain a tensor that collects gradients."""
    return (
        "It requires grad and is not the result of a recorded operation, so it is a leaf.",
        f"backward() from a result that depends on it {_stores(facts)}.",
        *_limits(facts),
    )


def _limits(facts: "TensorDescription") -> Sentences:
    lazy = "It is a lazy parameter: its shape is settled when its module gets a first input."
    inference = (
        "It is an inference tensor: an operation on such tensors alone is not recorded, and one "
        "that has to save it for backward raises; a clone() made outside inference_mode() is "
        "free of both."
    )
    return (lazy,) * (facts.shape is None) + (inference,) * facts.is_inference


def non_leaf(facts: "TensorDescription") -> Sentences:
    """Explain a recorded result whose gradient is passed on."""
    cure = (
        "To store it, call retain_grad() before backward(); torch.autograd.grad() returns it "
        "without storing."
    )
    return (
        _recorded(facts),
        f"backward() passes its gradient on without storing it, so .grad {_stays(facts)}.",
        cure,
    )


def retained(facts: "TensorDescription") -> Sentences:
    """Explain a recorded result whose gradient is stored as well."""
    stores = f"so backward() from a result that depends on it {_stores(facts)}"
    return _recorded(facts), f"It retains its gradient, {stores}."


def unrecorded_view(facts: "TensorDescription") -> Sentences:
    """Explain a view that echoes its base's requires_grad."""
    reason = (
        "It is a view that was taken while nothing was recorded: it has no grad_fn, so it counts "
        "as a leaf, and requires_grad only repeats what its base says."
    )
    cure = (
        "Take the view again, outside no_grad() and inference_mode(), to connect it; or detach() "
        "it, to say that it is a constant."
    )
    reach = f"backward() cannot reach it, nor its base through it, so .grad {_stays(facts)}."
    return reason, reach, cure


def invalid_view(facts: "TensorDescription") -> Sentences:
    """Explain a view that PyTorch refuses to use."""
    reason = (
        "Its memory was written in place since this view was taken, and a view taken under "
        "no_grad() or as one of several (as by unbind()) cannot follow: PyTorch refuses to say "
        "whether it is a leaf."
    )
    reach = f"To record an operation on it raises RuntimeError, so .grad {_stays(facts)}."
    return reason, reach, "Take the view again, after the write."


def wrapped(facts: "TensorDescription") -> Sentences:
    """Explain a tensor that lives inside a transform, or outlived it."""
    return _ended() if facts.wrapped == "ended" else _inside(facts)


def _ended() -> Sentences:
    reason = (
        "It outlived the torch.func transform that made it, so what it says about leaves and "
        "grad_fn belongs to a graph that is gone."
    )
    return (
        reason,
        "backward() never fills the .grad of such a tensor.",
        "Let the transformed function return what is needed outside.",
    )


def _inside(facts: "TensorDescription") -> Sentences:
    reason = (
        f"It is inside torch.func ({facts.wrapped}): requires_grad, is_leaf and grad_fn are those "
        "of this level, and the graph of the code outside is one level deeper."
    )
    reach = (
        "backward() cannot be called inside a transform, and never fills the .grad of a tensor "
        "that lives in one."
    )
    cure = (
        "Let the transform compute the gradient (torch.func.grad), or look at the tensor outside."
    )
    return reason, reach, cure


def _recorded(facts: "TensorDescription") -> str:
    return f"It is the result of a recorded operation ({facts.grad_fn}), so it is not a leaf."


def _stores(facts: "TensorDescription") -> str:
    return "adds its gradient to what .grad holds" if facts.has_grad else "fills its .grad"


def _stays(facts: "TensorDescription") -> str:
    return "keeps what it holds" if facts.has_grad else "stays None"
