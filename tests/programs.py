"""Random programs and models, to compare what is said of gradients with what backward then does."""

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd, diagnose, record
from leafgrad._arguments.outputs import gradient_edges
from leafgrad._diagnosis.gradient_flow import GradientFlow
from leafgrad.types import Severity
from tests.diagnosis.programs import FAILING
from tests.messages import CODES

SIZE = 4


# --- Custom functions with different backward methods


class Plain(torch.autograd.Function):
    """Returns a gradient for both inputs."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        a, b = ctx.saved_tensors
        return gradients[0] * b, gradients[0] * a


class FirstOnly(Plain):
    """Returns None for the second input."""

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        _, b = ctx.saved_tensors
        return gradient * b, None


class IfNeeded(Plain):
    """Computes only gradients that are needed, as in PyTorch's tutorial."""

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        a, b = ctx.saved_tensors
        to_a = to_b = None
        if ctx.needs_input_grad[0]:
            to_a = gradient * b
        if ctx.needs_input_grad[1]:
            to_b = gradient * a
        return to_a, to_b


class Passing(torch.autograd.Function):
    """Passes on the gradients that arrive, and None for outputs that are not used."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(one.clone() for one in inputs)

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return gradients


class Filling(Passing):
    """Passes on the gradients that arrive, and zeros for outputs that are not used."""

    @staticmethod
    def forward(_: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(one.clone() for one in inputs)


class ByAnother(Plain):
    """Calls another function in its backward, whose source leafgrad does not read."""

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return _gradients(ctx, gradient)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    a, _ = ctx.saved_tensors
    return None, gradient * a


class Marked(torch.autograd.Function):
    """Marks its result as not differentiable."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x * 2
        ctx.mark_non_differentiable(y)
        return y

    @staticmethod
    def backward(_: Any, *__: Any) -> Any:
        return None


