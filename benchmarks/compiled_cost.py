"""Compare the time of a compiled training step with derivatives with that of alternatives.

A training step is a forward pass, a derivative and a backward pass to the parameters. The table
shows CPU milliseconds, and ratios to compiled leafgrad; both are medians over interleaved rounds.
leafgrad, nested `torch.autograd.grad` and nested `torch.func.jvp` are compiled in the same way: the
whole step, with its backward pass, is one graph of `torch.compile` with Inductor. Other columns are
leafgrad with separate graphs for the forward and backward pass ("two"), leafgrad without
compilation ("eager"), and JAX with `jax.jit`, in its own process.

The floor runs only the matrix products and tanh calls of leafgrad's graph. The goal is to be 1.5
times as fast as "eager", and faster than all others. If the floor makes that impossible, the goal
is 1.25 times the floor. Launches are operations except views; for compiled code, they are its
generated kernels and matrix products.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from operator import truediv

import torch
from in_turns import PRODUCTS, Turns, heading, launches, least, network, per_row
from torch import Tensor, nn
from torch._dynamo import config
from torch._inductor import metrics
from torch._inductor.decomposition import decompositions

from leafgrad import higher_order_grad, laplacian

Field = Callable[[Tensor], Tensor]
Derivative = Callable[[Field, Tensor], Tensor]  # It takes a function and points.
Run = Callable[[], object]

LAPLACIAN = 0  # the order that stands for the Laplacian
FASTER_THAN_EAGER = 1.5
OF_FLOOR = 1.25
AT_FLOOR = {*PRODUCTS, torch.ops.aten.tanh.default}
# Nested forward mode uses zero tensors without memory, but compiled code writes into them.
decompositions[torch.ops.aten._efficientzerotensor.default] = torch.zeros  # noqa: SLF001


def ours(order: int) -> Derivative:
    """Return a function that computes the derivative of this order by leafgrad."""
    if order == LAPLACIAN:
        return laplacian
    return lambda function, x: higher_order_grad(function, x, order)


def nested(order: int) -> Derivative:
    """Return a function that computes the same derivative as `ours`, by nested calls of `grad`.

    `order` is the order of the derivative in one column, or `LAPLACIAN`.
    """

    def derivative(function: Field, x: Tensor) -> Tensor:
        outputs = function(x)
        if order != LAPLACIAN:
            for _ in range(order):
                (outputs,) = torch.autograd.grad(outputs.sum(), x, create_graph=True)
            return outputs
        (slope,) = torch.autograd.grad(outputs.sum(), x, create_graph=True)
        columns = range(x.shape[1])
        seconds = [torch.autograd.grad(slope[:, c].sum(), x, create_graph=True)[0] for c in columns]
        return torch.stack([second[:, c] for c, second in enumerate(seconds)]).sum(0)

    return derivative


def by_jvp(order: int) -> Derivative:
    """Return a function that computes the same derivative as `ours`, by nested `torch.func.jvp`.

    `order` is the order of the derivative in one column, or `LAPLACIAN`. The Laplacian is the sum
    of one nested call for each column.
    """

    def along(function: Field, direction: Tensor) -> Field:
        return lambda x: torch.func.jvp(function, (x,), (direction.expand_as(x),))[1]

    def derivative(function: Field, x: Tensor) -> Tensor:
        if order != LAPLACIAN:
            for _ in range(order):
                function = along(function, torch.ones_like(x[:1]))
            return function(x)
        units = torch.eye(x.shape[1]).unbind()
        return torch.stack([along(along(function, unit), unit)(x) for unit in units]).sum(0)

    return derivative


def eager(derivative: Derivative, model: nn.Module, x: Tensor) -> Run:
    """Return a function that runs one training step without compiling."""

    def step() -> None:
        derivative(model, x.clone().requires_grad_()).square().mean().backward()
        model.zero_grad()

    return step


def in_two(derivative: Derivative, model: nn.Module, x: Tensor) -> Run:
    """Return a function that runs one training step and compiles only its forward pass."""
    loss = torch.compile(lambda x: derivative(model, x).square().mean(), fullgraph=True)

    def step() -> None:
        loss(x).backward()
        model.zero_grad()

    return step


def in_one(derivative: Derivative, model: nn.Module, x: Tensor) -> Run:
    """Return a compiled function that computes the gradients of the loss in one graph."""
    parameters = [*model.parameters()]

    @torch.compile(fullgraph=True)
    def gradients(x: Tensor) -> tuple[Tensor, ...]:
        loss = derivative(model, x).square().mean()
        return torch.autograd.grad(loss, parameters, allow_unused=True)

    inputs = x.clone().requires_grad_()
    with config.patch(trace_autograd_ops=True):
        gradients(inputs)
    return lambda: gradients(inputs)


def floor(derivative: Derivative, model: nn.Module, x: Tensor) -> Run:
    """Return a function that runs only the matrix products and tanh calls of a training step."""
    return least(eager(derivative, model, x), AT_FLOOR)


JAX = """
import sys, time
import jax, jax.numpy as np
from jax.experimental.jet import jet

