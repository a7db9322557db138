import torch
from torch import nn

model = nn.Linear(3, 4)

features = model(torch.ones(2, 3)).relu()
features += 1
loss = features.mean()
