import torch
from torch import nn

model = nn.Linear(3, 4)

inputs, labels = torch.rand(5, 3), torch.tensor([0, 1, 2, 3, 0])
outputs = model(inputs).softmax(1)
loss = nn.functional.cross_entropy(outputs, labels)
