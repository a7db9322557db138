"""The stylesheet of pictures, for light and dark pages."""

CLASS = "leafgrad-graph"
FRAME = "leafgrad-frame"
NAME_SIZE = 12.0
FACT_SIZE = 11.0

LIGHT = "--lg-leaf:#177731;--lg-root:#0b57d0;--lg-alarm:#b3261e;--lg-order:#8250df"
DARK = "--lg-leaf:#56d364;--lg-root:#8ab4f8;--lg-alarm:#ff8a80;--lg-order:#c297ff"
HEAT = "#e8830c"
HEAT_SHARES = (".08", ".16", ".25", ".35", ".46")
"""The opacities of the heat colours. Text on the last one still has a contrast of 4.5."""
HUES = (
    "#4e79a7",
    "#e8830c",
    "#59a14f",
    "#b07aa1",
    "#e15759",
    "#4aa9a4",
    "#d4a90c",
    "#9c755f",
)
"""The colours of module classes."""


def _within(*themes: str) -> str:
    """Return a CSS selector for pictures inside elements of these themes."""
    return ",".join(f"{theme} .{CLASS}" for theme in themes)


# In this order: furo and pydata, JupyterLab, Visual Studio Code.
DARK_PAGES = _within("[data-theme=dark]", "[data-jp-theme-light=false]", ".vscode-dark")
LIGHT_PAGES = _within("[data-theme=light]", "[data-jp-theme-light=true]", ".vscode-light")

OPEN_FONTS = '"DejaVu Sans Mono","Liberation Mono"'

# Elements without a colour of their own, such as `--lg-alarm` for warnings, have the colour of the
# page's text.
STYLE = f"""
.{CLASS}{{{LIGHT};font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,{OPEN_FONTS},monospace;
font-size:{FACT_SIZE}px;max-width:none;height:auto}}
:root.{CLASS}{{color-scheme:light dark;color:CanvasText;background:Canvas}}
@media(prefers-color-scheme:dark){{.{CLASS}{{{DARK}}}{LIGHT_PAGES}{{{LIGHT}}}}}
{DARK_PAGES}{{{DARK}}}
.{CLASS} text{{fill:currentColor;text-anchor:middle;white-space:pre;unicode-bidi:isolate}}
.{CLASS} .name{{font-size:{NAME_SIZE}px;font-weight:bold}}
.{CLASS} .start{{text-anchor:start}}
.{CLASS} .alarm{{fill:var(--lg-alarm);font-weight:bold}}
.{CLASS} .value{{fill:var(--lg-leaf);font-weight:bold}}
.{CLASS} .grad{{fill:var(--lg-root);font-weight:bold}}
.{CLASS} .box{{fill:currentColor;fill-opacity:.05;stroke:currentColor;stroke-opacity:.6}}
.{CLASS} .module{{stroke-width:2}}
.{CLASS} [class*=order-]{{fill:var(--lg-order);fill-opacity:.1}}
.{CLASS} .order-2{{fill-opacity:.2}}
.{CLASS} .order-3{{fill-opacity:.32}}
.{CLASS} .root{{fill:none;stroke:var(--lg-root);stroke-width:1.5}}
.{CLASS} .leaf{{fill:var(--lg-leaf);fill-opacity:.12;stroke:var(--lg-leaf);stroke-width:1.5}}
.{CLASS} .freed{{stroke:var(--lg-alarm);stroke-opacity:1;stroke-dasharray:5 3;stroke-width:1.5}}
.{CLASS} .modified{{stroke:var(--lg-alarm);stroke-opacity:1;stroke-width:3}}
.{CLASS} .frozen{{fill:none;stroke:currentColor;stroke-opacity:.6;stroke-dasharray:3 2}}
.{CLASS} .input{{fill:none}}
.{CLASS} .free{{stroke-dasharray:2 3}}
.{CLASS} .block{{fill:currentColor;fill-opacity:.04;stroke:currentColor;stroke-opacity:.35}}
.{CLASS} .beyond{{fill:none;stroke-dasharray:5 3}}
.{CLASS} .links{{fill:none;stroke:currentColor;stroke-width:1.2;opacity:.6}}
.{CLASS} .heads{{opacity:.8}}
.{CLASS} .head{{fill:currentColor}}
.{CLASS} .stub{{fill:none;stroke:currentColor;stroke-width:1.5}}
""".replace("\n", "")

# "rect" raises the specificity, so that a later picture without colours does not override these.
HEAT_STYLE = "".join(
    f".{CLASS} rect.heat-{step}{{fill:{HEAT};fill-opacity:{share}}}"
    for step, share in enumerate(HEAT_SHARES, 1)
)
HEAT_STYLE += "".join(
    f".{CLASS} rect.hue-{number}{{fill:{hue};fill-opacity:.3}}"
    for number, hue in enumerate(HUES, 1)
)
# Coloured text would be hard to read on the two darkest colours.
HEAT_STYLE += f".{CLASS} rect:is(.heat-4,.heat-5)~text{{fill:currentColor}}"

# The frame starts at the trunk: it snaps there until the animation ends. Only an animation ends by
# itself in CSS, and a permanent snap would prevent scrolling.
FRAME_STYLE = f"""
.{FRAME}{{overflow-x:auto;animation:{FRAME} .5s}}
.{FRAME}>div{{position:relative}}
.{FRAME}>div>svg{{display:block;width:100%}}
.{FRAME}>div>span{{position:absolute;
top:0;
width:1px;
height:1px;
scroll-snap-align:center}}
@keyframes {FRAME}{{from,to{{scroll-snap-type:x mandatory}}}}
@media print{{.{FRAME}{{overflow:visible}}.{FRAME}>div{{max-width:100%!important}}}}
""".replace("\n", "")
