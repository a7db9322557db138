import torch

x, w = torch.ones(3), torch.ones(3, requires_grad=True)
model = {"x": x, "w": w}

loss = (x * w).sum()
x.requires_grad_()
