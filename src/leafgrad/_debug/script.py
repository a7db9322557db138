"""`python -m leafgrad`: run a training script under `debug`."""

import atexit
import builtins
import io
import json
import runpy
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from torch.optim import Optimizer

from leafgrad._debug.session import STEPS, Session, remove_own_frames
from leafgrad._diagnosis.report import Report
from leafgrad._diagnosis.situation import living
from leafgrad._messages import message


def main() -> None:
    """Run the script from the command line as Python would, and report on its training."""
    parser = ArgumentParser(prog="python -m leafgrad", description=message("debug.command"))
    parser.add_argument("--json", action="store_true", help=message("debug.option-json"))
    parser.add_argument("--first", type=int, default=1, help=message("debug.option-first"))
    parser.add_argument("-m", action="store_true", dest="is_module", help=message("debug.option-m"))
    parser.add_argument("script", nargs="?", help=message("debug.option-script"))
    parser.add_argument("arguments", nargs=REMAINDER, help=message("debug.option-arguments"))
    options = parser.parse_args()
    is_demonstration = options.script is None
    if is_demonstration:
        options.script = _demonstration()
    session = Session(first=options.first, is_quiet=options.json)
    sys.excepthook = _show_error
    try:
        with session:
            _run(options)
    finally:
        error = sys.exception()
        _summarise(session, None if isinstance(error, SystemExit) else error, options)
    if is_demonstration:
        print(message("debug.next-steps"))


def _demonstration() -> str:
    """Print the demonstration script, and return the path of a copy outside leafgrad."""
    code = Path(__file__).with_name("demonstration.py").read_text("utf-8")
    print(message("debug.demonstration", code=code.partition('"""\n\n')[2]), flush=True)
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    script = Path(folder.name, "train.py")
    script.write_text(code, "utf-8")
    return str(script)


def _run(options: Namespace) -> None:
    """Run the script or module as ``__main__``, with its arguments."""
    sys.argv[:] = [options.script, *options.arguments]
    if options.is_module:
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        return
    file = Path(options.script)
    if not sys.flags.safe_path:
        sys.path[0] = str(file.resolve().parent)
    # Unlike `runpy.run_path`, keep the module for ``import __main__`` until Python exits.
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = str(file.absolute())
    vars(module)["__builtins__"] = builtins
    with io.open_code(module.__file__) as opened:
        code = compile(opened.read(), module.__file__, "exec")
    exec(code, vars(module))  # noqa: S102 # the user's own script


def _summarise(session: Session, error: BaseException | None, options: Namespace) -> None:
    """Print the reports as JSON if the user asked for it, else a line if there are no reports."""
    if options.json:
        found = [{"step": step, **report.to_dict()} for step, report in session.reports]
        message_of_error = None if error is None else f"{type(error).__name__}: {error}"
        summary = {"backward_passes": session.backward_count, "error": message_of_error}
        print(json.dumps({"ok": not found, **summary, "reports": found}), flush=True)
    elif not session.reports and error is None:
        key = "debug.clean" if session.backward_count else "debug.no-backward"
        count = min(session.step - 1, STEPS) or 1
        if session.step == 1 < session.backward_count and living(Optimizer):
            key, count = "debug.no-step", session.backward_count
        print(message(key, count=count), file=sys.stderr)
        if session.notes:
            Report((*session.notes,)).show(sys.stderr)


def _show_error(kind: type[BaseException], error: BaseException, _: object) -> None:
    """Print the traceback of an uncaught error without the frames of leafgrad.

    This replaces `sys.excepthook`, so it takes the type of the error first.
    """
    remove_own_frames(error)
    sys.__excepthook__(kind, error, error.__traceback__)
