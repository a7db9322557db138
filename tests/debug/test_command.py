"""`python -m leafgrad` runs a script as `python` does, and adds its report."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TRAINING = """
    import torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        hidden = model[:2](torch.ones(3, 4))
        loss = model[2](hidden).square().mean()
        loss.backward()
        optimizer.step()
"""
DETACHED = TRAINING.replace("torch.ones(3, 4))", "torch.ones(3, 4)).detach()")

Run = subprocess.CompletedProcess[str]


def run(folder: Path, *arguments: str, code: str = "") -> Run:
    """Run Python in a folder with ``train.py``."""
    (folder / "train.py").write_text(textwrap.dedent(code), "utf-8")
    command = [sys.executable, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def run_both(folder: Path, code: str, *arguments: str) -> tuple[Run, Run]:
    """Run a script with Python, and with the command."""
    plain = run(folder, "train.py", *arguments, code=code)
    return plain, run(folder, "-m", "leafgrad", "train.py", *arguments, code=code)


def test_report_names_line_parameters_and_fix(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "leafgrad", "train.py", code=DETACHED)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "found in step 1" in done.stderr
    assert "no gradient reaches `model[0].weight` and `model[0].bias`" in done.stderr
    assert "--> train.py:8:" in done.stderr
    assert "+     hidden = model[:2](torch.ones(3, 4))\n" in done.stderr


@pytest.mark.parametrize(
    ("code", "words"),
    [(TRAINING, "in the first 3 steps"), ("print()", "did not call `backward()`")],
    ids=["training", "no training"],
)
def test_healthy_script_prints_no_problems_found(tmp_path: Path, code: str, words: str) -> None:
    done = run(tmp_path, "-m", "leafgrad", "train.py", code=code)
    assert done.returncode == 0
    assert done.stderr.startswith("leafgrad: no problems found")
    assert words in done.stderr


def test_training_without_an_optimizer_step_is_reported(tmp_path: Path) -> None:
    code = TRAINING.replace("optimizer.step()", "optimizer.step")
    done = run(tmp_path, "-m", "leafgrad", "train.py", code=code)
    assert "no optimizer took a step in 4 backward passes" in done.stderr
    assert "no problems found" not in done.stderr


def test_no_problems_found_still_notes_parameters_that_no_optimizer_holds(tmp_path: Path) -> None:
    code = TRAINING.replace("model[2](hidden)", "(model[2](hidden) * other(hidden))")
    code = code.replace("for step", "other = torch.nn.Linear(8, 1).eval()\n    for step")
    done = run(tmp_path, "-m", "leafgrad", "train.py", code=code)
    assert "no problems found" in done.stderr
    assert "note[not-in-optimizer]: `other.weight` and `other.bias`" in done.stderr


@pytest.mark.sweep
def test_json_is_the_last_line_of_the_output(tmp_path: Path) -> None:
    code = f"{DETACHED}\n    print('trained')\n    raise SystemExit(3)"
    done = run(tmp_path, "-m", "leafgrad", "--json", "train.py", code=code)
    *printed, last = done.stdout.splitlines()
    found = json.loads(last)
    assert (printed, done.stderr, done.returncode) == (["trained"], "", 3)
    assert (found["ok"], found["backward_passes"], found["error"]) == (False, 4, None)
    (report,) = found["reports"]
    assert (report["step"], report["diagnoses"][0]["code"]) == (1, "detached")


AS_PYTHON = {
    "arguments": "import sys; print(sys.argv, sys.path[0])",
    "main module": """
        import __main__, os, pickle, sys
        class Thing: pass
        print(__name__, __file__, __spec__, __main__.__file__)
        print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, __main__ is sys.modules[__name__])
    """,
    "at exit": """
        import atexit
        word = "main"
        atexit.register(lambda: print(__import__("__main__").word))
    """,
    "status": "import sys; sys.exit(7)",
    "message": "raise SystemExit('stopped')",
    "error": "def f(): raise KeyError('batch')\nf()",
    "syntax error": "x = (",
    "interrupt": "import os, signal; os.kill(os.getpid(), signal.SIGINT); input()",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM); input()",
    "workers": """
        import sys, torch
        from torch.utils.data import DataLoader, Dataset
        class Numbers(Dataset):
            def __len__(self): return 4
            def __getitem__(self, place): return torch.full((2,), place + 1.0)
        if __name__ == "__main__":
            torch.manual_seed(0)
            model = torch.nn.Linear(2, 1)
            for method in "fork", "spawn":
                for x in DataLoader(Numbers(), num_workers=2, multiprocessing_context=method):
                    model(x).square().sum().backward()
            print(model.weight.grad.tolist())
    """,
    "two processes": """
        import sys, torch
        import torch.multiprocessing as mp
        from torch import distributed
        from torch.nn.parallel import DistributedDataParallel
        def work(rank, store):
            distributed.init_process_group(
                "gloo", init_method=f"file://{store}", rank=rank, world_size=2)
            torch.manual_seed(0)
            model = DistributedDataParallel(torch.nn.Linear(2, 1))
            model(torch.full((1, 2), rank + 1.0)).sum().backward()
            if rank == 0: print(model.module.weight.grad.tolist())
            distributed.destroy_process_group()
        if __name__ == "__main__":
            mp.spawn(work, (sys.argv[1] + sys.argv[2],), 2)
    """,
    "failing process": """
        import torch
        def work(rank):
            torch.ones(2).sum().backward()
        if __name__ == "__main__":
            torch.multiprocessing.spawn(work)
    """,
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if case in {"arguments", "status"} else pytest.mark.sweep)
        for case in AS_PYTHON
    ],
)
def test_script_runs_as_under_python(tmp_path: Path, case: str) -> None:
    plain, done = (
        run(tmp_path, *command, "train.py", str(tmp_path / str(number)), "-x", code=AS_PYTHON[case])
        for number, command in enumerate([(), ("-m", "leafgrad")])
    )
    if case == "arguments":
        plain.stdout = plain.stdout.replace(f"{tmp_path}/0", f"{tmp_path}/1")
    assert done.returncode == plain.returncode
    assert done.stdout == plain.stdout
    said = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("leafgrad"))
    assert said == plain.stderr


@pytest.mark.sweep
def test_each_of_two_processes_reports(tmp_path: Path) -> None:
    code = """
        import os, sys
        import torch
        from torch import distributed
        from torch.nn.parallel import DistributedDataParallel
        rank, store = int(sys.argv[1]), sys.argv[2]
        distributed.init_process_group(
            "gloo", init_method="file://" + store, rank=rank, world_size=2
        )
        model = DistributedDataParallel(torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).square().sum().backward()
            optimizer.step()
        distributed.destroy_process_group()
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(code), "utf-8")
    command = [sys.executable, "-m", "leafgrad", "train.py"]
    processes = [
        subprocess.Popen(
            [*command, rank, str(tmp_path / "store")], cwd=tmp_path, stderr=-1, text=True
        )
        for rank in "01"
    ]
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert (process.returncode, said) == (
            0,
            "leafgrad: no problems found in the first 3 steps\n",
        )


