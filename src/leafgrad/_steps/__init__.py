"""A backward pass step by step: its sentences, and the page to walk through it."""
