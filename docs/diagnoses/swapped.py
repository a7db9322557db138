import torch

x = torch.ones((), requires_grad=True)
y = x.square()
loss, model = x, {"y": y}
