"""The advantage is detached."""

import torch
from torch import nn

model = nn.ModuleDict({"actor": nn.Linear(3, 1), "critic": nn.Linear(3, 1)})
expect = ["actor"]

states, returns = torch.rand(5, 3), torch.rand(5, 1)
advantage = returns - model["critic"](states).detach()
loss = -(model["actor"](states) * advantage).mean()
