"""After one step the factor is no longer zero."""

import torch
from torch import nn

a = nn.Parameter(torch.randn(4, 2))
b = nn.Parameter(torch.zeros(2, 4))
model = nn.ParameterDict({"a": a, "b": b})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

x = torch.ones(3, 4)
for _ in range(2):
    optimizer.zero_grad()
    loss = (x + x @ a @ b - 2).square().mean()
    loss.backward()
    optimizer.step()
loss = (x + x @ a @ b - 2).square().mean()
