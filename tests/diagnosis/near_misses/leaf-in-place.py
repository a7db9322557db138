"""The leaf is changed without recording."""

import torch

x = torch.ones(2, requires_grad=True)
scale = torch.ones(2, requires_grad=True)
model = {"x": x, "scale": scale}

with torch.no_grad():
    x.mul_(scale)
loss = (x.exp() * scale).sum()
