"""`preflight` and `find_nan`: what a backward pass will fail at, and where NaN comes from."""
