"""`debug` and `python -m leafgrad`: watch a training loop, report, and let go."""
