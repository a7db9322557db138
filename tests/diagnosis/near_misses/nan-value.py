"""The -inf of a mask becomes zero in the softmax."""

import torch
from torch import nn

model = nn.Linear(2, 3)
scores = model(torch.ones(1, 2))
mask = torch.tensor([[True, False, False]])
p = scores.masked_fill(mask, float("-inf")).softmax(dim=1)
loss = p.square().sum()
