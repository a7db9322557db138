"""A second term of the loss uses it."""

import torch
from torch import nn

encoder, head = nn.Linear(3, 4), nn.Linear(3, 1)
model = nn.ModuleDict({"encoder": encoder, "head": head})

x = torch.ones(2, 3)
loss = {"main": head(x).mean(), "auxiliary": encoder(x).square().mean()}
