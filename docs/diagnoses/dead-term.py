import torch
from torch import nn

model = nn.Linear(3, 1)

prediction = model(torch.rand(5, 3))
loss = {
    "data": (prediction - 1).square().mean(),
    "smoothness": prediction.detach().diff(dim=0).square().mean(),
}
