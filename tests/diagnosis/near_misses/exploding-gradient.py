"""Xavier's initialisation keeps the size of gradients."""

import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(12)])
for layer in model:
    nn.init.xavier_normal_(layer.weight)
loss = model(torch.randn(8, 16)).square().mean()
