"""All pairs are compared on purpose."""

import torch
from torch import nn

model = nn.Linear(3, 1)

inputs, targets = torch.rand(5, 3), torch.rand(5)
prediction = model(inputs).squeeze(-1)
distances = prediction[:, None] - targets
loss = distances.square().mean()
