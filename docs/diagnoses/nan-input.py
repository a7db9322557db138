import torch
from torch import nn

model = nn.Linear(2, 1)
batch = torch.tensor([[1.0, float("nan")]])
loss = model(batch).mean()
