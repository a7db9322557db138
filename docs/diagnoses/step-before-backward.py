import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters())

for _ in range(2):
    loss = model(torch.ones(2, 3)).square().mean()
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
