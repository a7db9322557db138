"""`describe_tensor`: what autograd knows of one tensor."""
