"use strict";

// --- The tape

// A small autograd: each tensor stores the operation that computed it, and its inputs.
// Values are numbers or short vectors.
class Tensor {
  static count = 0;

  constructor(value, operation = null, inputs = []) {
    Object.assign(this, { value, operation, inputs, number: Tensor.count++ });
    this.requiresGrad = inputs.some((input) => input.requiresGrad);
  }
}

const leaf = (text, value) => Object.assign(new Tensor(value), { text, requiresGrad: true });

// Extend a function of numbers to vectors, element by element; a number is broadcast.
const each = (compute) => (...values) => {
  const size = values.find(Array.isArray)?.length;
  const pick = (n) => values.map((value) => (Array.isArray(value) ? value[n] : value));
  return size ? Array.from({ length: size }, (_, n) => compute(...pick(n))) : compute(...values);
};
const size = (value) => [value].flat().length;
const total = (value) => [value].flat().reduce((sum, one) => sum + one, 0);

// For each operation: a function for its value, and for each input a rule for its gradient, given
// the gradient g of the output. Rules use recorded operations, so a gradient has a gradient.
const operations = {
  add: [each((a, b) => a + b), (g) => g, (g) => g],
  sub: [each((a, b) => a - b), (g) => g, (g) => op.neg(g)],
  mul: [each((a, b) => a * b), (g, a, b) => op.mul(g, b), (g, a) => op.mul(g, a)],
  div: [each((a, b) => a / b), (g, a, b) => op.div(g, b), (g, a, b, c) => op.neg(op.div(op.mul(g, c), b))],
  pow: [each((a, n) => a ** n), (g, a, n) => op.mul(op.mul(g, n), n.value ? op.pow(a, n.value - 1) : 1)],
  neg: [each((a) => -a), (g) => op.neg(g)],
  exp: [each(Math.exp), (g, a, out) => op.mul(g, out)],
  sin: [each(Math.sin), (g, a) => op.mul(g, op.cos(a))],
  cos: [each(Math.cos), (g, a) => op.neg(op.mul(g, op.sin(a)))],
  tanh: [each(Math.tanh), (g, a, out) => op.mul(g, op.sub(1, op.mul(out, out)))],
  relu: [each((a) => Math.max(a, 0)), (g, a, out) => op.mul(g, each(Math.sign)(out.value))],
  sum: [total, (g, a) => op.expand(g, a.value)],
  mean: [(a) => total(a) / size(a), (g, a) => op.expand(op.div(g, size(a.value)), a.value)],
  expand: [(a, like) => each(() => a)(like), (g) => op.sum(g)],
};
const SAVES_NOTHING = ["add", "sub", "neg", "sum", "mean"];

const op = { detach: (input) => new Tensor(input.value) };
for (const [name, [compute, ...rules]] of Object.entries(operations))
  op[name] = (...inputs) => {
    const tensors = inputs.map((input) => (input instanceof Tensor ? input : new Tensor(input)));
    return new Tensor(compute(...tensors.map(({ value }) => value)), { name, rules }, tensors);
  };

// The inputs that require grad, with their positions.
const edges = ({ inputs }) => [...inputs.entries()].filter(([, input]) => input.requiresGrad);

// Return the gradient of a result for each tensor that it was computed from. As in PyTorch, a node
// waits until every gradient that will reach it has arrived. Among the nodes that are ready, leaves
// go first, then the most recent. `visit` is called for each node, then for each of its edges.
function backward(root, visit = () => {}) {
  const missing = new Map();
  const reached = new Set([root]);
  for (const node of reached)
    for (const [, input] of edges(node)) {
      reached.add(input);
      missing.set(input, (missing.get(input) ?? 0) + 1);
    }
  const arrived = new Map([[root, new Tensor(1)]]);
  const ready = [root];
  const rank = ({ operation, number }) => (operation ? number : Infinity);
  while (ready.length) {
    const node = ready.sort((a, b) => (rank(a) < rank(b) ? -1 : 1)).pop();
    visit(node, arrived);
    for (const [place, input] of edges(node)) {
      const passed = node.operation.rules[place](arrived.get(node), ...node.inputs, node);
      const gradient = size(passed.value) > size(input.value) ? op.sum(passed) : passed;
      arrived.set(input, arrived.has(input) ? op.add(arrived.get(input), gradient) : gradient);
      visit(node, arrived, place, gradient);
      missing.set(input, missing.get(input) - 1);
      if (!missing.get(input)) ready.push(input);
    }
  }
  return arrived;
}

