"""Try an installed leafgrad by drawing a first picture: `nox -s wheel` runs this script."""

import time

started = time.perf_counter()

import torch  # noqa: E402 - the printed time includes this import

from leafgrad import trace_graph  # noqa: E402

x = torch.tensor(2.0, requires_grad=True)
trace = trace_graph(x.sin() * x, names={"x": x})
assert [node.name for node in trace.nodes] == ["MulBackward0", "SinBackward0", "AccumulateGrad"]

picture = trace.to_svg()
assert picture.startswith("<svg")
assert "SinBackward0" in picture
print(trace)
print(f"the first picture after {time.perf_counter() - started:.1f} s")
