"""Half precision holds updates that are large enough."""

import torch
from torch import nn

model = nn.Linear(3, 1, dtype=torch.bfloat16)
nn.init.ones_(model.weight)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

for batch in torch.rand(2, 5, 3, dtype=torch.bfloat16):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
