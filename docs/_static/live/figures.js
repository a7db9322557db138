"use strict";

// What each figure computes from its controls: its numbers, its pictures, and which sentence says
// it. Other entries are what its buttons do. docs/figures/figures.toml has controls and sentences.
const figures = {
  valley: {
    show(figure) {
      const { w } = figure.values;
      const { loss, slope } = lossAt(figure, w);
      const next = w - 0.1 * slope;
      const plot = figure.plot("w", "loss", (w) => lossAt(figure, w).loss);
      plot.line(w, loss, slope);
      plot.arrow(w, next, loss);
      return { numbers: { loss, slope, next }, pictures: [plot] };
    },
    step: (figure) => figure.set("w", figure.numbers.next),
  },
};

function lossAt(figure, value) {
  const w = leaf("w", value);
  const loss = figure.compute({ w });
  return { loss: loss.value, slope: backward(loss).get(w)?.value ?? 0 };
}

class Figure {
  constructor(root) {
    this.root = root;
    this.spec = JSON.parse(root.dataset.spec);
    this.kind = figures[root.dataset.figure];
    this.field = root.querySelector("[name=expression]");
    root.querySelectorAll("[hidden]").forEach((element) => (element.hidden = false));
    root.addEventListener("input", () => this.show());
    root.addEventListener("click", ({ target }) => {
      const { do: action, set } = target.closest("button")?.dataset ?? {};
      if (set) this.field.value = set;
      if (action) this.kind[action](this);
      if (set || action) this.show();
    });
    this.show();
  }

  get values() {
    const sliders = [...this.root.querySelectorAll("[type=range]")];
    return Object.fromEntries(sliders.map(({ name, valueAsNumber }) => [name, valueAsNumber]));
  }

  set(name, value) {
    this.root.querySelector(`[name=${name}]`).value = value;
  }

  // Compute the expression, which has to be a number.
  compute(leaves) {
    const constants = Object.entries(this.spec.constants ?? {});
    const names = Object.fromEntries(constants.map(([name, value]) => [name, new Tensor(value)]));
    const result = evaluate(this.field.value, { ...names, ...leaves });
    if (size(result.value) > 1) throw new Error(this.field.value);
    return result;
  }

  plot(across, up, compute) {
    const [left, right] = this.spec.ends;
    const at = Array.from({ length: 101 }, (_, n) => left + ((right - left) * n) / 100);
    return new Plot([across, up], [left, right], at.map((x) => [x, compute(x)]));
  }

  show() {
    let shown = { say: "unreadable" };
    try {
      shown = this.kind.show(this);
      const pictures = shown.pictures.map((picture) => picture.svg(this.spec.picture));
      this.root.querySelector(".picture").innerHTML = pictures.join("");
    } catch ({ message: what }) {
      shown.numbers = { what };
    }
    this.numbers = shown.numbers;
    this.field?.setAttribute("aria-invalid", shown.say === "unreadable");
    for (const [name, value] of Object.entries(this.values))
      this.root.querySelector(`[name=${name}] + output`).textContent = digits(value);
    this.root.querySelector(".sentence").innerHTML = this.sentence(shown.say ?? "result");
  }

  // Fill the figure's numbers into one of its sentences.
  sentence(key) {
    const all = { ...this.values, ...this.numbers };
    const text = (value) => (typeof value === "number" ? digits(value) : value);
    const filled = this.spec.say[key].replace(/\{(\w+)\}/g, (_, name) => text(all[name]));
    return escaped(filled).replace(/`([^`]*)`/g, "<code>$1</code>");
  }
}

for (const root of document.querySelectorAll("[data-figure]")) root.live = new Figure(root);
