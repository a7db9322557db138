"""`explain_grad` and `preflight`: why there is no gradient, and what will fail."""
