import torch
from torch import nn

encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
model = nn.ModuleDict({"encoder": encoder, "head": head})

scale = encoder(torch.ones(2, 3)).norm().item()
loss = head(torch.ones(2, 4) * scale).mean()
