const stage = document.querySelector("main");
const search = document.querySelector("input");
const told = document.querySelector("output");
const button = (name) => document.querySelector(`[data-do="${name}"]`);
const between = button("path");
const moduleButton = button("module");
const depths = button("depth");
if (!matchMedia("(pointer: coarse)").matches) told.textContent += `\n${told.dataset.keys}`;
const hint = told.textContent;

const SVG = "http://www.w3.org/2000/svg";
const AROUND = 0.5; // how much of a window is drawn beyond each of its edges
const MANY = 200;
const LEAST = 0.8; // what one can still read without effort
const EVERYTHING = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
const NEAR = 4; // pixels
const READABLE = 0.36; // letters of 4 pixels: below, many boxes are drawn without their text

const meets = (one, other) =>
  one.left <= other.right && other.left <= one.right && one.top <= other.bottom && other.top <= one.bottom;
const holds = (one, other) =>
  one.left <= other.left && other.right <= one.right && one.top <= other.top && other.bottom <= one.bottom;
const outline = ({ left, top, right, bottom }, more = 0) =>
  `M${left - more} ${top - more}H${right + more}V${bottom + more}H${left - more}z`;

// One drawing of the graph, with what repeats folded or in full, and the modules folded in it.
// Only what lies in the window or near it is part of the document, whatever the graph's size.
class View {
  constructor(frame, data) {
    this.frame = frame;
    this.svg = frame.querySelector("svg");
    this.data = data;
    this.legend = this.svg.querySelector(":scope > .legend");
    this.things = [
      ...this.svg.querySelectorAll(":scope > .part"),
      ...frame.querySelectorAll(".apart > .part"),
    ];
    for (const thing of this.things) thing.remove();
    this.near = this.layer("g");
    this.lines = this.layer("path", this.svg.querySelector(".links"));
    this.heads = this.layer("path", this.svg.querySelector(".heads"), "head");
    this.veil = this.layer("path", this.svg, "veil");
    this.ways = this.layer("path", this.svg, "way");
    this.tips = this.layer("path", this.svg, "tip");
    this.mark = this.layer("g", this.svg, "mark");
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
    this.lit = null;
  }

  // An empty layer of the picture, in place of what a group has or under the legend.
  layer(kind, group = this.svg, name = "") {
    const made = document.createElementNS(SVG, kind);
    if (name) made.setAttribute("class", name);
    if (group === this.svg) group.insertBefore(made, this.legend);
    else group.replaceChildren(made);
    return made;
  }

  // What is shown now: things in the order of their boxes, and links between these.
  arrange(shown, links) {
    this.shown = shown;
    this.links = links.map(({ source, target }) => [source, target]);
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
    this.rects = places.map(({ x, top }, number) => {
      const size = this.sizes[this.shown[number]];
      return { left: x - size.width / 2, top, right: x + size.width / 2, bottom: top + size.height };
    });
    this.curves = paths.map(curve);
    this.tops = paths.map((path) => head(path.at(-1)));
    this.spans = paths.map((path) => {
      const xs = path.map(([x]) => x);
      return { left: Math.min(...xs), top: path[0][1], right: Math.max(...xs), bottom: path.at(-1)[1] };
    });
    this.svg.querySelector(".brackets").toggleAttribute("hidden", this.folded.size > 0);
    const [wide, high] = this.data.legend;
    const beside = this.folded.size ? 0 : this.data.beside;
    const middle = (left + right) / 2;
    const start = Math.min(left - beside, middle - wide / 2) - 12;
    const end = Math.max(right, middle + wide / 2) + 12;
    const under = Math.max(start + 12, Math.min(-wide / 2, end - 12 - wide));
    this.legend.setAttribute("transform", `translate(${under} ${height + 24})`);
    [this.left, this.width, this.height] = [start, end - start, height + 36 + high];
    this.svg.setAttribute("viewBox", `${start} -12 ${this.width} ${this.height}`);
    this.svg.setAttribute("width", this.width);
    this.svg.style.height = `${this.height}px`; // by its proportions a long one is pixels off
    this.window = null;
  }

  // From the window to the picture.
  inside({ left, top, right = left, bottom = top }) {
    const at = this.svg.getBoundingClientRect();
    const x = (from) => (from - at.left) / scale + this.left;
    const y = (from) => (from - at.top) / scale - 12;
    return { left: x(left), top: y(top), right: x(right), bottom: y(bottom) };
  }