const TOKEN = /\*\*|\d+\.?\d*(e-?\d+)?|\.\d+|torch\.\w+|\.\w+\(\)|[A-Za-z_]\w*|\S/g;
const SYMBOLS = { "+": ["add", 1], "-": ["sub", 1], "*": ["mul", 2], "/": ["div", 2], "**": ["pow", 3] };

// Compute an expression of Python, such as torch.sin(w) * x or (w ** 2).mean().
function evaluate(source, names) {
  const tokens = [...source.matchAll(TOKEN)];
  let at = 0;
  const next = () => tokens[at]?.[0];
  const fail = (what = next() ?? source) => {
    throw new Error(what);
  };
  const call = (name, ...inputs) => (op[name] && name !== "expand" ? op[name](...inputs) : fail(name));
  const operand = () => {
    const token = next() ?? fail();
    at++;
    if (token === "-") return op.neg(sum(3));
    if (token === "(") return closed(sum(1));
    if (token.startsWith("torch.")) return call(token.slice(6), operand());
    if (/^\.?\d/.test(token)) return new Tensor(Number(token));
    return names[token] ?? (at--, fail());
  };
  const closed = (inside) => (next() === ")" ? (at++, inside) : fail());
  // Parse an operand and the operators after it whose precedence is at least `least`.
  const sum = (least) => {
    const from = tokens[at]?.index;
    const named = (tensor) => {
      const { index, 0: last } = tokens[at - 1];
      tensor.text ??= source.slice(from, index + last.length);
      return tensor;
    };
    let left = named(operand());
    while (next()?.endsWith("()")) left = named(call(tokens[at++][0].slice(1, -2), left));
    while (SYMBOLS[next()]?.[1] >= least) {
      const [name, strength] = SYMBOLS[tokens[at++][0]];
      const right = sum(name === "pow" ? 3 : strength + 1);
      if (name === "pow" && right.requiresGrad) fail();
      left = named(call(name, left, right));
    }
    return left;
  };
  const result = sum(1);
  return next() ? fail() : result;
}

// --- Drawing

