"use strict";

// Five digits, as the library prints them.
const digits = (value) => [value].flat().map((one) => Number(one.toPrecision(5))).join(", ");
const ENTITIES = { "&": "&amp;", "<": "&lt;", '"': "&quot;" };
const escaped = (text) => String(text).replace(/[&<"]/g, (letter) => ENTITIES[letter]);

function mark(name, attributes, ...children) {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(value)}"`);
  return `<${name}${written.join("")}>${children.join("")}</${name}>`;
}

const words = (x, y, anchor, text) =>
  mark("text", { x, y, style: `text-anchor:${anchor}` }, escaped(text));

// Two axes, and between them curves, dots and arrows in the units of the axes.
class Plot {
  static WIDTH = 320;

  constructor(names, ends, points, height = 200) {
    const finite = points.map(([, y]) => y).filter(Number.isFinite);
    const [least, most] = [Math.min(...finite, Infinity), Math.max(...finite, -Infinity)];
    const room = (most - least || 1) * 0.08;
    const place = (value, from, to, length) => {
      const at = ((value - from) / (to - from)) * length;
      return Number(Math.min(Math.max(at, -3000), 3000).toFixed(1));
    };
    this.x = (value) => place(value, ...ends, Plot.WIDTH);
    this.y = (value) => place(value, most + room, least - room, height);
    Object.assign(this, { names, ends, heights: [least, most], height, inside: "" });
    this.curve(points, "curve");
  }

  curve(points, look) {
    const finite = points.filter(([, y]) => Number.isFinite(y));
    const d = finite.map(([x, y], n) => `${n ? "L" : "M"}${this.x(x)} ${this.y(y)}`).join("");
    this.inside += mark("path", { class: look, d });
  }

  dot(x, y) {
    this.inside += mark("circle", { class: "dot", cx: this.x(x), cy: this.y(y), r: 5 });
  }

  // A line through a point of the curve, which touches it if its slope is right.
  line(x, y, slope) {
    this.curve(this.ends.map((end) => [end, y + slope * (end - x)]), "tangent");
    this.dot(x, y);
  }

  arrow(from, to, y) {
    const [a, b, level] = [this.x(from), this.x(to), this.y(y)];
    const back = Math.sign(a - b) * Math.min(8, Math.abs(a - b));
    const d = `M${a} ${level}H${b}m${back} -5L${b} ${level}l${back} 5`;
    this.inside += mark("path", { class: "step", d });
  }

  svg(label) {
    const { height, names } = this;
    const round = (value) => digits(Number(value.toPrecision(3)));
    const viewBox = `-48 -4 376 ${height + 38}`;
    return mark(
      "svg",
      { class: "leafgrad-graph plot", role: "img", "aria-label": label, viewBox },
      mark("path", { class: "axes", d: `M0 0V${height}H${Plot.WIDTH}` }),
      ...this.ends.map((x) => words(this.x(x), height + 16, "middle", round(x))),
      ...this.heights.map((y) => words(-6, this.y(y) + 4, "end", round(y))),
      words(Plot.WIDTH / 2, height + 28, "middle", names[0]),
      words(-6, height / 2, "end", names[1]),
      mark("svg", { width: Plot.WIDTH, height }, this.inside),
    );
  }
}
