"""The zoo: a collection of tensors, operations and networks for which the rules on pages must hold.

`@for_all` runs the check of a rule over its members. Each member has a name, a function and tags.
If the member is a thing, such as a leaf, its function has no arguments and returns a new thing. If
it is an action, such as a write, its function is called with the thing to act on, and raises
`NotImplementedError` if the action does not apply. A tag is a word of the page `scope`: claims that
exclude this word, by default or in their options, are not checked with the member.
"""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.autograd import Function, grad
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812 # its usual name
from torch.utils.checkpoint import checkpoint

THINGS = "leaf constant result parameter loss network layer"
WORDS = f"{THINGS} tensor operation pass write optimizer mode"
NOUNS = {noun: f"{noun}(?:e?s)?" for noun in WORDS.split()}
NOUNS |= {"leaf": "leaf|leaves", "network": "networks?|models?|modules?"}
PRETRAINED = nn.Embedding.from_pretrained
MEMBERS: list[tuple[tuple[str, ...], str, Callable[..., Any], frozenset[str]]] = []


def members(nouns: str, *rows: Any) -> None:
    """Add a member for each row, under all of the `nouns`. A row is (name, function, *tags)."""
    names = tuple(nouns.split())
    wrap = seeded if names[0] in THINGS.split() else applicable
    for name, function, *tags in rows:
        MEMBERS.append((names, name, wrap(function), frozenset(" ".join(tags).split())))


def each(names: str, make: Callable[[str], Any], tags: str = "") -> list[tuple[str, Any, str]]:
    """Return a row (see `members`) for each name. `make` returns the function for a name."""
    return [(name, make(name), tags) for name in names.split()]


