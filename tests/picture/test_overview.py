"""The default picture of a model shows its modules."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from tests.models import Block, pinn
from tests.picture.picture import picture_of

SVG = "{http://www.w3.org/2000/svg}"


class Language(nn.Module):
    """A small transformer with its blocks in a list."""

    def __init__(self, blocks: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(Block(4) for _ in range(blocks))
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        y: torch.Tensor = self.head(self.norm(x))
        return y


class Wrapper(nn.Module):
    """A module that only wraps another one."""

    def __init__(self) -> None:
        super().__init__()
        self.language = Language()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.language(x)
        return y


def traced(model: nn.Module, *, gradients: bool = False) -> GraphTrace:
    torch.manual_seed(0)
    with record() as recording:
        y = model(torch.ones(1, 2, 4))
    return trace_graph(y.sum(), names=model, recording=recording, gradients=gradients)


def titles(trace: GraphTrace, **options: Any) -> list[str]:
    boxes = picture_of(trace, **options).boxes
    return [box.name for box in boxes if "input" not in box.rect.kind]


def texts(picture: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(picture).iter(f"{SVG}text")]


OUTER = ["SumBackward0", "head: Linear", "norm: LayerNorm", "blocks.*: Block", "embed: Linear"]


def test_large_graph_is_shown_by_its_modules() -> None:
    assert titles(traced(Language())) == OUTER
    boxes = picture_of(traced(Language())).boxes
    assert [box.copies for box in boxes] == [1, 1, 1, 4, 1, 1]


def test_overview_opens_module_with_nearly_all_nodes() -> None:
    class Vision(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch, self.encoder, self.head = nn.Linear(4, 4), Encoder(), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.head(self.encoder(self.patch(x)))
            return y

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(*(Block(4) for _ in range(3)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.blocks(x * 2).tanh()
            return y

    assert titles(traced(Vision())) == [
        "SumBackward0",
        "head: Linear",
        "TanhBackward0",
        "encoder.blocks.*: Block",
        "MulBackward0",
        "patch: Linear",
    ]


def test_overview_opens_wrapper_of_one_module() -> None:
    inner = [name if "Sum" in name else f"language.{name}" for name in OUTER]
    assert titles(traced(Wrapper())) == inner


def test_overview_of_many_modules_shows_modules_instead_of_repeats() -> None:
    kinds = nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ReLU, nn.ELU, nn.Softplus
    model = nn.Sequential(
        *(
            nn.Sequential(nn.Linear(n + 1, n + 2), kinds[n * n % 7](), kinds[n * n * n % 7]())
            for n in range(50)
        )
    )
    with record() as recording:
        y = model(torch.ones(1, 1))
    boxes = picture_of(trace_graph(y.sum(), recording=recording)).boxes
    assert len(boxes) == 52
    assert all("module" in box.rect.kind for box in boxes[1:-1])


def test_repeats_are_folded_in_graph_without_modules() -> None:
    assert not any("module" in box.rect.kind for box in picture_of(pinn()).boxes)


def test_box_of_module_has_class_and_number_of_nodes() -> None:
    written = texts(traced(Language()).to_svg())
    place = written.index("blocks.*: Block ×4")
    assert re.fullmatch(r"\d+ nodes each", written[place + 1])
    assert written[written.index("norm: LayerNorm") + 1] == "NativeLayerNormBackward0"


def test_frozen_parameters_are_counted_in_box_of_module() -> None:
    model = Language()
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    model.get_parameter("blocks.3.attend.in_proj_bias").requires_grad_(True)
    picture = traced(model).to_svg()
    written = texts(picture)
    frozen = [text for text in written if "frozen" in text]
    numbers = sum(parameter.numel() for parameter in model.blocks[0].parameters())
    assert frozen == [
        f"{numbers - 12} parameters frozen",
        f"{numbers} parameters frozen",
        "frozen parameters: no gradient",
    ]
    assert 'class="frozen"' in picture
    assert "12 parameters, 11 frozen" in picture


def test_block_with_frozen_part_is_not_folded_with_other_blocks() -> None:
    model = Language(9)
    for parameter in model.get_submodule("blocks.4.perceptron").parameters():
        parameter.requires_grad_(False)
    boxes = picture_of(traced(model)).boxes
    assert [box.name for box in boxes if box.copies != 1] == ["blocks.*: Block"] * 2


def test_box_of_module_has_gradient_norms() -> None:
    trace = traced(Language(), gradients=True)
    written = texts(trace.to_svg())
    norms = [text for text in written if text.startswith("grad norm")]
    by_path = {one.module: one for one in trace.gradient_norms.modules}
    arriving = [by_path[f"blocks.{n}"].arriving or 0.0 for n in range(4)]
    assert f"grad norm {min(arriving):.3g} to {max(arriving):.3g}" in norms
    assert f"of its leaf tensors {by_path['head'].parameters:.3g}" in written


def test_box_of_module_has_value() -> None:
    with record(values=True) as recording:
        y = Language()(torch.ones(1, 2, 4))
    trace = trace_graph(y.sum(), recording=recording, values=True)
    written = texts(trace.to_svg())
    place = written.index("head: Linear")
    assert any(text.startswith("value [") for text in written[place : place + 4])


def test_nonfinite_gradient_is_marked_at_module() -> None:
    model = Language()
    with torch.no_grad():
        model.head.weight[0, 0] = torch.inf
    written = texts(traced(model, gradients=True).to_svg())
    block = written[written.index("blocks.*: Block ×4") :]
    assert "grad: NaN" in block or "grad: infinity" in block