  // Where the middle of a box is in the window.
  middle(number) {
    const at = this.svg.getBoundingClientRect();
    const { left, top, right, bottom } = this.rects[number];
    return [
      at.left + ((left + right) / 2 - this.left) * scale,
      at.top + ((top + bottom) / 2 + 12) * scale,
    ];
  }

  // Draw what can be seen, and some more around it for whoever moves on.
  update() {
    const seen = this.inside(stage.getBoundingClientRect());
    if (this.window?.scale === scale && holds(this.window, seen)) return;
    const [wide, high] = [seen.right - seen.left, seen.bottom - seen.top];
    this.fill({
      scale,
      left: seen.left - AROUND * wide,
      top: seen.top - AROUND * high,
      right: seen.right + AROUND * wide,
      bottom: seen.bottom + AROUND * high,
    });
  }

  fill(window, readable = READABLE) {
    const near = (rects) => [...rects.keys()].filter((number) => meets(rects[number], window));
    this.window = window;
    this.nearBoxes = near(this.rects);
    this.nearLinks = near(this.spans);
    const isFar = this.nearBoxes.length > MANY && window.scale < readable;
    const drawn = isFar ? this.silhouettes() : this.nearBoxes.map((number) => this.placed(number));
    const kept = new Set(drawn);
    this.svg.classList.toggle("far", isFar);
    for (const each of [...this.near.children]) if (!kept.has(each)) each.remove();
    for (const each of drawn) if (each.parentNode !== this.near) this.near.append(each);
    this.lines.setAttribute("d", this.nearLinks.map((number) => this.curves[number]).join(""));
    this.heads.setAttribute("d", [...new Set(this.nearLinks.map((n) => this.tops[n]))].join(""));
    this.light();
  }

  // A box, where it is now.
  placed(number) {
    const thing = this.shown[number];
    const { x = 0, top = 0, width } = this.sizes[thing];
    const { left, top: high } = this.rects[number];
    const move = `translate(${left + width / 2 - x} ${high - top})`;
    if (this.things[thing].getAttribute("transform") !== move)
      this.things[thing].setAttribute("transform", move);
    return this.things[thing];
  }

  // The shapes of boxes too small to read, all that look alike as one.
  silhouettes() {
    const alike = new Map();
    for (const number of this.nearBoxes) {
      const look = this.shape(number).getAttribute("class");
      alike.set(look, (alike.get(look) ?? "") + outline(this.rects[number]));
    }
    return [...alike].map(([look, shapes]) => {
      const made = document.createElementNS(SVG, "path");
      made.setAttribute("class", look);
      made.setAttribute("d", shapes);
      return made;
    });
  }

  shape(number) {
    return this.things[this.shown[number]].querySelector(":scope > .box, :scope > .leaf");
  }

  // The box at a place in the window, or near it where boxes are smaller than a finger's or a
  // pointer's aim.
  at(event) {
    const point = this.inside({ left: event.clientX, top: event.clientY });
    const number = this.rects.findIndex((rect) => meets(rect, point));
    if (number >= 0) return number;
    return this.svg.classList.contains("far") ? this.nearest(point, NEAR / scale) : null;
  }

  nearest(point, most) {
    const far = ({ left, top, right, bottom }) =>
      Math.hypot((left + right) / 2 - point.left, (top + bottom) / 2 - point.top);
    const near = this.nearBoxes.filter((number) => far(this.rects[number]) < most);
    return near.sort((one, two) => far(this.rects[one]) - far(this.rects[two]))[0] ?? null;
  }

  // All boxes that one can get to from a box, itself among them.
  reached(from, ways) {
    const seen = new Set([from]);
    for (const box of seen) ways[box].forEach((next) => seen.add(next));
    return seen;
  }

  show(boxes) {
    this.lit = boxes;
    this.light();
  }

  // Lay a veil over the boxes beside the lit ones, and draw the lit ways over the dim ones. No box
  // changes, so that nothing is styled anew.
  light() {
    const { lit } = this;
    const off = lit ? this.nearBoxes.filter((number) => !lit.has(number)) : [];
    const on = lit ? this.nearLinks.filter((n) => this.links[n].every((box) => lit.has(box))) : [];
    this.svg.classList.toggle("lit", Boolean(lit));
    this.veil.setAttribute("d", off.map((number) => this.cover(number)).join(""));
    this.ways.setAttribute("d", on.map((number) => this.curves[number]).join(""));
    this.tips.setAttribute("d", on.map((number) => this.tops[number]).join(""));
  }

