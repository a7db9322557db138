"""The picture of a graph as SVG."""
