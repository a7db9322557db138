"""`describe_tensor`: describe the role of a tensor in autograd."""
