"""One sentence of cause and one of cure for each way in which a gradient stays out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leafgrad._record.cut import Cut


def because(cause: str, told: Mapping[str, str], cuts: "tuple[Cut, ...]") -> str:
    """Say what the cause is, and where if that is known."""
    sentence = BECAUSE[cause].format_map(told)
    use = f": {told['use']}" if told["use"] and cause in TELLING_USE and not cuts else ""
    return f"{sentence}{_place(cuts)}{use}."


def cure(cause: str, cuts: "tuple[Cut, ...]") -> str:
    """Say what to do, which may depend on the operation that cut the path."""
    if cuts and cause == cuts[0].kind.name:
        return CURES_OF_OPERATIONS.get(cuts[0].operation, CURES[cause])
    return CURES[cause]


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
    "UNSEEN": (
        "Whether a gradient comes to it cannot be seen without running backward: that depends on "
        "the code of {node}, which the graph does not show"
    ),
    "STOPPED": (
        "A path of the graph leads to it, but no gradient comes along it, as a custom function on "
        "the way hands on none: {node}"
    ),
    "ALL_ZERO": (
        "A gradient will come to it, but every path leads through an operation that hands on zeros "
        "whatever arrives, as its derivative is zero everywhere: {node}"
    ),
    "SWAPPED": "The path goes the other way: it was computed from the outputs",
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
        "(other threads and TorchScript are not recorded)"
    ),
    "LOST": (
        "No path of the graph leads from the outputs to it, nor was it seen to be cut: what came "
        "of it was not used for them, or went on unseen, as through another thread"
    ),
    "LATE": (
        "No path of the graph leads from the outputs to it, and it was used before its "
        "requires_grad was switched on, which records nothing"
    ),
    "SHARED": (
        "No path of the graph leads from the outputs to it, but its memory was used through "
        "another tensor, which has a graph of its own or none"
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
    "COPIED": (
        "The path from the outputs to it was cut where its value went into a tensor that was made "
        "anew, which has no graph"
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

TELLING_USE = {"LOST", "LATE", "SHARED"}

_RECORD = "compute the outputs inside record() and hand the recording over to see where"
CURES = {
    "FILLED": (
        "Another backward from the outputs adds to it. Whether its numbers are zero is not looked "
        "at; trace_graph(outputs, gradients=True) shows what comes from where."
    ),
    "FILLED_AND_FREED": (
        "To add to it, compute the outputs again, as a part of their graph was freed. Whether its "
        "numbers are zero is not looked at; trace_graph(outputs, gradients=True) shows what comes "
        "from where, on a graph that is not freed."
    ),
    "FILLED_BY_OTHERS": "A backward from these outputs is not seen to add to it.",
    "NOT_RUN": "Call backward() on the outputs.",
    "UNSEEN": (
        "Look at .grad after backward(). A reentrant checkpoint shows its graph if it is called "
        "with use_reentrant=False."
    ),
    "STOPPED": (
        "Let the backward of that function return a gradient for this input, not None, and use "
        "the output that it passes on."
    ),
    "ALL_ZERO": (
        "Replace the operation by a smooth one, or pass the gradient straight through it, as in "
        "x + (x.round() - x).detach()."
    ),
    "SWAPPED": "Swap the two: the tensor comes first, and then what backward is called on.",
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
    "COPY_OF_LEAF": (
        "It shares the memory of a leaf that the outputs depend on: ask for that one. The tensors "
        "of state_dict() are detached, those of named_parameters() are not."
    ),
    "FROZEN": "Call requires_grad_() on it before the outputs are computed.",
    "INTEGER": "Start from a floating-point tensor if it is meant to be trained.",
    "NOT_REACHED": f"If it should have been used, {_RECORD} the path is cut.",
    "LOST": "Follow what was made there, to see whether the outputs depend on it.",
    "LATE": "Call requires_grad_() on it before it is used.",
    "SHARED": (
        "Use the tensor itself, not one that detach(), .data or nn.Parameter() made of it, in this "
        "thread or another."
    ),
    "UNUSED": "Use it for the outputs, or leave it out of what is trained.",
    "WITHOUT_GRAPH": f"Compute the outputs outside no_grad() and detach(), or {_RECORD}.",
    "UNRECORDED_VIEW": "Take the view again, outside no_grad() and inference_mode().",
    "INVALID_VIEW": "Take the view again, after the write.",
    "WRAPPED": "Let torch.func.grad() give the gradient, or look at the tensor outside.",
    "DETACHED": "Leave detach() out where the gradient should pass.",
    "DATA": "Use the tensor itself instead of its .data where the gradient should pass.",
    "NO_GRAD": "Compute it outside no_grad() and inference_mode() where the gradient should pass.",
    "NOT_FLOATING": (
        "Compute with floating-point numbers where the gradient should pass, as comparisons and "
        "integers have no derivative."
    ),
    "NOT_DIFFERENTIABLE": (
        "Replace the operation by one with a derivative; for the gradient of a gradient, pass "
        "create_graph=True."
    ),
    "COPIED": (
        "Pass the tensor on itself; torch.stack() and torch.cat() put several together and keep "
        "their graphs. Make parameters once, before they are used, not of results."
    ),
    "PYTHON": "Stay with tensors: put no item(), tolist() or float() on the way.",
    "NUMPY": "Stay with tensors: put no numpy() on the way, or write a torch.autograd.Function.",
}

_SOFT = "Use a differentiable stand-in, such as softmax() for {}()."
CURES_OF_OPERATIONS = {
    **{name: _SOFT.format(name) for name in ("argmax", "argmin", "argsort", "max", "min", "topk")},
    **dict.fromkeys(
        ("long", "int", "to", "type", "short", "char", "byte"),
        "Keep the numbers floating-point where the gradient should pass. An index has no "
        "derivative: weight the entries, as by softmax(), or interpolate between them.",
    ),
    "sample": (
        "Draw by rsample() instead of sample(), which passes the gradient on where the "
        "distribution has it; where it has not, weight its log_prob()."
    ),
    "CheckpointFunction": (
        "A reentrant checkpoint keeps no graph where none of the tensors that it is given requires "
        "grad: call it with use_reentrant=False, or let one of them require grad."
    ),
    "grad": (
        "Pass create_graph=True to torch.autograd.grad(), so that the gradient has a graph itself."
    ),
}
