"""Compare the first picture of a model by leafgrad and other tools: its bytes and its time.

The models are a perceptron, a small ResNet and a GPT of 12 layers. The time is the CPU time of this
process and of programs that it starts, such as Graphviz, from the model and its input to the
written text. It includes the forward pass, because some tools run that themselves. Tools take
turns, and figures are medians over rounds. A tool that is not installed is reported and left out;
torchviz, torchview and torchlens need Graphviz's ``dot``. An argument that ends in ``.csv`` names
a file to write the figures to, as in `docs/reference/beside.csv`.

Netron draws files, not live models, so its bytes are those of the file that `torch.export` writes.
Netron draws in a browser, which is not timed.
"""

import csv
import importlib
import importlib.metadata
import io
import resource
import shutil
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leafgrad import record, trace_graph

ROUNDS = 5


class Residual(nn.Module):
    """Two convolutions with a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.other = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` plus the result of the convolutions."""
        return torch.relu(x + self.other(torch.relu(self.norm(self.one(x)))))


class Block(nn.Module):
    """A transformer block: attention and a perceptron, each with a skip connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.other_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.outputs = nn.Linear(width, 3 * width), nn.Linear(width, width)
        layers = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.perceptron = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the result of causal attention and the perceptron."""
        batch, length, width = x.shape
        parts = self.inputs(self.norm(x)).view(batch, length, 3, 4, width // 4)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.outputs(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.perceptron(self.other_norm(x))  # type: ignore[no-any-return]


def perceptron() -> tuple[nn.Module, Tensor]:
    """Return a model of three linear layers, and its input."""
    layers = nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    return nn.Sequential(*layers), torch.rand(4, 16)


def resnet() -> tuple[nn.Module, Tensor]:
    """Return a model of eight residual blocks, and its input."""
    blocks = (Residual(8) for _ in range(8))
    tail = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    return nn.Sequential(nn.Conv2d(3, 8, 3), *blocks, *tail), torch.rand(2, 3, 16, 16)


def gpt() -> tuple[nn.Module, Tensor]:
    """Return a transformer of twelve blocks, and its input."""
    layers = nn.Embedding(100, 32), *(Block(32) for _ in range(12)), nn.Linear(32, 100)
    return nn.Sequential(*layers), torch.randint(100, (2, 8))


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "perceptron": perceptron,
    "ResNet of 8 blocks": resnet,
    "GPT of 12 layers": gpt,
}

Look = Callable[[nn.Module, Tensor], int]
"""A function that writes the first picture of a model and returns its number of bytes."""


def traced(model: nn.Module, x: Tensor) -> Any:
    """Return the traced graph of a model, recorded so that modules are known."""
    with record() as recording:
        y = model(x)
    return trace_graph(y, names=model, recording=recording)


def leafgrad_picture(model: nn.Module, x: Tensor) -> int:
    """Return the number of bytes of leafgrad's SVG picture."""
    return len(traced(model, x).to_svg().encode())


def leafgrad_page(model: nn.Module, x: Tensor) -> int:
    """Return the number of bytes of leafgrad's explorer page."""
    return len(traced(model, x).to_html().encode())


def torchviz(model: nn.Module, x: Tensor) -> int:
    """Return the number of bytes of torchviz's picture, drawn by Graphviz."""
    digraph = importlib.import_module("torchviz").make_dot(
        model(x), params=dict(model.named_parameters())
    )
    return len(digraph.pipe("svg"))


def torchview(model: nn.Module, x: Tensor) -> int:
    """Return the number of bytes of torchview's picture, drawn by Graphviz."""
    drawn = importlib.import_module("torchview").draw_graph(model, input_data=x, device="cpu")
    return len(drawn.visual_graph.pipe("svg"))


def torchlens(model: nn.Module, x: Tensor) -> int:
    """Return the number of bytes of torchlens's picture, drawn by Graphviz."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "drawn.svg")
        run = importlib.import_module("torchlens").trace(model, x)
        run.draw(vis_outpath=str(file.with_suffix("")), vis_save_only=True, vis_fileformat="svg")
        return file.stat().st_size


def torchvista(model: nn.Module, x: Tensor) -> int:
    """Return the number of bytes of torchvista's page, with its scripts."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        file = Path(folder, "page.html")
        importlib.import_module("torchvista").trace_model(
            model, x, export_format="html", export_path=str(file)
        )
        return file.stat().st_size


def netron(model: nn.Module, x: Tensor) -> int:
    """Return the number of bytes of the exported file that Netron would open."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (x,)), file)
    return len(file.getvalue())


LOOKS: dict[str, tuple[str, str | None, Look]] = {
    "leafgrad, picture": ("leafgrad", None, leafgrad_picture),
    "leafgrad, page": ("leafgrad", None, leafgrad_page),
    "torchviz": ("torchviz", "dot", torchviz),
    "torchview": ("torchview", "dot", torchview),
    "torchlens": ("torchlens", "dot", torchlens),
    "torchvista": ("torchvista", None, torchvista),
    "Netron's file": ("netron", None, netron),
}
"""For each tool: its distribution, the program that it needs, and the function to call."""


def available() -> dict[str, tuple[str, Look]]:
    """Return the installed tools with their versions, and print which are missing."""
    found: dict[str, tuple[str, Look]] = {}
    for name, (distribution, program, look) in LOOKS.items():
        try:
            version = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            print(f"{name}: {distribution} is not installed")
            continue
        if program is not None and shutil.which(program) is None:
            print(f"{name}: the program {program} is not there")
            continue
        found[name] = version, look
    return found


def seconds() -> float:
    """Return the CPU time of this process and of its finished child processes."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def timed(look: Look, model: nn.Module, x: Tensor) -> tuple[int, float]:
    """Return the number of bytes that a tool writes, and the CPU seconds that it takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = seconds()
        nbytes = look(model, x)
        return nbytes, seconds() - start


def rows() -> Iterator[dict[str, object]]:
    """Yield a row for each model and tool: the number of bytes, and the median of the seconds."""
    looks = available()
    for title, make in MODELS.items():
        torch.manual_seed(0)
        model, x = make()
        rounds = [
            {name: timed(look, model, x) for name, (_, look) in looks.items()}
            for _ in range(ROUNDS + 1)
        ]
        for name, (version, _) in looks.items():
            yield {
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "torch": torch.__version__.partition("+")[0],
                "model": title,
                "tool": name,
                "version": version,
                "bytes": rounds[0][name][0],
                "seconds": f"{statistics.median(one[name][1] for one in rounds[1:]):.3f}",
            }


def main() -> None:
    """Print the figures, and write them to each CSV file named on the command line."""
    torch.set_num_threads(1)
    measured = [*rows()]
    for row in measured:
        print("  ".join(f"{value!s:>18}" for value in row.values()))
    for name in filter(lambda argument: argument.endswith(".csv"), sys.argv[1:]):
        with Path(name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, measured[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(measured)


if __name__ == "__main__":
    main()
