"""The derivative is a fixed target."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

x = torch.rand(4, 3, requires_grad=True)
(slope,) = torch.autograd.grad(model(x).sum(), x)
loss = (model(x) - slope.norm(dim=1, keepdim=True)).square().mean()
