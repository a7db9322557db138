"""The losses are copied to be printed."""

import torch
from torch import nn

model = nn.Linear(3, 1)

losses = [model(torch.ones(3)).square().sum(), model(torch.zeros(3)).square().sum()]
print(torch.tensor(losses))
loss = torch.stack(losses).mean()
