"""`describe_tensor`: what a tensor is to autograd."""
