"""One sentence of cause and one of cure for each way in which a gradient stays out."""

from collections.abc import Mapping

from leafgrad._explain.grad_explanation import CAUSE_OF_CUT, GradCause
from leafgrad._record.cut import DERIVATIVE, Cut


def because(cause: GradCause, facts: Mapping[str, str], cuts: tuple[Cut, ...]) -> str:
    """Return the cause in words, with the place of the cut or of the use where that is known."""
    is_partial = cause is GradCause.LINEAR and facts["partial"]
    sentence = (MAY_LACK_PART if is_partial else BECAUSE[cause]).format_map(facts)
    if cuts and cause is not GradCause.FROZEN:
        return f"{sentence}: {place_of_cuts(cuts)}.{switched_off(cuts)}"
    if facts["use"] and cause in TELLING_USE:
        return f"{sentence}: {facts['use']}."
    return f"{sentence}."


def cure(cause: GradCause, cuts: tuple[Cut, ...], *, is_off: bool) -> str:
    """Return what to do, which may depend on the operation that cut the path.

    `is_off` tells whether gradients are switched off at this moment.
    """
    if cuts and cause is CAUSE_OF_CUT[cuts[0].kind]:
        of_switch = CURES[cause]
        if cause is GradCause.NO_GRAD:
            of_switch = _cure_of_switch(cuts[0].switch, is_off=is_off)
        if cause is GradCause.DETACHED and cuts[0].is_difference:
            return STRAIGHT_THROUGH
        return CURES_OF_OPERATIONS.get(cuts[0].operation, of_switch)
    return SWITCH_ON if is_off and cause is GradCause.WITHOUT_GRAPH else CURES[cause]


def _cure_of_switch(switch: str | None, *, is_off: bool) -> str:
    """Return what to do where gradients were switched off, and may still be."""
    if switch == "inference_mode()":
        return OUTSIDE_INFERENCE_MODE
    if is_off:
        return STAYING_OFF if switch == "set_grad_enabled(False)" else SWITCH_ON
    return CURES[GradCause.NO_GRAD]


def switched_off(cuts: tuple[Cut, ...]) -> str:
    """Return what had switched gradients off at the first cut, as a sentence that follows."""
    cut = cuts[0]
    if cut.switch is None:
        return ""
    if cut.switch_source is None:
        return f" That was inside {cut.switch}."
    return f" {cut.switch} in {cut.switch_source} had switched gradients off."


def place_of_cuts(cuts: tuple[Cut, ...]) -> str:
    """Return which operation cut first and in which line, and how many others did."""
    place = "code that is not known" if cuts[0].source is None else str(cuts[0].source)
    more = f" (and {len(cuts) - 1} more)" if len(cuts) > 1 else ""
    return f"{cuts[0].operation} in {place}{more}"


