"""The network is not linear."""

import torch
from torch import nn

network = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

x = torch.rand(4, 1, requires_grad=True)
model = {"x": x}
(slope,) = torch.autograd.grad(network(x).sum(), x, create_graph=True)
loss = slope.square().mean()
