"""Explain the role of a tensor in autograd, one function for each role."""

from collections.abc import Callable, Iterator, Mapping

from leafgrad._tensor.description import TensorDescription, TensorRole

Sentences = tuple[str, ...]


def _constant(facts: TensorDescription) -> Sentences:
    """Explain a tensor that does not require grad."""
    return (
        "It does not require grad, so it is a leaf by convention.",
        f"backward() computes no gradient for it, so .grad {_stays(facts)}.",
        _cure_of_constant(facts),
    )


def _cure_of_constant(facts: TensorDescription) -> str:
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


def _leaf(facts: TensorDescription) -> Sentences:
    """Explain a tensor that collects gradients."""
    return (
        "It requires grad and is not the result of a recorded operation, so it is a leaf.",
        f"backward() from a result that depends on it {_stores(facts)}.",
        *_limits_of_leaf(facts),
    )


def _limits_of_leaf(facts: TensorDescription) -> Iterator[str]:
    if facts.shape is None:
        yield "It is a lazy parameter: its shape is settled when its module gets a first input."
    if facts.is_inference:
        yield (
            "It is an inference tensor: an operation on such tensors alone is not recorded, and "
            "one that has to save it for backward raises; a clone() made outside inference_mode() "
            "is free of both."
        )


def _non_leaf(facts: TensorDescription) -> Sentences:
    """Explain a recorded result whose gradient is passed on."""
    return (
        _recorded(facts),
        f"backward() passes its gradient on without storing it, so .grad {_stays(facts)}.",
        (
            "To store it, call retain_grad() before backward(); torch.autograd.grad() returns it "
            "without storing."
        ),
    )


def _retained(facts: TensorDescription) -> Sentences:
    """Explain a recorded result whose gradient is stored as well."""
    stores = f"so backward() from a result that depends on it {_stores(facts)}"
    return _recorded(facts), f"It retains its gradient, {stores}."


def _unrecorded_view(facts: TensorDescription) -> Sentences:
    """Explain a view that echoes its base's requires_grad."""
    return (
        (
            "It is a view that was taken while nothing was recorded: it has no grad_fn, so it "
            "counts as a leaf, and requires_grad only repeats what its base says."
        ),
        f"backward() cannot reach it, nor its base through it, so .grad {_stays(facts)}.",
        (
            "Take the view again, outside no_grad() and inference_mode(), to connect it; or "
            "detach() it, to say that it is a constant."
        ),
    )


def _invalid_view(facts: TensorDescription) -> Sentences:
    """Explain a view that PyTorch refuses to use."""
    return (
        (
            "Its memory was written in place since this view was taken, and a view taken under "
            "no_grad() or as one of several (as by unbind()) cannot follow: PyTorch refuses to say "
            "whether it is a leaf."
        ),
        f"To record an operation on it raises RuntimeError, so .grad {_stays(facts)}.",
        "Take the view again, after the write.",
    )


def _wrapped(facts: TensorDescription) -> Sentences:
    """Explain a tensor that lives inside a transform, or outlived it."""
    if facts.wrapped == "ended":
        return (
            (
                "It outlived the torch.func transform that made it, so what it says about leaves "
                "and grad_fn belongs to a graph that is gone."
            ),
            "backward() never fills the .grad of such a tensor.",
            "Let the transformed function return what is needed outside.",
        )
    return (
        (
            f"It is inside torch.func ({facts.wrapped}): requires_grad, is_leaf and grad_fn are "
            "those of this level, and the graph of the code outside is one level deeper."
        ),
        (
            "backward() cannot be called inside a transform, and never fills the .grad of a tensor "
            "that lives in one."
        ),
        "Let the transform compute the gradient (torch.func.grad), or look at the tensor outside.",
    )


def _recorded(facts: TensorDescription) -> str:
    return f"It is the result of a recorded operation ({facts.grad_fn}), so it is not a leaf."


def _stores(facts: TensorDescription) -> str:
    return "adds its gradient to what .grad holds" if facts.has_grad else "fills its .grad"


def _stays(facts: TensorDescription) -> str:
    return "keeps what it holds" if facts.has_grad else "stays None"


REASONS: Mapping[TensorRole, Callable[[TensorDescription], Sentences]] = {
    TensorRole.CONSTANT: _constant,
    TensorRole.LEAF: _leaf,
    TensorRole.NON_LEAF: _non_leaf,
    TensorRole.RETAINED: _retained,
    TensorRole.UNRECORDED_VIEW: _unrecorded_view,
    TensorRole.INVALID_VIEW: _invalid_view,
    TensorRole.WRAPPED: _wrapped,
}
