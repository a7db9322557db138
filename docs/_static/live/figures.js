"use strict";

// What a figure shows of its controls: numbers, pictures, and the key of the sentence about them.
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
    if (isCreated) lower.line(x, slope, second);
    const say = isCreated ? "result" : "constant";
    return { numbers: { y, slope, second }, pictures: [upper, lower], say };
  },

  "residual-weight"(figure) {
    const { weights, x, exact, solutions } = figure.spec.curves;
    const { u, residual, ends } = solutions[figure.values.weight];
    const plot = new Plot(["x", "u"], x.map((x, n) => [x, exact[n]]));
    plot.curve(x.map((x, n) => [x, u[n]]), "tangent");
    const error = Math.max(...u.map((u, n) => Math.abs(u - exact[n])));
    const numbers = { value: weights[figure.values.weight], residual, ends, error };
    return { numbers, pictures: [plot] };
  },

  // The graph of the expression, as the actions below have left it.
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

// The expression at a value of its leaf, its slope, and the slope of that.
function slopesAt(figure, name, at) {
  const input = leaf(name, at);
  const result = figure.compute({ [name]: input });
  const slope = backward(result).get(input) ?? new Tensor(0);
  const second = slope.requiresGrad ? backward(slope).get(input)?.value : 0;
  return { value: result.value, slope: slope.value, second: second ?? 0 };
}

// What happens as values change and buttons are pressed: figures.toml lists the names. The last
// name, or what it returns, is the key of the sentence.
const actions = {
  step(figure) {
    figure.sliders[0].value = figure.numbers.next;
  },
  clear(figure) {
    figure.grads = {};
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
  // The same, and free what the nodes have saved.
  free: (figure) => actions.backward(figure, true),
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

  // Compute the expression, which has to be a number.
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
