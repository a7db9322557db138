"""A backward, step by step."""
