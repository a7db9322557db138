"""`diagnose`: what is wrong with a training step, where, and what to type to fix it."""
