"""The state is detached, and the last loss is new."""

import torch
from torch import nn

model = nn.RNNCell(3, 4)

state = torch.zeros(2, 4)
for batch in torch.rand(2, 2, 3):
    state = model(batch, state.detach())
    loss = state.square().mean()
    loss.backward()
loss = model(torch.rand(2, 3), state.detach()).square().mean()
