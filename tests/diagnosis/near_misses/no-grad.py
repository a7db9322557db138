"""The part under no_grad() is only printed."""

import torch
from torch import nn

encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
model = nn.ModuleDict({"encoder": encoder, "head": head})

features = encoder(torch.ones(2, 3))
with torch.no_grad():
    print(f"{features.mean():.2f}")
loss = head(features).mean()
