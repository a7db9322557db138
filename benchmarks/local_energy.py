"""What the local energy of a wave function costs beside other ways to it.

A small network in the manner of FermiNet, Pfau et al., Physical Review Research 2, 033429, 2020:
features of each electron and their mean, tanh layers, and the logarithm of a sum of determinants.
Its kinetic energy is minus half of the Laplacian and of the squared gradient. Milliseconds of CPU
time, and how many times leafgrad's, medians of turns: of the energy alone, as in sampling, and with
a backward pass to the parameters. Of the energy alone there is the forward Laplacian of folx, which
JAX compiles, and where `--compiled` asks for it leafgrad by `torch.compile`, which takes half a
minute to compile. The floor is leafgrad's products of matrices, inverses and values of tanh.
"""

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from in_turns import PRODUCTS, Turns, Way, heading, launches, least, peer, per_row, take_turns
from torch import Tensor, nn

from leafgrad import laplacian

TOLERANCE = 1e-4
AT_FLOOR = {
    *PRODUCTS,
    torch.ops.aten.tanh.default,
    torch.ops.aten.linalg_inv_ex.default,
    torch.ops.aten._linalg_slogdet.default,  # noqa: SLF001
}
Energy = Callable[[nn.Module, Tensor], Tensor]
jax, folx = peer("jax"), peer("folx")


class WaveFunction(nn.Module):
    """The logarithm of a wave function's size, ``(walkers,)``, of ``(walkers, electrons, 3)``."""

    def __init__(self, electrons: int, width: int, depth: int, determinants: int) -> None:
        super().__init__()
        sizes = [4, *[width] * depth]
        self.layers = nn.ModuleList(nn.Linear(2 * a, b) for a, b in pairwise(sizes))
        self.orbitals = nn.Linear(width, determinants * electrons)
        self.decay = nn.Parameter(torch.ones(determinants * electrons))

    def forward(self, places: Tensor) -> Tensor:
        """Return the logarithm for each walker."""
        electrons = places.shape[-2]
        radii = places.square().sum(-1, keepdim=True).sqrt()
        features = torch.cat([places, radii], -1)
        for layer in self.layers:
            mean = features.mean(-2, keepdim=True).expand_as(features)
            grown = layer(torch.cat([features, mean], -1)).tanh()
            features = features + grown if grown.shape == features.shape else grown
        orbitals = self.orbitals(features) * torch.exp(-radii * self.decay)
        matrices = orbitals.unflatten(-1, (-1, electrons)).transpose(-2, -3)
        sign, logarithm = torch.linalg.slogdet(matrices)
        most = logarithm.amax(-1, keepdim=True).detach()
        total = (sign * (logarithm - most).exp()).sum(-1)
        result: Tensor = total.abs().log() + most.squeeze(-1)
        return result


def kinetic(total: Any, gradient: Any) -> Any:
    """Return the kinetic energy, ``(walkers,)``, of Laplacian and gradient."""
    return -(total + (gradient**2).reshape(len(total), -1).sum(-1)) / 2


def check(energy: Tensor, expected: Tensor) -> None:
    """Compare most of them: next to a node of the wave function, no digit is left in float32."""
    distance = (energy - expected).abs() / (1 + expected.abs())
    assert distance.median().item() < TOLERANCE


def by_leafgrad(*, create_graph: bool) -> Energy:
    """Take both from one pass."""

    def energy(model: nn.Module, places: Tensor) -> Tensor:
        found = laplacian(model(places), places, with_gradient=True, create_graph=create_graph)
        result: Tensor = kinetic(*found)
        return result

    return energy


