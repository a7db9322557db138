"""`record`: record which line and which module creates each graph node."""
