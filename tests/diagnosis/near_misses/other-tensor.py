"""The loss is computed from the part."""

import torch
from torch import nn

network = nn.Linear(2, 1)
points = torch.rand(4, 2, requires_grad=True)

t = points[:, :1]
t.retain_grad()
model = {"t": t}
loss = network(torch.cat([t, points[:, 1:]], 1)).sum()
