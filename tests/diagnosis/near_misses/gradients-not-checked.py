"""The other kind of checkpoint can be run by torch.autograd.grad()."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
x = torch.ones(1, 2, requires_grad=True)
loss = checkpoint(model, x, use_reentrant=False).sum()
