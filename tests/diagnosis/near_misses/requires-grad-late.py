"""It requires grad before it is used."""

import torch

x, w = torch.ones(3), torch.ones(3, requires_grad=True)
model = {"x": x, "w": w}

x.requires_grad_()
loss = (x * w).sum()
