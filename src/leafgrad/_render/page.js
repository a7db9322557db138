const stage = document.querySelector("main");
const search = document.querySelector("input");
const told = document.querySelector("output");
const button = (name) => document.querySelector(`[data-do="${name}"]`);
const moduleButton = button("module");
const depths = button("depth");
const hint = told.textContent;

// One drawing of the graph, with what repeats folded or in full, and the modules folded in it.
class View {
  constructor(frame, data) {
    this.frame = frame;
    this.svg = frame.querySelector("svg");
    this.data = data;
    this.lines = this.svg.querySelector(".links");
    this.heads = this.svg.querySelector(".heads");
    this.things = [
      ...this.svg.querySelectorAll(":scope > .part"),
      ...frame.querySelectorAll(".apart > .part"),
    ];
    this.sizes = [...data.parts, ...data.calls];
    this.allDetails = this.things.map((thing) => thing.querySelector("title").textContent);
    this.allWords = this.things.map((thing) => thing.textContent.toLowerCase());
    const turn = new Map(data.order.map((part, at) => [part, at]));
    this.turns = [
      ...data.parts.map((_, part) => turn.get(part)),
      ...data.calls.map(({ parts }) => Math.min(...parts.map((part) => turn.get(part)))),
    ];
    // The calls of modules that each part stands in, the outermost first.
    this.callsOf = data.parts.map(() => []);
    data.calls.forEach(({ parts }, call) => parts.forEach((part) => this.callsOf[part].push(call)));
    this.folded = new Set();
    this.measure();
    this.arrange(data.parts.map((_, part) => part), data.links);
  }

  measure() {
    this.width = this.svg.viewBox.baseVal.width;
    this.height = this.svg.viewBox.baseVal.height;
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", this.height);
  }

  // What is shown now: things in the order of their boxes, and links between these.
  arrange(shown, links) {
    this.shown = shown;
    this.links = links.map(({ source, target }) => [source, target]);
    this.boxes = shown.map((thing) => this.things[thing]);
    this.places = new Map(this.boxes.map((box, number) => [box, number]));
    this.details = shown.map((thing) => this.allDetails[thing]);
    this.words = shown.map((thing) => this.allWords[thing]);
    this.ahead = shown.map(() => []);
    this.back = shown.map(() => []);
    for (const [source, target] of this.links) {
      this.ahead[source].push(target);
      this.back[target].push(source);
    }
  }

  // The call whose box stands for a thing now, or the thing itself.
  faceOf(part) {
    const call = this.callsOf[part].find((each) => this.folded.has(each));
    return call === undefined ? part : this.data.parts.length + call;
  }

  // The call that a box stands for, if it does.
  callAt(number) {
    const call = this.shown[number] - this.data.parts.length;
    return call >= 0 ? call : undefined;
  }

  // The innermost call around a box, itself left out.
  callAround(number) {
    const call = this.callAt(number);
    if (call === undefined) return this.callsOf[this.shown[number]].at(-1);
    const around = this.callsOf[this.data.calls[call].parts[0]];
    return around[around.indexOf(call) - 1];
  }

  fold(calls) {
    this.folded = new Set(calls);
    const count = this.data.parts.length;
    const faces = this.data.parts.map((_, part) => this.faceOf(part));
    const shown = [...new Set(faces)];
    if (calls.length) shown.sort((a, b) => this.turns[a] - this.turns[b]);
    const place = new Map(shown.map((thing, number) => [thing, number]));
    const links = new Map();
    this.data.links.forEach(({ source, target, output }, number) => {
      const [from, to] = [faces[source], faces[target]];
      if (from === to) return;
      const link = { source: place.get(from), target: place.get(to), output: to < count ? output : 0 };
      const isPlain = from < count && to < count;
      links.set(isPlain ? number : `${from} ${to} ${link.output}`, link);
    });
    this.arrange(shown, [...links.values()]);
    this.draw(layout(shown.map((thing) => this.sizes[thing]), [...links.values()]));
  }

  draw({ places, paths, left, right, height }) {
    const legend = this.svg.querySelector(":scope > .legend");
    const visible = new Set(this.boxes);
    for (const thing of this.things) thing.toggleAttribute("hidden", !visible.has(thing));
    this.boxes.forEach((box, number) => {
      const { x = 0, top = 0 } = this.sizes[this.shown[number]];
      const at = places[number];
      box.setAttribute("transform", `translate(${at.x - x} ${at.top - top})`);
      this.svg.insertBefore(box, legend);
    });
    this.lines.innerHTML = paths.map((path) => `<path d="${curve(path)}"/>`).join("");
    const ends = new Set(paths.map((path) => path.at(-1).join(" ")));
    this.heads.innerHTML = [...ends].map((at) => `<path class="head" d="M${at}l-3.5 -7h7z"/>`).join("");
    this.svg.querySelector(".brackets").toggleAttribute("hidden", this.folded.size > 0);
    const [wide, high] = this.data.legend;
    const beside = this.folded.size ? 0 : this.data.beside;
    const middle = (left + right) / 2;
    const start = Math.min(left - beside, middle - wide / 2) - 12;
    const end = Math.max(right, start + wide + 12, middle + wide / 2) + 12;
    legend.setAttribute("transform", `translate(${start + 12} ${height + 24})`);
    this.svg.setAttribute("viewBox", `${start} -12 ${end - start} ${height + 36 + high}`);
    this.measure();
  }

