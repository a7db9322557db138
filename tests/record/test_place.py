"""Whose line is reported: the user's own, also where an installed package stands in between."""

import functools
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from leafgrad import diagnose, record, trace_graph
from leafgrad._graph.code_files import is_installed, short_path
from leafgrad.types import Source
from tests.tensors import leaf

HELPER = """
import functools
import torch
from leafgrad import record, trace_graph

def reduce(tensor):
    return inner(tensor)
def inner(tensor):
    return tensor.mean()
def fill(tensor):
    tensor.zero_()
def wrap(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper
def trace_itself():
    with record() as recording:
        result = torch.ones(2, requires_grad=True).exp()
    found.append(trace_graph(result, recording=recording))
found = []
"""
LINES = Path(__file__).read_text("utf-8").splitlines()


@pytest.fixture
def helper(tmp_path: Path) -> dict[str, Any]:
    """Return the names that an installed package defines."""
    file = tmp_path / "site-packages" / "helper" / "base.py"
    names: dict[str, Any] = {}
    exec(compile(HELPER, str(file), "exec"), names)
    return names


def own_line(source: Source | None) -> str:
    assert source is not None
    assert source.file == __file__
    return LINES[source.line - 1].strip()


def test_source_is_line_of_user_and_keeps_line_in_package(helper: dict[str, Any]) -> None:
    x = leaf(2)
    with record() as recording:
        loss = helper["reduce"](x.exp())
    trace = trace_graph(loss, recording=recording)
    mean, exp, _ = (node.source for node in trace.nodes)
    assert own_line(mean) == own_line(exp) == 'loss = helper["reduce"](x.exp())'
    assert mean is not None
    assert mean.library == "helper/base.py:9 in inner"
    assert str(mean).endswith(" (through helper/base.py:9 in inner)")
    assert exp is not None
    assert exp.library is None
    assert pickle.loads(pickle.dumps(trace)) == trace


def test_write_in_a_package_is_reported_at_the_users_line(helper: dict[str, Any]) -> None:
    with record() as recording:
        y = leaf(2).exp()
        loss = y.sum()
        helper["fill"](y)
    found = diagnose(loss, recording=recording).diagnoses[0]
    assert found.code == "in-place"
    assert found.primary is not None
    assert own_line(found.primary.source) == 'helper["fill"](y)'
    (write,) = recording.writes
    assert str(write) == f"zero_ in {write.source}: version 0 to 1"


def test_wrapped_pytorch_functions_are_recorded_with_lines_and_orders(
    helper: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in [
        (torch.autograd, "grad"),
        (torch.nn.functional, "softplus"),
        (torch.Tensor, "exp"),
    ]:
        monkeypatch.setattr(owner, name, helper["wrap"](getattr(owner, name)))
    x = leaf(2)
    with record() as recording:
        y = torch.nn.functional.softplus(x.exp()).sum()
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
    trace = trace_graph(slope, recording=recording)
    lines = {own_line(node.source) for node in trace.nodes if not node.is_leaf}
    assert lines == {
        "y = torch.nn.functional.softplus(x.exp()).sum()",
        "(slope,) = torch.autograd.grad(y, x, create_graph=True)",
    }
    assert trace.nodes[0].derivative_order == 1


def test_package_that_no_user_called_reports_its_own_line(helper: dict[str, Any]) -> None:
    thread = threading.Thread(target=helper["trace_itself"])
    thread.start()
    thread.join()
    source = helper["found"][0].nodes[0].source
    assert str(source) == "helper/base.py:19 in trace_itself"


@pytest.mark.parametrize(
    ("file", "path", "installed"),
    [
        ("here/train.py", "train.py", False),
        ("here/models/base.py", "models/base.py", False),
        ("other/base.py", "other/base.py", False),
        ("here/venv/lib/site-packages/lib/base.py", "lib/base.py", True),
        ("/usr/lib/python3/dist-packages/lib/at.py", "lib/at.py", True),
        (functools.__file__, "functools.py", True),
        (json.__file__, "json/__init__.py", True),
        ("<string>", "<string>", False),
        ("<ipython-input-3-0123>", "<ipython-input-3-0123>", False),
        ("<frozen runpy>", "<frozen runpy>", True),
    ],
)
def test_path_of_file_is_short_and_unambiguous(
    file: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    name = file if file.startswith("<") else str(tmp_path / file)
    assert (short_path(name), is_installed(name)) == (path, installed)
