"""The explorer: an HTML page with a graph to search, zoom and open module by module."""
