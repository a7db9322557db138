import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, 2))
        self.b = nn.Parameter(torch.zeros(2, 4))

    def forward(self, x):
        return x + x @ self.a @ self.b


model = LoRA()
loss = (model(torch.ones(3, 4)) - 2).square().mean()
