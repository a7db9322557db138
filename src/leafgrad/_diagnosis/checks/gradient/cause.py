"""`Cause`: why a tensor gets no gradient, and the edits of the user's code that fix it."""

import ast
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from leafgrad._diagnosis.diagnosis import Edit
from leafgrad._diagnosis.edits import (
    MODULES,
    add_argument,
    call_at,
    change_line,
    insert,
    line_text,
    marked,
    node_at,
    parse,
    pass_create_graph,
    replace,
    statement_at,
    text_of,
)
from leafgrad._graph.nodes import Source
from leafgrad._record.flow import DERIVATIVE, Cut, CutKind
from leafgrad._record.log import Log


class Cause(NamedTuple):
    """Why a tensor gets no gradient. Tensors with equal causes share a finding.

    Attributes:
        code: The code of the finding.
        variant: The variant of its messages.
        at: The expression at fault.
        marks: Other expressions to mark, each with the message key of its label.
        operation: The function that was called.
    """

    code: str
    variant: str = ""
    at: Source | None = None
    marks: tuple[tuple[str, Source], ...] = ()
    operation: str = ""


def cause_of_cut(cut: Cut) -> Cause:
    """Return the cause of a missing gradient that a recorded cut explains.

    A cut is a call such as `detach()`, whose result has no graph although its input had one.
    """
    code, variant = _CODES.get(cut.operation, _CODES_OF_KINDS[cut.kind])
    if code == "no-derivative" and cut.operation == "sample" and cut.kind is CutKind.NO_GRAD:
        variant = "sample"
    if code == "no-grad" and cut.switch == "inference_mode()":
        variant = "inference"
    elif code == "no-grad" and cut.switch == "set_grad_enabled(False)":
        variant = "setting" if torch.is_grad_enabled() else "still-off"
    if code == "detached" and cut.is_difference:
        variant = "straight-through"
    switch = cut.switch_source if code == "no-grad" else None
    marks = () if switch is None else (("no-grad.switch", switch),)
    return Cause(code, variant, cut.source, marks, cut.operation)


_CODES_OF_KINDS = {
    CutKind.DETACHED: ("detached", ""),
    CutKind.DATA: ("detached", "data"),
    CutKind.NO_GRAD: ("no-grad", ""),
    CutKind.NOT_FLOATING: ("no-derivative", "integer"),
    CutKind.NOT_DIFFERENTIABLE: ("no-derivative", ""),
    CutKind.COPIED: ("copied", ""),
    CutKind.PYTHON: ("converted", ""),
    CutKind.NUMPY: ("converted", "numpy"),
    CutKind.COLLECTIVE: ("collective", ""),
}
_GATHERING = ("all_gather", "all_gather_into_tensor", "all_gather_single", "gather")
_COMPARISONS = "gt lt ge le eq ne greater less greater_equal less_equal nonzero".split()
_CASTS = "long int to type short char byte".split()
_CODES = {
    DERIVATIVE: ("linear", ""),
    "grad": ("create-graph", ""),
    "deepcopy": ("other-tensor", "deepcopy"),
    "state_dict": ("other-tensor", "state-dict"),
    "CheckpointFunction": ("no-grad", "checkpoint"),
    "Parameter": ("copied", "parameter"),
    **dict.fromkeys(("copy_", "load_state_dict", ".data ="), ("copied", "weights")),
    **dict.fromkeys(("argmax", "max"), ("no-derivative", "argmax")),
    **dict.fromkeys(("argmin", "min"), ("no-derivative", "argmin")),
    **dict.fromkeys(("topk", "argsort", "sort"), ("no-derivative", "indices")),
    **dict.fromkeys(("searchsorted", "bucketize"), ("no-derivative", "place")),
    **dict.fromkeys(_COMPARISONS, ("no-derivative", "comparison")),
    **dict.fromkeys([f"__{name}__" for name in _COMPARISONS], ("no-derivative", "comparison")),
    **dict.fromkeys(_CASTS, ("no-derivative", "cast")),
    "sample": ("no-derivative", "choice"),
    "multinomial": ("no-derivative", "choice"),
    "one_hot": ("no-derivative", "one-hot"),
    **dict.fromkeys([f"torch.distributed.{name}" for name in _GATHERING], ("collective", "gather")),
}


