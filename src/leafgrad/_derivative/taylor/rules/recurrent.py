"""The rule for an LSTM layer, which PyTorch computes in one node on the CPU in single precision.

The inputs are ``[times, rows, features]``, and the state h and c are ``[rows, hidden]``. At each
time

    i, f, g, o = x W^T + h U^T + b, split into four parts along the columns
    c' = sigmoid(f) c + sigmoid(i) tanh(g)
    h' = sigmoid(o) tanh(c')

as in Hochreiter and Schmidhuber, Long Short-Term Memory, Neural Computation 9, 1997, with the gate
f of Gers, Schmidhuber and Cummins, 2000.
"""

from __future__ import annotations

from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.rules.shape import concatenate
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if

_LSTM = 2  # PyTorch's number for the LSTM mode


def _layer(step: Step, x: Series | None, *others: Series | None) -> list[Series | None]:
    """Return the outputs ``[K, times, rows, hidden]`` and the last state, h and c.

    The gates and intermediate states are recomputed, because the node does not save them. Raise
    `Unsupported` for other kinds of layers and if a weight has a series.
    """
    *weights, h, c = others
    is_usual = step.saved("mode") == _LSTM and not step.saved("batch_sizes")
    unsupported_if(not is_usual or any(weights), "lstm")
    hidden, cell = step.jet("hx_", h), step.jet("cx_", c)
    of_input, of_hidden = (step.tensor(name).mT for name in ("weight0", "weight1"))
    inputs = step.jet("input", x) @ of_input
    if step.saved("has_biases"):
        inputs = inputs + (step.tensor("weight2") + step.tensor("weight3"))
    size = step.saved("hidden_size")
    times = [*range(inputs.value.shape[0])]
    made: dict[int, Series | None] = {}
    for time in reversed(times) if step.saved("reverse") else times:
        gates = inputs[time] + hidden @ of_hidden
        i, f, g, o = (gates[:, n * size : (n + 1) * size] for n in range(4))
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        made[time] = hidden.series
    raised = [s and s.viewed((1, *s.shape)) for s in (made[time] for time in times)]
    outputs = concatenate(raised, [1] * len(raised), -3)
    return [outputs, hidden.series, cell.series]


RULES: dict[str, Rule] = {"MkldnnRnnLayerBackward0": Rule(_layer)}