// Five digits, as the library prints them.
const digits = (value) => [value].flat().map((one) => Number(one.toPrecision(5))).join(", ");
const ENTITIES = { "&": "&amp;", "<": "&lt;", '"': "&quot;" };
const escaped = (text) => String(text).replace(/[&<"]/g, (letter) => ENTITIES[letter]);

function mark(name, attributes, ...children) {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(value)}"`);
  return `<${name}${written.join("")}>${children.join("")}</${name}>`;
}

// Return an SVG of this size; (left, top) is its top left corner.
function picture(look, label, [left, top, width, height], ...children) {
  const size = { viewBox: `${left} ${top} ${width} ${height}`, style: `width:${width}px` };
  const about = { class: `leafgrad-graph ${look}`, role: "img", "aria-label": label };
  return mark("svg", { ...about, ...size }, ...children);
}

const words = (x, y, anchor, text) =>
  mark("text", { x, y, style: `text-anchor:${anchor}` }, escaped(text));

// A plot: two axes with curves, dots and arrows, in the units of the axes.
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

  // Draw a line through a point of the curve; with the right slope it is the tangent.
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

const GAP = 30;

// The graph of a result, drawn like the library's: the root on top, an arrow for each gradient.
// `facts` returns the value and the gradient of a tensor, and whether its node was freed.
class Graph {
  constructor(root, facts) {
    Object.assign(this, { root, facts, rows: new Map(), middles: new Map(), arrows: [], right: 0 });
    this.sink(root, 0);
    this.boxes = [...this.rows.keys()];
    this.heights = [];
    for (const [box, row] of this.rows)
      this.heights[row] = Math.max(this.heights[row] ?? 0, this.lines(box).length * 15 + 18);
    this.tops = this.heights.map((_, row) => total(this.heights.slice(0, row)) + row * GAP);
    this.texts = this.boxes.map((box) => this.lines(box).map(([, text]) => text));
    this.width = Math.max(...this.texts.flat().map(({ length }) => length)) * 7 + 18;
    this.place(root);
  }

  // Put each tensor in a row below all tensors computed from it.
  sink(tensor, row) {
    if (this.rows.get(tensor) >= row) return;
    this.rows.set(tensor, row);
    for (const [, input] of edges(tensor)) this.sink(input, row + 1);
  }

  // Place each tensor above the middle of its own columns: the columns of its inputs, and of arrows
  // that pass rows. If all its inputs have a place already, the tensor gets a new column.
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
    // Lines of up to 20 letters, broken at spaces where there are any.
    const source = text.match(/\S.{0,19}(?=\s|$)|\S.{0,19}/g).map((line) => ["", line]);
    const { value, grad } = this.facts(tensor);
    const arrived = grad === undefined ? "" : `grad ${digits(grad)}`;
    const numbers = [["value", `value ${digits(value)}`], ["grad", arrived]];
    if (!operation) return [["name", text], ["", "leaf"], ...numbers];
    const node = operation.name.replace(/^./, (letter) => letter.toUpperCase()) + "Backward0";
    return [["name", tensor.requiresGrad ? node : "no grad_fn"], ...source, ...numbers];
  }

  box(tensor) {
    const row = this.rows.get(tensor);
    const [x, y, height] = [this.middles.get(tensor), this.tops[row], this.heights[row]];
    const rect = (look, room, rx) => {
      const [left, width] = [x - this.width / 2 - room, this.width + 2 * room];
      return mark("rect", { class: look, x: left, y: y - room, width, height: height + 2 * room, rx });
    };
    const line = ([look, text], n) => mark("text", { class: look, x, y: y + 21 + 15 * n }, escaped(text));
    const look = this.facts(tensor).isFreed ? "box freed" : "box";
    const outline = tensor.operation ? rect(look, 0, 5) : rect("leaf", 0, 24);
    const around = tensor === this.root ? rect("root", 3.5, 8) : "";
    return mark("g", { class: "part" }, outline, around, ...this.lines(tensor).map(line));
  }

  // Return the x of both ends of an arrow; arrows at one side of a box are 14 pixels apart.
  ends(arrow) {
    return ["tensor", "input"].map((end) => {
      const beside = this.arrows.filter((other) => other[end] === arrow[end]);
      return this.middles.get(arrow[end]) + (beside.indexOf(arrow) - (beside.length - 1) / 2) * 14;
    });
  }

  link(arrow) {
    const [from, to] = this.ends(arrow);
    const [row, below] = [this.rows.get(arrow.tensor), this.rows.get(arrow.input)];
    const [top, end] = [this.tops[row] + this.heights[row], this.tops[below] - 6];
    const curve = (a, y, b, below) => `C${a} ${y + 12} ${b} ${below - 12} ${b} ${below}`;
    if (arrow.via === null) return `M${from} ${top}${curve(from, top, to, end)}`;
    const bend = `${curve(from, top, arrow.via, top + GAP)}V${end - GAP}`;
    return `M${from} ${top}${bend}${curve(arrow.via, end - GAP, to, end)}`;
  }

  svg(label) {
    const [width, height] = [this.right + 10, this.tops.at(-1) + this.heights.at(-1) + 10];
    const heads = this.arrows.map((arrow) => {
      const d = `M${this.ends(arrow)[1]} ${this.tops[this.rows.get(arrow.input)]}l-3.5 -7h7z`;
      return mark("path", { class: "head", d });
    });
    return picture(
      "graph",
      `${label} ${this.texts.map((lines) => lines.join(" ")).join("; ")}.`,
      [-5, -5, width, height],
      mark("g", { class: "links" }, ...this.arrows.map((arrow) => mark("path", { d: this.link(arrow) }))),
      mark("g", { class: "heads" }, ...heads),
      ...this.boxes.map((box) => this.box(box)),
    );
  }
}

// --- The figures

