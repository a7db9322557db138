"""NaN, infinity, and gradients that are zero, too small or too large."""
