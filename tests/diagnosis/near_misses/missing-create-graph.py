"""One inner step is recorded, another is of first order on purpose, a third is a plain step."""

import torch
from torch import nn

w = nn.Parameter(torch.tensor(2.0))
model = {"w": w}

for _ in range(2):
    (slope,) = torch.autograd.grad(w.square(), w)
    with torch.no_grad():
        w -= 0.1 * slope
(recorded,) = torch.autograd.grad(w.square(), w, create_graph=True)
(constant,) = torch.autograd.grad(w.exp(), w, create_graph=False)
loss = (w - 0.1 * recorded - 0.1 * constant).square()