BECAUSE: Mapping[GradCause, str] = {
    GradCause.FILLED: "Its .grad holds {held}, from a backward or set by hand",
    GradCause.NOT_RUN: "The outputs depend on it, and no backward has freed their graph",
    GradCause.CLEARED: (
        "The outputs depend on it, and their graph was used already and kept: {freed}"
    ),
    GradCause.UNSEEN: (
        "Whether a gradient comes to it cannot be seen without running backward: that depends on "
        "the code of {node}, which the graph does not show"
    ),
    GradCause.OTHERS: (
        "No gradient comes to it in this process, but {others} may store what comes to it in others"
    ),
    GradCause.HELD_BACK: (
        "A gradient comes to it, but fully_shard was told not to synchronise those of this pass, "
        "and adds them up elsewhere"
    ),
    GradCause.STOPPED: (
        "A path of the graph leads to it, but no gradient comes along it, as a function on the way "
        "passes on none: {node}"
    ),
    GradCause.ALL_ZERO: (
        "A gradient will come to it, but every path leads through an operation that hands on zeros "
        "whatever arrives: {node}"
    ),
    GradCause.SWAPPED: "The path goes the other way: it was computed from the outputs",
    GradCause.USED_UP: (
        "The outputs depend on it, but a part of their graph was freed already: {freed}"
    ),
    GradCause.NOT_RETAINED: (
        "It is not a leaf but the result of a recorded operation, {grad_fn}, whose gradient is "
        "passed on and not kept"
    ),
    GradCause.CONSTANT: "It does not require grad, so backward computes no gradient for it",
    GradCause.FROZEN: (
        "It is a parameter whose requires_grad is off, so that backward leaves it out"
    ),
    GradCause.INTEGER: (
        "It holds {dtype}, and only floating-point and complex numbers have gradients"
    ),
    GradCause.NOT_REACHED: (
        "No path of the graph leads from the outputs to it: it was not used for them, or something "
        "on the way has lost its graph"
    ),
    GradCause.BESIDE: (
        "No path of the graph leads from the outputs to it: it is a copy or a part, made by "
        "{grad_fn}, of a tensor on which the outputs depend, and they do not depend on this one"
    ),
    GradCause.UNUSED: (
        "No path of the graph leads from the outputs to it, and {also} (other threads, other "
        "processes and TorchScript are not recorded)"
    ),
    GradCause.LINEAR: (
        "The outputs are made of a derivative of something that depends on it, and the derivative "
        "does not depend on it any more, as of what is linear in it{derivative}"
    ),
    GradCause.LATE: (
        "No path of the graph leads from the outputs to it, and it was used before its "
        "requires_grad was switched on, which records nothing"
    ),
    GradCause.SHARED: (
        "No path of the graph leads from the outputs to it, but its memory was used through "
        "another tensor, which has a graph of its own or none"
    ),
    GradCause.WITHOUT_GRAPH: (
        "None of the outputs requires grad, so they have no graph that could lead to it"
    ),
    GradCause.LEAF_OUTPUTS: (
        "The outputs are leaves themselves, so no graph leads on from them: requires_grad was "
        "switched on by hand for what has none"
    ),
    GradCause.UNRECORDED_VIEW: (
        "It is a view that was taken while nothing was recorded, so that no gradient can reach it"
    ),
    GradCause.INVALID_VIEW: (
        "It is a view that PyTorch refuses to use since its memory was written in place"
    ),
    GradCause.WRAPPED: "It lives inside a torch.func transform, where no .grad is ever filled",
    GradCause.DETACHED: "The path from the outputs to it was cut where a value was detached",
    GradCause.DATA: "The path from the outputs to it was cut where .data was taken",
    GradCause.NO_GRAD: (
        "The path from the outputs to it was cut by what was computed while gradients were "
        "switched off"
    ),
    GradCause.NOT_FLOATING: (
        "The path from the outputs to it was cut by a result that holds integers or truth values"
    ),
    GradCause.NOT_DIFFERENTIABLE: (
        "The path from the outputs to it was cut by an operation that has no derivative"
    ),
    GradCause.COPIED: (
        "The path from the outputs to it was cut where its value went into a tensor that was made "
        "anew, which has no graph"
    ),
    GradCause.PYTHON: (
        "Its value became a Python number or list, which has no graph when it comes back into a "
        "tensor"
    ),
    GradCause.NUMPY: (
        "Its value became an array outside PyTorch, which has no graph when it comes back into a "
        "tensor"
    ),
    GradCause.COLLECTIVE: (
        "The path from the outputs to it was cut by a collective operation of torch.distributed, "
        "which copies values between processes without a graph"
    ),
}

MAY_LACK_PART = (
    "The outputs use a derivative whose graph does not lead to it. That does not prove that its "
    "gradient is zero, because {partial} may leave out a part of the graph{derivative}"
)

NO_USE = "nothing that was recorded used it"
ELSEWHERE = "what was recorded used it for something else: {place}"
LEFT = "what was recorded read its value without a graph: {place}"
TELLING_USE = {GradCause.LATE, GradCause.SHARED}

