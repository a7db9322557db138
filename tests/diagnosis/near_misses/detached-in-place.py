"""The state is detached before it is used."""

import torch
from torch import nn

model = nn.Linear(3, 3)

state = model(torch.ones(2, 3))
state.detach_()
loss = model(state.sin()).mean()