  // A box with the stubs that stick out under its right end.
  cover(number) {
    const { right, bottom } = this.rects[number];
    const stubs = { left: right - 36, top: bottom + 2, right, bottom: bottom + 9 };
    const hasStubs = this.things[this.shown[number]].querySelector(":scope > .stub");
    return outline(this.rects[number], 2) + (hasStubs ? outline(stubs) : "");
  }

  choose(number) {
    this.mark.replaceChildren();
    if (number === null) return;
    const chosen = this.shape(number).cloneNode();
    chosen.removeAttribute("class");
    this.mark.append(chosen);
    this.mark.setAttribute("transform", this.placed(number).getAttribute("transform"));
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

const head = ([x, y]) => `M${x} ${y}l-3.5 -7h7z`;

const data = JSON.parse(document.querySelector("#data").textContent);
const views = [...stage.children].map((frame, n) => new View(frame, data[n]));
let view = views.find((each) => !each.frame.hidden);
let scale = 1;
let selected = null;
let other = null; // the far end, where the paths between two are shown
let found = [];

function center() {
  const frame = stage.getBoundingClientRect();
  return { clientX: frame.left + frame.width / 2, clientY: frame.top + frame.height / 2 };
}

// What is at the given point of the window stays there.
function zoom(to, { clientX, clientY } = center()) {
  const before = view.svg.getBoundingClientRect();
  const right = (clientX - before.left) / before.width || 0;
  const down = (clientY - before.top) / before.height || 0;
  scale = Math.min(4, Math.max(Math.min(0.05, whole()), to));
  view.svg.style.transform = `scale(${scale})`; // a new size would lay out every text anew
  view.frame.style.width = `${view.width * scale}px`;
  view.frame.style.height = `${view.height * scale}px`;
  const after = view.svg.getBoundingClientRect();
  stage.scrollBy(
    after.left + right * after.width - clientX,
    after.top + down * after.height - clientY,
  );
  view.update();
}

// Start at the root, which stands at 0, so large that one can read it.
function open() {
  const fits = stage.clientWidth / view.width;
  zoom(fits < LEAST ? 1 : Math.min(1, fits));
  stage.scrollTo(-view.left * scale - stage.clientWidth / 2, 0);
  view.update();
}

// How large the whole picture may be to fit.
const whole = () => Math.min(1, stage.clientWidth / view.width, stage.clientHeight / view.height);

function fit() {
  zoom(whole());
  stage.scrollTo(0, 0);
  view.update();
}

function select(number, end = null) {
  [selected, other] = [number, end];
  view.choose(number);
  offer();
  if (number === null) {
    view.show(null);
    told.textContent = hint;
    return;
  }
  const from = view.reached(number, view.ahead);
  const to = view.reached(number, view.back);
  if (end === null) {
    view.show(new Set([...from, ...to]));
    told.textContent = view.details[number];
    return;
  }
  const [before, after] = [view.reached(end, view.back), view.reached(end, view.ahead)];
  const between = new Set([
    ...[...from].filter((box) => before.has(box)),
    ...[...to].filter((box) => after.has(box)),
  ]);
  view.show(between.size ? between : new Set([number, end]));
  const length = between.size ? `${between.size} boxes on the paths between` : "no path between";
  told.textContent = `${length}\n${view.details[number]}\nand\n${view.details[end]}`;
}

// Select a box, or with Shift or the button the other end of the paths from the selected one.
function pick(number, { shiftKey }) {
  const isEnd = shiftKey || between.getAttribute("aria-pressed") === "true";
  select(...(isEnd && selected !== null && number !== null ? [selected, number] : [number]));
}

// The one button folds the module around the selected box, or unfolds the selected module.
function offer() {
  const call = selected === null ? undefined : view.callAt(selected) ?? view.callAround(selected);
  if (!moduleButton) return;
  moduleButton.disabled = call === undefined;
  const does = selected !== null && view.callAt(selected) !== undefined ? "Unfold" : "Fold";
  const name = call === undefined ? "module" : view.data.calls[call].name;
  moduleButton.textContent = moduleButton.title = `${does} ${name}`;
}

// Fold these calls, and keep the thing that is looked at where it is.
function refold(calls, thing) {
  const before = thing === undefined ? undefined : view.middle(view.shown.indexOf(thing));
  select(null);
  view.fold(calls);
  depths.value = calls.length ? "" : -1;
  zoom(scale);
  look();
  if (thing === undefined) return;
  const part = thing < view.data.parts.length ? thing : view.data.calls[thing - view.data.parts.length].parts[0];
  const number = view.shown.indexOf(view.faceOf(part));
  select(number);
  const after = view.middle(number);
  stage.scrollBy(after[0] - before[0], after[1] - before[1]);
  view.update();
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
  const [x, y] = view.middle(number);
  const { clientX, clientY } = center();
  stage.scrollBy(x - clientX, y - clientY);
  view.update();
}

function go(number, event) {
  if (number === undefined) return;
  pick(number, event);
  reveal(number);
}

// To a box beside the last one, or to the first.
function step(from, event) {
  go(selected === null ? 0 : from(other ?? selected), event);
}

function look() {
  const words = search.value.trim().toLowerCase();
  found = words ? view.words.flatMap((text, number) => (text.includes(words) ? [number] : [])) : [];
  view.show(words ? new Set(found) : null);
  told.textContent = words ? `${found.length} boxes found; Enter goes to the next` : hint;
}

function next(event) {
  if (found.length) go(found[(found.indexOf(other ?? selected) + 1) % found.length], event);
}

function turn() {
  if (views.length < 2) return;
  select(null);
  view = views[1 - views.indexOf(view)];
  views.forEach((each) => (each.frame.hidden = each !== view));
  button("fold").setAttribute("aria-pressed", String(view === views[0]));
  if (depths) depths.value = view.folded.size ? "" : -1;
  if (!view.rects) view.fold([]);
  open();
  look();
}

// The nearest box of the same row in a direction.
function beside(number, way) {
  const here = view.rects[number];
  const away = (box) => (view.rects[box].left - here.left) * way;
  const row = [...view.rects.keys()].filter((n) => view.rects[n].top === here.top && away(n) > 0);
  return row.sort((one, two) => away(one) - away(two))[0];
}

const keys = {
  ArrowDown: (event) => step((number) => view.ahead[number][0], event),
  ArrowUp: (event) => step((number) => view.back[number][0], event),
  ArrowLeft: (event) => step((number) => beside(number, -1), event),
  ArrowRight: (event) => step((number) => beside(number, 1), event),
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
    if (event.key === "Enter") next(event);
    if (event.key === "Escape") {
      search.value = "";
      look();
      stage.focus();
    }
  } else if (keys[event.key]) {
    event.preventDefault();
    keys[event.key](event);
  }
});

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
    const number = stage.contains(event.target) ? view.at(event) : null;
    told.textContent = number === null ? hint : view.details[number];
  }
});

