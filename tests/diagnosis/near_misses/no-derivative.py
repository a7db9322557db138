"""The mask chooses among values that pass on their gradient."""

import torch
from torch import nn

encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
model = nn.ModuleDict({"encoder": encoder, "head": head})

features = encoder(torch.ones(2, 3))
mask = (features > 0).float()
loss = head(features * mask).mean()
