"use strict";

const stage = document.querySelector("main");
const search = document.querySelector("input");
const output = document.querySelector("output");
const button = (name) => document.querySelector(`[data-do="${name}"]`);
const between = button("path");
const color = document.querySelector("#color");
const modulesOnTheWay = document.querySelector("nav");
if (!matchMedia("(pointer: coarse)").matches) output.textContent += `\n${output.dataset.keys}`;
const help = output.textContent;
let hint = help;

const SVG = "http://www.w3.org/2000/svg";
const AROUND = 0.5; // how much of a window is drawn beyond each of its edges
const MANY = 200;
const EVERYTHING = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
const LEAST = 0.8; // what one can still read without effort
const NEAR = 4; // pixels
const READABLE = 0.36; // letters of 4 pixels: below, many boxes are drawn without their text

const meets = (one, other) =>
  one.left <= other.right && other.left <= one.right && one.top <= other.bottom && other.top <= one.bottom;
const holds = (one, other) =>
  one.left <= other.left && other.right <= one.right && one.top <= other.top && other.bottom <= one.bottom;
const outline = ({ left, top, right, bottom }, more = 0) =>
  `M${left - more} ${top - more}H${right + more}V${bottom + more}H${left - more}z`;

// One drawing: of the graph folded or in full, or of a module. Only what lies in the window or near
// it is part of the document, whatever the graph's size.
class View {
  constructor(frame, { boxes, links, paths, opens, heat }) {
    this.frame = frame;
    this.opens = opens;
    this.heat = heat;
    this.svg = frame.querySelector("svg");
    this.legend = this.svg.querySelector(":scope > .legend");
    const { x, width, height } = this.svg.viewBox.baseVal;
    [this.left, this.width, this.height] = [x, width, height];
    this.svg.style.height = `${height}px`; // by its proportions a long one is pixels off
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.rects = boxes.map(([left, top, right, bottom]) => ({ left, top, right, bottom }));
    this.links = links;
    this.ahead = boxes.map(() => []);
    this.back = boxes.map(() => []);
    for (const [source, target] of links) {
      this.ahead[source].push(target);
      this.back[target].push(source);
    }
    const drawn = [...this.svg.querySelectorAll(".links > path")];
    this.curves = drawn.map((each) => each.getAttribute("d"));
    this.isFree = drawn.map((each) => each.matches(".free"));
    const xs = (path) => path.filter((_, place) => place % 2 === 0);
    this.tops = paths.map((path, number) => (this.isFree[number] ? "" : head(path.slice(-2))));
    this.spans = paths.map((path) => ({
      left: Math.min(...xs(path)),
      top: path[1],
      right: Math.max(...xs(path)),
      bottom: path.at(-1),
    }));
    this.boxes = [...this.svg.querySelectorAll(":scope > .part")];
    for (const box of this.boxes) box.remove();
    this.details = this.boxes.map((box) => box.querySelector("title").textContent);
    this.words = this.boxes.map((box) => box.textContent.toLowerCase());
    this.near = this.layer("g");
    this.lines = this.layer("path", this.svg.querySelector(".links"));
    this.free = this.lines.cloneNode();
    this.free.setAttribute("class", "free");
    this.lines.after(this.free);
    this.heads = this.layer("path", this.svg.querySelector(".heads"), "head");
    this.veil = this.layer("path", this.svg, "veil");
    this.ways = this.layer("path", this.svg, "way");
    this.tips = this.layer("path", this.svg, "tip");
    this.mark = this.layer("g", this.svg, "mark");
    this.lit = null;
    this.window = null;
  }