// For each kind of figure, compute what it shows: numbers, pictures and the key of its sentence.
// docs/figures/figures.toml has the controls and the sentences.
const figures = {
  valley(figure) {
    const { w } = figure.values;
    const { value: loss, slope } = slopesAt(figure, "w", w);
    const next = w - 0.1 * slope;
    const plot = new Plot(["w", "loss"], figure.curve((w) => slopesAt(figure, "w", w).value));
    plot.line(w, loss, slope);
    plot.arrow(w, next, loss);
    return { numbers: { loss, slope, next }, pictures: [plot] };
  },

  "learning-rate"(figure) {
    const path = [];
    for (let w = 0.5; path.length <= 10; w -= figure.values.lr * slopesAt(figure, "w", w).slope)
      path.push([w, slopesAt(figure, "w", w).value]);
    const plot = new Plot(["w", "loss"], figure.curve((w) => slopesAt(figure, "w", w).value));
    plot.curve(path, "tangent");
    for (const place of path) plot.dot(...place);
    const [[, start], [w, loss]] = [path[0], path[10]];
    return { numbers: { w, start, loss }, pictures: [plot], say: loss > start ? "up" : "result" };
  },

  "own-autograd"(figure) {
    const { x } = figure.values;
    const out = Math.tanh(x);
    const yours = figure.compute({ x: new Tensor(x), out: new Tensor(out) }).value;
    const nudged = (Math.tanh(x + 1e-4) - Math.tanh(x - 1e-4)) / 2e-4;
    const plot = new Plot(["x", "out"], figure.curve(Math.tanh));
    plot.line(x, out, yours);
    const say = Math.abs(yours - nudged) < 1e-6 ? "right" : "wrong";
    return { numbers: { out, yours, nudged }, pictures: [plot], say };
  },

  "create-graph"(figure) {
    const isCreated = figure.root.querySelector("[type=checkbox]").checked;
    const { x } = figure.values;
    const { value: y, slope, second } = slopesAt(figure, "x", x);
    const upper = new Plot(["", "y"], figure.curve((x) => slopesAt(figure, "x", x).value), 120);
    const lower = new Plot(["x", "dy/dx"], figure.curve((x) => slopesAt(figure, "x", x).slope), 120);
    upper.line(x, y, slope);
    isCreated ? lower.line(x, slope, second) : lower.dot(x, slope);
    const say = isCreated ? "result" : "constant";
    return { numbers: { y, slope, second }, pictures: [upper, lower], say };
  },

  "residual-weight"(figure) {
    const { exact, solutions } = figure.spec.curves;
    const { u, ...numbers } = solutions[figure.values.weight];
    const placed = (values) => values.map((value, n) => [n / (values.length - 1), value]);
    const plot = new Plot(["x", "u"], placed(exact));
    plot.curve(placed(u), "tangent");
    return { numbers, pictures: [plot] };
  },

  // Draw the graph of the expression in the state that the actions below have left.
  graph(figure) {
    const { result, arrived, freed, grads } = figure;
    const facts = (tensor) => {
      const grad = tensor.operation ? arrived.get(tensor)?.value : grads[tensor.text];
      return { value: tensor.value, grad, isFreed: freed.has(tensor) };
    };
    const graph = new Graph(result, facts);
    const slopes = Object.keys(figure.values).map((name) => [`${name}_grad`, grads[name] ?? "None"]);
    const computed = [...arrived].find(([{ operation }]) => !operation)?.[1].value;
    const numbers = { value: result.value, computed, ...Object.fromEntries(slopes) };
    const shown = figure.spec.player ? playerOf(figure, graph) : graph;
    return { numbers, pictures: [shown], say: figure.said };
  },
};

// Return the value of the expression at a point, its slope, and the slope of its slope.
function slopesAt(figure, name, at) {
  const input = leaf(name, at);
  const result = figure.compute({ [name]: input });
  const slope = backward(result).get(input) ?? new Tensor(0);
  const second = slope.requiresGrad ? backward(slope).get(input)?.value : 0;
  return { value: result.value, slope: slope.value, second: second ?? 0 };
}

// The actions of buttons and sliders; figures.toml lists their names. The sentence is the one whose
// key the last action returns, else the one with its name.
const actions = {
  step(figure) {
    figure.sliders[0].value = figure.numbers.next;
  },
  clear(figure) {
    Object.assign(figure, { grads: {}, arrived: new Map() });
  },
  forward(figure) {
    const leaves = Object.entries(figure.values).map(([name, value]) => [name, leaf(name, value)]);
    const result = figure.compute(Object.fromEntries(leaves));
    Object.assign(figure, { result, arrived: new Map(), freed: new Set() });
  },
  // Add the gradients of the leaves to .grad.
  backward(figure, isFreeing = false) {
    const { result, freed, grads } = figure;
    const visit = (node, arrived, place) => {
      if (place !== undefined) return;
      if (freed.has(node)) throw new Error("freed");
      if (!node.operation) grads[node.text] = (grads[node.text] ?? 0) + arrived.get(node).value;
      else if (isFreeing && !SAVES_NOTHING.includes(node.operation.name)) freed.add(node);
    };
    try {
      figure.arrived = result.requiresGrad ? backward(result, visit) : new Map();
    } catch {
      return "again";
    }
    return result.requiresGrad ? null : "constant";
  },
  // Do the same, and free the tensors that the nodes have saved.
  free: (figure) => actions.backward(figure, true) ?? (figure.freed.size ? null : "kept"),
};

