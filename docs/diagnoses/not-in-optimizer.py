import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 10))
optimizer = torch.optim.Adam(model.parameters())
model[2] = nn.Linear(4, 1)

for batch in torch.rand(2, 5, 3):
    loss = model(batch).square().mean()
