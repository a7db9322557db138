"""Where a forward stopped that raised."""

from dataclasses import dataclass

from leafgrad._graph.nodes import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardFailure:
    """Where a forward stopped, of which a trace shows what had been computed until then.

    Attributes:
        error: The type of the exception and the first line of its message.
        module: The path of the innermost module that was running, as in ``named_modules()``, where
            the outermost has an empty one; None where none was.
        class_name: The name of that module's class.
        source: The innermost line outside of PyTorch.

    Example:
        >>> import torch
        >>> from leafgrad import trace_graph
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(2, 1))
        >>> try:
        ...     y = model(torch.ones(1, 2))
        ... except RuntimeError as error:
        ...     trace = trace_graph(error, names=model)
        >>> trace.failure.module, "mat1 and mat2" in trace.failure.error
        ('1', True)
        >>> trace.roots[0].name
        'AddmmBackward0'
    """

    error: str
    module: str | None
    class_name: str | None
    source: Source | None

    def __str__(self) -> str:
        place = "stopped"
        if self.class_name is not None:
            path = f" {self.module}" if self.module else ""
            place += f" in module{path} ({self.class_name})"
        if self.source is not None:
            place += f", at {self.source}" if self.class_name else f" at {self.source}"
        return f"{place}: {self.error}"