// Show the two passes in the player of trace_graph(...).steps().
function playerOf(figure, graph) {
  const steps = [];
  const index = (tensor) => graph.boxes.indexOf(tensor);
  const add = (key, tensor, target, sum, passed = "", arrows = []) => {
    const sentence = figure.sentence(key, { name: tensor.text, target: target.text, sum, passed });
    const write = key === "forward" ? [0, `value ${sum}`] : [1, `grad ${sum}`];
    steps.push({ sentence, box: index(tensor), writes: [[index(target), ...write]], arrows });
  };
  const oldestFirst = graph.boxes.toSorted((one, other) => one.number - other.number);
  for (const tensor of oldestFirst) add("forward", tensor, tensor, digits(tensor.value));
  const received = new Set();
  backward(graph.root, (node, arrived, place, gradient) => {
    const target = node.inputs[place] ?? node;
    const sum = digits(arrived.get(target).value);
    const arrow = graph.arrows.findIndex((one) => one.tensor === node && one.place === place);
    const key = received.has(target) ? "sum" : "passed";
    if (gradient) add(key, node, target, sum, digits(gradient.value), [arrow]);
    else if (node === graph.root) add("start", node, node, sum);
    else if (!node.operation) add("complete", node, node, sum);
    received.add(target);
  });
  const player = figure.root.querySelector("template").content.firstElementChild.cloneNode(true);
  Object.assign(player.dataset, { steps: JSON.stringify(steps), at: figure.player?.dataset.at ?? 0 });
  player.querySelector(".leafgrad-frame > div").innerHTML = graph.svg(figure.spec.picture);
  player.querySelector("ol").innerHTML = steps.map(({ sentence }) => mark("li", {}, sentence)).join("");
  return { svg: () => player.outerHTML };
}

class Figure {
  constructor(root) {
    this.root = root;
    this.spec = JSON.parse(root.dataset.spec);
    this.field = root.querySelector("[name=expression]");
    this.sliders = [...root.querySelectorAll("[type=range]")];
    this.grads = {};
    root.querySelector(".panel").hidden = false;
    root.addEventListener("input", () => this.show());
    root.addEventListener("click", ({ target }) => {
      const { do: wanted, set } = target.closest(".panel button")?.dataset ?? {};
      if (set) this.field.value = set;
      if (set || wanted) this.show(wanted?.split(" "));
    });
    this.show();
  }

  get values() {
    return Object.fromEntries(this.sliders.map(({ name, valueAsNumber }) => [name, valueAsNumber]));
  }

  // Compute the expression; throw an error if the result is not a single number.
  compute(leaves) {
    const constants = Object.entries(this.spec.constants ?? {});
    const names = Object.fromEntries(constants.map(([name, value]) => [name, new Tensor(value)]));
    const result = evaluate(this.field.value, { ...names, ...leaves });
    if (size(result.value) > 1) throw new Error(this.field.value);
    return result;
  }

  curve(compute) {
    const [left, right] = this.spec.ends;
    const at = Array.from({ length: 101 }, (_, n) => left + ((right - left) * n) / 100);
    return at.map((x) => [x, compute(x)]);
  }

  show(wanted = this.spec.change ?? []) {
    let shown = { say: "unreadable" };
    try {
      for (const name of wanted) this.said = actions[name](this) ?? name;
      shown = figures[this.spec.kind](this);
      const pictures = shown.pictures.map((picture) => picture.svg(this.spec.picture));
      this.root.querySelector(".picture").innerHTML = pictures.join("");
      this.player = this.root.querySelector(".picture .leafgrad-steps");
      if (this.player) leafgradSteps(this.player);
    } catch ({ message: what }) {
      shown.numbers = { what };
    }
    this.numbers = shown.numbers;
    this.field?.setAttribute("aria-invalid", shown.say === "unreadable");
    for (const slider of this.sliders) {
      const { name, valueAsNumber: value } = slider;
      slider.nextElementSibling.textContent = this.spec.sliders[name].texts?.[value] ?? digits(value);
      slider.setAttribute("aria-valuetext", slider.nextElementSibling.textContent);
    }
    const done = [this.field?.value, wanted.join(" ")];
    for (const button of this.root.querySelectorAll(".panel button"))
      button.setAttribute("aria-current", done.includes(button.dataset.set ?? button.dataset.do));
    const sentence = this.sentence(shown.say ?? "result", this.numbers);
    this.root.querySelector(".panel .sentence").innerHTML = sentence;
  }

  // Fill numbers into one of the figure's sentences.
  sentence(key, slots) {
    const all = { ...this.values, ...slots };
    const text = (value) => (typeof value === "number" ? digits(value) : value);
    const filled = this.spec.say[key].replace(/\{(\w+)\}/g, (_, name) => text(all[name]));
    return escaped(filled).replace(/`([^`]*)`/g, "<code>$1</code>");
  }
}

for (const root of document.querySelectorAll("[data-figure]")) root.live = new Figure(root);
