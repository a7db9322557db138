import torch
from torch import nn

model = nn.Linear(3, 1)

inputs, targets = torch.rand(5, 3), torch.rand(5)
error = model(inputs) - targets
loss = error.square().mean()
