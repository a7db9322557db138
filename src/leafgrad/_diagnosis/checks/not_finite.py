"""NaN and infinity: the operation that first produces them, in values and in gradients."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch

from leafgrad import _autograd
from leafgrad._arguments.names import named_tensors
from leafgrad._diagnosis.checks.backward.refused import without_reentrance
from leafgrad._diagnosis.diagnosis import (
    Diagnosis,
    Edit,
    Severity,
    diagnosis,
    join_messages,
    list_names,
    spans,
)
from leafgrad._diagnosis.edits import add_argument, call_at, node_at, wrap
from leafgrad._diagnosis.situation import Situation, check
from leafgrad._display.units import shape_text, torch_name
from leafgrad._graph.code_files import short_path
from leafgrad._graph.graph import gradient_turns_of, value_turns_of
from leafgrad._graph.nodes import Source, TracedNode
from leafgrad._graph.summary import NotFinite, TensorSummary, summary_of
from leafgrad._messages import has_message, message
from leafgrad._record.log import Birth
from leafgrad._record.value_recorder import NUMBER, QUOTIENT, has_no_zero
from leafgrad._trace.graph_trace import GraphTrace
from leafgrad._trace.values import argument_name

Way = Literal["nan-value", "nan-gradient"]

LIKE = {
    "asin": "acos",
    "cholesky": "linalgslogdet",
    **dict.fromkeys(["cosh", "cumprod", "cumsum", "exp2", "mean", "mseloss", "sinh"], "prod"),
    "digamma": "lgamma",
    "expm1": "exp",
    "linalgsolveex": "linalginvex",
    "linalgeig": "linalgeigh",
    "nllloss2d": "nllloss",
    "remainder": "fmod",
    "specialentr": "xlogy",
    **dict.fromkeys("addmv baddbmm bmm convolution dot linear mm mv".split(), "addmm"),
    "log10": "log",
    "log2": "log",
    "logsoftmax": "softmax",
    "var": "std",
}
"""Operations that use the messages of another operation."""

NAMES = {
    "binarycrossentropy": "binary_cross_entropy",
    "ctcloss": "ctc_loss",
    "kldiv": "kl_div",
    "linalgeigh": "linalg.eigh",
    "linalginvex": "linalg.inv",
    "linalgslogdet": "linalg.slogdet",
    "linalgsvd": "linalg.svd",
    "logsoftmax": "log_softmax",
    "maskedfill": "masked_fill",
    "mseloss": "mse_loss",
    "nllloss": "cross_entropy",
    "quotient": "div",
    "tocopy": "to",
}
"""Names of operations as the user writes them."""

ONLY_NAN = {"acos", "acosh", "fmod", "nllloss", "softmax", "sqrt", "std", "sub"}
"""Operations whose messages explain a NaN. If they return infinity, it is an overflow."""

COARSE = {
    torch.float16: {"1e-12": "1e-3", "1e-6": "1e-3", "max=80": "max=10"},
    torch.bfloat16: {"1e-6": "1e-2"},
}
"""Replacements for small numbers in code that round to zero in a dtype."""


@check("nan-input", "nan-value", runs_backward=True)
def find_bad_values(situation: Situation) -> Iterator[Diagnosis]:
    """Find the operations that first return NaN or infinity in the computation of the loss."""
    trace = situation.trace_with_values
    if trace is None:
        yield from _in_outputs(situation)
        return
    births = _births(situation)
    leaves = [node for node in value_turns_of(trace) if node.is_leaf]
    # The finding about the first leaf names all leaves.
    turns = [one for one in value_turns_of(trace) if not one.is_leaf or one is leaves[0]]
    made = {_operation(node) for node in turns if node.value_turn_kind == "NaN"}
    found: list[Diagnosis] = []
    masks: list[TracedNode] = []
    for node in turns:
        if made and _is_mask(node):
            masks.append(node)  # Infinities are intended in a mask, but a NaN is not.
            continue
        if found and _follows(node, trace):
            note = message("nan-value.follows", kind=node.value_turn_kind, place=_place_of(node))
            found[-1] = replace(found[-1], notes=(*found[-1].notes, note))
            continue
        birth = next((births[one] for one in _bad_inputs(node) if one in births), None)
        if birth is None:
            found.append(_finding_of_value(situation, node, trace, leaves if node.is_leaf else ()))
        else:
            source = situation.log.source_at(birth.place)
            found.append(_finding_of_call(birth.operation, birth.kind, source, node.dtype))
        if "softmax" in _operation(node):
            secondary = spans("nan-value.mask", *(mask.source for mask in masks))
            found[-1] = replace(found[-1], secondary=secondary)
    yield from found or _in_outputs(situation)


def _not_checked(situation: Situation, variant: str, error: str) -> Diagnosis:
    """Return a finding that the trial backward pass failed.

    `variant` is that of the message, and `error` the error as text. `backward()` will fail too,
    unless the reason is the trial itself.
    """
    if error.startswith("torch.utils.checkpoint: "):
        nodes = [block[0] for block in _autograd.checkpointed_blocks(situation.live)]
        at = situation.source_of(nodes[0]) if len(nodes) == 1 else None
        return diagnosis("recomputed-differently", Severity.ERROR, at=at, variant="shapes")
    blocks = [node for node in situation.live if _autograd.is_reentrant_checkpoint(node)]
    sources = [situation.source_of(node) for node in blocks]
    at = next(filter(None, sources), None) if variant == "reentrant" else None
    edits = without_reentrance(at)
    code = "gradients-not-checked"
    severity = Severity.NOTE if variant else Severity.WARNING
    return diagnosis(code, severity, at=at, variant=variant, edits=edits, error=error)


@check("nan-gradient", "gradients-not-checked", runs_backward=True)
def find_bad_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find the operations whose backward first returns NaN or infinity for finite values."""
    trace = situation.backward_trace
    if trace is None:
        if situation.runs_backward and situation.trace and not situation.has_error:
            error = situation.why_not_run
            if not error and situation.failing:
                return  # another finding reports that the pass has already run
            variant = "reentrant" if "use_reentrant" in error else "" if error else "freed"
            yield _not_checked(situation, variant, error)
        return
    has_infinity = False
    has_value_turns = any(node.value_turns for node in trace.nodes)
    found: list[Diagnosis] = []
    for node in gradient_turns_of(trace):
        follows = has_infinity and node.gradient_turn_kind == "NaN"
        has_infinity |= node.gradient_turn_kind == "infinity"
        around = [*node.values, *_inputs(node, trace)]
        if has_value_turns and (follows or any(one and one.not_finite for one in around)):
            continue
        if found and follows:
            note = message("nan-value.follows", kind="NaN", place=_place_of(node))
            found[-1] = replace(found[-1], notes=(*found[-1].notes, note))
            continue
        passed = (edge.gradient for edge in node.edges)
        dtype = next((one.dtype for one in passed if one and one.not_finite), node.dtype)
        kind = node.gradient_turn_kind or "NaN"
        operation = _division_or_quotient(situation, node)
        names = _leaves_behind(node, trace)
        found.append(_finding("nan-gradient", operation, kind, node.source, dtype, names))
    yield from found


