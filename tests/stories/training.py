"""Stories: training programs with a mistake and its repair, and functions that run and judge them.

A program is a function of `record`, a context manager that it enters where a user would. It
stops before the backward pass of its last step, or after the step if `done` is True. It returns
a `Training` with the arguments of `diagnose`.
"""

import ast
import contextlib
import inspect
import linecache
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn

from leafgrad import Recording, record

Record = Callable[[], AbstractContextManager[Any]]


@dataclass
class Training:
    """A training step that a program returns.

    Attributes:
        loss: The loss, or its terms by name.
        model: The model as the user would pass it; it names the parameters.
        optimizer: The optimizer.
        tensors: Other tensors that the story names.
        done: Whether the program ran `backward()` and `step()` itself.
        gradients: The right gradients by name, if the program computes wrong ones.
        whole: Whether the result is right, if no simpler symptom shows it.
    """

    loss: Tensor | Mapping[str, Tensor]
    model: nn.Module | None = None
    optimizer: torch.optim.Optimizer | None = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    done: bool = False
    gradients: Mapping[str, Tensor] = field(default_factory=dict)
    whole: Callable[[], object] | None = None

    @property
    def named(self) -> dict[str, Tensor]:
        """Every named tensor."""
        model = self.model or nn.Module()
        terms = self.loss if isinstance(self.loss, Mapping) else {"loss": self.loss}
        return {
            **dict(model.named_buffers()),
            **dict(model.named_parameters(remove_duplicate=False)),
            **terms,
            **self.tensors,
        }

    @property
    def leaves(self) -> list[str]:
        """The names of the tensors that can get a gradient."""
        return [name for name, one in self.named.items() if one.is_leaf and one.requires_grad]

    @property
    def terms(self) -> list[Tensor]:
        """The terms of the loss."""
        return [*self.loss.values()] if isinstance(self.loss, Mapping) else [self.loss]


Program = Callable[[Record], Training]


class Span(NamedTuple):
    """A place in the source, with lines and columns from 1; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass
class Story:
    """A program with a mistake, and the content of a perfect report on it.

    Attributes:
        broken: The program. Its docstring describes the mistake and where it was reported.
        cause: A short name of the mistake.
        symptom: The effect that the user notices: a gradient is `missing`, `zero`, `nan` or
            `wrong`, an error is raised (`raises`), a parameter is `stuck`, or a parameter gets an
            unwanted gradient (`leak`).
        names: The tensors that the report must name.
        culprit: The code of the expressions at fault, the best first.
        repair: Replacements in the source that fix the program.
        term: The term of the loss that is at fault, if there are several.
    """

    broken: Program
    cause: str
    symptom: str
    names: list[str]
    culprit: tuple[str, ...]
    repair: Mapping[str, str]
    term: str | None = None

    @property
    def title(self) -> str:
        """The name of the program."""
        return self.broken.__name__

    @property
    def address(self) -> str:
        """The address of the report by a user."""
        return (inspect.getdoc(self.broken) or "").splitlines()[-1]

    @property
    def source(self) -> tuple[str, int, int]:
        """The source of the program, the start of its body, and its first line number."""
        lines, first = inspect.getsourcelines(self.broken)
        function = ast.parse(textwrap.dedent("".join(lines))).body[0]
        assert isinstance(function, ast.FunctionDef)
        start = function.body[1].lineno - 1  # The body begins after the docstring.
        return "".join(lines), len("".join(lines[:start])), first

    @property
    def spans(self) -> list[Span]:
        """The places of the culprit in the file of the program."""
        return [self._locate(text) for text in self.culprit]

    @property
    def repaired(self) -> Program:
        """The program with its repair."""
        text, body, _ = self.source
        head, text = f"def {text[:body].split('def ', 1)[1]}", text[body:]
        for old, new in self.repair.items():
            assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
            text = text.replace(old, new)
        return compile_program(head + text, self.title, self.broken.__globals__)

    def _locate(self, piece: str) -> Span:
        text, body, first = self.source
        assert text.count(piece, body) == 1, f"{piece!r} occurs {text.count(piece, body)} times"
        places = []
        for offset in (text.index(piece, body), text.index(piece, body) + len(piece)):
            before = text[:offset]
            places += [first + before.count("\n"), offset - before.rfind("\n")]
        return Span(*places)


def compile_program(text: str, title: str, scope: dict[str, Any]) -> Program:
    """Compile a program so that tracebacks and reports can show its lines."""
    file = f"<repaired {title}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    namespace = dict(scope)
    exec(compile(text, file, "exec"), namespace)
    program: Program = namespace[title]
    return program


class Stories(list[Story]):
    """The stories of one file. As a decorator, it adds the program below."""

    def __call__(
        self, what: str, *, culprit: str | tuple[str, ...], repair: Mapping[str, str]
    ) -> Callable[[Program], Program]:
        """Return a decorator that adds a program.

        `what` is `symptom by cause: names`, or `symptom by cause in term: names`.
        """

        def add(broken: Program) -> Program:
            parts = re.fullmatch(r"(\S+) by (\S+?)(?: in (\S+))?: (.+)", what)
            assert parts, what
            symptom, cause, term, names = parts.groups()
            culprits = (culprit,) if isinstance(culprit, str) else culprit
            self.append(Story(broken, cause, symptom, names.split(), culprits, repair, term))
            return broken

        return add


GROUPS: list[Any] = []
"""Keeps gloo's groups: to free one waits for its thread, which may wait for Python's lock."""


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Start from a fixed seed, and undo the side effects of a program."""
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        yield
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def join_group_of_one() -> None:
    """Form a process group of only this process while a program runs."""
    store = distributed.HashStore()  # type: ignore[attr-defined]
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    GROUPS.append(distributed.group.WORLD)