Edits = tuple[Edit, ...]


def edits_for(cause: Cause, name: str) -> Edits:
    """Return the edits that remove a cause; none if no exact fix is known.

    `name` is the name of the tensor, or of the first one.
    """
    fix = FIXES.get((cause.code, cause.variant))
    return () if fix is None or cause.at is None else fix(cause, cause.at, name)


# --- Edits of a single expression


def remove_call(_: Cause, at: Source, __: str) -> Edits:
    """Return the edit that removes a call such as ``x.detach()``, so that ``x`` remains.

    `at` is the expression: ``x.detach()``, ``x.item()``, ``x.data`` or ``float(x)``. There is no
    edit in ``nn.Parameter(x.data)``: calling `Parameter` cuts the graph too.
    """
    if line_text(at.file, at.line)[: at.column].endswith("Parameter("):
        return ()
    match node := node_at(at, ast.expr):
        case ast.Call(func=ast.Attribute() as attribute, args=[]) | (ast.Attribute() as attribute):
            return replace(at, node, text_of(at, attribute).rpartition(".")[0].rstrip())
        case ast.Call(func=ast.Name(id="float"), args=[argument]):
            return replace(at, node, text_of(at, argument))
    return ()


def stack(_: Cause, at: Source, __: str) -> Edits:
    """Return the edit that replaces ``torch.tensor([a, b])`` by ``torch.stack([a, b])``.

    `at` is the call. If the argument is not a list, the argument itself replaces the call.
    """
    match call_at(at):
        case ast.Call(args=[first, *_], func=ast.Attribute(value=module)) as call:
            text = text_of(at, first)
            is_name = isinstance(first, ast.Name) and not text.endswith("ss")
            if isinstance(first, ast.List | ast.ListComp) or (is_name and PLURAL.search(text)):
                return replace(at, call, f"{text_of(at, module)}.stack({text})")
            return replace(at, call, f"({text})" if isinstance(first, ast.BinOp) else text)
    return ()


PLURAL = re.compile("s$|list")


def read_parameters(_: Cause, at: Source, __: str) -> Edits:
    """Return the edit that turns ``model.state_dict()`` into ``dict(model.named_parameters())``.

    `at` is the call of `state_dict`.
    """
    match call_at(at):
        case ast.Call(func=ast.Attribute(value=model, attr="state_dict"), args=[]) as call:
            return replace(at, call, f"dict({text_of(at, model)}.named_parameters())")
    return ()


def pass_result(_: Cause, at: Source, __: str) -> Edits:
    """Return the edit that replaces ``nn.Parameter(result)`` by ``result``. `at` is the call."""
    match call_at(at):
        case ast.Call(args=[first, *_]) as call:
            return replace(at, call, text_of(at, first))
    return ()


def find_new_parameter(at: Source | None) -> tuple[Source, bool] | None:
    """Return the call in ``w = nn.Parameter(...)``, and whether ``w`` is in its argument.

    `at` is a part of this statement. Return None if there is no such statement.
    """
    match statement_at(at):
        case ast.Assign(targets=[target], value=ast.Call(func=made, args=[value]) as call) if at:
            if ast.unparse(made).endswith("Parameter"):
                used = {ast.unparse(one) for one in ast.walk(value)}
                return marked(at, call), ast.unparse(target) in used
    return None


def write_into_parameter(at: Source | None) -> Edits:
    """Return the edit that replaces ``w = nn.Parameter(value)`` by ``w.data.copy_(value)``.

    `at` is a part of this statement.
    """
    match statement := statement_at(at):
        case ast.Assign(targets=[target], value=ast.Call(args=[value])) if at is not None:
            return replace(at, statement, f"{text_of(at, target)}.data.copy_({text_of(at, value)})")
    return ()


