"""Two backward passes accumulate on purpose before each step."""

import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for number, batch in enumerate(torch.rand(6, 5, 3)):
    loss = model(batch).square().mean() / 2
    loss.backward()
    if number % 2:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
