import torch

w = torch.ones(3, requires_grad=True)
h = w.exp()
model = {"h": h}
loss = h.sum()
