"""The addition did not save its result."""

import torch
from torch import nn

model = nn.Linear(3, 4)

features = model(torch.ones(2, 3)) + 1
features.data.clamp_(max=2.0)
loss = features.mean()
