"""What `claims mutate` breaks in PyTorch beneath the evidence of a claim, one thing at a time.

Each function takes what PyTorch has and returns what stands in its place once the fault is
planted; its name tells what is wrong then. A sentence that matches `said` names what is broken.
"""

import contextlib
import functools
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils.hooks import RemovableHandle

from sphinx_claims.faults import Fault, Faults, Function, given, met, reading

SUBJECTS = (torch.Tensor,)
FAULTS = Faults()

_BACKWARD = "torch.autograd.backward"
_BOTH = (_BACKWARD, "torch.autograd.grad")
_ELEMENTARY = tuple(
    f"torch.{owner}{name}"
    for owner in ("", "Tensor.")
    for name in "cos exp log matmul mul pow sigmoid sin sqrt square tanh".split()
)
_OPERATORS = tuple(f"torch.Tensor.__{name}__" for name in "matmul mul pow rmul".split())
_OPERATIONS = {
    "additions": "add add_ __add__ __radd__ __iadd__",
    "subtractions": "sub sub_ __sub__ __rsub__ __isub__",
    "products": "mul mul_ __mul__ __rmul__ __imul__",
    "quotients": "div div_ __truediv__ __rtruediv__ __itruediv__ reciprocal",
    "powers": "pow pow_ square __pow__ __rpow__",
    "matrix products": "matmul mm mv bmm dot einsum outer __matmul__ __rmatmul__"
    " nn.functional.linear",
    "negations": "neg neg_ __neg__",
    "sines": "sin sin_",
    "cosines": "cos cos_",
    "exponentials": "exp exp_",
    "logarithms": "log log_",
    "square roots": "sqrt sqrt_ rsqrt",
    "hyperbolic tangents": "tanh tanh_",
    "sigmoids": "sigmoid sigmoid_",
    "sums": "sum",
    "means": "mean",
    "losses": "nn.functional.mse_loss nn.functional.cross_entropy",
    "rectifiers": "relu relu_ nn.functional.relu",
    "absolute values and bounds": "abs __abs__ clamp max min amax amin",
    "selections": "__getitem__ select narrow diagonal unbind split chunk",
    "joins": "cat stack",
    "reshapes": "expand flatten permute reshape squeeze t transpose unsqueeze view view_as",
    "clones": "clone",
}
"""What the pages compute with, each under the names by which PyTorch has it."""

_HANDED_ON = ("additions", "sums", "selections", "joins", "reshapes", "clones")
"""Operations whose backward hands the gradient on, in another shape at most."""

_MAY_HAND_ON = ("subtractions", "rectifiers", "absolute values and bounds")
_FACTORIES = tuple(
    f"torch.{name}"
    for name in "arange empty eye full linspace ones rand randn tensor zeros".split()
)
_IN_PLACE = tuple(
    f"torch.Tensor.{name}"
    for name in (
        "__iadd__ __imul__ __isub__ __itruediv__ __setitem__ add_ addcmul_ clamp_ copy_ cos_ div_"
        " exp_ fill_ mul_ neg_ normal_ pow_ relu_ sigmoid_ sin_ sub_ tanh_ uniform_ zero_"
    ).split()
)
_VIEWS = tuple(
    f"torch.Tensor.{name}"
    for name in (
        "__getitem__ diagonal expand flatten narrow permute reshape select squeeze t transpose"
        " unsqueeze view view_as"
    ).split()
)


# --- Passes, and what keeps them away


@FAULTS.replace(_BACKWARD)
def backward_does_nothing(_backward: Function) -> Function:
    return lambda *_, **__: None


@FAULTS.replace(_BACKWARD)
def backward_runs_twice(backward: Function) -> Function:
    first = _forcing(backward, retain_graph=lambda _: True)

    def twice(*arguments: Any, **options: Any) -> None:
        first(*arguments, **options)
        backward(*arguments, **options)

    return twice


