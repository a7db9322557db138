import torch
from torch import nn

layers = [nn.Sequential(nn.Linear(16, 16), nn.Sigmoid()) for _ in range(12)]
model = nn.Sequential(*layers)
loss = model(torch.randn(8, 16)).square().mean()
