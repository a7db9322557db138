"""The steps of a backward pass, box by box."""

from collections.abc import Iterator
from itertools import accumulate, pairwise

from leafgrad._graph.gradient_norms import norm_of
from leafgrad._graph.graph import Graph
from leafgrad._picture.box import View
from leafgrad._steps import box_sentences, sentences
from leafgrad._steps.step import Kind, Sign, Step, StepInPicture
from leafgrad._steps.visits import Visit, Visits
from leafgrad._steps.writer import Writer


def steps(graph: Graph, view: View) -> Iterator[StepInPicture]:
    """Yield a step for each box of a picture whose boxes stand for several nodes."""
    visits = Visits(graph, view)
    writer = Writer(visits, view)
    # The values, in the order of the forward pass.
    for visit in visits.forward:
        sign = Sign(box=visit.box_index, writes=tuple(writer.values(visit)))
        yield _step("value", visit, box_sentences.describe_forward(visit, visits)), sign
    # The roots.
    for root in graph.roots:
        visit, sentence = visits.at[root.index], sentences.describe_start(root, graph)
        yield _step("start", visit, sentence), Sign(box=visit.box_index)
    # The gradients, in the order of the backward pass. Norms are compared with the first module.
    norms = {visit: norm_of(visits.arriving_gradients(visit)) for visit in visits.backward}
    modules = (visit for visit, norm in norms.items() if norm and visit.box.name is not None)
    head = next(modules, None)
    ends = pairwise(accumulate((len(box.edges) for box in view.boxes), initial=0))
    arrows = [tuple(range(first, end)) for first, end in ends]
    for visit, norm in norms.items():
        sign = Sign(
            box=visit.box_index,
            arrows=arrows[visit.box_index],
            writes=tuple(writer.gradients(visit)),
            norm=norm,
        )
        yield _step("pass", visit, box_sentences.describe_backward(visit, visits, head)), sign


def _step(kind: Kind, visit: Visit, sentence: str) -> Step:
    module = None if visit.box.path is None else visit.name
    return Step(kind=kind, node=visit.nodes[0].index, edge=None, sentence=sentence, module=module)
