"""The page of a graph, to move about in."""
