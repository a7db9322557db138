"""One sentence of cause and one of cure for each way in which a gradient stays out."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leafgrad._cut import Cut
    from leafgrad._tensor import TensorDescription


def because(cause: str, facts: "TensorDescription", cuts: "tuple[Cut, ...]") -> str:
    """Say what the cause is, and where if that is known."""
    sentence = BECAUSE[cause].format(
        grad_fn=facts.grad_fn, dtype=str(facts.dtype).removeprefix("torch.")
    )
    return f"{sentence}{_place(cuts)}."


def _place(cuts: "tuple[Cut, ...]") -> str:
    """Name the first of the cuts."""
    if not cuts:
        return ""
    more = f" (and {len(cuts) - 1} more)" * (len(cuts) > 1)
    return f": {cuts[0].operation} in {_where(cuts[0])}{more}"


def _where(cut: "Cut") -> str:
    return "code that is not known" if cut.source is None else str(cut.source)


BECAUSE = {
    "FILLED": "Its .grad holds a gradient, from a backward or set by hand",
    "NOT_RUN": "The outputs depend on it, and no backward has gone through their graph yet",
    "USED_UP": (
        "The outputs depend on it, but a part of their graph was freed already: by a backward "
        "whose gradient was cleared since, or by torch.autograd.grad(), which stores none"
    ),
    "NOT_RETAINED": (
        "It is the result of a recorded operation ({grad_fn}), whose gradient is passed on and not "
        "kept"
    ),
    "CONSTANT": "It does not require grad, so backward computes no gradient for it",
    "FROZEN": "It is a parameter whose requires_grad is off, so that backward leaves it out",
    "INTEGER": "It holds {dtype}, and only floating-point and complex numbers have gradients",
    "NOT_REACHED": (
        "No path of the graph leads from the outputs to it: it was not used for them, or something "
        "on the way has lost its graph"
    ),
    "UNUSED": (
        "No path of the graph leads from the outputs to it, and nothing that was recorded used it "
        "for them"
    ),
    "WITHOUT_GRAPH": (
        "None of the outputs requires grad, so they have no graph that could lead to it"
    ),
    "UNRECORDED_VIEW": (
        "It is a view that was taken while nothing was recorded, so that no gradient can reach it"
    ),
    "INVALID_VIEW": (
        "It is a view that PyTorch refuses to use since its memory was written in place"
    ),
    "WRAPPED": "It lives inside a torch.func transform, where no .grad is ever filled",
    "DETACHED": "The path from the outputs to it was cut by detach()",
    "DATA": "The path from the outputs to it was cut by .data",
    "NO_GRAD": (
        "The path from the outputs to it was cut by what was computed inside no_grad() or "
        "inference_mode()"
    ),
    "NOT_FLOATING": (
        "The path from the outputs to it was cut by a result that holds integers or truth values"
    ),
    "NOT_DIFFERENTIABLE": (
        "The path from the outputs to it was cut by an operation that has no derivative"
    ),
    "PYTHON": (
        "No path leads from the outputs to it, and its value went on as a number or list of "
        "Python's, which has no graph"
    ),
    "NUMPY": (
        "No path leads from the outputs to it, and its value went on as an array outside PyTorch, "
        "which has no graph"
    ),
}

_RECORD = "compute the outputs inside record() and hand the recording over to see where"
CURES = {
    "FILLED": "Nothing needs to be done; another backward adds to it.",
    "NOT_RUN": "Call backward() on the outputs.",
    "USED_UP": (
        "Compute the outputs again, or pass retain_graph=True to the backward that comes first."
    ),
    "NOT_RETAINED": (
        "Call retain_grad() on it before backward(), or ask torch.autograd.grad() for its gradient."
    ),
    "CONSTANT": (
        "Call requires_grad_() on it before it is used, or look for what kept its own history from "
        "being recorded."
    ),
    "FROZEN": "Call requires_grad_() on it before the outputs are computed.",
    "INTEGER": "Start from a floating-point tensor if it is meant to be trained.",
    "NOT_REACHED": f"If it should have been used, {_RECORD} the path is cut.",
    "UNUSED": "Use it for the outputs, or leave it out of what is trained.",
    "WITHOUT_GRAPH": f"Compute the outputs outside no_grad() and detach(), or {_RECORD}.",
    "UNRECORDED_VIEW": "Take the view again, outside no_grad() and inference_mode().",
    "INVALID_VIEW": "Take the view again, after the write.",
    "WRAPPED": "Let torch.func.grad() give the gradient, or look at the tensor outside.",
    "DETACHED": "Leave detach() out where the gradient should pass.",
    "DATA": "Use the tensor itself instead of its .data where the gradient should pass.",
    "NO_GRAD": "Compute it outside no_grad() and inference_mode() where the gradient should pass.",
    "NOT_FLOATING": "Use a differentiable stand-in, such as softmax() for argmax().",
    "NOT_DIFFERENTIABLE": (
        "Replace the operation by one with a derivative; for the gradient of a gradient, pass "
        "create_graph=True."
    ),
    "PYTHON": "Stay with tensors: put no item(), tolist() or float() on the way.",
    "NUMPY": "Stay with tensors: put no numpy() on the way, or write a torch.autograd.Function.",
}