def avoid_reentrance(_: Cause, at: Source, __: str) -> Edits:
    """Return the edit that passes ``use_reentrant=False`` to a checkpoint. `at` is the call."""
    call = call_at(at)
    keywords = [] if call is None else call.keywords
    given = next((one for one in keywords if one.arg == "use_reentrant"), None)
    if given is not None:
        return replace(at, given, "use_reentrant=False")
    return () if call is None else add_argument(at, call, "use_reentrant=False")


def draw_by_rsample(_: Cause, at: Source, __: str) -> Edits:
    """Return the edit that replaces ``sample()`` by ``rsample()``. `at` is the call.

    There is none for Bernoulli, which has no ``rsample``.
    """
    match call_at(at):
        case ast.Call(func=ast.Attribute(attr="sample")) as call:
            receiver, dot, arguments = text_of(at, call).rpartition(".sample(")
            if dot and "Bernoulli" not in receiver:
                return replace(at, call, f"{receiver}.rsample({arguments}")
    return ()


def make_leaf_last(_: Cause, at: Source, __: str) -> Edits:
    """Return the edit that moves ``requires_grad=True`` behind the last call of a chain.

    `at` is the chain, such as ``torch.ones(2, requires_grad=True).cuda()``.
    """
    node = node_at(at, ast.expr)
    text = "" if node is None else text_of(at, node)
    for setting in (", requires_grad=True", ".requires_grad_()"):
        if node is not None and text.count(setting) == 1:
            return replace(at, node, f"{text.replace(setting, '')}.requires_grad_()")
    return ()


# --- Edits of a single statement, and searches in the code of the user


def retain_grad(_: Cause, at: Source, name: str) -> Edits:
    """Return the edit that inserts ``h.retain_grad()`` below the line that computes ``h``.

    `at` is a part of that line, and `name` the name of the variable.
    """
    match statement_at(at):
        case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
            return insert(at, [f"{name}.retain_grad()"], below=True)
    return ()


def line_that_freezes(log: Log) -> Source | None:
    """Return the only line in the recorded files that sets `requires_grad` to False.

    Return None if there is no such line, or if there are several.
    """
    files = {one.file: one for one in log.sources()}
    found = [
        marked(source, node)
        for source in files.values()
        for node in ast.walk(parse(source.file))
        if isinstance(node, ast.Call | ast.Assign) and OFF.search(ast.unparse(node))
    ]
    return found[0] if len(found) == 1 else None


def loop_variables(at: Source | None) -> set[str]:
    """Return the variables of all `for` loops in the file of `at`."""
    nodes = () if at is None else ast.walk(parse(at.file))
    return {ast.unparse(node.target) for node in nodes if isinstance(node, ast.For)}


OFF = re.compile(r"^[\w.\[\]()]+\.requires_grad(_\((requires_grad=)?| = )False\)?$")


def train_again(_: Cause, at: Source, __: str) -> Edits:
    """Return the edit that replaces ``requires_grad_(False)`` by ``requires_grad_(True)``.

    `at` is on the line of the call.
    """
    again = re.sub(r"(requires_grad.*)False", r"\1True", line_text(at.file, at.line))
    return (change_line(at.file, at.line, again),)


def first_name(at: Source | None) -> str | None:
    """Return the variable that an expression starts with, such as `model` in `model.fc.weight`.

    `at` is the expression. Return None if it starts with a module of PyTorch.
    """
    node = node_at(at, ast.expr)
    name = "" if node is None else re.split(r"\W", ast.unparse(node))[0]
    return None if name in {"", *MODULES} else name


# --- Blocks and functions that disable gradients


def find_switch(cut: Source | None, switch: Source) -> tuple[bool, Source]:
    """Return whether a decorator disabled gradients, and the expression that did.

    Args:
        cut: The line that ran while gradients were disabled.
        switch: The line that disabled them, as far as the recording shows.
    """
    decorator = _decorator_around(cut)
    if cut is not None and decorator is not None:
        return True, marked(cut, decorator)
    block = _block_at(switch)
    items = [] if block is None else [item.context_expr for item in block.items]
    found = next(filter(_is_switch, items), None)
    return False, switch if found is None else marked(switch, found)


