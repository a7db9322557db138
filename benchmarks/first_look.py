"""The first look at a model, beside the tools that others draw one with: its bytes and its seconds.

Each tool writes what it shows first of three models: a perceptron, a small ResNet, and a GPT of 12
layers. What is timed is the CPU time of this process and of the programs that it starts, such as
Graphviz, from the model and its input to the written text; the forward pass counts, as some tools
run it themselves. Tools take turns, figures are medians over rounds. What is not installed says
so and has no line; torchviz, torchview and torchlens need Graphviz's ``dot``. With a path that
ends in ``.csv`` behind it, the figures go into that file, as in `docs/reference/beside.csv`.

Netron draws files and does not read a live model, so what is counted for it is the file that
`torch.export` writes; it draws in a browser, which is not timed.
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
    """Two convolutions beside a skip."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.other = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add what they make of `x` to it."""
        return torch.relu(x + self.other(torch.relu(self.norm(self.one(x)))))


class Block(nn.Module):
    """Attention and a perceptron, each beside a skip."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.other_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.outputs = nn.Linear(width, 3 * width), nn.Linear(width, width)
        layers = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.perceptron = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Let each place look at those before it."""
        batch, length, width = x.shape
        parts = self.inputs(self.norm(x)).view(batch, length, 3, 4, width // 4)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.outputs(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.perceptron(self.other_norm(x))  # type: ignore[no-any-return]


def perceptron() -> tuple[nn.Module, Tensor]:
    """Make three layers and their input."""
    layers = nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    return nn.Sequential(*layers), torch.rand(4, 16)


def resnet() -> tuple[nn.Module, Tensor]:
    """Make eight residual blocks and their input."""
    blocks = (Residual(8) for _ in range(8))
    tail = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    return nn.Sequential(nn.Conv2d(3, 8, 3), *blocks, *tail), torch.rand(2, 3, 16, 16)


def gpt() -> tuple[nn.Module, Tensor]:
    """Make twelve layers of a transformer and their input."""
    layers = nn.Embedding(100, 32), *(Block(32) for _ in range(12)), nn.Linear(32, 100)
    return nn.Sequential(*layers), torch.randint(100, (2, 8))


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "perceptron": perceptron,
    "ResNet of 8 blocks": resnet,
    "GPT of 12 layers": gpt,
}

Look = Callable[[nn.Module, Tensor], int]
"""Writes what a tool shows first of a model, and returns how many bytes that is."""


def traced(model: nn.Module, x: Tensor) -> Any:
    """Run a model within a recording, and trace it."""
    with record() as recording:
        y = model(x)
    return trace_graph(y, names=model, recording=recording)


def leafgrad_picture(model: nn.Module, x: Tensor) -> int:
    """Draw the picture that a notebook's page holds."""
    return len(traced(model, x).to_svg().encode())


def leafgrad_page(model: nn.Module, x: Tensor) -> int:
    """Write the page to move about in."""
    return len(traced(model, x).to_html().encode())


def torchviz(model: nn.Module, x: Tensor) -> int:
    """Let Graphviz draw what torchviz writes."""
    digraph = importlib.import_module("torchviz").make_dot(
        model(x), params=dict(model.named_parameters())
    )
    return len(digraph.pipe("svg"))


def torchview(model: nn.Module, x: Tensor) -> int:
    """Let Graphviz draw what torchview writes."""
    drawn = importlib.import_module("torchview").draw_graph(model, input_data=x, device="cpu")
    return len(drawn.visual_graph.pipe("svg"))


def torchlens(model: nn.Module, x: Tensor) -> int:
    """Let torchlens run a model and Graphviz draw it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "drawn.svg")
        run = importlib.import_module("torchlens").trace(model, x)
        run.draw(vis_outpath=str(file.with_suffix("")), vis_save_only=True, vis_fileformat="svg")
        return file.stat().st_size


def torchvista(model: nn.Module, x: Tensor) -> int:
    """Let torchvista run a model and write its page, with what it keeps of its scripts."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        file = Path(folder, "page.html")
        importlib.import_module("torchvista").trace_model(
            model, x, export_format="html", export_path=str(file)
        )
        return file.stat().st_size


def netron(model: nn.Module, x: Tensor) -> int:
    """Write the file that Netron is given."""
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
"""What each look takes: a distribution, and a program."""


def available() -> dict[str, tuple[str, Look]]:
    """Return the looks that can be taken here with their versions, and say which cannot."""
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
    """Return the CPU time of this process and of the programs that it has waited for."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def timed(look: Look, model: nn.Module, x: Tensor) -> tuple[int, float]:
    """Take one look, and return its bytes and its seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = seconds()
        nbytes = look(model, x)
        return nbytes, seconds() - start


def rows() -> Iterator[dict[str, object]]:
    """Look at each model with each tool in turns, after one round that is not counted."""
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
    """Print the figures, and write them into the file that is named, if one is."""
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
