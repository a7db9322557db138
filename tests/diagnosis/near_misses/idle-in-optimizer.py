"""The optimizer also holds the parameter of a loss, and a frozen layer."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
scale = nn.Parameter(torch.ones(()))
optimizer = torch.optim.Adam([*model.parameters(), scale])
model[0].requires_grad_(False)

loss = scale * model(torch.rand(5, 3)).square().mean()
