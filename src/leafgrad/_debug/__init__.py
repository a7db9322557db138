"""`debug` and `python -m leafgrad`: record, diagnose and then watch a training loop."""
