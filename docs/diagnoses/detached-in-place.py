import torch
from torch import nn

model = nn.Linear(3, 4)

state = model(torch.ones(2, 3))
loss = state.sin().mean()
state.detach_()