class Inner(torch.autograd.Function):
    """Runs a backward pass inside its backward, as a reentrant checkpoint does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, hidden: Tensor) -> Tensor:
        ctx.hidden = hidden
        ctx.save_for_backward(x)
        return x * hidden.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            inner = x.detach() * ctx.hidden
        if inner.requires_grad:
            torch.autograd.backward(inner, gradients[0])
        return gradients[0] * ctx.hidden.detach(), None


def applied(function: Any, *inputs: Any) -> Any:
    return function.apply(*inputs)


# --- Cuts in one line each, with the expected cause


def by_detach(h: Tensor) -> Tensor:
    return h.detach()


def by_data(h: Tensor) -> Tensor:
    return h.data


def by_item(h: Tensor) -> Tensor:
    return torch.ones(SIZE) * h.sum().item()


def by_list(h: Tensor) -> Tensor:
    return torch.tensor(h.tolist())


def by_numpy(h: Tensor) -> Tensor:
    return torch.from_numpy(h.detach().numpy())


def by_tensor(h: Tensor) -> Tensor:
    return torch.tensor(h)


def by_tensor_of_list(h: Tensor) -> Tensor:
    return torch.tensor([h[0], h[1], h[2], h[3]], requires_grad=True)


def by_new_tensor(h: Tensor) -> Tensor:
    return torch.ones(1).new_tensor(h)


def by_as_tensor(h: Tensor) -> Tensor:
    return torch.as_tensor([*h], dtype=torch.float32)


def by_parameter(h: Tensor) -> Tensor:
    return nn.Parameter(h)


def by_parameter_of_data(h: Tensor) -> Tensor:
    return nn.Parameter(h.data)


def by_variable(h: Tensor) -> Tensor:
    return torch.autograd.Variable(h.data, requires_grad=True)


def by_sign(h: Tensor) -> Tensor:
    return (h > 0).float()


def by_index(h: Tensor) -> Tensor:
    return torch.eye(SIZE)[h.argmax()]


def by_no_grad(h: Tensor) -> Tensor:
    with torch.no_grad():
        return h * 2


def by_inference(h: Tensor) -> Tensor:
    with torch.inference_mode():
        found = h * 2
    return found.clone()


def by_copy_into_data(h: Tensor) -> Tensor:
    z = torch.ones(SIZE, requires_grad=True)
    z.data.copy_(h)
    return z


def by_copy_into_constant(h: Tensor) -> Tensor:
    z = torch.ones(SIZE)
    z.data.copy_(h)
    return z


def by_setting_data(h: Tensor) -> Tensor:
    z = torch.ones(SIZE, requires_grad=True)
    z.data = h
    return z


def by_write_without_grad(h: Tensor) -> Tensor:
    z = torch.ones(SIZE, requires_grad=True)
    with torch.no_grad():
        z.copy_(h)
    return z


def by_gradient(h: Tensor) -> Tensor:
    return torch.autograd.grad(h.exp().sum(), h, retain_graph=True)[0]


def by_mark(h: Tensor) -> Tensor:
    result: Tensor = applied(Marked, h)
    return result


def by_vmap(h: Tensor) -> Any:
    return torch.vmap(lambda row: row * h.detach())(torch.ones(2, SIZE)).sum(0)


def by_sample(h: Tensor) -> Any:
    return torch.distributions.Normal(h, 1.0).sample()


def by_sample_of_indices(h: Tensor) -> Any:
    return torch.distributions.Categorical(logits=h).sample().float().expand(SIZE)


CUTS: dict[Callable[[Tensor], Tensor], tuple[str, str]] = {
    by_detach: ("detached", "h.detach()"),
    by_data: ("detached", "h.data"),
    by_item: ("converted", ".item()"),
    by_list: ("converted", ".tolist()"),
    by_numpy: ("converted", ".numpy()"),
    by_tensor: ("copied", "torch.tensor("),
    by_tensor_of_list: ("copied", "torch.tensor("),
    by_new_tensor: ("copied", "new_tensor("),
    by_as_tensor: ("copied", "as_tensor("),
    by_parameter: ("copied", "nn.Parameter("),
    by_parameter_of_data: ("detached", "h.data"),
    by_variable: ("detached", "h.data"),
    by_sign: ("no-derivative", "> 0"),
    by_index: ("no-derivative", "argmax()"),
    by_no_grad: ("no-grad", "h * 2"),
    by_inference: ("no-grad", "h * 2"),
    by_copy_into_data: ("copied", "copy_(h)"),
    by_copy_into_constant: ("copied", "copy_(h)"),
    by_setting_data: ("copied", "z.data = h"),
    by_write_without_grad: ("copied", "copy_(h)"),
    by_gradient: ("create-graph", "torch.autograd.grad("),
    by_mark: ("no-derivative", "function.apply("),
    by_vmap: ("detached", "h.detach()"),
    by_sample: ("no-derivative", ".sample()"),
    by_sample_of_indices: ("no-derivative", ".sample()"),
}


# --- Steps that may keep the path


def written_into(a: Tensor, b: Tensor) -> Tensor:
    result = torch.zeros(SIZE)
    result[:2] = a[:2]
    result[2:] = b[2:]
    return result


def in_place(a: Tensor, b: Tensor) -> Tensor:
    result = a * 1
    result.mul_(b).add_(a)
    return result


def through_view(a: Tensor, b: Tensor) -> Tensor:
    result = a * 1
    result[1:].copy_(b[1:])
    return result


def in_blocks(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = checkpoint(torch.mul, a, b, use_reentrant=False)
    return result


def of_several(a: Tensor, b: Tensor) -> Any:
    first, second = torch.broadcast_tensors(a, b)
    return first + second.unbind()[0]


def of_one_of_several(a: Tensor, b: Tensor) -> Any:
    return torch.broadcast_tensors(a, b)[0] * 1


def of_grid(a: Tensor, b: Tensor) -> Tensor:
    return torch.meshgrid(a, b, indexing="ij")[1].sum(0)


def of_decomposition(a: Tensor, b: Tensor) -> Any:
    q, _ = torch.linalg.qr(torch.outer(a, b) + 3 * torch.eye(SIZE))
    return q[0]


def of_sorting(a: Tensor, b: Tensor) -> Tensor:
    values, order = a.sort()
    return values * b[order]


def of_gradient(a: Tensor, b: Tensor) -> Tensor:
    if not a.requires_grad:
        return a * b
    (found,) = torch.autograd.grad((a.sin() * b).sum(), a, create_graph=True)
    return found


def of_thread(a: Tensor, b: Tensor) -> Tensor:
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(a.sin() * b.detach()))
    thread.start()
    thread.join()
    return found[0]


def of_passing(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = applied(Passing, a, b)[0]
    return result


def of_filling(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = applied(Filling, a, b)[1]
    return result


def of_reentrant(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = checkpoint(lambda inside: (inside * b).sin(), a, use_reentrant=True)
    return result


MAKING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mul": torch.mul,
    "sub": torch.sub,
    "where": lambda a, b: torch.where(a > 0, a, b),
    "stack": lambda a, b: torch.stack([a, b]).mean(0),
    "expand_as": lambda a, b: a[:1].expand_as(b),
    "relu": lambda a, _: a.relu(),
    "round": lambda a, _: a.round(),
    "floor of a quotient": lambda a, b: torch.div(a, 1 + b * b, rounding_mode="floor"),
    "zeros like": lambda a, b: torch.zeros_like(a) * b,
    "fill": lambda a, b: (a * 1).fill_(b.sum()),
    **{
        function.__name__: function
        for function in (
            written_into,
            in_place,
            through_view,
            in_blocks,
            of_several,
            of_one_of_several,
            of_grid,
            of_decomposition,
            of_sorting,
            of_gradient,
            of_thread,
            of_passing,
            of_filling,
            of_reentrant,
        )
    },
    **{
        function.__name__: lambda a, b, function=function: applied(function, a, b)  # type: ignore[misc]
        for function in (Plain, FirstOnly, IfNeeded, ByAnother, Inner)
    },
    **{function.__name__: lambda a, _, function=function: function(a) for function in CUTS},  # type: ignore[misc]
}


@dataclass
class Count:
    """The number of comparisons, and those that failed."""

    programs: int = 0
    tensors: int = 0
    unseen: int = 0
    culprits: int = 0
    mismatches: list[str] = field(default_factory=list)

    def add(self, other: "Count") -> None:
        self.programs += other.programs
        self.tensors += other.tensors
        self.unseen += other.unseen
        self.culprits += other.culprits
        self.mismatches += other.mismatches


def random_program(seed: int) -> Count:
    """Run a random program, and compare the reports on its tensors with the backward pass."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    leaves = {f"leaf {n}": torch.randn(SIZE, requires_grad=chance.random() < 0.8) for n in range(4)}
    names = [chance.choice([*MAKING]) for _ in range(chance.randint(1, 8))]
    with record() as recording:
        loss, kept = _run(chance, names, [*leaves.values()])
    for leaf in leaves.values():
        if chance.random() < 0.05:  # This may be too late or just in time.
            leaf.requires_grad_(not leaf.requires_grad)
    return compared(f"seed {seed}: {names}", loss, {**leaves, **kept}, recording)


