"""A page is judged alike wherever it is judged, and changes nothing for another."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sphinx_claims._config import Config
from sphinx_claims._executing import spawned as processes
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.prover import judge_page
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._reading.read import parse_page

pytestmark = pytest.mark.covered_elsewhere

Judge = Callable[..., PageVerdict]

IMPORTS = "import builtins, gc, locale, os, random, sys, torch, warnings"
CHANGES = {
    "folder": ("os.chdir('/')", "os.getcwd() != '/'"),
    "dtype": ("torch.set_default_dtype(torch.float64)", "torch.ones(1).itemsize == 4"),
    "device": ("torch.set_default_device('meta')", "torch.ones(1).device.type == 'cpu'"),
    "grad": ("x = torch.set_grad_enabled(False)", "torch.is_grad_enabled()"),
    "threads": ("torch.set_num_threads(3)", "torch.get_num_threads() != 3"),
    "seed": ("x = torch.manual_seed(7)", "torch.initial_seed() != 7"),
    "environment": ("os.environ['LEAF'] = '1'", "'LEAF' not in os.environ"),
    "locale": ("x = locale.setlocale(0, 'C')", "locale.setlocale(0) != 'C'"),
    "umask": ("x = os.umask(0o777)", "os.umask(0) != 0o777"),
    "recursion": ("sys.setrecursionlimit(500)", "sys.getrecursionlimit() != 500"),
    "path": ("sys.path.clear()", "sys.path"),
    "garbage": ("gc.disable()", "gc.isenabled()"),
    "builtin": ("builtins.leaf = 1", "'leaf' not in vars(builtins)"),
    "module": ("torch.leaf = 1", "'leaf' not in vars(torch)"),
    "filter": ("warnings.simplefilter('error')", "warnings.filters[0][0] == 'always'"),
}


def _page(*cells: str) -> str:
    return "\n".join(f"```{{code-cell}} python\n{cell}\n```\n" for cell in cells)


@pytest.mark.parametrize(("change", "unchanged"), CHANGES.values(), ids=CHANGES)
def test_what_a_page_changes_no_other_page_notices(
    change: str, unchanged: str, judge: Judge
) -> None:
    look = f"assert {unchanged}"
    assert judge(_page(IMPORTS, change, "assert os.curdir == '.'")).problems == ()
    assert judge(_page(IMPORTS, look)).problems == ()


VARIABLES = {
    "PYTHONDEVMODE": ("1", "__debug__"),
    "PYTHONHASHSEED": ("0", "not os.environ['PYTHONHASHSEED']"),
    "PYTHONINSPECT": ("1", "not sys.flags.inspect"),
    "PYTHONOPTIMIZE": ("2", "__debug__"),
    "PYTHONSTARTUP": ("no-such-file.py", "__name__ == '__main__'"),
    "PYTHONWARNINGS": ("ignore", "not sys.warnoptions"),
    "LC_ALL": ("POSIX", "sys.flags.utf8_mode"),
    "OMP_NUM_THREADS": ("1", "os.environ['OMP_NUM_THREADS'] == '1'"),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_no_variable_changes_a_verdict(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, expected = VARIABLES[name]
    monkeypatch.setenv(name, value)
    cells = ["import os, sys, warnings", f"assert {expected}", "assert os.curdir == 'no'"]
    page = _page(*cells, "warnings.warn('careful')")
    with processes.workers([], None) as running:
        verdict = judge_page(parse_page(page, "page.md"), Config(root=tmp_path), running)
    assert [(problem.line, problem.message) for problem in verdict.problems] == [
        (10, "claim is FALSE: os.curdir == 'no', where os.curdir is '.'"),
        (14, "undeclared warning: UserWarning: careful"),
    ]


def test_nobody_can_be_asked(tmp_path: Path, workers: Workers) -> None:
    cells = _page("import sys\nassert sys.stdin.read() == ''\nassert not sys.stdin.isatty()")
    verdict = judge_page(parse_page(cells, "page.md"), Config(root=tmp_path), workers)
    assert verdict.problems == ()
