import torch
from torch import nn

model = nn.Linear(2, 2, bias=False)
distance = model(torch.zeros(1, 2)).square().sum().sqrt()
loss = distance + model.weight.square().sum()
