"""Tanh with its gain keeps the size of gradients."""

import torch
from torch import nn

layers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(4)]
model = nn.Sequential(*layers)
for layer in layers:
    nn.init.xavier_normal_(layer[0].weight, gain=5 / 3)
loss = model(torch.randn(8, 16)).square().mean()
