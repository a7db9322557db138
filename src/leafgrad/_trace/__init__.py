"""`trace_graph`: the graph behind some outputs, read once."""