_RECORD = "compute the outputs inside record() and hand the recording over to see where"
_LINEAR = (
    "Its gradient is zero: pass allow_unused=True to torch.autograd.grad(), or "
    "materialize_grads=True for zeros. If it should not be zero, look at the function: a layer "
    "without a smooth activation such as tanh() is linear, and a last bias is in no derivative."
)
CURES: Mapping[GradCause, str] = {
    GradCause.FILLED: (
        "Another backward from the outputs adds to it. "
        "trace_graph(outputs, gradients=True).gradient_norms shows what makes a gradient zero."
    ),
    GradCause.NOT_RUN: "Call backward() on the outputs.",
    GradCause.CLEARED: (
        "Call backward() again, and look at .grad before it is cleared, as by zero_grad(). "
        "torch.autograd.grad() returns gradients instead of storing them."
    ),
    GradCause.UNSEEN: "Look at .grad after backward().",
    GradCause.OTHERS: (
        "Look at .grad after backward(). What no process uses can be used, frozen, or left out of "
        "the model."
    ),
    GradCause.HELD_BACK: (
        "Call set_requires_gradient_sync(True) on the model before the last backward of a step, "
        "which stores the sum in .grad."
    ),
    GradCause.STOPPED: (
        "Let the backward of that function return a gradient for this input, not None, and use "
        "the output that it passes on."
    ),
    GradCause.ALL_ZERO: (
        "Replace the operation by a smooth one, or pass the gradient straight through it, as in "
        "x + (x.round() - x).detach()."
    ),
    GradCause.SWAPPED: "Swap the two: the tensor comes first, and then what backward is called on.",
    GradCause.USED_UP: "Look at .grad after backward() and before zero_grad().",
    GradCause.NOT_RETAINED: (
        "Call retain_grad() on it before backward(), or ask torch.autograd.grad() for its "
        "gradient. To start from it as a leaf, cut it off: x = x.detach().requires_grad_()."
    ),
    GradCause.CONSTANT: (
        "Call requires_grad_() on it before it is used (what a module is to train, and is no "
        "buffer, is an nn.Parameter), or look for what kept its own history from being recorded."
    ),
    GradCause.FROZEN: (
        "If it is to be trained, call requires_grad_() on it before the outputs are computed."
    ),
    GradCause.INTEGER: "Start from a floating-point tensor if it is meant to be trained.",
    GradCause.NOT_REACHED: f"If it should have been used, {_RECORD} the path is cut.",
    GradCause.BESIDE: (
        "Ask for the gradient of that tensor itself, and take the same part of it; or compute the "
        "outputs from this one, as by torch.cat() of columns."
    ),
    GradCause.LINEAR: _LINEAR,
    GradCause.LATE: "Call requires_grad_() on it before it is used.",
    GradCause.SHARED: (
        "Use the tensor itself, not one that detach(), .data or nn.Parameter() made of it, in this "
        "thread or another."
    ),
    GradCause.UNUSED: (
        "Use it for the outputs, or leave it out of what is trained. If a copy of it was used, ask "
        "for that one."
    ),
    GradCause.WITHOUT_GRAPH: f"Compute the outputs outside no_grad() and detach(), or {_RECORD}.",
    GradCause.LEAF_OUTPUTS: (
        f"Do not switch requires_grad on for a result; {_RECORD} its graph was lost."
    ),
    GradCause.UNRECORDED_VIEW: "Take the view again, outside no_grad() and inference_mode().",
    GradCause.INVALID_VIEW: "Take the view again, after the write.",
    GradCause.WRAPPED: "Let torch.func.grad() give the gradient, or look at the tensor outside.",
    GradCause.DETACHED: "Leave detach() out where the gradient should pass.",
    GradCause.DATA: "Use the tensor itself instead of its .data where the gradient should pass.",
    GradCause.NO_GRAD: (
        "Compute it outside no_grad() and inference_mode() where the gradient should pass."
    ),
    GradCause.NOT_FLOATING: (
        "Compute with floating-point numbers where the gradient should pass, as comparisons and "
        "integers have no derivative: a mask may be torch.sigmoid((x - threshold) / width), and "
        "what is chosen may be weighted by the numbers that chose it."
    ),
    GradCause.NOT_DIFFERENTIABLE: (
        "Replace the operation by one with a derivative; for the gradient of a gradient, pass "
        "create_graph=True."
    ),
    GradCause.COPIED: (
        "Pass the tensor on itself; torch.stack() and torch.cat() put several together and keep "
        "their graphs. Make parameters once, before they are used, not of results."
    ),
    GradCause.PYTHON: (
        "Stay with tensors: do not convert to a Python number (item(), tolist(), float()) on the "
        "way."
    ),
    GradCause.NUMPY: (
        "Stay with tensors: put no numpy() on the way, or write a torch.autograd.Function."
    ),
    GradCause.COLLECTIVE: (
        "Import torch.distributed.nn.functional and use its function instead, such as "
        "all_to_all() or reduce_scatter(), which passes gradients on."
    ),
}

