"""A tensor of shape (1, 1) has one number."""

import torch
from torch import nn

model = nn.Linear(3, 1)

loss = model(torch.ones(4, 3)).square().mean(0, keepdim=True)