def run_recorded(program: Program) -> tuple[Training, Recording]:
    """Run a program; return its last step, and the recording of this step with values."""
    recordings: list[Recording] = []

    @contextlib.contextmanager
    def recorded() -> Iterator[Recording]:
        with record(values=True) as recording:
            recordings.append(recording)
            yield recording

    return program(recorded), recordings[-1]


class Outcome(NamedTuple):
    """The results of a training step."""

    training: Training | None
    error: Exception | None
    before: dict[str, Tensor]
    """The named tensors before the step."""
    by_term: dict[str, list[Tensor | None]]
    """For each term of the loss, the gradients of the named tensors."""


def run(program: Program, names: list[str], record: Record = contextlib.nullcontext) -> Outcome:
    """Run a program and return the results of its last step.

    `names` are the tensors that may change.
    """
    with undisturbed():
        training, before, by_term = None, {}, {}
        try:
            training = program(record)
            named = training.named
            names = [name for name in names if name in named] or training.leaves
            before = {name: named[name].detach().clone() for name in names}
            if not training.done:
                by_term = _differentiate_terms(training, names)
                torch.stack([term.sum() for term in training.terms]).sum().backward()
                if training.optimizer:
                    training.optimizer.step()
        except Exception as error:  # noqa: BLE001
            return Outcome(training, error, before, by_term)
        return Outcome(training, None, before, by_term)


def _differentiate_terms(training: Training, names: list[str]) -> dict[str, list[Tensor | None]]:
    if not isinstance(training.loss, Mapping):
        return {}
    wanted = [training.named[name] for name in names]
    return {
        name: [*torch.autograd.grad(term.sum(), wanted, retain_graph=True, allow_unused=True)]
        if term.requires_grad
        else [None] * len(wanted)
        for name, term in training.loss.items()
    }


def symptoms(story: Story, outcome: Outcome) -> list[str]:
    """Return the symptom of each tensor that a story names; "" for none."""
    training, error, before, by_term = outcome
    lost = "does not require grad" in str(error)
    if training is None or (error and not lost):
        return ["raises"]
    if lost:
        return ["missing"]
    if training.whole or training.gradients:
        return ["" if _is_whole(training) else "wrong"]
    named = {name: training.named[name] for name in before}
    gradients = by_term[story.term] if story.term else [_gradient_of(t) for t in named.values()]
    if story.names == ["loss"]:
        return ["" if training.named["loss"].isfinite().all() else "nan"]
    if story.symptom == "leak":
        return ["leak" if g is not None and g.any() else "" for g in gradients]
    return [
        _judge(gradient, moved=not torch.equal(before[name], tensor) or not training.optimizer)
        for (name, tensor), gradient in zip(named.items(), gradients, strict=True)
    ]


def _is_whole(training: Training) -> bool:
    if training.whole and not training.whole():
        return False
    pairs = [(_gradient_of(training.named[name]), g) for name, g in training.gradients.items()]
    return all(ours is not None and torch.allclose(ours, g, atol=1e-6) for ours, g in pairs)


def _gradient_of(tensor: Tensor) -> Tensor | None:
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _judge(gradient: Tensor | None, *, moved: bool) -> str:
    if gradient is None:
        return "missing"
    if not gradient.isfinite().all():
        return "nan"
    if gradient.abs().max() < 1e-6:
        return "zero"
    return "" if moved else "stuck"