def test_module_runs_as_under_python(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv, sys.path[0], __name__, __spec__.name)"
    plain = run(tmp_path, "-m", "train", "--lr", "1", code=code)
    done = run(tmp_path, "-m", "leafgrad", "-m", "train", "--lr", "1", code=code)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)


def test_traceback_ends_with_the_report(tmp_path: Path) -> None:
    code = TRAINING.replace("loss.backward()", "loss.backward(); loss.backward()")
    done = run(tmp_path, "-m", "leafgrad", "train.py", code=code)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n  File")
    assert "leafgrad/" not in done.stderr.partition("\nRuntimeError")[0]
    assert "error[freed]" in done.stderr.partition("\nRuntimeError")[2]


@pytest.mark.sweep
def test_option_first_records_the_training_step_that_goes_wrong(tmp_path: Path) -> None:
    code = TRAINING.replace("range(4)", "range(9)").replace(
        "square().mean()", "mul(step != 6).square().sum().sqrt()"
    )
    late = run(tmp_path, "-m", "leafgrad", "train.py", code=code)
    assert "found in step 7" in late.stderr
    assert "--first 7" in late.stderr
    again = run(tmp_path, "-m", "leafgrad", "--first", "7", "train.py", code=code)
    headline = "error[nan-gradient]: the backward pass of `sqrt` produces infinity\n"
    assert f"{headline} --> train.py:9:" in again.stderr


def test_demonstration_shows_a_report_and_what_to_type_next(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "leafgrad")
    assert done.returncode == 0
    assert "error[detached]" in done.stderr
    assert "train.py:10:" in done.stderr
    assert "python -m leafgrad train.py --lr 0.1" in done.stdout


@pytest.mark.sweep
def test_interrupt_ends_the_process_by_its_signal(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "leafgrad", "train.py", code="raise KeyboardInterrupt")
    assert done.returncode == -signal.SIGINT