def _division_or_quotient(situation: Situation, node: TracedNode) -> str:
    """Return the operation of a node; a division whose divisor has no zero gets another name."""
    operation = _operation(node)
    slots = _autograd.saved_slots(situation.node(node)) if operation == "div" else ()
    is_quotient = any(
        slot.name == "other" and slot.tensor is not None and has_no_zero(slot.tensor)
        for slot in slots
    )
    return QUOTIENT if is_quotient else operation


def _finding_of_value(
    situation: Situation, node: TracedNode, trace: GraphTrace, leaves: Sequence[TracedNode]
) -> Diagnosis:
    """Return the finding for a node whose result is the first value that is not finite."""
    kind = node.value_turn_kind or "NaN"
    brought, inputs = _bad_inputs(node), _inputs(node, trace)
    operation = _division_or_quotient(situation, node)
    if brought or node.is_leaf or any(one and 0 in (one.shape or ()) for one in inputs):
        is_number = any(one.startswith(NUMBER) for one in brought)
        variant = "number" if is_number else "" if brought else "empty"
        variant = "leaf" if node.is_leaf else variant
        return diagnosis(
            "nan-input",
            Severity.ERROR,
            subject=[leaf.leaf_name for leaf in leaves if leaf.leaf_name],
            at=node.source,
            variant=variant,
            kind=kind,
            operation=operation,
            argument=join_messages("report.and", map(_with_marks, brought)),
            x=_argument_at(node.source) or "x",
        )
    names = _leaves_behind(node, trace)
    found = _finding("nan-value", operation, kind, node.source, node.dtype, names)
    shown = [f"`{shape_text(v.shape)} {torch_name(v.dtype)}: {v}`" for v in inputs if v]
    notes = [message("nan-value.values", given=", ".join(shown))] if shown else []
    if node.value_turn_is_near:
        name = NAMES.get(operation, operation)
        notes.append(message("nan-value.near", operation=name, kind=kind))
    return replace(found, notes=(*found.notes, *notes))


