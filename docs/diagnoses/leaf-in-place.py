import torch

x = torch.ones(2, requires_grad=True)
scale = torch.ones(2, requires_grad=True)
model = {"x": x, "scale": scale}

loss = x.exp().sum()
x.requires_grad_(False)
x.mul_(scale)
