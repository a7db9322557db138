import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.Linear(8, 1)).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.rand(5, 3)).square().mean()
