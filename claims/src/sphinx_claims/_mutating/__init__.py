"""Whether a claim can fail: its evidence changed, and PyTorch beneath it."""
