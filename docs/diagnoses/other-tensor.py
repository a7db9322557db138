import torch
from torch import nn

network = nn.Linear(2, 1)
points = torch.rand(4, 2, requires_grad=True)

t = points[:, :1]
model = {"t": t}
loss = network(points).sum()
