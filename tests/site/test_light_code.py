"""Highlighted code with fewer tags has the same text in the same colours."""

from types import SimpleNamespace
from typing import Any

import pytest
from light_code import lighten, lighter, plain

STYLES = ("a11y-high-contrast-light", "github-dark")
CASES = {
    "a name": ('<span class="n">x</span>', "x"),
    "punctuation": ('<span class="p">(</span><span class="n">x</span>', "(x"),
    "a blank": ('<span class="w"> </span>', " "),
    "a keyword": ('<span class="k">for</span>', "<i class=k>for</i>"),
    "coloured in the dark only": ('<span class="nn">torch</span>', "<i class=nn>torch</i>"),
    "what holds more than text": ('<span class="k"><b>x</b></span>',) * 2,
    "a dot": (
        '<a href="#"><span class="n">a</span><span class="o">.</span><span class="n">b</span></a>',
        '<a href="#">a.b</a>',
    ),
    "neighbours": (
        '<span class="s2">"</span><span class="s2">a</span> <span class="s2">"</span>',
        '<i class=s2>"a "</i>',
    ),
    "neighbours of two colours": (
        '<span class="s2">a</span><span class="mi">1</span>',
        "<i class=s2>a</i><i class=mi>1</i>",
    ),
}


@pytest.mark.parametrize(("code", "expected"), CASES.values(), ids=CASES)
def test_tag_is_kept_if_a_style_colours_it(code: str, expected: str) -> None:
    assert lighter(code, plain(*STYLES)) == expected


def test_inline_code_has_one_tag_and_prose_does_not_change() -> None:
    words = '<span class="pre">x</span> <span class="pre">y</span>'
    code = f'<code class="docutils literal notranslate">{words}</code>'
    app: Any = SimpleNamespace(
        config=SimpleNamespace(pygments_style=STYLES[0], pygments_dark_style=STYLES[1])
    )
    block = '<pre tabindex="0"><span></span><span class="n">x</span></pre>'
    context = {"body": f'{code} a docutils container <span class="n">y</span>{block}', "toc": code}
    lighten(app, "", "", context, None)
    light = '<code class="literal notranslate">x y</code>'
    assert context["toc"] == light
    assert context["body"] == (
        f'{light} a docutils container <span class="n">y</span><pre tabindex="0">x</pre>'
    )