def _with_marks(argument: str) -> str:
    """Return a recorded argument name, such as "argument 0 of linear", with code in backticks."""
    place, of, function = argument.rpartition(" of ")
    return f"{place}{of}`{function}`" if of else f"`{argument}`"


def _argument_at(source: Source | None) -> str | None:
    """Return the name of a call's only argument if it is a variable; None otherwise."""
    match call_at(source):
        case ast.Call(args=[ast.Name(id=name)], keywords=[]):
            return name
    return None


def _in_outputs(situation: Situation) -> Iterator[Diagnosis]:
    """Yield findings for outputs that are not finite although no node explains it."""
    for end in situation.outputs:
        found = summary_of(end) if isinstance(end, torch.Tensor) else None
        if not isinstance(end, torch.Tensor) or found is None or found.not_finite is None:
            continue
        birth = situation.log.births.get(end)
        if birth is not None:
            source = situation.log.source_at(birth.place)
            yield _finding_of_call(birth.operation, birth.kind, source, end.dtype)
            continue
        yield diagnosis("nan-input", Severity.ERROR, variant="unseen", kind=found.not_finite)


def _finding_of_call(
    operation: str, kind: NotFinite, source: Source | None, dtype: torch.dtype
) -> Diagnosis:
    """Return the finding for a recorded call that produced NaN or infinity without a node.

    `kind` is which of the two it produced.
    """
    name = operation.strip("_").removeprefix("true").replace("_", "")
    return _finding("nan-value", name, kind, source, dtype)


def _finding(
    way: Way,
    operation: str,
    kind: NotFinite,
    source: Source | None,
    dtype: torch.dtype,
    names: Sequence[str] = (),
) -> Diagnosis:
    """Return the finding for an operation, with messages and edits that fit the dtype.

    Args:
        way: The code of the finding.
        operation: The operation in lower case without underscores.
        kind: Which of the two it produced.
        source: The line that ran it.
        dtype: The dtype in which it produced it.
        names: The names of the leaves that it was computed from.
    """
    variant = _variant(way, operation, kind, dtype)
    found = diagnosis(
        way,
        Severity.ERROR,
        subject=names,
        at=source,
        variant=variant,
        edits=_edits(f"{way}.{variant}", operation, source, dtype),
        kind=kind,
        operation=NAMES.get(operation, operation),
        dtype=torch_name(dtype),
        wider=message("nan-value.wider") if dtype is torch.float16 else "",
        largest=f"{torch.finfo(dtype).max:,.0f}" if dtype.itemsize == _HALF else "3.4e38",
    )
    reaches = [message(f"{way}.reaches", names=list_names(names))] if names else []
    return replace(
        found,
        notes=(*found.notes, *reaches),
        help=tuple(replace(one, text=_fitting(one.text, dtype)) for one in found.help),
    )


_HALF = 2


def _variant(way: Way, operation: str, kind: NotFinite, dtype: torch.dtype) -> str:
    """Return the variant of the messages that explains why an operation is not finite.

    A variant is a cause of the finding that has its own message texts. `way` is the code of the
    finding: ``nan-value`` or ``nan-gradient``. `kind` is ``"NaN"`` or ``"infinity"``.
    """
    is_half = dtype is torch.float16
    shared = LIKE.get(operation, operation)
    if way == "nan-value":
        if kind == "infinity" and shared in ONLY_NAN:
            return "prod"
        if is_half and shared in {"add", "mul", "sub"}:
            return "half"
    names = (operation, shared)
    listed = next((one for one in names if has_message(f"{way}.{one}.note")), None)
    if way == "nan-gradient" and listed is None and (is_half or shared in {"addmm", "mul"}):
        return "half" if is_half else "product"
    return listed or ""


def _fitting(text: str, dtype: torch.dtype) -> str:
    """Return a text whose small numbers in code are large enough for the dtype."""
    for number, fitting in COARSE.get(dtype, {}).items():
        text = text.replace(number, fitting)
    return text


