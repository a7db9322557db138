"""Compare three public scripts with leafgrad rewrites: lines, seconds and losses.

The argument is a folder with clones of ``lululxvi/deepxde``, ``jayroxis/PINNs`` and
``mathLab/PINA``, named `deepxde`, `PINNs` and `PINA`. Install ``pina-mathlab`` too. Each script
trains for fewer iterations, some with fewer points, and shows no pictures. Original and rewrite
take turns, each in its own process. L-BFGS runs in double precision: in single precision it
amplifies rounding errors, and two equivalent runs drift apart.

Lines are those that compute derivatives and the residual. Seconds are the median CPU time of the
training, and the ratio is the median over rounds. `apart` is the largest relative difference of
the losses: the run fails if it exceeds 1e-3.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

MOST_APART = 1e-3

# This replaces the call that trains. Each script also stores its losses in LOSSES.
TIMED = "import time; _at = time.process_time(); {}; SECONDS = time.process_time() - _at"
REPORT = "\nimport json; print('\\nRESULT', json.dumps([SECONDS, LOSSES]))\n"

KEEP = """class SaveParameters(Callback):
    def on_train_batch_end(self, trainer, solver, outputs, *_):
        LOSSES.append(float(outputs["loss"]))

"""

BELTRAMI = """def pde(x, u):
    a_, b_, c_ = u[:, 0:1], u[:, 1:2], u[:, 2:3]
    first = [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    second = [(2, 0, 0, 0), (0, 2, 0, 0), (0, 0, 2, 0)]
    u_x, u_y, u_z, u_t, u_xx, u_yy, u_zz = higher_order_grad(u, x, first + second)
    momentum = u_t + a_ * u_x + b_ * u_y + c_ * u_z - (u_xx + u_yy + u_zz) / Re
    return [
        momentum[:, 0:1] + u_x[:, 3:4],
        momentum[:, 1:2] + u_y[:, 3:4],
        momentum[:, 2:3] + u_z[:, 3:4],
        u_x[:, 0:1] + u_y[:, 1:2] + u_z[:, 2:3],
    ]


"""


class Script(NamedTuple):
    """A public script: how to shorten it, and leafgrad code to replace some of its lines."""

    path: str
    begin: str  # how the lines to rewrite begin
    end: str  # how the first line below them begins
    new: str
    short: dict[str, str]  # replacements in both original and rewrite
    stop: str  # nothing from this line on is run
    imports: str = "higher_order_grad"


SCRIPTS = {
    "DeepXDE, Beltrami flow": Script(
        path="deepxde/examples/pinn_forward/Beltrami_flow.py",
        begin="def pde",
        end="def u_func",
        new=BELTRAMI,
        short={
            "import numpy as np\n": "import numpy as np\ndde.config.set_random_seed(1)\n",
            "num_domain=50000": "num_domain=2000",
            "num_boundary=5000": "num_boundary=300",
            "num_initial=5000": "num_initial=300",
            "num_test=10000": "num_test=200",
            "model.train(iterations=30000)": TIMED.format(
                "history, _ = model.train(iterations=20, display_every=1)"
            )
            + "; LOSSES = [float(sum(each)) for each in history.loss_train]",
        },
        stop='model.compile("L-BFGS"',
    ),
    "plain PyTorch, Burgers": Script(
        path="PINNs/Burgers Equation/Burgers Inference (PyTorch).ipynb",
        begin="        u_t = torch.autograd.grad(",
        end="        f = u_t + u * u_x",
        new="        u_t, u_x, u_xx = higher_order_grad(u, (x, t), [(0, 1), (1, 0), (2, 0)])\n",
        short={
            "from pyDOE import lhs\n": "",
            "lhs(2, N_f)": "np.random.rand(N_f, 2)",  # pyDOE cannot be seeded
            "import matplotlib.pyplot as plt\n": "LOSSES = []; torch.manual_seed(1234)\n"
            "torch.set_default_dtype(torch.float64)\n",
            ".float()": ".double()",
            "from plotting import newfig, savefig\n": "",
            "from mpl_toolkits.axes_grid1 import make_axes_locatable\n": "",
            "max_iter=50000": "max_iter=20",
            "        loss.backward()\n": "        loss.backward(); LOSSES.append(loss.item())\n",
            "%%time": "",
            "\nmodel.train()": "\n" + TIMED.format("model.train()"),
        },
        stop="u_pred, f_pred = model.predict(X_star)",
    ),
    "PINA, inverse Poisson": Script(
        path="PINA/tutorials/tutorial7/tutorial.py",
        begin='    delta_u = laplacian(output_, input_, components=["u"], d=["x", "y"])\n',
        end="    return delta_u - force_term",
        new="    delta_u = laplacian(output_, input_)\n",
        short={
            "import torch\n": "import torch\nLOSSES = []\n",
            "plt.show()": "plt.close()",
            "max_epochs = 1500": "max_epochs = 90",
            "class SaveParameters(Callback):\n": KEEP,
            "    callbacks=": "    logger=False, enable_checkpointing=False, callbacks=",
            "trainer.train()": TIMED.format("trainer.train()"),
        },
        stop="# One can now see how",
        imports="laplacian",
    ),
}


def read(path: Path) -> str:
    """Return the code of the script at `path`, or of the code cells of a notebook."""
    text = path.read_text("utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return "\n\n".join("".join(cell) for cell in cells) + "\n"


def between(text: str, script: Script) -> tuple[str, str, str]:
    """Return the code before the lines to rewrite, these lines, and the code after them."""
    before, begin, rest = text.partition(script.begin)
    old, end, after = rest.partition(script.end)
    if not begin or not end:
        raise ValueError(f"{script.path} has changed: no {script.begin!r} before {script.end!r}")
    return before, begin + old, end + after


def versions(text: str, script: Script) -> dict[str, str]:
    """Return the original and the rewrite of a script, both shortened."""
    text = text.partition(script.stop)[0]
    for old, new in script.short.items():
        if old not in text:
            raise ValueError(f"{script.path} has changed: it has no {old!r}")
        text = text.replace(old, new)
    before, old, after = between(text, script)
    before = before.replace("from pina.operator import laplacian\n", "", 1)
    theirs = "from pina.operator import laplacian\n" if "pina" in text else ""
    ours = f"from leafgrad import {script.imports}\n"
    return {
        "original": theirs + before + old + after + REPORT,
        "rewrite": ours + before + script.new + after + REPORT,
    }


def run(code: str, folder: Path) -> tuple[float, list[float]]:
    """Run `code` in `folder`; return the CPU seconds of the training and the losses."""
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "script.py")
        file.write_text(code, "utf-8")
        env = {**os.environ, "DDE_BACKEND": "pytorch", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, file], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    seconds, losses = json.loads(done.stdout.rpartition("RESULT")[2])
    return seconds, losses


def lines(code: str) -> int:
    """Count the lines that are neither empty nor comments."""
    return sum(bool(line.strip()) and line.strip()[0] != "#" for line in code.splitlines())


def compare(name: str, script: Script, clones: Path, turns: int) -> bool:
    """Print a table row for a script; return whether the losses agree.

    `turns` is the number of rounds. `clones` is the folder with the repositories.
    """
    text = read(clones / script.path)
    old, new = lines(between(text, script)[1]), lines(script.new)
    seconds: dict[str, list[float]] = {"original": [], "rewrite": []}
    losses = {}
    codes = versions(text, script)
    for turn in range(turns):
        for which in sorted(codes, reverse=bool(turn % 2)):
            took, losses[which] = run(codes[which], (clones / script.path).parent)
            seconds[which].append(took)
    pairs = zip(losses["original"], losses["rewrite"], strict=True)
    apart = max(abs(a - b) / abs(a) for a, b in pairs)
    a, b = seconds["original"], seconds["rewrite"]
    ratio = statistics.median(y / x for x, y in zip(a, b, strict=True))
    print(
        f"{name:24}{old:5} -> {new:2} lines{statistics.median(a):7.1f} -> "
        f"{statistics.median(b):4.1f} s (ratio {ratio:.2f}){len(losses['original']):5} losses, "
        f"the last {losses['original'][-1]:.5g}, apart {apart:.0e}",
        flush=True,
    )
    return apart <= MOST_APART


def main() -> None:
    """Compare all three scripts, or those named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clones", nargs="?", type=Path, help="the folder with the three clones")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.clones is None:
        print("public_scripts.py needs a folder with clones: see its first lines")
        return
    named = {name: script for name, script in SCRIPTS.items() if options.only in name}
    agree = [compare(name, script, options.clones, options.turns) for name, script in named.items()]
    sys.exit(not all(agree))


if __name__ == "__main__":
    main()