def by_hand(*, create_graph: bool) -> Energy:
    """Add up second derivatives column by column."""

    def energy(model: nn.Module, places: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(model(places).sum(), places, create_graph=True)
        columns = gradient.flatten(1).unbind(1)
        seconds = [
            torch.autograd.grad(column.sum(), places, create_graph=create_graph, retain_graph=True)[
                0
            ].flatten(1)[:, number]
            for number, column in enumerate(columns)
        ]
        result: Tensor = kinetic(torch.stack(seconds).sum(0), gradient)
        return result if create_graph else result.detach()

    return energy


def by_hessian(*, create_graph: bool) -> Energy:
    """Take gradient and Hessian of each walker, by forward over reverse mode."""

    def energy(model: nn.Module, places: Tensor) -> Tensor:
        def of_walker(flat: Tensor) -> Tensor:
            result: Tensor = model(flat.unflatten(-1, (-1, 3)).unsqueeze(0)).squeeze(0)
            return result

        def gradient_twice(flat: Tensor) -> tuple[Tensor, Tensor]:
            gradient = torch.func.grad(of_walker)(flat)
            return gradient, gradient

        with torch.set_grad_enabled(create_graph):
            mapped = torch.func.vmap(torch.func.jacfwd(gradient_twice, has_aux=True))
            hessians, gradient = mapped(places.flatten(1))
            result: Tensor = kinetic(hessians.diagonal(dim1=-2, dim2=-1).sum(-1), gradient)
        return result

    return energy


def by_folx(model: WaveFunction, places: Tensor) -> Way:
    """Make the forward Laplacian of the same wave function in JAX, compiled."""
    np = jax.numpy
    weights = {name: np.asarray(p.detach().numpy()) for name, p in model.named_parameters()}

    def of_walker(x: Any) -> Any:
        radii = np.sqrt((x**2).sum(-1, keepdims=True))
        features = np.concatenate([x, radii], -1)
        for number in range(len(model.layers)):
            mean = np.broadcast_to(features.mean(-2, keepdims=True), features.shape)
            linear = np.concatenate([features, mean], -1) @ weights[f"layers.{number}.weight"].T
            grown = np.tanh(linear + weights[f"layers.{number}.bias"])
            features = features + grown if grown.shape == features.shape else grown
        orbitals = features @ weights["orbitals.weight"].T + weights["orbitals.bias"]
        orbitals = orbitals * np.exp(-radii * weights["decay"])
        matrices = np.moveaxis(orbitals.reshape(len(x), -1, len(x)), 1, 0)
        sign, logarithm = np.linalg.slogdet(matrices)
        most = jax.lax.stop_gradient(logarithm.max(-1, keepdims=True))
        return np.log(np.abs((sign * np.exp(logarithm - most)).sum(-1))) + most.squeeze(-1)

    def of_one(x: Any) -> Any:
        found = folx.forward_laplacian(of_walker)(x)
        return -(found.laplacian + (found.jacobian.dense_array**2).sum()) / 2

    energy = jax.jit(jax.vmap(of_one))
    given = np.asarray(places.detach().numpy())
    expected = by_leafgrad(create_graph=False)(model, places)
    check(torch.tensor(energy(given).tolist()), expected)

    def way(*_: Any) -> None:
        energy(given).block_until_ready()

    return way


def by_compiled_leafgrad(model: nn.Module, places: Tensor) -> Way:
    """Compile the energy as one graph."""

    @torch.compile(fullgraph=True)
    def energy(places: Tensor) -> Any:
        return kinetic(*laplacian(model, places, with_gradient=True, create_graph=False))

    given = places.detach()

    @torch.no_grad()
    def found(*_: Any) -> Tensor:
        result: Tensor = energy(given)
        return result

    check(found(), by_leafgrad(create_graph=False)(model, places))

    def way(*_: Any) -> None:
        found()

    return way


def floor(model: nn.Module, places: Tensor) -> Way:
    """Take the products, inverses and values of tanh of an energy alone."""
    work = least(lambda: by_leafgrad(create_graph=False)(model, places), AT_FLOOR)
    return lambda *_: work()


def alone(energy: Energy) -> Way:
    """Leave out what follows an energy: there is nothing to go back from."""

    def way(model: nn.Module, places: Tensor) -> None:
        energy(model, places)

    return way


def show(name: str, turns: Turns) -> None:
    """Print one line, under its own heading as the ways differ."""
    print(f"{'':30}{heading(turns)}")
    print(f"{name:30}{per_row(turns)}", flush=True)


def main() -> None:
    """Print a line for the energy and one for the energy and its gradient."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--walkers", type=int, nargs="*", default=[64, 512])
    parser.add_argument("--electrons", type=int, default=6)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--determinants", type=int, default=4)
    parser.add_argument("--compiled", action="store_true", help="compile leafgrad's energy as well")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    makers = {"nested": by_hand, "hessian": by_hessian, "leafgrad": by_leafgrad}
    size = options.electrons, options.width, options.depth, options.determinants
    model = WaveFunction(*size)
    for walkers in options.walkers:
        places = torch.randn(walkers, options.electrons, 3, requires_grad=True)
        for create_graph, what in ((False, "energy"), (True, "and backward")):
            energies = {way: make(create_graph=create_graph) for way, make in makers.items()}
            first, *others = [energy(model, places) for energy in energies.values()]
            for other in others:
                check(other, first)
            ways: dict[str, Way] = {**energies}
            if not create_graph:
                ways = {way: alone(energy) for way, energy in energies.items()}
                ways["floor"] = floor(model, places)
                if options.compiled:
                    ways["compiled"] = by_compiled_leafgrad(model, places)
                if folx is not None and jax is not None:
                    ways = {"folx": by_folx(model, places), **ways}
            show(f"{walkers} walkers, {what}", take_turns(model, places, ways, options.rounds))
        count = len(launches(partial(by_leafgrad(create_graph=False), model, places)))
        print(f"operations of an energy that are no views: {count}")


if __name__ == "__main__":
    main()
