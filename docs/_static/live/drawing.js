"use strict";

// Five digits, as the library prints them.
const digits = (value) => [value].flat().map((one) => Number(one.toPrecision(5))).join(", ");
const ENTITIES = { "&": "&amp;", "<": "&lt;", '"': "&quot;" };
const escaped = (text) => String(text).replace(/[&<"]/g, (letter) => ENTITIES[letter]);

function mark(name, attributes, ...children) {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(value)}"`);
  return `<${name}${written.join("")}>${children.join("")}</${name}>`;
}

// A picture of this size, whose coordinates begin at (left, top).
function picture(look, label, [left, top, width, height], ...children) {
  const size = { viewBox: `${left} ${top} ${width} ${height}`, style: `width:${width}px` };
  const about = { class: `leafgrad-graph ${look}`, role: "img", "aria-label": label };
  return mark("svg", { ...about, ...size }, ...children);
}

const words = (x, y, anchor, text) =>
  mark("text", { x, y, style: `text-anchor:${anchor}` }, escaped(text));

// Two axes, and between them curves, dots and arrows in the units of the axes.
class Plot {
  static WIDTH = 320;

  constructor(names, points, height = 200) {
    const finite = points.map(([, y]) => y).filter(Number.isFinite);
    const [least, most] = [Math.min(...finite, Infinity), Math.max(...finite, -Infinity)];
    const room = (most - least || 1) * 0.08;
    const place = (value, from, to, length) => {
      const at = ((value - from) / (to - from)) * length;
      return Number(Math.min(Math.max(at, -3000), 3000).toFixed(1));
    };
    const ends = [points[0][0], points.at(-1)[0]];
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
    return picture(
      "plot",
      label,
      [-48, -4, 384, height + 38],
      mark("path", { class: "axes", d: `M0 0V${height}H${Plot.WIDTH}` }),
      ...this.ends.map((x) => words(this.x(x), height + 16, "middle", round(x))),
      ...this.heights.map((y) => words(-6, this.y(y) + 4, "end", round(y))),
      words(Plot.WIDTH / 2, height + 28, "middle", names[0]),
      words(-6, height / 2, "end", names[1]),
      mark("svg", { width: Plot.WIDTH, height }, this.inside),
    );
  }
}

const ROW = 108;
const BOX = 78;

// The graph of a result as the library draws it: the root on top, an arrow for each gradient.
// `facts` returns what to write of a tensor: its value, its gradient, and whether it is freed.
class Graph {
  constructor(root, facts) {
    Object.assign(this, { root, facts, rows: new Map(), middles: new Map(), arrows: [], right: 0 });
    this.sink(root, 0);
    this.boxes = [...this.rows.keys()];
    const texts = this.boxes.flatMap((box) => this.lines(box).map(([, text]) => text.length));
    this.width = Math.max(...texts) * 7 + 18;
    this.place(root);
  }

  // Put each tensor below all that were computed from it.
  sink(tensor, row) {
    if (this.rows.get(tensor) >= row) return;
    this.rows.set(tensor, row);
    for (const [, input] of edges(tensor)) this.sink(input, row + 1);
  }

  // Put each tensor above the columns that are only for it: those of its inputs, or of arrows that
  // pass other rows. If other tensors have taken them all, it gets a new one.
  place(tensor) {
    const own = [];
    for (const [place, input] of edges(tensor)) {
      const isLong = this.rows.get(input) > this.rows.get(tensor) + 1;
      if (!this.middles.has(input)) own.push(this.place(input));
      else if (isLong) own.push(this.column(24));
      this.arrows.push({ tensor, place, input, via: isLong ? own.at(-1) : null });
    }
    const middle = own.length ? total(own) / own.length : this.column(this.width + 16);
    this.middles.set(tensor, middle);
    return middle;
  }

  column(width) {
    this.right += width;
    return this.right - width / 2;
  }

  lines(tensor) {
    const { operation, text } = tensor;
    const source = text.length > 18 ? `${text.slice(0, 17)}…` : text;
    const { value, grad } = this.facts(tensor);
    const arrived = grad === undefined ? "" : `grad ${digits(grad)}`;
    const numbers = [["value", `value ${digits(value)}`], ["grad", arrived]];
    if (!operation) return [["name", text], ["", "leaf"], ...numbers];
    const node = operation.name.replace(/^./, (letter) => letter.toUpperCase()) + "Backward0";
    return [["name", node], ["", source], ...numbers];
  }

  box(tensor) {
    const [x, y] = [this.middles.get(tensor), this.rows.get(tensor) * ROW];
    const rect = (look, room, rx) => {
      const [left, width] = [x - this.width / 2 - room, this.width + 2 * room];
      return mark("rect", { class: look, x: left, y: y - room, width, height: BOX + 2 * room, rx });
    };
    const line = ([look, text], n) => mark("text", { class: look, x, y: y + 21 + 15 * n }, escaped(text));
    const look = this.facts(tensor).isFreed ? "box freed" : "box";
    const outline = tensor.operation ? rect(look, 0, 5) : rect("leaf", 0, 24);
    const around = tensor === this.root ? rect("root", 3.5, 8) : "";
    return mark("g", { class: "part" }, outline, around, ...this.lines(tensor).map(line));
  }

  // Arrows that leave a box, or arrive there, are side by side.
  ends(arrow) {
    return ["tensor", "input"].map((end) => {
      const beside = this.arrows.filter((other) => other[end] === arrow[end]);
      return this.middles.get(arrow[end]) + (beside.indexOf(arrow) - (beside.length - 1) / 2) * 14;
    });
  }

  link(arrow) {
    const [from, to] = this.ends(arrow);
    const [top, end] = [this.rows.get(arrow.tensor) * ROW + BOX, this.rows.get(arrow.input) * ROW - 6];
    const curve = (a, y, b, below) => `C${a} ${y + 12} ${b} ${below - 12} ${b} ${below}`;
    if (arrow.via === null) return `M${from} ${top}${curve(from, top, to, end)}`;
    const [past, before] = [top + ROW - BOX, end - ROW + BOX];
    const bend = `${curve(from, top, arrow.via, past)}V${before}`;
    return `M${from} ${top}${bend}${curve(arrow.via, before, to, end)}`;
  }

  svg(label) {
    const [width, height] = [this.right + 10, Math.max(...this.rows.values()) * ROW + BOX + 10];
    const heads = this.arrows.map((arrow) => {
      const d = `M${this.ends(arrow)[1]} ${this.rows.get(arrow.input) * ROW}l-3.5 -7h7z`;
      return mark("path", { class: "head", d });
    });
    const links = this.arrows.map((arrow) => mark("path", { d: this.link(arrow) }));
    const texts = this.boxes.map((box) => this.lines(box).map(([, text]) => text).join(" "));
    return picture(
      "graph",
      `${label} ${texts.join("; ")}.`,
      [-5, -5, width, height],
      mark("g", { class: "links" }, ...links),
      mark("g", { class: "heads" }, ...heads),
      ...this.boxes.map((box) => this.box(box)),
    );
  }
}
