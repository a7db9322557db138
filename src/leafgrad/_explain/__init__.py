"""`preflight`: what a backward pass will fail at."""
