"""A picture, read from its SVG."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from typing import Any

from leafgrad import GraphTrace

SVG = "{http://www.w3.org/2000/svg}"
Points = list[tuple[float, float]]


@dataclass
class Rect:
    """The sides of a rectangle, and its class."""

    kind: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass
class Box:
    """A box of the picture."""

    rect: Rect
    texts: list[str]
    tooltip: list[str]
    pills: list[str]
    is_root: bool
    targets: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.texts[0].rpartition(" ×")[0] if self.copies > 1 else self.texts[0]

    @property
    def copies(self) -> int:
        found = re.search(r" ×(\d+)$", self.texts[0])
        return int(found[1]) if found else 1


@dataclass
class Picture:
    """The content of a picture."""

    boxes: list[Box]
    paths: list[Points]
    legend: list[str]
    colors: list[int]

    @property
    def names(self) -> list[str]:
        return [box.name for box in self.boxes]


def picture_of(trace: GraphTrace, **options: Any) -> Picture:
    return read_picture(trace.to_svg(**options))


def read_picture(markup: str) -> Picture:
    """Read a picture from its markup."""
    root = ET.fromstring(markup)
    parts = [part for part in root.iter(f"{SVG}g") if part.get("class") == "part"]
    boxes = [_read_box(part) for part in parts]
    groups = {group.get("class"): group for group in root.iter(f"{SVG}g")}
    paths = [_points(path.get("d", "")) for path in groups["links"]]
    for points in paths:
        source, target = (_box_at(boxes, *end) for end in (points[0], points[-1]))
        boxes[source].targets.append(target)
    heats = (re.search(r"heat-(\d)", box.rect.kind) for box in boxes)
    return Picture(
        boxes=boxes,
        paths=paths,
        legend=[text.text or "" for text in groups["legend"].iter(f"{SVG}text")]
        if "legend" in groups
        else [],
        colors=[int(heat[1]) if heat else 0 for heat in heats],
    )


def _read_box(part: ET.Element) -> Box:
    shapes = [_rect(one) for one in part if one.tag == f"{SVG}rect"]
    texts = [(one.get("class"), one.text or "") for one in part if one.tag == f"{SVG}text"]
    (title,) = (one.text or "" for one in part if one.tag == f"{SVG}title")
    (shape,) = (one for one in shapes if re.match(r"box\b|leaf\b", one.kind) and one is shapes[0])
    pills = sum(one.kind in {"leaf", "frozen"} for one in shapes[1:])
    lines = [text for _, text in texts]
    return Box(
        rect=shape,
        texts=lines,
        tooltip=title.splitlines(),
        pills=lines[len(lines) - pills :],
        is_root=any(one.kind == "root" for one in shapes),
    )


def _rect(element: ET.Element) -> Rect:
    x, y, width, height = (float(element.get(name, "")) for name in ("x", "y", "width", "height"))
    return Rect(element.get("class", ""), x, y, x + width, y + height)


def _points(path: str) -> Points:
    """Return the corners of an SVG path that consists of M, V and C commands."""
    points: Points = []
    for step, numbers in re.findall(r"([MVC])([^MVC]*)", path):
        found = [float(number) for number in numbers.split()]
        points.append((points[-1][0], found[0]) if step == "V" else (found[-2], found[-1]))
    return points


def _box_at(boxes: list[Box], x: float, y: float) -> int:
    """Return the box nearest to an end of an arrow."""

    def distance(number: int) -> float:
        rect = boxes[number].rect
        beside = max(rect.left - x, x - rect.right, 0.0)
        return beside + min(abs(rect.top - y), abs(rect.bottom - y))

    return min(range(len(boxes)), key=distance)
