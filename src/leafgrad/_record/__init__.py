"""`record`: what is written down while code runs."""