def _run(
    chance: random.Random, names: list[str], pool: list[Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Run the steps called `names` one by one, and skip those that PyTorch refuses.

    `pool` contains the tensors that a step may use. Results are added to it.
    """
    kept: dict[str, Tensor] = {}
    for number, name in enumerate(names):
        with suppress(RuntimeError, TypeError, ValueError):
            made = MAKING[name](chance.choice(pool), chance.choice(pool))
            pool.append(made)
            if made.requires_grad and not made.is_leaf and chance.random() < 0.5:
                made.retain_grad()
            kept[f"{number} {name}"] = made
    chosen = chance.sample(pool, k=min(2, len(pool)))
    return torch.stack([one.sum() for one in chosen]).sum(), kept


def compared(title: str, loss: Tensor, tensors: dict[str, Tensor], recording: Any) -> Count:
    """Compare the reports on tensors, with and without a recording, with the backward pass."""
    found = Count(programs=1)
    said = {
        known: {name: one.code for one in report if one.code in CODES for name in one.subject}
        for known in ("recorded", "not recorded")
        for report in [
            diagnose(loss, tensors, recording=recording if known == "recorded" else None)
        ]
    }
    fatal = [
        one for one in diagnose(loss, recording=recording) if one.code in {"no-graph", *FAILING}
    ]
    will_fail = any(one.severity is Severity.ERROR for one in fatal)
    is_open, is_shown = _is_open(loss), not fatal and _is_shown(loss)
    had = {name for name, tensor in tensors.items() if tensor.grad is not None}
    error = None
    try:
        loss.backward()
    except RuntimeError as raised:
        error = str(raised)
    if will_fail != (error is not None) and (error is None or is_shown):
        is_foreseeable = not _is_recomputing(error)
        found.mismatches += [f"{title}: {fatal}, but {error}"] * is_foreseeable
    if error is not None:
        return found
    for name, tensor in tensors.items():
        for known, codes in said.items():
            found.tensors += 1
            code = codes.get(name)
            is_missing = _grad_of(tensor) is None
            told = f"{title}: {name} ({known}): {code}"
            is_told = code is not None and code != "zero-derivative"
            found.unseen += is_open and is_missing and not is_told
            is_normal = is_open or not tensor.requires_grad
            if name not in had and is_told != is_missing and not (is_missing and is_normal):
                found.mismatches.append(f"{told}, but .grad is {_grad_of(tensor)}")
            if code == "zero-derivative" and not _is_zero(tensor):
                found.mismatches.append(f"{told}, but .grad is {_grad_of(tensor)}")
    return found


def _is_open(loss: Tensor) -> bool:
    """Return whether the graph does not show where all gradients go."""
    with _autograd.unobserved():
        edges = gradient_edges([loss])
        flow = GradientFlow(edges, _autograd.walk([node for node, _ in edges]))
        arrivals = [one for arrived in flow.arrivals.values() for one in arrived.values()]
        return bool(flow.unseen) or any(one.doubt is not None for one in arrivals)


def _is_shown(loss: Tensor) -> bool:
    """Return whether the graph shows what all nodes saved, and runs no other backward pass."""
    with _autograd.unobserved():
        edges = gradient_edges([loss])
        graph = _autograd.walk([node for node, _ in edges])
        flow = GradientFlow(edges, graph)
        return not flow.unseen and not any(map(_autograd.hides_saved, graph))


def _is_recomputing(error: str | None) -> bool:
    """Return whether a checkpoint ran its block differently than before.

    Nothing can predict this.
    """
    return error is not None and error.startswith("torch.utils.checkpoint:")


def _grad_of(tensor: Tensor) -> Tensor | None:
    is_stored = tensor.is_leaf or tensor.retains_grad
    return tensor.grad if is_stored else None


def _is_zero(tensor: Tensor) -> bool:
    gradient = _grad_of(tensor)
    return gradient is not None and not gradient.nan_to_num().any()


def planted_cut(seed: int) -> Count:
    """Cut the only path between a leaf and the loss, and compare the reported cause."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    cut = chance.choice([*CUTS])
    x, other = torch.randn(SIZE, requires_grad=True), torch.randn(SIZE, requires_grad=True)
    with record() as recording:
        loss = _around(chance, cut, x, other)
    report = diagnose(loss, {"x": x}, recording=recording)
    code, text = CUTS[cut]
    spans = [one.primary for one in report if one.primary is not None]
    source = spans[0].source if spans else None
    line = "" if source is None else _line(cut, source.line)
    found = Count(programs=1, culprits=1)
    if report.codes != (code,) or text not in line:
        said = f"{report.codes} in {source}"
        found.mismatches.append(f"seed {seed}: {cut.__name__}: {said}, not {code}")
    return found


KEEPING = ["mul", "sub", "stack", "in_place", "written_into", "through_view", "of_several", "relu"]


def _around(
    chance: random.Random, cut: Callable[[Tensor], Tensor], x: Tensor, other: Tensor
) -> Any:
    """Compute with the leaf, cut its path, and continue with other leaves, without another cut."""
    h = x
    for _ in range(chance.randint(1, 3)):
        h = MAKING[chance.choice(KEEPING)](h, h + 1)
    h = cut(h * 1)
    for _ in range(chance.randint(1, 3)):
        h = MAKING[chance.choice(KEEPING)](h, other * 2)
    return (h * other).sum()


def _line(function: Callable[..., Any], number: int) -> str:
    with open(function.__code__.co_filename, encoding="utf-8") as file:  # noqa: PTH123
        return file.readlines()[number - 1]
