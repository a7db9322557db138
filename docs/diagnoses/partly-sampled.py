import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

model = nn.ModuleDict({"encoder": nn.Linear(3, 2), "decoder": nn.Linear(2, 3)})

batch = torch.rand(5, 3)
latent = Normal(model["encoder"](batch), 1.0)
z = latent.sample()
loss = (model["decoder"](z) - batch).square().mean()
loss = loss + kl_divergence(latent, Normal(0.0, 1.0)).mean()