  // All boxes that one can get to from a box, itself among them.
  reached(from, ways) {
    const seen = new Set([from]);
    for (const box of seen) ways[box].forEach((next) => seen.add(next));
    return seen;
  }

  show(boxes) {
    const on = (box) => !boxes || boxes.has(box);
    this.svg.classList.toggle("lit", Boolean(boxes));
    this.boxes.forEach((box, number) => box.classList.toggle("aside", !on(number)));
    [...this.lines.children].forEach((line, number) => {
      const both = this.links[number].every(on);
      line.classList.toggle("aside", !both);
      line.classList.toggle("on-path", both && Boolean(boxes));
    });
  }
}

// A way as a path: straight down, or in a curve with upright ends.
function curve(points) {
  const [x, y] = points.at(-1);
  const ends = [...points.slice(0, -1), [x, y - 6]];
  return ends.slice(1).reduce((path, [u, v], n) => {
    const [from, above] = ends[n];
    const half = (above + v) / 2;
    return `${path}${from === u ? `V${v}` : `C${from} ${half} ${u} ${half} ${u} ${v}`}`;
  }, `M${points[0].join(" ")}`);
}

const data = JSON.parse(document.querySelector("#data").textContent);
const views = [...stage.children].map((frame, n) => new View(frame, data[n]));
let view = views.find((each) => !each.frame.hidden);
let scale = 1;
let selected = null;
let found = [];

function center() {
  const frame = stage.getBoundingClientRect();
  return { clientX: frame.left + frame.width / 2, clientY: frame.top + frame.height / 2 };
}

// What is at the given point of the window stays there.
function zoom(to, { clientX, clientY } = center()) {
  const before = view.svg.getBoundingClientRect();
  const right = (clientX - before.left) / before.width;
  const down = (clientY - before.top) / before.height;
  scale = Math.min(4, Math.max(0.05, to));
  view.svg.style.transform = `scale(${scale})`; // a new size would lay out every text anew
  view.frame.style.width = `${view.width * scale}px`;
  view.frame.style.height = `${view.height * scale}px`;
  const after = view.svg.getBoundingClientRect();
  stage.scrollBy(
    after.left + right * after.width - clientX,
    after.top + down * after.height - clientY,
  );
}

const fit = () => zoom(Math.min(1, stage.clientWidth / view.width, stage.clientHeight / view.height));

function select(number, other = null) {
  view.boxes[selected]?.classList.remove("selected");
  selected = number;
  offer();
  if (number === null) {
    view.show(null);
    told.textContent = hint;
    return;
  }
  view.boxes[number].classList.add("selected");
  const from = view.reached(number, view.ahead);
  const to = view.reached(number, view.back);
  if (other === null) {
    view.show(new Set([...from, ...to]));
    told.textContent = view.details[number];
    return;
  }
  const between = new Set([
    ...[...from].filter((box) => view.reached(other, view.back).has(box)),
    ...[...to].filter((box) => view.reached(other, view.ahead).has(box)),
  ]);
  view.show(between.size ? between : new Set([number, other]));
  const length = between.size ? `${between.size} boxes on the paths between` : "no path between";
  told.textContent = `${length}\n${view.details[number]}\nand\n${view.details[other]}`;
}

// The one button folds the module around the selected box, or unfolds the selected module.
function offer() {
  const call = selected === null ? undefined : view.callAt(selected) ?? view.callAround(selected);
  if (!moduleButton) return;
  moduleButton.disabled = call === undefined;
  const does = selected !== null && view.callAt(selected) !== undefined ? "Unfold" : "Fold";
  moduleButton.textContent = call === undefined ? "Fold module" : `${does} ${view.data.calls[call].name}`;
}

// Fold these calls, and keep the thing that is looked at where it is.
function refold(calls, thing) {
  const before = view.things[thing]?.getBoundingClientRect();
  select(null);
  view.fold(calls);
  depths.value = calls.length ? "" : -1;
  zoom(scale);
  look();
  if (thing === undefined) return;
  const part = thing < view.data.parts.length ? thing : view.data.calls[thing - view.data.parts.length].parts[0];
  const number = view.shown.indexOf(view.faceOf(part));
  select(number);
  const after = view.boxes[number].getBoundingClientRect();
  stage.scrollBy(after.left - before.left, after.top - before.top);
}

function foldAround() {
  const call = selected === null ? undefined : view.callAround(selected);
  if (call !== undefined) refold([...view.folded, call], view.shown[selected]);
}

