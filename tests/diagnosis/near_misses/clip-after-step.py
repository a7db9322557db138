"""The gradients of one optimizer are clipped after the step of another one."""

import torch
from torch import nn

encoder, model = nn.Linear(3, 3), nn.Linear(3, 1)
first = torch.optim.SGD(encoder.parameters(), lr=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for batch in torch.rand(2, 5, 3):
    first.zero_grad()
    optimizer.zero_grad()
    loss = model(encoder(batch)).square().mean()
    loss.backward()
    first.step()
    nn.utils.clip_grad_norm_([*encoder.parameters(), *model.parameters()], 1.0)
    optimizer.step()