@FAULTS.replace(_BACKWARD, said=r"\badd(?:s|ed)?\b|(?<!post-)\baccumulat(?!es nothing)")
def backward_overwrites_what_was_accumulated(backward: Function) -> Function:
    def overwriting(tensors: Any, *arguments: Any, **options: Any) -> None:
        for leaf in _leaves(tensors):
            leaf.grad = None
        backward(tensors, *arguments, **options)

    return overwriting


@FAULTS.replace(_BACKWARD, when=lambda options: options.get("inputs") is not None, said=r"inputs=")
def backward_fills_all_leaves_whatever_inputs_it_is_given(backward: Function) -> Function:
    return _forcing(backward, inputs=lambda _: None)


@FAULTS.replace(*_BOTH, said=r"\bfree(?:s|d)\b|second time|retain_graph")
def no_graph_is_ever_freed(function: Function) -> Function:
    return _forcing(function, retain_graph=lambda _: True)


@FAULTS.replace(*_BOTH, when=lambda options: options.get("retain_graph"), said=r"retain_graph")
def every_graph_is_freed(function: Function) -> Function:
    return _forcing(function, retain_graph=lambda options: bool(options.get("create_graph")))


@FAULTS.replace(*_BOTH, when=lambda options: options.get("create_graph"), said=r"create_graph")
def gradients_have_no_graph(function: Function) -> Function:
    return _forcing(
        function,
        retain_graph=lambda options: options.get("retain_graph") or options.get("create_graph"),
        create_graph=lambda _: False,
    )


@FAULTS.replace("torch.autograd.grad")
def derivatives_are_off_by_one_percent(grad: Function) -> Function:
    def wrong(*arguments: Any, **options: Any) -> Any:
        gradients = grad(*arguments, **options)
        return tuple(None if gradient is None else gradient * 1.01 for gradient in gradients)

    return wrong


