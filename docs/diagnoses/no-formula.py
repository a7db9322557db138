import torch

x = torch.rand(3, requires_grad=True)
model = {"x": x}

steps = x // 0.1
loss = steps.sum()
