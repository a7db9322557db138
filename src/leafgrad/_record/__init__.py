"""`record`: note which line and which module creates each graph node while code runs."""