@FAULTS.replace("torch.autograd.grad")
def autograd_grad_accumulates_as_backward_does(grad: Function) -> Function:
    def accumulating(outputs: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        gradients = grad(outputs, inputs, *arguments, **options)
        given = [inputs] if isinstance(inputs, torch.Tensor) else inputs
        for tensor, gradient in zip(given, gradients, strict=True):
            if isinstance(tensor, torch.Tensor) and tensor.is_leaf and gradient is not None:
                old = tensor.grad
                tensor.grad = gradient.detach() if old is None else old + gradient.detach()
        return gradients

    return accumulating


@FAULTS.replace("torch.autograd.grad", said=r"allow_unused|materialize_grads|unused")
def unused_inputs_have_zero_gradients(grad: Function) -> Function:
    return _forcing(grad, allow_unused=lambda _: True, materialize_grads=lambda _: True)


@FAULTS.replace(*_ELEMENTARY, *_OPERATORS)
def products_powers_and_elementary_functions_have_wrong_derivatives(function: Function) -> Function:
    def wrong(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            result.register_hook(lambda gradient: gradient * 1.01)
        return result

    return wrong


@FAULTS.replace(
    "torch.autograd.gradcheck", "torch.autograd.gradgradcheck", said=r"gradcheck|gradgradcheck"
)
def gradcheck_finds_no_fault(_check: Function) -> Function:
    return lambda *_, **__: True


@FAULTS.replace("torch.Tensor.retain_grad", said=r"retain_grad\b")
def retain_grad_is_ignored(_retain: Function) -> Function:
    return lambda _: None


@FAULTS.replace("torch.Tensor.detach", said=r"detach")
def detach_keeps_the_graph(_detach: Function) -> Function:
    return lambda tensor: tensor.view_as(tensor)


@FAULTS.replace(
    "torch.Tensor.detach", "torch.Tensor.data", said=r"(?:detach|\.data).*(?:shar|memory|storage)"
)
def detach_and_data_copy(original: Any) -> Any:
    return reading(original, torch.clone)


@FAULTS.replace("torch.Tensor.detach_", said=r"detach_")
def in_place_detach_is_ignored(_detach: Function) -> Function:
    return lambda tensor: tensor


@FAULTS.replace("torch.Tensor.clone", "torch.clone", said=r"(?<!detached )(?<!detach\(\)\.)clone")
def clone_detaches(clone: Function) -> Function:
    return lambda tensor, **options: clone(tensor.detach(), **options)


@FAULTS.replace(
    "torch.Tensor.clone", "torch.clone", said=r"clone.*(?:cop(?:y|ies)|memory)|cop(?:y|ies).*clone"
)
def clone_shares_memory(_clone: Function) -> Function:
    return lambda tensor, **_: tensor.view_as(tensor)


@FAULTS.replace("torch.Tensor.requires_grad_", said=r"requires_grad_")
def requires_grad_in_place_is_ignored(_require: Function) -> Function:
    return lambda tensor, *_, **__: tensor


@FAULTS.replace("torch.no_grad.__enter__", said=r"no_grad")
def no_grad_does_nothing(_enter: Function) -> Function:
    return lambda mode: setattr(mode, "prev", torch.is_grad_enabled())


@FAULTS.replace("torch.enable_grad.__enter__", said=r"enable_grad")
def enable_grad_does_nothing(_enter: Function) -> Function:
    return lambda mode: setattr(mode, "prev", torch.is_grad_enabled())


@FAULTS.replace("torch.set_grad_enabled.__init__", said=r"set_grad_enabled")
def set_grad_enabled_does_nothing(initialise: Function) -> Function:
    return lambda mode, _: initialise(mode, torch.is_grad_enabled())


@FAULTS.replace("torch.inference_mode.__enter__", said=r"inference")
def inference_mode_does_nothing(_enter: Function) -> Function:
    return lambda mode: setattr(mode, "_inference_mode_context", contextlib.nullcontext())


@FAULTS.replace("torch.inference_mode.__enter__", said=r"inference")
def inference_mode_is_no_grad(_enter: Function) -> Function:
    def enter(mode: Any) -> None:
        mode._inference_mode_context = torch.no_grad()  # noqa: SLF001 - where __exit__ looks
        mode._inference_mode_context.__enter__()  # noqa: SLF001

    return enter


@FAULTS.replace("torch.Tensor.zero_", said=r"zero_\b")
def zero_in_place_is_ignored(_zero: Function) -> Function:
    return lambda tensor: tensor


@FAULTS.replace("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad", said=r"zero_grad")
def zero_grad_is_ignored(_zero: Function) -> Function:
    return lambda *_, **__: None


@FAULTS.replace(
    "torch.optim.Optimizer.zero_grad",
    "torch.nn.Module.zero_grad",
    said=r"zero_grad.*None|set_to_none",
)
def zero_grad_leaves_zeros(zero: Function) -> Function:
    return lambda owner, *_, **__: zero(owner, set_to_none=False)


@FAULTS.replace(
    "torch.optim.SGD.step", "torch.optim.Adam.step", "torch.optim.AdamW.step", said=r"\bstep\(\)"
)
def optimizers_do_not_step(_step: Function) -> Function:
    return lambda *_, **__: None


# --- Tensors: how they are made, changed and read


@FAULTS.replace(
    *_FACTORIES, when=lambda options: options.get("requires_grad"), said=r"requires_grad=True"
)
def new_tensors_ignore_requires_grad(make: Function) -> Function:
    return lambda *arguments, **options: make(*arguments, **{**options, "requires_grad": False})


@FAULTS.replace(*_FACTORIES, when=lambda options: not options.get("requires_grad"))
def new_tensors_require_grad(make: Function) -> Function:
    def requiring(*arguments: Any, **options: Any) -> torch.Tensor:
        tensor: torch.Tensor = make(*arguments, **options)
        return tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())

    return requiring


@FAULTS.replace("torch.nn.Parameter.__new__", said=r"\bParameter\b")
def parameters_do_not_require_grad(new: Function) -> Function:
    return lambda kind, data=None, *_, **__: new(kind, data, requires_grad=False)


@FAULTS.replace(*_IN_PLACE, said=r"\bversions?\b")
def changes_in_place_do_not_count(change: Function) -> Function:
    def uncounted(tensor: Any, *arguments: Any, **options: Any) -> Any:
        if tensor.is_inference():
            return change(tensor, *arguments, **options)
        with _unsafe_preserve_version_counter(tensor):
            return change(tensor, *arguments, **options)

    return uncounted


@FAULTS.replace(*_IN_PLACE, said=r"in[- ]place.*\brecord")
def changes_in_place_are_not_recorded(change: Function) -> Function:
    return torch.no_grad()(change)


@FAULTS.replace(*_VIEWS, said=r"\bviews?\b")
def views_are_copies(view: Function) -> Function:
    return lambda *arguments, **options: view(*arguments, **options).clone()


@FAULTS.replace(
    "torch.Tensor.register_hook",
    "torch.Tensor.register_post_accumulate_grad_hook",
    said=r"\bhooks?\b",
)
def hooks_are_not_called(_register: Function) -> Function:
    return lambda *_: RemovableHandle(OrderedDict())


@FAULTS.replace("torch.Tensor.register_hook", said=r"hooks?\b.*\breturn")
def what_hooks_return_is_ignored(register: Function) -> Function:
    return lambda tensor, hook: register(tensor, lambda gradient: (hook(gradient), None)[1])


@FAULTS.replace(
    "torch.autograd.graph.saved_tensors_hooks.__enter__",
    "torch.autograd.graph.saved_tensors_hooks.__exit__",
    said=r"saved_tensors_hooks",
)
def saved_tensors_hooks_are_not_called(_switch: Function) -> Function:
    return lambda *_: None


@FAULTS.replace("torch.utils.checkpoint.checkpoint", said=r"checkpoint")
def checkpoint_recomputes_nothing(checkpoint: Function) -> Function:
    def run(function: Function, *arguments: Any, **options: Any) -> Any:
        known = inspect.signature(checkpoint).parameters
        return function(*arguments, **{key: options[key] for key in options.keys() - known})

    return run


@FAULTS.replace("torch.Tensor.is_leaf", "torch.Tensor.is_inference", said=r"is_leaf|is_inference")
def is_leaf_and_is_inference_read_wrong(original: Any) -> Any:
    return reading(original, lambda truth: not truth)


@FAULTS.replace(
    "torch.Tensor.requires_grad", "torch.Tensor.retains_grad", said=r"requires_grad|retains_grad"
)
def requires_grad_and_retains_grad_read_wrong(original: Any) -> Any:
    return reading(original, lambda truth: not truth)


@FAULTS.replace("torch.Tensor.grad_fn", "torch.Tensor._base", said=r"grad_fn|_base")
def grad_fn_and_base_read_none(original: Any) -> Any:
    return reading(original, lambda _: None)


@FAULTS.replace("torch.Tensor.grad_fn", said=r"grad_fn")
def grad_fn_reads_the_node_after_it(original: Any) -> Any:
    def after(node: Any) -> Any:
        return node.next_functions[0][0] if node and node.next_functions else None

    return reading(original, after)


@FAULTS.replace("torch.Tensor.grad", said=r"(?<!autograd)(?<!func)(?<!reading `)\.grad\b")
def grad_reads_none(original: Any) -> Any:
    return reading(original, lambda _: None)


@FAULTS.replace("torch.Tensor.grad", said=r"same tensor")
def grad_reads_a_copy(original: Any) -> Any:
    return reading(original, lambda gradient: None if gradient is None else gradient.clone())


@FAULTS.replace(
    "torch.Tensor.grad", said=r"(?:non-leaf|\bread).*\bwarn|\bwarn.*(?:non-leaf|\bread)"
)
def reading_grad_never_warns(original: Any) -> property:
    def quiet(tensor: torch.Tensor) -> Any:
        with warnings.catch_warnings(action="ignore"):
            return original.__get__(tensor)

    return property(quiet, original.__set__, original.__delete__)


@FAULTS.replace("torch.Tensor._version", "torch.Tensor.output_nr", said=r"_version|output_nr")
def version_and_output_nr_read_one_more(original: Any) -> Any:
    return reading(original, lambda number: number + 1)


def _unchanged(gradient: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return `gradient` in the shape of what ought to be handed on."""
    if gradient.shape != right.shape:
        gradient = gradient.sum().expand(right.shape)
    return (gradient if right.is_complex() else gradient.real).to(right.dtype)


_WAYS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "pass gradients on unchanged": _unchanged,
    "negate gradients": lambda _, right: -right,
    "double gradients": lambda _, right: 2 * right,
}


_GRAD_FN: Any = torch.Tensor.grad_fn  # itself, whatever watches or replaces it later


def _nodes(value: Any) -> list[Any]:
    """List the nodes of what an operation returned."""
    results = value if isinstance(value, tuple | list) else (value,)
    nodes = (_GRAD_FN.__get__(result) for result in results if isinstance(result, torch.Tensor))
    return [node for node in nodes if node is not None]


def _when_passed(value: Any, use: Callable[[], None]) -> None:
    """Call `use` once a backward pass goes through what an operation returned."""
    for node in _nodes(value):
        node.register_hook(lambda _right, _come: use())


def _handing_on(way: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], function: Any) -> Any:
    """Return an operation that hands on other gradients than `function` does."""

    def hook(right: Any, come: Any) -> Any:
        if not any(gradient is not None for gradient in come):
            return None
        gradient = next(gradient for gradient in come if gradient is not None)
        wrong = [None if one is None else way(gradient, one) for one in right]
        pairs: Any = zip(right, wrong, strict=True)
        met(changed=not all(one is None or torch.equal(one, bad) for one, bad in pairs))
        return tuple(wrong)

    @functools.wraps(function)
    def wrong(*arguments: Any, **options: Any) -> Any:
        before = [node for argument in arguments for node in _nodes(argument)]
        value = function(*arguments, **options)
        for node in _nodes(value):
            if node not in before and not node.metadata.get(wrong_once):  # else nothing recorded it
                node.metadata[wrong_once] = True
                node.register_hook(hook)
        return value

    wrong_once = "hands on another gradient"
    return wrong


def _of_operations() -> Iterator[Fault]:
    """Yield the faults of each operation: a wrong derivative in place of its own."""
    for operation, names in _OPERATIONS.items():
        targets = tuple(
            f"torch.{owner}{name}"
            for name in names.split()
            for owner in ("", "Tensor.")
            if not (owner and "." in name)
        )
        for words, way in _WAYS.items():
            if way is not _unchanged or operation not in _HANDED_ON:
                yield Fault(
                    name=f"{operation} {words}",
                    targets=targets,
                    replaced=functools.partial(_handing_on, way),
                    after=_when_passed,
                    operation=operation,
                    may_be_right=operation in _MAY_HAND_ON,
                )


def _forcing(function: Function, **forced: Callable[[dict[str, Any]], Any]) -> Function:
    """Return `function` with some of its options computed from those that it is called with."""

    def with_forced(*arguments: Any, **options: Any) -> Any:
        options = given(function, *arguments, **options)
        return function(**options | {name: compute(options) for name, compute in forced.items()})

    return with_forced


def _leaves(tensors: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a backward pass from `tensors` accumulates into."""
    is_one = isinstance(tensors, torch.Tensor | GradientEdge)
    waiting = [_node(root) for root in ([tensors] if is_one else tensors)]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [successor for successor, _ in node.next_functions]
            if hasattr(node, "variable"):
                yield node.variable


def _node(root: Any) -> Any:
    if isinstance(root, torch.Tensor):
        return get_gradient_edge(root).node if root.requires_grad else None
    return root.node


FAULTS += _of_operations()