function unfold() {
  const call = selected === null ? undefined : view.callAt(selected);
  if (call !== undefined) refold([...view.folded].filter((each) => each !== call), view.shown[selected]);
}

function foldOrUnfold() {
  if (selected === null) return;
  if (view.callAt(selected) === undefined) foldAround();
  else unfold();
}

function foldFrom(depth) {
  const calls = [...view.data.calls.keys()];
  refold(depth < 0 ? [] : calls.filter((call) => view.data.calls[call].depth >= depth));
  depths.value = depth;
}

function reveal(number) {
  const box = view.boxes[number].getBoundingClientRect();
  const frame = stage.getBoundingClientRect();
  stage.scrollBy(
    box.left + box.width / 2 - frame.left - frame.width / 2,
    box.top + box.height / 2 - frame.top - frame.height / 2,
  );
}

function go(number) {
  if (number === undefined) return;
  select(number);
  reveal(number);
}

function look() {
  const words = search.value.trim().toLowerCase();
  found = words ? view.words.flatMap((text, number) => (text.includes(words) ? [number] : [])) : [];
  view.show(words ? new Set(found) : null);
  told.textContent = words ? `${found.length} boxes found; Enter goes to the next` : hint;
}

function next() {
  if (found.length) go(found[(found.indexOf(selected) + 1) % found.length]);
}

function turn() {
  if (views.length < 2) return;
  select(null);
  view = views[1 - views.indexOf(view)];
  views.forEach((each) => (each.frame.hidden = each !== view));
  button("fold").setAttribute("aria-pressed", String(view === views[0]));
  if (depths) depths.value = view.folded.size ? "" : -1;
  zoom(scale);
  look();
}

// To the box beside: the nearest whose middle lies in that direction in about the same row.
function beside(step) {
  const at = (box) => box.getBoundingClientRect();
  const here = at(view.boxes[selected]);
  const away = (box) => (at(box).left - here.left) * step;
  const row = view.boxes.filter((box) => Math.abs(at(box).top - here.top) < 2 && away(box) > 0);
  row.sort((one, other) => away(one) - away(other));
  return row.length ? view.boxes.indexOf(row[0]) : undefined;
}

const keys = {
  ArrowDown: () => go(selected === null ? 0 : view.ahead[selected][0]),
  ArrowUp: () => go(selected === null ? 0 : view.back[selected][0]),
  ArrowLeft: () => go(selected === null ? 0 : beside(-1)),
  ArrowRight: () => go(selected === null ? 0 : beside(1)),
  Escape: () => select(null),
  "+": () => zoom(scale * 1.25),
  "=": () => zoom(scale * 1.25),
  "-": () => zoom(scale / 1.25),
  0: fit,
  f: turn,
  m: foldAround,
  Enter: unfold,
  "/": () => search.focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === depths || (event.key === "Enter" && event.target !== stage && event.target !== search)) return;
  if (event.target === search) {
    if (event.key === "Enter") next();
    if (event.key === "Escape") {
      search.value = "";
      look();
      stage.focus();
    }
  } else if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

const boxAt = (event) => {
  return view.places.get(event.target.closest?.(".part")) ?? null;
};

let grip = null;

stage.addEventListener("pointerdown", (event) => {
  if (event.pointerType !== "mouse" || event.button || event.target.closest("text")) return;
  grip = { x: event.clientX, y: event.clientY, left: stage.scrollLeft, top: stage.scrollTop };
});

document.addEventListener("pointermove", (event) => {
  if (grip) {
    event.preventDefault();
    stage.scrollTo(grip.left + grip.x - event.clientX, grip.top + grip.y - event.clientY);
  } else if (selected === null && !search.value) {
    const number = stage.contains(event.target) ? boxAt(event) : null;
    told.textContent = number === null ? hint : view.details[number];
  }
});

document.addEventListener("pointerup", () => {
  grip = null;
});

stage.addEventListener("click", (event) => {
  const number = boxAt(event);
  select(...(event.shiftKey && selected !== null && number !== null ? [selected, number] : [number]));
});

stage.addEventListener(
  "wheel",
  (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(scale * Math.exp(-event.deltaY / 300), event);
  },
  { passive: false },
);

search.addEventListener("input", look);
button("in").addEventListener("click", () => zoom(scale * 1.25));
button("out").addEventListener("click", () => zoom(scale / 1.25));
button("fit").addEventListener("click", fit);
moduleButton?.addEventListener("click", foldOrUnfold);
depths?.addEventListener("change", () => foldFrom(Number(depths.value)));
stage.addEventListener("dblclick", (event) => {
  if (boxAt(event) !== null) foldOrUnfold();
});
button("fold")?.addEventListener("click", turn);
zoom(Math.min(1, Math.max(0.5, stage.clientWidth / view.width)));
stage.scrollLeft = (view.width * scale - stage.clientWidth) / 2;