  // An empty layer of the picture, in place of what a group has or under the legend.
  layer(kind, group = this.svg, name = "") {
    const made = document.createElementNS(SVG, kind);
    if (name) made.setAttribute("class", name);
    if (group === this.svg) group.insertBefore(made, this.legend);
    else group.replaceChildren(made);
    return made;
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
    const drawn = isFar ? this.silhouettes() : this.nearBoxes.map((number) => this.boxes[number]);
    const kept = new Set(drawn);
    this.svg.classList.toggle("far", isFar);
    for (const each of [...this.near.children]) if (!kept.has(each)) each.remove();
    for (const each of drawn) if (each.parentNode !== this.near) this.near.append(each);
    const lines = (isFree) => this.nearLinks.filter((number) => this.isFree[number] === isFree);
    for (const [layer, isFree] of [[this.lines, false], [this.free, true]])
      layer.setAttribute("d", lines(isFree).map((number) => this.curves[number]).join(""));
    this.heads.setAttribute("d", [...new Set(this.nearLinks.map((n) => this.tops[n]))].join(""));
    this.light();
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

  // Colour the boxes by what was chosen, and return what the colours mean.
  paint(color) {
    const [meaning, ...steps] = this.heat[color] ?? [""];
    this.boxes.forEach((_, number) => {
      const shape = this.shape(number);
      shape.classList.remove("heat-1", "heat-2", "heat-3", "heat-4", "heat-5");
      if (steps[number]) shape.classList.add(`heat-${steps[number]}`);
    });
    this.window = null; // shapes that are too small to read are drawn anew
    return meaning;
  }

  shape(number) {
    return this.boxes[number].querySelector(":scope > .box, :scope > .leaf");
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
    const hasStubs = this.boxes[number].querySelector(":scope > .stub");
    return outline(this.rects[number], 2) + (hasStubs ? outline(stubs) : "");
  }

  choose(number) {
    this.mark.replaceChildren();
    if (number === null) return;
    const chosen = this.shape(number).cloneNode();
    chosen.removeAttribute("class");
    this.mark.append(chosen);
  }
}

const head = ([x, y]) => `M${x} ${y}l-3.5 -7h7z`;

const { first, start, wholes, modules, whole: model, words } = JSON.parse(
  document.querySelector("#data").textContent,
);
const say = (name, ...slots) => words[name].replace(/\$(\d)/g, (_, number) => slots[number - 1]);
const views = []; // those that were drawn: of the whole graph, then of each module
views[start] = new View(stage.firstElementChild, first);
let view = views[start];
let rest = []; // what the others are drawn from
let overview = 0;
let scale = 1;
let isFitted = true; // until someone zooms
let selected = null;
let other = null; // the far end, where the paths between two are shown
let found = [];
let elsewhere = -1; // the module that has what is looked for, where this view does not
let texts = null;

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
  isFitted = false;
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

// Begin a view at the root, which stands at 0, so large that one can read it.
function open() {
  const fits = stage.clientWidth / view.width;
  zoom(fits < LEAST ? 1 : Math.min(1, fits));
  stage.scrollTo(-view.left * scale - stage.clientWidth / 2, 0);
  view.update();
}

// How large the whole picture may be to fit; before a frame has a size, anything does.
const whole = () =>
  Math.min(1, stage.clientWidth / view.width, stage.clientHeight / view.height) || 1;

function fit() {
  zoom(whole());
  stage.scrollTo(0, 0);
  view.update();
  isFitted = true;
}

function select(number, end = null) {
  [selected, other] = [number, end];
  view.choose(number);
  if (number === null) {
    view.show(null);
    output.textContent = hint;
    return;
  }
  const from = view.reached(number, view.ahead);
  const to = view.reached(number, view.back);
  if (end === null) {
    view.show(new Set([...from, ...to]));
    output.textContent = view.details[number];
    return;
  }
  const [before, after] = [view.reached(end, view.back), view.reached(end, view.ahead)];
  const between = new Set([
    ...[...from].filter((box) => before.has(box)),
    ...[...to].filter((box) => after.has(box)),
  ]);
  view.show(between.size ? between : new Set([number, end]));
  const length = between.size ? say("between", between.size) : say("no-path");
  output.textContent = [length, view.details[number], say("and"), view.details[end]].join("\n");
}

// Select a box, or with Shift or the button the other end of the paths from the selected one.
function pick(number, { shiftKey }) {
  const isEnd = shiftKey || between.getAttribute("aria-pressed") === "true";
  select(...(isEnd && selected !== null && number !== null ? [selected, number] : [number]));
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
  const part = search.value.trim().toLowerCase();
  found = part ? view.words.flatMap((text, number) => (text.includes(part) ? [number] : [])) : [];
  view.show(part ? new Set(found) : null);
  output.textContent = part ? say("found", found.length) : hint;
  elsewhere = part && !found.length ? within(part) : -1;
  if (elsewhere >= 0) output.textContent = say("elsewhere", modules[elsewhere][0]);
}

// The innermost module whose view contains a text, -1 for none.
function within(part) {
  const escaped = part
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#x27;");
  texts ??= modules.map((_, n) => textOf(rest[wholes + n]?.markup ?? ""));
  return texts.findLastIndex((text) => text.includes(escaped));
}

const textOf = (markup) =>
  markup
    .slice(markup.indexOf("</style>"))
    .replace(/<[^>]*>/g, "\n")
    .toLowerCase();

function next(event) {
  if (found.length) go(found[(found.indexOf(other ?? selected) + 1) % found.length], event);
  else if (elsewhere >= 0) show(wholes + elsewhere);
}

// Unpack the other views; an old browser has the first one alone.
async function unpack() {
  const packed = atob(document.querySelector("#rest").textContent);
  const bytes = Uint8Array.from(packed, (each) => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  rest = await new Response(stream).json();
}

unpack().catch(() => {
  button("fold")?.remove();
  modulesOnTheWay.replaceChildren();
});

// The number of the module that is looked into, -1 for the whole.
const module = () => Math.max(-1, views.indexOf(view) - wholes);

function drawn(number) {
  if (!views[number]) {
    const frame = document.createElement("div");
    frame.className = "view";
    frame.innerHTML = rest[number].markup;
    stage.append(frame);
    views[number] = new View(frame, rest[number]);
  }
  return views[number];
}

function show(number) {
  if (!views[number] && !rest[number]) return;
  select(null);
  view.frame.hidden = true;
  view = drawn(number);
  view.frame.hidden = false;
  paint();
  button("fold")?.setAttribute("aria-pressed", String(wholes < 2 || number !== wholes - 1));
  offer();
  open();
  look();
}

function paint() {
  const meaning = view.paint(color.value);
  hint = meaning ? `${say("color", meaning)}\n${help}` : help;
  view.update();
  if (selected === null && !search.value) output.textContent = hint;
}

// From folded, or from within a module, to the whole in full, and back.
function turn() {
  if (wholes < 2) return;
  const number = views.indexOf(view);
  if (number !== wholes - 1) overview = number;
  show(number === wholes - 1 ? overview : wholes - 1);
}

// Look into the module of a box, or of the selected one.
function enter(number = selected) {
  if (number !== null && view.opens[number] >= 0) show(wholes + view.opens[number]);
}

// Back out of a module, to the box that it is.
function leave() {
  const from = module();
  if (from < 0) return;
  const outer = modules[from][1];
  show(outer < 0 ? 0 : wholes + outer);
  const box = view.opens.indexOf(from);
  if (box >= 0) go(box, {});
}

// The modules on the way to the one that is looked into, each to be changed for one beside it.
function offer() {
  const way = [];
  for (let at = module(); at >= 0; [, at] = modules[at]) way.unshift(at);
  const within = (outer) => [...modules.keys()].filter((number) => modules[number][1] === outer);
  const choices = [-1, ...way].flatMap((outer, depth) => {
    const inner = within(outer);
    if (!inner.length) return [];
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", outer < 0 ? say("module") : say("module-in", modules[outer][0]));
    choice.append(new Option(outer < 0 ? say("all-of", model) : say("all"), outer));
    choice.append(...inner.map((number) => new Option(modules[number][0], number)));
    choice.value = String(way[depth] ?? outer);
    choice.addEventListener("change", () => {
      show(choice.value === "-1" ? 0 : wholes + Number(choice.value));
    });
    return [choice];
  });
  modulesOnTheWay.replaceChildren(...choices);
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
  Enter: () => enter(),
  Backspace: leave,
  "+": () => zoom(scale * 1.25),
  "=": () => zoom(scale * 1.25),
  "-": () => zoom(scale / 1.25),
  0: fit,
  f: turn,
  "/": () => search.focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === search) {
    if (event.key === "Enter") next(event);
    if (event.key === "Escape") {
      search.value = "";
      look();
      stage.focus();
    }
  } else if (event.target.matches("select") || (event.target.matches("button") && event.key === "Enter")) {
    return; // these have keys of their own
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
    output.textContent = number === null ? hint : view.details[number];
  }
});

document.addEventListener("pointerup", () => {
  grip = null;
});

stage.addEventListener("click", (event) => {
  pick(view.at(event), event);
});

stage.addEventListener("dblclick", (event) => enter(view.at(event) ?? null));

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
color.addEventListener("change", paint);
button("in").addEventListener("click", () => zoom(scale * 1.25));
button("out").addEventListener("click", () => zoom(scale / 1.25));
button("fit").addEventListener("click", fit);
button("fold")?.addEventListener("click", turn);
between.addEventListener("click", () => {
  between.setAttribute("aria-pressed", String(between.getAttribute("aria-pressed") === "false"));
});
stage.addEventListener("scroll", () => view.update());
addEventListener("resize", () => (isFitted ? fit() : view.update()));
addEventListener("beforeprint", () => view.fill(EVERYTHING, 0));
addEventListener("afterprint", () => view.update());
offer();
fit();
if (color.value) paint(); // what a browser remembers of a page that is loaded again
