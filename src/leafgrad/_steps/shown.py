"""What is shown of a backward: the picture, and the steps in it."""

from dataclasses import replace

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import short_name
from leafgrad._picture.view import Fold, Open, is_in_full, view_of
from leafgrad._steps import by_box, by_node


class Shown:
    """A graph whose boxes show what the sentences call their nodes, its view and its steps."""

    def __init__(self, graph: Graph, *, fold: Fold, open: Open) -> None:  # noqa: A002
        """Choose the picture, and tell the steps of it."""
        nodes = tuple(replace(node, tensor_names=(short_name(node),)) for node in graph.nodes)
        roots = tuple(nodes[root.index] for root in graph.roots)
        self.graph = replace(graph, nodes=nodes, roots=roots)
        self.view = view_of(self.graph, fold=fold, open=open)
        in_full = is_in_full(graph, fold)
        self.steps = [*(by_node.steps(graph) if in_full else by_box.steps(graph, self.view))]
