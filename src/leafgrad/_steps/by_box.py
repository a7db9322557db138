"""A backward at the scale of a picture, box by box."""

from collections.abc import Iterator

from leafgrad._graph.gradient_norms import norm_of
from leafgrad._graph.graph import Graph
from leafgrad._picture.box import View
from leafgrad._steps import box_sentences, sentences
from leafgrad._steps.step import Kind, Sign, Step, Told
from leafgrad._steps.visits import Visit, Visits
from leafgrad._steps.writer import Writer


def steps(graph: Graph, view: View) -> Iterator[Told]:
    """Yield the steps of a picture whose boxes stand for several nodes: a step for each box."""
    visits = Visits(graph, view)
    writer, ways = Writer(visits, view), _ways(view)
    for visit in visits.forward:
        sentence = box_sentences.forward(visit, visits)
        yield (
            _step("value", visit, sentence),
            Sign(box=visit.place, writes=tuple(writer.values(visit))),
        )
    for root in graph.roots:
        visit = visits.at[root.index]
        yield _step("start", visit, sentences.start(root, graph)), Sign(box=visit.place)
    head = next((visit for visit in visits.backward if _is_head(visit, visits)), None)
    for visit in visits.backward:
        sentence = box_sentences.backward(visit, visits, head)
        sign = Sign(
            box=visit.place,
            ways=ways[visit.place],
            writes=tuple(writer.gradients(visit)),
            norm=norm_of(visits.arrived(visit)),
        )
        yield _step("pass", visit, sentence), sign


def _is_head(visit: Visit, visits: Visits) -> bool:
    """Return whether it is of a module to which a gradient comes."""
    return visit.box.name is not None and bool(norm_of(visits.arrived(visit)))


def _step(kind: Kind, visit: Visit, sentence: str) -> Step:
    module = None if visit.box.path is None else visit.name
    return Step(kind=kind, node=visit.nodes[0].index, edge=None, sentence=sentence, module=module)


def _ways(view: View) -> dict[int, tuple[int, ...]]:
    """Return the places of the arrows from each box."""
    ways: dict[int, tuple[int, ...]] = {}
    drawn = 0
    for place, box in enumerate(view.boxes):
        ways[place] = tuple(range(drawn, drawn + len(box.edges)))
        drawn += len(box.edges)
    return ways
