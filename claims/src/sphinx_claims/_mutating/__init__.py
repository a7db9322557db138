"""Whether a claim can fail: its evidence changed, and the package beneath it."""
