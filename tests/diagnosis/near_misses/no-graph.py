"""Only a part of the loss is computed under no_grad()."""

import torch
from torch import nn

model = nn.Linear(3, 1)

with torch.no_grad():
    target = model(torch.zeros(2, 3))
loss = (model(torch.ones(2, 3)) - target).square().mean()