document.addEventListener("pointerup", () => {
  grip = null;
});

stage.addEventListener("click", (event) => {
  pick(view.at(event), event);
});

let pinch = null;

// How far two fingers are from each other, and the middle between them.
function spread([one, two]) {
  const [x, y] = [one.clientX - two.clientX, one.clientY - two.clientY];
  return { far: Math.hypot(x, y), clientX: one.clientX - x / 2, clientY: one.clientY - y / 2 };
}

stage.addEventListener("touchstart", ({ touches }) => {
  pinch = touches.length === 2 ? { ...spread(touches), scale } : null;
});

stage.addEventListener(
  "touchmove",
  (event) => {
    if (!pinch) return;
    event.preventDefault();
    const now = spread(event.touches);
    stage.scrollBy(pinch.clientX - now.clientX, pinch.clientY - now.clientY);
    zoom((pinch.scale * now.far) / pinch.far, now);
    pinch = { ...pinch, clientX: now.clientX, clientY: now.clientY };
  },
  { passive: false },
);

stage.addEventListener("touchend", () => {
  pinch = null;
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
  if (view.at(event) !== null) foldOrUnfold();
});
button("fold")?.addEventListener("click", turn);
between.addEventListener("click", () => {
  between.setAttribute("aria-pressed", String(between.getAttribute("aria-pressed") === "false"));
});
stage.addEventListener("scroll", () => view.update());
addEventListener("resize", () => view.update());
addEventListener("beforeprint", () => view.fill(EVERYTHING, 0));
addEventListener("afterprint", () => view.update());
view.fold([]);
open();
