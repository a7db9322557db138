import torch
from torch import nn

model = nn.Linear(3, 1)

loss = nn.functional.mse_loss(model(torch.ones(4, 3)), torch.ones(4, 1), reduction="none")
