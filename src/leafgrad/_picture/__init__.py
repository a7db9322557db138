"""What is shown of a graph, in every format."""
