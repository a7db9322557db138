"""See what PyTorch autograd sees: tensors, graphs and derivatives, explained and proven."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leafgrad._derivative import higher_order_grad
    from leafgrad._graph import trace_graph
    from leafgrad._tensor import TensorDescription, TensorRole, describe_tensor
    from leafgrad._trace import CustomFunction, GraphTrace, SavedTensor, TracedEdge, TracedNode
else:  # to a type checker, __getattr__ would say that every name exists
    _HOMES = {
        "_derivative": ["higher_order_grad"],
        "_graph": ["trace_graph"],
        "_tensor": ["TensorDescription", "TensorRole", "describe_tensor"],
        "_trace": ["CustomFunction", "GraphTrace", "SavedTensor", "TracedEdge", "TracedNode"],
    }

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for: the prover starts without PyTorch."""
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        return globals()[name]


__all__ = [
    "CustomFunction",
    "GraphTrace",
    "SavedTensor",
    "TensorDescription",
    "TensorRole",
    "TracedEdge",
    "TracedNode",
    "describe_tensor",
    "higher_order_grad",
    "trace_graph",
]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted(__all__)
