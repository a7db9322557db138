"""`record`: which lines and modules make which nodes, noted while code runs."""