columns, depth, width, rows, order = map(int, sys.argv[1:])
sizes = [columns, *[width] * depth, 1]
keys = jax.random.split(jax.random.key(0), len(sizes))
shapes = zip(sizes, sizes[1:])
layers = [(jax.random.normal(k, (m, n)) / m**0.5, np.zeros(n)) for k, (m, n) in zip(keys, shapes)]
x = jax.random.uniform(keys[-1], (rows, columns))

def network(layers, x):
    for weight, bias in layers[:-1]:
        x = np.tanh(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias

def derivative(layers, x):
    function = lambda x: network(layers, x)
    if order:
        series = [np.ones_like(x), *[np.zeros_like(x)] * (order - 1)]
        return jet(function, (x,), (series,))[1][-1]
    along = lambda v: jet(function, (x,), ([np.broadcast_to(v, x.shape), np.zeros_like(x)],))[1][-1]
    return jax.vmap(along)(np.eye(columns)).sum(0)

step = jax.jit(jax.grad(lambda layers, x: (derivative(layers, x) ** 2).mean()))
jax.block_until_ready(step(layers, x))
for _ in sys.stdin:
    start = time.process_time()
    jax.block_until_ready(step(layers, x))
    print(1e3 * (time.process_time() - start), flush=True)
"""


def has_jax(python: str) -> bool:
    """Return whether the interpreter `python` exists and can import JAX."""
    try:
        found = subprocess.run(
            [python, "-c", "import jax.experimental.jet"], capture_output=True, check=False
        )
    except OSError:
        return False
    return found.returncode == 0


class Jax:
    """A single-threaded process that runs one JAX training step for each line it reads."""

    def __init__(self, python: str, *sizes: int) -> None:
        flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        self.process = subprocess.Popen(
            [python, "-c", JAX, *map(str, sizes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"XLA_FLAGS": flags},
        )

    def milliseconds(self) -> float:
        """Run one training step in the process and return its CPU time in milliseconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """Close the pipes to the process and wait until it ends."""
        self.process.communicate()


def milliseconds(run: Run) -> float:
    """Call `run` and return its CPU time in milliseconds."""
    start = time.process_time()
    run()
    return 1e3 * (time.process_time() - start)


def ways_to(order: int, model: nn.Module, x: Tensor, only: list[str]) -> dict[str, Run]:
    """Return the step functions named in `only`, each run once; omit those that fail to compile.

    A step computes the derivative `order` of the model at `x`.
    """
    make = {
        "leafgrad": lambda: in_one(ours(order), model, x),
        "eager": lambda: eager(ours(order), model, x),
        "two": lambda: in_two(ours(order), model, x),
        "nested": lambda: in_one(nested(order), model, x),
        "jvp": lambda: in_one(by_jvp(order), model, x),
        "floor": lambda: floor(ours(order), model, x),
    }
    ways = {}
    for name in make.keys() & only:
        try:
            run = make[name]()
            run()
        except RuntimeError as error:  # A compiler failed.
            print(f"no column for {name}: {error}")
            continue
        ways[name] = run
    return {name: ways[name] for name in make if name in ways}


def launched(order: int, model: nn.Module, x: Tensor) -> str:
    """Return a sentence that counts the kernel launches of an eager and of a compiled step.

    A step computes the derivative `order` of the model at `x`.
    """
    torch.compiler.reset()
    metrics.reset()
    in_one(ours(order), model, x)
    noted = launches(eager(ours(order), model, x))
    products = sum(function in PRODUCTS for function, *_ in noted)
    own = metrics.generated_kernel_count
    return f"{len(noted)} eager, {own + products} compiled, {products} of them products of matrices"


def verdict(turns: Turns) -> str:
    """Return whether the times of a table row meet the goal, and which comparisons failed.

    The module docstring defines the goal. `turns` has the times of each way, one per round.
    """
    ratio = {
        name: statistics.median(map(truediv, taken, turns["leafgrad"]))
        for name, taken in turns.items()
    }
    aims = {"eager": FASTER_THAN_EAGER, "nested": 1.0, "jvp": 1.0, "jax": 1.0}
    missed = [name for name, aim in aims.items() if ratio.get(name, aim) < aim]
    if not missed:
        return "met"
    what = ", ".join(f"{name} {ratio[name]:.2f} of {aims[name]:.1f}" for name in missed)
    of_floor = 1 / ratio["floor"] if "floor" in ratio else float("inf")
    if of_floor <= OF_FLOOR:
        return f"met at {of_floor:.2f} of the floor ({what})"
    return f"not met, at {of_floor:.2f} of the floor ({what})"


def in_turns(ways: Mapping[str, Run], jax: Jax | None, rounds: int) -> Turns:
    """Return the CPU milliseconds of all ways in interleaved rounds. Close the JAX process."""
    turns: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            turns[name].append(milliseconds(run))
        if jax is not None:
            turns.setdefault("jax", []).append(jax.milliseconds())
    if jax is not None:
        jax.close()
    return turns


def main() -> None:
    """Print the time of each way, its ratio to leafgrad's, and whether leafgrad is fast enough.

    The module docstring defines how fast it must be.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--shapes", nargs="*", default=["5x64", "3x128"])
    parser.add_argument("--rows", type=int, nargs="*", default=[256, 4096])
    parser.add_argument("--orders", type=int, nargs="*", default=[2, 4, LAPLACIAN])
    parser.add_argument("--ways", nargs="*", default=["eager", "two", "nested", "jvp", "floor"])
    parser.add_argument("--jax", help="the Python that has JAX, this one if it is not given")
    parser.add_argument("--quick", action="store_true", help="one network, size and order")
    options = parser.parse_args()
    if options.quick:
        options.shapes, options.rows, options.orders, options.rounds = ["5x64"], [256], [2], 5
    python_of_jax = options.jax or sys.executable
    if not has_jax(python_of_jax):
        if options.jax:
            parser.error(f"--jax must name a Python that can import jax, and {options.jax} cannot")
        print("jax is not installed: there is no column for it; --jax names a Python that has it")
        python_of_jax = None
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for rows in options.rows:
        for shape in options.shapes:
            for order in options.orders:
                depth, width = map(int, shape.split("x"))
                columns = 1 if order else 10
                model, x = network(columns, width, depth), torch.rand(rows, columns)
                torch.compiler.reset()
                ways = ways_to(order, model, x, ["leafgrad", *options.ways])
                sizes = columns, depth, width, rows, order
                jax = Jax(python_of_jax, *sizes) if python_of_jax else None
                turns = in_turns(ways, jax, options.rounds)
                count = launched(order, model, x)
                kind = f"order {order}" if order else "Laplacian 10"
                print(f"{'':28}{heading(turns)}")
                print(f"{f'{shape} rows {rows} {kind}':28}{per_row(turns)}")
                print(f"{'':4}{verdict(turns)}; launches: {count}", flush=True)


if __name__ == "__main__":
    main()