def seeded(make: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that calls `make` with a fixed random seed.

    It restores the state of the random number generator afterwards.
    """
    return lambda: within(torch.random.fork_rng([]), lambda: torch.manual_seed(0) and make())


def applicable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises `NotImplementedError` if PyTorch does not support its tensors.

    For usual tensors (see `is_usual`), it raises PyTorch's own error.
    """

    def apply(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (RuntimeError, TypeError) as error:
            if all(is_usual(x) for x in arguments if isinstance(x, Tensor)):
                raise
            raise NotImplementedError from error

    return apply


def is_usual(x: Tensor) -> bool:
    """Return whether `x` is a dense floating-point tensor on the CPU.

    PyTorch supports nearly every operation for such tensors.
    """
    return x.is_floating_point() and x.layout == torch.strided and x.is_cpu


def only(condition: object, x: Any) -> Any:
    """Return `x` if the condition is true. Otherwise the action does not apply: raise an error."""
    if not condition:
        raise NotImplementedError
    return x


def row(x: Tensor) -> Tensor:
    """Return the elements of `x` as a vector. Without elements, the action does not apply."""
    return only(x.numel(), x).reshape(-1)


def live(x: Tensor) -> Tensor:
    """Return `x`. If it does not require grad, the action does not apply."""
    return only(x.requires_grad, x)


def leaf(values: Any = (1.0, 2.0, 3.0)) -> Tensor:
    """Return a new leaf with these values that requires grad."""
    return torch.tensor(values, requires_grad=True)


def within(mode: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the function in the context `mode`, such as `torch.no_grad()`. Return its result."""
    with mode:
        return function(*arguments)


def of(function: Callable[..., Any], *leaves: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the loss that the function computes from the leaves, and the list of leaves."""
    leaves = leaves or (leaf(),)
    return function(*leaves), [*leaves]


def custom(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return the square as a custom autograd function with this `backward`."""
    rules = {"forward": lambda ctx, x: ctx.save_for_backward(x) or x * x, "backward": backward}
    return type("Square", (Function,), {k: staticmethod(v) for k, v in rules.items()}).apply


def times_slope(ctx: Any, g: Tensor) -> Tensor:
    """Return `g` times the derivative of the square: the right backward for `custom`."""
    return 2 * ctx.saved_tensors[0].conj() * g


def lin(outputs: int = 3, *, frozen: bool = False) -> nn.Linear:
    """Return a linear layer with three inputs. If it is `frozen`, it does not require grad."""
    return nn.Linear(3, outputs).requires_grad_(not frozen)


def fed(module: nn.Module, **parts: Any) -> tuple[nn.Module, Tensor]:
    """Return the module with these parts as attributes, and an input for it."""
    for name, part in parts.items():
        setattr(module, name, part)
    return module, torch.randn(4, 3)


def net(forward: Callable[..., Any], **parts: Any) -> tuple[nn.Module, Tensor]:
    """Return a network with this forward pass and these parts, and an input for it.

    `forward` is called with the network and the input.
    """
    return fed(type("Net", (nn.Module,), {"forward": forward})(), **parts)


def slope(x: Tensor) -> Tensor:
    """Return the derivative of the cube of `x`, with its graph."""
    return grad(live(x).pow(3).sum(), x, create_graph=True)[0]


def cross_entropy(w: Tensor, b: Tensor) -> Tensor:
    """Return the loss of a layer with weight `w` and bias `b`, by PyTorch's fused function.

    PyTorch 2.12 and earlier have none; there, two calls compute it.
    """
    target = torch.tensor([0])
    if not hasattr(nn, "LinearCrossEntropyOptions"):
        return F.cross_entropy(F.linear(leaf()[None], w, b), target)
    plan = nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(leaf()[None], w, target, linear_bias=b, options=plan)


def run_recorded(y: Tensor, inputs: Sequence[Tensor]) -> None:
    """Run a backward pass with `create_graph=True`, without PyTorch's warning about its memory."""
    with warnings.catch_warnings(action="ignore"):
        y.backward(torch.ones_like(y), inputs=inputs, create_graph=True)


class Named(Tensor):
    """A subclass of `Tensor` that adds nothing."""


KINDS = [
    ("vector", lambda: torch.tensor([1.0, 2.0, 3.0])),
    ("0-dim", lambda: torch.tensor(2.0), "zero-dim"),
    ("empty", lambda: torch.empty(0), "empty"),
    ("double matrix", lambda: torch.ones(2, 3).double()),
    *each("half bfloat16", lambda dtype: getattr(torch.ones(2), dtype), "half"),
    ("zeros", lambda: torch.zeros(3)),
    ("nan", lambda: torch.tensor([float("nan"), float("inf"), 1.0]), "nan"),
    ("complex", lambda: torch.tensor([1j, 2.0]), "complex"),
    ("sparse", lambda: torch.eye(2).to_sparse(), "sparse"),
    ("meta", lambda: torch.ones(3, device="meta"), "devices"),
    ("subclass", lambda: torch.ones(3).as_subclass(Named), "subclasses view"),
]
RECORDED = [
    *each("exp sin abs square relu sign clone", lambda name: getattr(Tensor, name)),
    *each("sum mean norm median", lambda name: lambda x: getattr(x, name)(), "zero-dim"),
    ("cast to double", lambda x: only(not x.is_complex(), x).double()),
    ("slice", lambda x: row(x)[:1], "view"),
    ("unbind", lambda x: row(x).unbind()[0], "view zero-dim"),
    ("index", lambda x: row(x)[[0, 0]]),
    ("norm(0)", lambda x: x.norm(0), "zero-dim"),
    ("expand to its shape", lambda x: x.expand_as(x), "view"),
    ("in place", lambda x: (x * 1).mul_(2), "in-place"),
    ("write to a slice", lambda x: only((y := row(x) * 1)[:1].zero_() is not None, y), "in-place"),
    ("into a constant", lambda x: torch.zeros_like(x).add_(x), "in-place"),
    ("dropout", F.dropout, "random"),
    ("embedding", lambda x: F.embedding(torch.tensor([0, 0]), row(x)[:, None]), "embedding"),
    ("autocast", lambda x: torch.autocast("cpu")(F.linear)(row(x), row(x)[None]), "autocast half"),
    ("gradient", slope, "create_graph"),
    ("times 1j", lambda x: x.cfloat() * 1j, "complex"),
    ("vmap of grad", lambda x: torch.func.vmap(torch.func.grad(torch.sin))(row(x)), "compiled"),
    ("in a thread", lambda x: ThreadPoolExecutor(1).submit(torch.exp, x).result(), "threads"),
    ("Function", custom(times_slope), "custom"),
    ("Function differentiable once", custom(once_differentiable(times_slope)), "custom"),
    ("Function without gradient", custom(lambda _ctx, _g: None), "custom"),
    ("hook", lambda x: only((y := live(x) * 1).register_hook(torch.neg), y), "hooks"),
    ("checkpoint", lambda x: checkpoint(torch.exp, x, use_reentrant=False), "checkpoints"),
    ("old checkpoint", lambda x: checkpoint(torch.exp, live(x), use_reentrant=True), "checkpoints"),
]
UNRECORDED = [
    *each("detach zeros_like", lambda name: getattr(torch, name)),
    *each("signbit argsort", lambda name: getattr(Tensor, name), "complex"),
    ("permutation", lambda x: torch.linalg.lu(torch.eye(2) * x.sum())[0]),
    ("under no_grad", torch.no_grad()(torch.exp), "no_grad"),
    ("in inference mode", torch.inference_mode()(torch.exp), "inference"),
    (".data", lambda x: x.data, "data"),
]
members(
    "leaf tensor",
    *[(name, lambda make=make: make().requires_grad_(), *tags) for name, make, *tags in KINDS],
    ("expanded constant", lambda: torch.ones(1).expand(3).requires_grad_(), "view"),
    ("early view", lambda: ((x := torch.ones(4))[:3], x.requires_grad_())[0], "early-view view"),
    ("view under no_grad", lambda: torch.no_grad()(row)(leaf()), "early-view view"),
    ("made in inference mode", lambda: within(torch.inference_mode(), leaf), "inference"),
)
members("parameter", *[(k[0], lambda make=k[1]: nn.Parameter(make()), *k[2:]) for k in KINDS])
members(
    "constant tensor",
    *[(f"constant {k[0]}", *k[1:]) for k in KINDS],
    *[(name, lambda act=act: act(leaf()), *tags) for name, act, *tags in UNRECORDED],
    ("slice of a constant", lambda: torch.zeros(4)[:3], "view"),
)
members("constant parameter tensor", ("frozen", lambda: lin(frozen=True).weight, "frozen"))
members(
    "result tensor",
    *[(name, lambda act=act: act(leaf()), *tags) for name, act, *tags in RECORDED],
    *[(f"of {n}", lambda m=m: m().requires_grad_() * 2, *t) for n, m, *t in KINDS],
    ("retained", lambda: ((y := leaf() * 2).retain_grad(), y)[1]),
    ("written Parameter", lambda: lin(frozen=True).weight.mul_(leaf()), "in-place"),
)
members("operation", *RECORDED, *UNRECORDED, ("contiguous", Tensor.contiguous))
members(
    "loss",
    ("diamond", lambda: of(lambda x: ((y := x * 2).sin() * y.cos()).sum())),
    ("constant branch", lambda: of(lambda x: (x * x + x.detach().exp()).sum())),
    ("in place", lambda: of(lambda x: (x * 2).add_(1).square().sum()), "in-place"),
    ("second order", lambda: of(lambda x: slope(x).sum()), "create_graph"),
    ("fused cross entropy", lambda: of(cross_entropy, *lin().parameters())),
    ("element", lambda: of(lambda x: x[0]), "view zero-dim"),
    ("one-element vector", lambda: of(lambda x: (x * x)[:1])),
    ("half", lambda: of(lambda x: x.half().exp().sum()), "half"),
    ("nan", lambda: of(lambda x: (x - 2).log().sum()), "nan"),
)
members(
    "pass",
    ("backward()", lambda y, _: only(y.numel() == 1, y).backward()),
    ("create_graph=True", run_recorded, "create_graph"),
    ("retain_graph=True", lambda y, _: y.backward(torch.ones_like(y), retain_graph=True)),
    ("inputs=", lambda y, inputs: y.backward(torch.ones_like(y), inputs=inputs)),
    ("two roots", lambda y, _: torch.autograd.backward([y.sum(), y.exp().sum()])),
)
members(
    "write",
    *each("zero_ exp_ relu_", lambda name: getattr(Tensor, name)),
    ("nn.init", nn.init.zeros_, "no_grad"),
    *each("add_ mul_ fill_", lambda name: lambda x: getattr(x, name)(2.0)),
    ("slice", lambda x: only(x.dim(), x).__setitem__(slice(1), 2.0)),
    ("apply_", lambda x: only(not x.requires_grad, x).apply_(float.__neg__)),
    ("out=", lambda x: torch.exp(x.detach(), out=x)),
    ("under no_grad", torch.no_grad()(Tensor.neg_), "no_grad"),
    (".data", lambda x: x.data.add_(1), "data"),
    ("detach()", lambda x: x.detach().add_(1), "data"),
    ("NumPy", lambda x: x.detach().numpy().fill(2), "data"),
)
members(
    "optimizer",
    *each("SGD Adam AdamW RMSprop Adagrad", lambda name: lambda w: getattr(optim, name)(w, lr=0.1)),
    *each("momentum weight_decay", lambda name: lambda w: optim.SGD(w, lr=0.1, **{name: 0.5})),
    *each("maximize foreach fused", lambda n: lambda w: optim.Adam(w, **{n: True})),
    ("LBFGS", optim.LBFGS),
)
members(
    "mode",
    ("enable_grad", torch.enable_grad),
    ("no_grad", torch.no_grad, "no_grad"),
    ("inference_mode", torch.inference_mode, "inference"),
    ("autocast", lambda: torch.autocast("cpu"), "autocast"),
)
members(
    "layer network",
    *each("ReLU Identity Flatten", lambda name: lambda: fed(getattr(nn, name)())),
    ("Dropout", lambda: fed(nn.Dropout()), "random"),
    ("Dropout in eval mode", lambda: fed(nn.Dropout().eval()), "random eval"),
    ("Linear", lambda: fed(lin())),
    ("BatchNorm", lambda: fed(nn.BatchNorm1d(3)), "normalization"),
    ("BatchNorm in eval mode", lambda: fed(nn.BatchNorm1d(3).eval()), "normalization eval"),
    ("Embedding", lambda: (nn.Embedding(4, 2, 1, max_norm=0.1), torch.arange(3)), "embedding"),
    ("LSTM", lambda: fed(nn.LSTM(3, 2)), "recurrent"),
    ("weight_norm", lambda: fed(nn.utils.parametrizations.weight_norm(lin()))),
    ("pretrained", lambda: (PRETRAINED(torch.eye(3)), torch.arange(3)), "embedding frozen"),
)
members(
    "network",
    ("MLP", lambda: fed(nn.Sequential(lin(), nn.Tanh(), lin(1)))),
    ("frozen backbone", lambda: fed(nn.Sequential(lin(frozen=True), nn.ReLU(), lin())), "frozen"),
    ("in-place ReLU", lambda: fed(nn.Sequential(lin(), nn.ReLU(inplace=True))), "in-place"),
    ("tied", lambda: fed(nn.Sequential(layer := lin(), nn.Tanh(), layer)), "tied"),
    ("frozen middle", lambda: fed(nn.Sequential(lin(), lin(frozen=True), lin())), "frozen"),
    ("detached output", lambda: net(lambda m, x: m.a(x).detach(), a=lin())),
    ("norm(0)", lambda: net(lambda m, x: m.a(x).norm(0), a=lin()), "zero-dim"),
    ("returns a dict", lambda: net(lambda m, x: {"logits": m.a(x)}, a=lin())),
    ("unused layer", lambda: net(lambda m, x: m.a(x), a=lin(), b=lin())),
    ("functional dropout", lambda: net(lambda m, x: F.dropout(m.a(x)), a=lin()), "random"),
    ("no_grad inside", lambda: net(lambda m, x: m.a(torch.no_grad()(m.a)(x)), a=lin()), "no_grad"),
    ("kept in eval mode", lambda: fed(nn.BatchNorm1d(3).eval(), train=bool), "eval normalization"),
)
