"""Each chapter of the tutorial has the required parts, and uses nothing before it is explained."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"


def listed(page: str, directive: str = r"toctree\}") -> list[str]:
    text = (TUTORIAL / f"{page}.md").read_text("utf-8")
    lists = rf"^```\{{{directive}\n(?::[^\n]*\n)*\n(.*?)^```$"
    names = " ".join(re.findall(lists, text, re.MULTILINE | re.DOTALL)).split()
    return [name for name in names if (TUTORIAL / f"{name}.md").is_file()]


PARTS = {part: listed(part) or [part] for part in listed("index")}
CHAPTERS = {
    name: (TUTORIAL / f"{name}.md").read_text("utf-8") for part in PARTS.values() for name in part
}
LEFT_OUT = re.findall("^-(.*)$", (TUTORIAL / "index.md").read_text("utf-8"), re.MULTILINE)
LEARNER = [name for name in CHAPTERS if name not in LEFT_OUT]
ROUTES = {"learner": LEARNER, "pinn": listed("index", r"route\} pinn")}

PROMISE = re.compile(r"^By the end of this (?:page|chapter), you ", re.MULTILINE)
CELL = re.compile(r"^```\{code-cell\} python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECK = "## Check yourself\n"
QUESTION = re.compile(r"^\*\*.*\*\*$", re.MULTILINE)
FOLD = re.compile(r"^(:{3,})\{fold\} ([^\n]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
NO_TEXT = re.compile(
    r"\A---\n.*?^---$|^(`{3,}).*?^\1$|^\$\$.*?\$\$$|^[:|][^\n]*$", re.MULTILINE | re.DOTALL
)
MARKUP = re.compile(r"^ *(?:#+|[-*]|\d+\.) |\]\([^)]*\)|\{[\w:]+\}| <[^>]*>(?=`)", re.MULTILINE)
JUDGED = re.compile(r"^ *assert |^ *#> |^:raises:|^:warns:", re.MULTILINE)

SHOWN_IN = {
    r"is_leaf": "leaf",
    r"next_functions|_saved_|retain_grad\b": "graph",
    r"backward\(": "backward",
    r"zero_\(\)": "grad-attr",
    r"retain_graph": "retain-graph",
    r"autograd\.grad\(": "autograd-grad",
    r"grad_outputs|is_grads_batched": "grad-outputs",
    r"backward\((?:v|torch\.|gradient=)": "nonscalar",
    r"create_graph": "create-graph",
    r"\.detach\b|\.data\b": "detach",
    r"no_grad|enable_grad|set_grad_enabled|inference_mode": "grad-mode",
    r"\.clone\(": "clone",
    r"\.(?:add|mul|fill|copy|sub|div)_\(": "inplace",
    r"CopySlices": "slicing",
    r"nn\.(?:Linear|Sequential|Module\b|Parameter)": "modules",
    r"\.eval\(\)": "eval",
    r"\boptim\.": "optimizers",
    r"\bmeta\b": "devices",
    r"autograd\.Function": "custom-functions",
    r"register_hook": "hooks",
    r"saved_tensors_hooks|checkpoint\(": "saved-tensors",
    r"torch\.func\b|jacrev|jacfwd|\bvmap|\bjvp\(": "forward-mode",
    r"physics-informed": "pinn",
    r"describe_tensor\(": "../reference/describe_tensor",
    r"trace_graph\(": "../reference/trace_graph",
    r"\brecord\(": "../reference/record",
    r"diagnose\(": "../reference/diagnose",
    r"higher_order_grad\(": "../reference/higher_order_grad",
    r"laplacian\(": "../reference/laplacian",
}
"""Where something is shown that other pages use, by what it looks like there."""


def problems(text: str) -> Iterator[str]:
    """Yield a message for each required part that a chapter lacks."""
    head = CELL.sub("", text.partition("\n## ")[0])
    if not PROMISE.search(head):
        yield "its head must say what you will be able to do"
    _, found, closing = text.rpartition("\n## ")
    if not (found and f"## {closing}".startswith(CHECK)):
        yield "its last section must be the questions"
        return
    questions = [*QUESTION.finditer(closing)]
    if len(questions) not in {2, 3, 4}:
        yield f"it must have two to four questions, not {len(questions)}"
    ends = [*(question.start() for question in questions[1:]), len(closing)]
    for question, end in zip(questions, ends, strict=True):
        folds = [fold[3] for fold in FOLD.finditer(closing[question.end() : end])]
        seen = CELL.findall(FOLD.sub("", closing[question.end() : end]))
        hidden = [cell for cell in seen if cell.startswith(":tags: [hide-cell]\n")]
        if not (folds or hidden):
            yield f"each answer must be folded: {question[0]}"
        if not JUDGED.search("".join((*CELL.findall("".join(folds)), *hidden))):
            yield f"each answer must be judged: {question[0]}"


def unshown(chapters: dict[str, str]) -> Iterator[str]:
    """Yield a message for each page that uses a subject before its chapter without a link to it."""
    for looks, shown in SHOWN_IN.items():
        for name, whole in chapters.items():
            text = FOLD.sub("", whole)  # readers who open a proof want details
            if name == shown:
                break
            if found := re.search(looks, text):
                if f"]({shown}.md" not in whole:
                    yield f"{name} must link to {shown}, as it uses {found[0]}"
                break


SUMMARIES = [name for name in CHAPTERS if name.endswith("-summary")]


ASKING = [name for name in CHAPTERS if not name.endswith(("-summary", "-edge-cases"))]


@pytest.mark.parametrize("name", ASKING)
def test_chapter_has_promise_and_folded_judged_answers(name: str) -> None:
    assert [*problems(CHAPTERS[name])] == []


@pytest.mark.parametrize("part", PARTS)
def test_chapters_are_short(part: str) -> None:
    limit = 600 if part == next(iter(PARTS)) else 900
    counts = {name: len(in_sight(CHAPTERS[name]).split()) for name in PARTS[part]}
    assert {name: count for name, count in counts.items() if count > limit} == {}


def in_sight(text: str) -> str:
    """Return the words that a reader sees before unfolding anything, without code and tables."""
    return MARKUP.sub("", NO_TEXT.sub("", FOLD.sub("", text)))


def unjudged_answers(text: str) -> Iterator[str]:
    """Yield a message for each answer of a summary that no code checks, or if there are too few."""
    answers = [fold[3] for fold in FOLD.finditer(text) if fold[2] == "Answer"]
    if len(answers) < LEAST_ANSWERS:
        yield f"a summary must have at least {LEAST_ANSWERS} answers, not {len(answers)}"
    for answer in answers:
        if not JUDGED.search("".join(CELL.findall(answer))):
            yield f"each answer must be judged: {answer[:60]}"


LEAST_ANSWERS = 3


@pytest.mark.parametrize("name", SUMMARIES)
def test_summary_has_table_from_a_cell_and_judged_answers(name: str) -> None:
    card = CHAPTERS[name].partition(":::{fold} ")[0]
    assert "Markdown(" in "".join(CELL.findall(card)), "a cell must make its table"
    assert [*unjudged_answers(CHAPTERS[name])] == []


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_route_shows_or_links_each_feature_before_its_use(route: list[str]) -> None:
    assert len(route) > 10
    assert [*unshown({name: CHAPTERS[name] for name in route})] == []
