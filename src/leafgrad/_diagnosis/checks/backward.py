"""What makes  fail or compute wrong gradients."""