def record_again(cause: Cause, at: Source, _: str) -> Edits:
    """Return the edits that let autograd track the operations of a line.

    They move the line out of the ``no_grad()`` block, or remove the decorator or the call. `at` is
    the line, and `cause` contains what disabled gradients.
    """
    decorator = _decorator_around(at)
    if decorator is not None:
        return (change_line(at.file, decorator.lineno),)
    switch = next((source for _, source in cause.marks), None)
    block = _block_at(switch)
    if switch is None:
        return ()
    if block is None:
        is_call = isinstance(statement_at(switch), ast.Expr)
        return (change_line(switch.file, switch.line),) if is_call else ()
    others = [ast.unparse(one) for one in block.items if not _is_switch(one.context_expr)]
    if 0 < len(others) < len(block.items):
        indent = " " * block.col_offset
        line = f"{indent}with {', '.join(others)}:"
        return (change_line(switch.file, block.lineno, line),)
    within = at.line if at.file == switch.file and block.lineno < at.line else block.body[0].lineno
    return tuple(_moved_out(switch.file, block, within))


def _moved_out(file: str, block: ast.With, line: int) -> Iterator[Edit]:
    """Yield the edits that move a line, and the rest of its block below it, out of the block."""
    starts = [one.lineno for one in block.body]
    first = max((start for start in starts if start <= line), default=starts[0])
    if first == starts[0]:
        yield change_line(file, block.lineno)
    shift = block.body[0].col_offset - block.col_offset
    for number in range(first, (block.end_lineno or first) + 1):
        text = line_text(file, number)
        if text.strip():
            yield change_line(file, number, text[shift:])


def _block_at(source: Source | None) -> ast.With | None:
    """Return the `with` statement that begins on the line of a source; None if none does."""
    nodes = () if source is None else ast.walk(parse(source.file))
    blocks = (node for node in nodes if isinstance(node, ast.With))
    return next((one for one in blocks if source and one.lineno == source.line), None)


def _decorator_around(source: Source | None) -> ast.expr | None:
    """Return the decorator that disables gradients in the function around a line, or None."""
    if source is None:
        return None
    for node in ast.walk(parse(source.file)):
        if isinstance(node, ast.FunctionDef) and node.lineno <= source.line <= (
            node.end_lineno or 0
        ):
            found = next(filter(_is_switch, node.decorator_list), None)
            if found is not None:
                return found
    return None


def _is_switch(node: ast.expr) -> bool:
    """Return whether an expression disables gradients, such as ``torch.no_grad()``."""
    return ast.unparse(node).rpartition(".")[2].removesuffix("()") in SWITCHES


SWITCHES = {"no_grad", "inference_mode", "set_grad_enabled(False)"}


FIXES: dict[tuple[str, str], Callable[[Cause, Source, str], Edits]] = {
    **dict.fromkeys(
        [("no-grad", one) for one in ("", "decorator", "inference", "setting", "still-off")],
        record_again,
    ),
    ("no-grad", "checkpoint"): avoid_reentrance,
    ("detached", ""): remove_call,
    ("detached", "data"): remove_call,
    ("converted", ""): remove_call,
    ("copied", ""): stack,
    ("copied", "parameter"): pass_result,
    ("copied", "replaced"): lambda _, at, __: write_into_parameter(at),
    ("other-tensor", "state-dict"): read_parameters,
    ("create-graph", ""): lambda _, at, __: pass_create_graph(at),
    ("no-derivative", "sample"): draw_by_rsample,
    ("frozen", ""): train_again,
    ("not-a-leaf", ""): make_leaf_last,
    ("not-retained", ""): retain_grad,
}
"""The functions that return the fix of a cause, by its code and variant."""
