"""Each member of the zoo is what its noun and its tags say."""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

ZOO = run_path(str(Path(__file__).parents[2] / "docs" / "zoo.py"))
LAYERS = {"embedding": nn.Embedding, "normalization": nn.BatchNorm1d, "recurrent": nn.RNNBase}


def traits(x: Tensor) -> dict[str, bool]:
    """Return whether each tag that can be seen in a tensor is true for it."""
    return {
        "complex": not x.is_floating_point(),
        "sparse": x.is_sparse,
        "devices": not x.is_cpu,
        "subclasses": type(x) not in {Tensor, nn.Parameter},
        "hooks": bool(x._backward_hooks),
        "custom": type(x.grad_fn).__name__ == "SquareBackward",
        "half": x.dtype in {torch.half, torch.bfloat16},
        "empty": x.numel() == 0,
        "zero-dim": x.dim() == 0,
        "inference": x.is_inference(),
        "frozen": isinstance(x, nn.Parameter) and not x.requires_grad,
        "nan": not (x.is_sparse or x.is_meta) and bool(x.isnan().any()),
        "view": not x.is_sparse and x._is_view(),
    }


def traits_of_module(module: nn.Module) -> dict[str, bool]:
    layers = [layer for _, layer in module.named_modules(remove_duplicate=False)]
    kinds = {tag: any(isinstance(a, kind) for a in layers) for tag, kind in LAYERS.items()}
    frozen = any(not w.requires_grad for w in module.parameters())
    tied = len({*layers}) < len(layers)
    return {**kinds, "frozen": frozen, "tied": tied, "eval": not module.training}


def thing(act: Any) -> Any:
    return (one := act()).is_leaf, one.requires_grad, one is act()


def loss_of(act: Any, _x: Tensor) -> bool:
    loss, leaves = act()
    loss.backward()
    return loss.numel() == 1 and all(leaf.grad is not None for leaf in leaves)


def stepped(act: Any, x: Tensor) -> bool:
    before, x.grad = x.tolist(), torch.ones(3)
    act([x]).step(lambda: torch.tensor(1.0))
    return x.tolist() != before


def recording(act: Any) -> bool:
    with act():
        return torch.is_grad_enabled()


CHECKS: dict[str, Callable[[Any, Tensor], Any]] = {
    "leaf": lambda act, _x: thing(act) == (True, True, False),
    "parameter": lambda act, _x: thing(act) == (True, True, False),
    "constant": lambda act, _x: thing(act) == (True, False, False),
    "result": lambda act, _x: thing(act) == (False, True, False),
    "operation": lambda act, x: isinstance(act(x), Tensor),
    "copy": lambda act, x: act(x).equal(x),
    "write": lambda act, x: (act(y := x.detach().clone()), not y.equal(x))[1],
    "loss": loss_of,
    "pass": lambda act, x: (act((x * x).sum(), [x]), x.grad is not None)[1],
    "gradient": lambda act, x: act((x * x).sum(), [x])[0].equal(2 * x),
    "optimizer": stepped,
    "mode": lambda act, _x: recording(act) in {True, False},
    "seed": lambda act, _x: act().initial_seed() == torch.initial_seed(),
    "layer": lambda act, _x: (made := act())[0](made[1]) is not None,
    "network": lambda act, _x: (made := act())[0](made[1]) is not None,
}


@pytest.mark.parametrize(
    ("nouns", "act", "tags"),
    [pytest.param(n, act, tags, id=f"{n[0]} {name}") for n, name, act, tags in ZOO["MEMBERS"]],
)
def test_zoo_member_matches_its_noun_and_tags(
    nouns: tuple[str, ...], act: Callable[..., Any], tags: frozenset[str]
) -> None:
    assert {*nouns} <= {*ZOO["NOUNS"]}
    assert CHECKS[nouns[0]](act, torch.tensor([1.0, -2.0, 3.0], requires_grad=True))
    if nouns == ("mode",):
        assert recording(act) == tags.isdisjoint({"no_grad", "inference"})
    if {"tensor", "parameter", "network"} & {*nouns}:
        seen = traits_of_module(act()[0]) if "network" in nouns else traits(act())
        assert {tag for tag, is_so in seen.items() if is_so} == tags & {*seen}
