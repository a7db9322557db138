import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(12)])
for layer in model:
    nn.init.normal_(layer.weight)
loss = model(torch.randn(8, 16)).square().mean()
