"""The probability of the sample is in the loss, as in a policy gradient."""

import torch
from torch import nn
from torch.distributions import Normal

model = nn.ModuleDict({"policy": nn.Linear(3, 2), "critic": nn.Linear(2, 1)})

states = torch.rand(5, 3)
policy = Normal(model["policy"](states), 1.0)
actions = policy.sample()
value = model["critic"](actions)
advantage = value.detach()
loss = -(policy.log_prob(actions) * advantage).mean() + (value - 1).square().mean()