PARTIAL_DERIVATIVE = (
    "Compute everything in the backward of that function from its inputs and outputs: save these, "
    "not intermediate tensors, or return the intermediate tensor as another output."
)
AGAIN = {
    GradCause.FILLED: (
        "Another backward from the outputs will fail, as a part of their graph was freed: {cure} "
        "On a new graph, trace_graph(outputs, gradients=True).gradient_norms shows what makes a "
        "gradient zero."
    ),
    GradCause.USED_UP: (
        "Look at .grad after backward() and before zero_grad(). For another backward: {cure}"
    ),
}
FREED: Mapping[str | None, str] = {
    None: (
        "by a backward whose gradient was cleared since, or by torch.autograd.grad(), which stores "
        "none"
    ),
    "backward()": "by backward() in {place}, and its gradient was cleared since",
    "backward(inputs=...)": (
        "by backward(inputs=...) in {place}, which stores gradients in what it is given alone, or "
        "whose gradient was cleared since"
    ),
    "torch.autograd.grad()": (
        "by torch.autograd.grad() in {place}, which returns gradients and stores none"
    ),
}
FREED_ELSEWHERE = "by a backward of others, which did not come to it"
FREED_BEFORE_RETAINED = "by backward() in {place}; retain_grad() was called after that"
CURES_OF_FREED = {
    "backward(inputs=...)": (
        "Put it into inputs=, or leave inputs= out. Or look at .grad before zero_grad(). For "
        "another backward: {cure}"
    ),
    "torch.autograd.grad()": (
        "Use the gradients that it returns, or store them, as in w.grad = gradient; backward() "
        "stores gradients by itself. For a backward after it: {cure}"
    ),
}
CURE_OF_FREED_ELSEWHERE = "For a backward that comes to it: {cure}"
RETAIN_BEFORE = (
    "Call retain_grad() on it before backward(), which keeps its gradient. For another backward: "
    "{cure}"
)
KEEP_LEAF = (
    "Keep the leaf that it was made of: give that a name of its own before {operation}(), and look "
    "at its .grad. To make this one the leaf, call requires_grad_() after {operation}(), not "
    "before. To keep this one's gradient as well, call retain_grad() on it before backward()."
)
CURES_OF_PARAMETERS = {
    GradCause.UNUSED: (
        "Use it for the outputs, or leave it out of the model and of what is trained (under "
        "DistributedDataParallel, pass find_unused_parameters=True if it must stay). If a copy of "
        "the model was used, as by copy.deepcopy(), ask for the parameters of that."
    ),
}
IF_LEFT = "If the outputs should depend on it by way of that value: "
AGAIN_IN_BACKWARD = (
    "The checkpointed block of {node} runs again in backward(). What has changed since of what it "
    "reads, such as weights and flags, is seen only as far as it was recorded."
)
RUNS_ANOTHER = " A reentrant checkpoint shows its graph if it is called with use_reentrant=False."
ADAPTER = (
    "If it is to be trained, call requires_grad_() on it before the outputs are computed; peft "
    "freezes adapters that are loaded without is_trainable=True."
)
SWITCH_ON = (
    "Gradients are switched off at this very moment: leave the no_grad() around it, or call "
    "torch.set_grad_enabled(True) before the outputs are computed."
)
FILLED_BY_OTHERS = "A backward from these outputs is not seen to add to it."
COPY_OF_LEAF = (
    "It shares the memory of a leaf that the outputs depend on: ask for that one. The tensors "
    "of state_dict() are detached, those of named_parameters() are not."
)

