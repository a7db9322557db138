"""Page -> records: its steps executed, each page in a process of its own."""
