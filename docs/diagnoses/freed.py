import torch
from torch import nn

model = nn.RNNCell(3, 4)
batches = torch.rand(2, 2, 3)

state = model(batches[0])
loss = state.square().mean()
loss.backward()
for batch in batches[1:]:
    state = model(batch, state)
    loss = state.square().mean()