_SOFT = "Use a differentiable stand-in, such as {}() for {}()."
_PASSED_ON = (
    "For what was looked up by it, pass the gradient straight through: z + (q - z).detach()."
)
STRAIGHT_THROUGH = (
    "If this passes the gradient straight through, as in z + (q - z).detach(), keep it, and train "
    "q by a term of its own, such as mse_loss(q, z.detach()). Otherwise leave detach() out."
)
_STACK = (
    "torch.{}() of results keeps their numbers alone. Put several together by torch.stack(losses), "
    "and pass one on itself."
)
_NEW_WEIGHTS = (
    "A parameter takes over the numbers alone, without their graph. Run the model on the new "
    "weights by torch.func.functional_call(model, weights, inputs), which keeps it."
)
STAYING_OFF = (
    "They still are: set_grad_enabled(False) holds until torch.set_grad_enabled(True) is called. "
    "Write `with torch.no_grad():` there instead, which ends by itself."
)
OUTSIDE_INFERENCE_MODE = (
    "Compute it outside inference_mode() where the gradient should pass, since enable_grad() "
    "inside it is not enough (in Lightning: Trainer(inference_mode=False))."
)
CURES_OF_OPERATIONS = {
    **{name: _SOFT.format("softmax", name) for name in ("argmax", "max")},
    **{name: f"{_SOFT.format('softmin', name)} {_PASSED_ON}" for name in ("argmin", "min")},
    **dict.fromkeys(
        ("topk", "argsort"),
        "Places have no derivative: multiply what was chosen by the weight that chose it, as in "
        "chosen * scores.softmax(-1).gather(-1, indices).",
    ),
    "deepcopy": "copy.deepcopy() made parameters of its own: ask for those of the copy.",
    "state_dict": (
        "state_dict() returns copies without a graph. Use named_parameters(), and run the model "
        "on other weights by torch.func.functional_call(model, weights, inputs). Of a model that "
        "was loaded from it, ask for the parameters of that one."
    ),
    **dict.fromkeys(
        ("long", "int", "to", "type", "short", "char", "byte"),
        "Keep the numbers floating-point where the gradient should pass. An index has no "
        "derivative: weight the entries, as by softmax(), or interpolate between them.",
    ),
    "sample": (
        "Draw by rsample() instead of sample(), which passes the gradient on where the "
        "distribution has it; where it has not, weight its log_prob()."
    ),
    "multinomial": (
        "Draw by torch.nn.functional.gumbel_softmax(scores, hard=True), or weight the log_prob() "
        "of what was drawn, as by torch.distributions.Categorical."
    ),
    **dict.fromkeys(
        ("searchsorted", "bucketize"),
        "A place in a table has no derivative: interpolate between the two entries around it, by "
        "weights that are computed from the numbers themselves.",
    ),
    "CheckpointFunction": (
        "A reentrant checkpoint keeps no graph where none of the tensors that it is given requires "
        "grad: call it with use_reentrant=False, or let one of them require grad (in transformers: "
        "model.enable_input_require_grads())."
    ),
    **{name: _STACK.format(name) for name in ("tensor", "as_tensor", "asarray")},
    **dict.fromkeys(("copy_", "load_state_dict", ".data ="), _NEW_WEIGHTS),
    "one_hot": (
        "Choose by torch.nn.functional.gumbel_softmax(scores, hard=True), or weight by softmax()."
    ),
    **{
        f"torch.distributed.{name}": (
            "Import torch.distributed.nn.functional and use its all_gather(), which passes "
            "gradients on between processes. For the gradient of this process alone, put its own "
            "tensor back into the result, as in gathered[rank] = features."
        )
        for name in ("all_gather", "all_gather_into_tensor", "all_gather_single", "gather")
    },
    DERIVATIVE: _LINEAR,
    "grad": (
        "Pass create_graph=True to torch.autograd.grad(), so that the gradient has a graph itself."
    ),
}
