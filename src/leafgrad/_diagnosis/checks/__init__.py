"""The checks, a module for each subject; `registry` runs them."""
