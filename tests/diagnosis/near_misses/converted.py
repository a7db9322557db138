"""The number is only printed."""

import torch
from torch import nn

encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
model = nn.ModuleDict({"encoder": encoder, "head": head})

features = encoder(torch.ones(2, 3))
print(features.norm().item())
loss = head(features).mean()
