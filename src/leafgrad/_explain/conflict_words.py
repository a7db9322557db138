"""What to say of writes into saved tensors: which tensor, who wrote, and how to do without."""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch

from leafgrad._display.units import count
from leafgrad._explain.findings import InPlaceConflict, place_of_node
from leafgrad._explain.groups import grouped, names_in_words
from leafgrad._graph.nodes import Write


def conflict_sentences(conflicts: Sequence[InPlaceConflict]) -> list[str]:
    """Return one sentence for all that the same lines wrote, and what to do about it."""
    return [_told(group) for group in grouped(conflicts, _key)]


def _key(conflict: InPlaceConflict) -> object:
    saved = conflict.saved
    writes = frozenset((_who(write), write.source) for write in saved.writes)
    kind = conflict.is_certain, saved.is_parameter, conflict.is_buffer
    if writes or saved.is_parameter or conflict.is_buffer:
        return writes, *kind
    return conflict.node.index, saved.name


def _told(group: Sequence[InPlaceConflict]) -> str:
    first = group[0]
    saved = first.saved
    if len(group) == 1:
        version = (
            "a version that is not told" if saved.saved_version is None else saved.saved_version
        )
        what = f"{first.name} (as {saved.name})" if first.name else saved.name
        told = (
            f"{place_of_node(first.node)} saved {what} at version {version}, and it is at version "
            f"{saved.current_version} now"
        )
    else:
        names = list(dict.fromkeys(one.name for one in reversed(group) if one.name))
        kind = "buffers" if first.is_buffer else "parameters"
        what = names_in_words(names, kind) if names else count(len(group), "tensor")
        told = f"{what}, saved by {_savers(group)}, must not change until backward, but did"
    doubt = "" if first.is_certain else " Backward fails if it looks at that."
    cure = f" {_cure(group)}" if first.is_certain else ""
    return f"{told}: {_writers(group)}.{doubt}{cure}"


def _savers(group: Sequence[InPlaceConflict]) -> str:
    first = place_of_node(group[0].node)
    nodes = {one.node.index for one in group}
    return first if len(nodes) == 1 else f"{first} and {count(len(nodes) - 1, 'other node')}"


def _writers(group: Sequence[InPlaceConflict]) -> str:
    writes = [write for one in group for write in one.saved.writes]
    told = dict.fromkeys(map(write_text, writes))
    return "; ".join(told) or "written outside of record(), which would tell the line"


def _who(write: Write) -> str:
    return write.within or write.operation


def write_text(write: Write) -> str:
    """Return who wrote and where."""
    through = " through a view" if write.through_view and write.within is None else ""
    place = "" if write.source is None else f" in {write.source}"
    return f"written by {_who(write)}{through}{place}"


def _cure(group: Sequence[InPlaceConflict]) -> str:
    """Return what to do about the first write, or about a tensor of that kind."""
    conflict, writes = group[0], max((one.saved.writes for one in group), key=len)
    within = writes[0].within if writes else None
    if within is not None:
        is_carried = any(one.is_used_since for one in group)
        step = (CARRIED if is_carried else STEPPED).format(step=within)
        return LOADED if within == "load_state_dict" else step
    if writes and writes[0].operation in _KEEPING_NORMS:
        return MAX_NORM
    if conflict.saved.is_parameter:
        return PARAMETER
    if conflict.is_buffer:
        return BUFFER
    if not writes:
        return RESULT
    return _cure_of_operation(writes[0], is_repeated=len(writes) > 1)


def _cure_of_operation(write: Write, *, is_repeated: bool) -> str:
    name = write.operation.strip("_")
    if write.operation == "__setitem__":
        return ENTRIES if is_repeated else ENTRY
    if write.operation in _OPERATORS:
        return OPERATOR.format(sign=_OPERATORS[write.operation], name=write.operation)
    if _takes_inplace(write.operation):
        return INPLACE.format(name=write.operation)
    # many methods exist only in place, and bernoulli() draws by other probabilities
    is_paired = hasattr(torch.Tensor, name) and name not in {write.operation, "bernoulli"}
    return METHOD.format(name=name) if is_paired else RESULT


def _takes_inplace(name: str) -> bool:
    function: Any = getattr(torch.nn.functional, name, None)
    try:
        return "inplace" in signature(function).parameters
    except (TypeError, ValueError):
        return False


_KEEPING_NORMS = {"embedding", "embedding_bag", "embedding_renorm_"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}
_OPERATORS = {
    **{f"{name}_": sign for name, sign in _SIGNS.items()},
    **{f"__i{name}__": sign for name, sign in _SIGNS.items()},
    "__itruediv__": "/",
}

STEPPED = (
    "Call {step}() only after all backward passes through what was computed before it, or compute "
    "the outputs again after it."
)
CARRIED = (
    "What was computed before {step}() is used with what was computed after it: cut it off before "
    "it is carried on, as in state = state.detach(), or call {step}() only after all backward "
    "passes."
)
MAX_NORM = (
    "An embedding with max_norm writes its weight whenever it is called: call it before its weight "
    "is used elsewhere, use weight.clone() there, or leave max_norm out."
)
LOADED = (
    "Load weights only after backward(), or run the model on other weights by "
    "torch.func.functional_call(model, weights, inputs), which writes nothing."
)
PARAMETER = (
    "Write into parameters only after all backward passes through what was computed with them, or "
    "compute the outputs again."
)
BUFFER = (
    "Call backward() before the next forward writes the buffer, or compute with buffer.clone(); "
    "under DistributedDataParallel, pass broadcast_buffers=False or call forward once."
)
RESULT = "Write into a copy instead, made by clone() before the write, or make a new tensor."
ENTRY = "Write into a copy: h = h.clone() before the line that writes, or choose by torch.where()."
ENTRIES = (
    "Collect the parts in a list and put them together by torch.stack(parts), or write into a "
    "clone() each time."
)
OPERATOR = "Make a new tensor: x = x {sign} y, instead of x {sign}= y or x.{name}(y)."
INPLACE = "Leave the saved result as it is: pass inplace=False to {name}, or to its module."
METHOD = "Make a new tensor: x = x.{name}(...), without the underscore, or write into x.clone()."