def _edits(key: str, operation: str, source: Source | None, dtype: torch.dtype) -> tuple[Edit, ...]:
    """Return the edits that wrap the input of an operation or add an argument to its call.

    The code to add is the message ``KEY.wrap`` or ``KEY.argument``.
    """
    node = node_at(source, ast.expr)
    if source is None or node is None or not _is_call_of(node, operation):
        return ()
    if has_message(f"{key}.argument") and isinstance(node, ast.Call):
        return add_argument(source, node, message(f"{key}.argument"))
    if not has_message(f"{key}.wrap"):
        return ()
    is_divisor = operation in {"div", "fmod", "remainder"}
    if key == "nan-gradient.pow" and not _is_root(node):
        return ()
    wrapper = message(f"{key}.wrap", x="{x}")
    return wrap(source, node, _fitting(wrapper, dtype), is_second=is_divisor)


def _is_root(node: ast.expr) -> bool:
    """Return whether the exponent of a power is a number below 1, or written as ``1 / n``."""
    arguments = [node.right] if isinstance(node, ast.BinOp) else getattr(node, "args", [])
    match arguments[-1:]:
        case [ast.Constant(value=int() | float() as exponent)]:
            return exponent < 1
        case [ast.BinOp(left=ast.Constant(value=1), op=ast.Div())]:
            return True
    return False


OPERATORS = {ast.Div: "div", ast.Pow: "pow", ast.Mod: "remainder"}


def _is_call_of(node: ast.expr, operation: str) -> bool:
    """Return whether an expression calls an operation itself, not something that contains it."""
    if isinstance(node, ast.BinOp):
        return OPERATORS.get(type(node.op)) == operation
    if isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
        return name.strip("_").replace("_", "") in {operation, f"linalg{operation}"}
    return False


def _births(situation: Situation) -> Mapping[str, Birth]:
    """Return, by argument name, the recorded calls that made inputs of later calls non-finite.

    The inputs are tensors without a graph, so no node shows where they became NaN or infinite.
    """
    named = [*named_tensors(situation.names)]
    given = (one for several in situation.log.given.values() for one in several)
    return {argument_name(one, named): one.birth for one in given if one.birth is not None}


def _bad_inputs(node: TracedNode) -> tuple[str, ...]:
    """Return the names of a node's inputs that were already NaN or infinite.

    Attention masks do not count if the result is NaN: their infinities are intended.
    """
    given = node.value_turn_given
    is_masked = node.value_turn_kind == "NaN" and all("mask" in name for name in given)
    return () if is_masked else given


def _is_mask(node: TracedNode) -> bool:
    """Return whether a node inserts infinities on purpose, to mask entries."""
    if node.value_turn_kind != "infinity":
        return False
    if _operation(node) in {"maskedfill", "where"}:
        return not node.value_turn_given
    return _operation(node) in {"add", "sub"} and bool(node.value_turn_given)


def _follows(node: TracedNode, trace: GraphTrace) -> bool:
    """Return whether a non-finite value comes from an infinity that another finding reports."""
    is_softmax = "softmax" in _operation(node)
    return not is_softmax and any(one and one.infinities for one in _inputs(node, trace))


def _operation(node: TracedNode) -> str:
    """Return the operation of a node in lower case without underscores."""
    return "leaf" if node.is_leaf else _autograd.stem(node.name).lower()


def _place_of(node: TracedNode) -> str:
    """Return where a node was computed, as text: its line, or its name in backticks."""
    source = node.source
    if source is None:
        return f"`{node.name}`"
    is_outside = source.function == "<module>"
    return f"{short_path(source.file)}:{source.line}" if is_outside else str(source)


def _inputs(node: TracedNode, trace: GraphTrace) -> list[TensorSummary | None]:
    """Return the summaries of a node's inputs that other nodes computed."""
    found: list[TensorSummary | None] = []
    for edge in node.edges:
        if edge.target is not None:
            values = trace.nodes[edge.target].values
            found.append(values[edge.input_nr] if edge.input_nr < len(values) else None)
    return found


def _leaves_behind(node: TracedNode, trace: GraphTrace) -> list[str]:
    """Return the names of the leaves that a node was computed from."""
    reached = {node.index}
    names: list[str] = []
    for one in trace.nodes[node.index :]:  # each node precedes its successors
        if one.index in reached:
            reached |= {edge.target for edge in one.edges if edge.target is not None}
            names += one.tensor_names[:1] if one.is_leaf else []
    return names
