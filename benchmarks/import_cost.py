"""What leafgrad costs beside `import torch`, all of it loaded: the median of fresh interpreters."""

import statistics
import subprocess
import sys

ROUNDS = 9
TIMED = """
import time
start = time.perf_counter()
import torch
middle = time.perf_counter()
import leafgrad
leafgrad.describe_tensor, leafgrad.trace_graph, leafgrad.higher_order_grad
print(middle - start, time.perf_counter() - middle)
"""


def one_round() -> tuple[float, float]:
    """Import both in an interpreter of its own; return the seconds of each."""
    command = [sys.executable, "-c", TIMED]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    torch, leafgrad = map(float, printed.split())
    return torch, leafgrad


def main() -> None:
    """Print the medians in milliseconds."""
    torch, leafgrad = zip(*(one_round() for _ in range(ROUNDS)), strict=True)
    print(f"import torch     {statistics.median(torch) * 1e3:8.1f} ms")
    print(f"import leafgrad  {statistics.median(leafgrad) * 1e3:8.1f} ms more")


if __name__ == "__main__":
    main()
