"""Train the network of the PINN chapter once for each weight of the residual loss.

Usage: ``python benchmarks/residual_weight.py``; it writes the data of the chapter's live figure.
"""

import json
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from leafgrad import higher_order_grad

CURVES = Path(__file__).parent.parent / "docs" / "figures" / "residual-weight.json"
POWERS = [power / 2 for power in range(-12, 5)]
STEPS = 1500


def train(weight: float) -> dict[str, object]:
    """Return the solution after training, and its errors in the equation and at the ends.

    `weight` is the weight of the equation's residual in the loss.
    """
    torch.manual_seed(0)
    layers = nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)
    net = nn.Sequential(*layers).double()
    x = torch.linspace(0.0, 1.0, 32, dtype=torch.float64).reshape(-1, 1).requires_grad_()
    ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def terms() -> tuple[Tensor, Tensor]:
        residual = higher_order_grad(net(x), x, 2) + math.pi**2 * torch.sin(math.pi * x)
        return residual.square().mean(), (net(ends) - ends).square().mean()

    for _ in range(STEPS):
        optimizer.zero_grad()
        residual, boundary = terms()
        (weight * residual + boundary).backward()
        optimizer.step()
    residual, boundary = terms()
    u = net(places()).detach()
    return {
        "u": [round(value, 3) for value in u[::2].flatten().tolist()],
        "error": round((u - exact()).abs().max().item(), 4),
        "residual": round(residual.sqrt().item(), 4),
        "ends": round(boundary.sqrt().item(), 4),
    }


def exact() -> Tensor:
    """Return the exact solution at `places()`."""
    return torch.sin(math.pi * places()) + places()


def places() -> Tensor:
    """Return the positions at which solutions are compared; every other one is drawn."""
    return torch.linspace(0.0, 1.0, 41, dtype=torch.float64).reshape(-1, 1)


def main() -> None:
    """Train with each weight, and write the curves."""
    curves = {
        "exact": [round(u, 3) for u in exact()[::2].flatten().tolist()],
        "solutions": [train(10**power) for power in POWERS],
    }
    CURVES.write_text(json.dumps(curves, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
