"""The learning rate warms up from zero."""

import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)

loss = model(torch.rand(5, 3)).square().mean()
