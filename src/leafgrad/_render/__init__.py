"""Values in, strings out: what the results look like. Nothing here knows torch."""
