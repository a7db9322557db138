"""The optimizer was made after the head was replaced."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 10))
model[2] = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())

loss = model(torch.rand(5, 3)).square().mean()
