"""The diagnosis of a training step: what is wrong, on which line, and how to fix it."""
