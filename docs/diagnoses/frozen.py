import torch
from torch import nn

encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
model = nn.ModuleDict({"encoder": encoder, "head": head})

encoder.requires_grad_(False)
expect = ["encoder", "head"]
loss = head(encoder(torch.ones(2, 3))).mean()
