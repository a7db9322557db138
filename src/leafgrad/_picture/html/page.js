"use strict";

const $ = (what) => document.querySelector(what);
const [stage, search, output, way, legend, color] = ["main", "input", "output", "nav", "#legend", "#color"].map($);
const button = (name) => $(`[data-do="${name}"]`);
const { first, start, wholes, modules, whole: model, words, direction } = JSON.parse($("#data").textContent);
const say = (name, ...slots) => words[name].replace(/\$(\d)/g, (_, number) => slots[number - 1]);
const hint = output.textContent;
const LEAST = 0.45; // the least scale at which boxes are readable

// One drawing in one direction: of the graph folded or in full, or of a module.
class View {
  constructor(frame, { links, opens, heat }) {
    Object.assign(this, { frame, links, opens, heat });
    this.svg = frame.querySelector("svg");
    [this.width, this.height] = ["width", "height"].map((side) => this.svg.viewBox.baseVal[side]);
    this.boxes = [...this.svg.querySelectorAll(":scope > .part")];
    this.paths = [...this.svg.querySelectorAll(".links > path")];
    this.details = this.boxes.map((box) => box.querySelector("title").textContent);
    for (const box of this.boxes) box.querySelector("title").remove(); // the page shows it below
    this.words = this.boxes.map((box, number) => `${box.textContent}\n${this.details[number]}`.toLowerCase());
    this.ahead = this.boxes.map(() => []);
    this.back = this.boxes.map(() => []);
    for (const [source, target] of links) {
      this.ahead[source].push(target);
      this.back[target].push(source);
    }
  }

  // Return all boxes that can be reached from a box, including itself.
  reached(from, ways) {
    const seen = new Set([from]);
    for (const box of seen) ways[box].forEach((next) => seen.add(next));
    return seen;
  }

  // Dim all boxes and arrows except the given boxes and the arrows between them.
  light(lit) {
    this.lit = lit;
    const dim = (each, isDim) => each.classList.toggle("dim", Boolean(lit) && isDim);
    this.boxes.forEach((box, number) => dim(box, !lit?.has(number)));
    this.paths.forEach((path, number) => {
      const isDim = !this.links[number].every((box) => lit?.has(box));
      dim(path, isDim);
      path.classList.toggle("way", Boolean(lit) && !isDim);
    });
  }

  paint(kind) {
    this.boxes.forEach((box, number) => {
      const { classList } = box.querySelector(":scope > :is(.box, .leaf)");
      classList.remove(...[...classList].filter((name) => /^(heat|hue)-/.test(name)));
      if (this.heat[kind]?.marks[number]) classList.add(this.heat[kind].marks[number]);
    });
  }
}

let to = direction;
let at = start;
let view = new View(stage.firstElementChild, first);
const drawn = new Map([[to + at, view]]);
let packed = {}; // the markup of the other views
let overview = 0;
let scale = 1;
let isFitted = true; // until the user zooms
let selected = null;
let found = [];

const middle = () => {
  const { left, top, width, height } = stage.getBoundingClientRect();
  return { clientX: left + width / 2, clientY: top + height / 2 };
};

// Set the scale; the point of the picture under the pointer does not move.
function zoom(wanted, { clientX, clientY } = middle()) {
  const before = view.svg.getBoundingClientRect();
  scale = Math.min(4, Math.max(Math.min(0.05, whole()), wanted));
  isFitted = false;
  view.svg.style.width = `${view.width * scale}px`;
  view.svg.style.height = `${view.height * scale}px`;
  const after = view.svg.getBoundingClientRect();
  const [right, down] = [(clientX - before.left) / before.width || 0, (clientY - before.top) / before.height || 0];
  stage.scrollBy(after.left + right * after.width - clientX, after.top + down * after.height - clientY);
}

// Return the scale at which the whole picture fits, 1 while the frame has no size.
const whole = () => Math.min(1.3, stage.clientWidth / view.width, stage.clientHeight / view.height) || 1;

function fit() {
  zoom(whole());
  stage.scrollTo(0, 0);
  isFitted = true;
}

function select(number) {
  selected = number;
  view.boxes.forEach((box, each) => box.classList.toggle("chosen", each === number));
  view.light(number === null ? null : new Set([...view.reached(number, view.ahead), ...view.reached(number, view.back)]));
  output.textContent = number === null ? hint : view.details[number];
}

function go(number) {
  if (number === undefined) return;
  select(number);
  view.boxes[number].scrollIntoView({ block: "center", inline: "center" });
}

// Select a neighbour of the selected box, or the first box of the graph.
const step = (from) => go(selected === null ? view.back.findIndex((boxes) => !boxes.length) : from(selected));

function look() {
  const part = search.value.trim().toLowerCase();
  found = part ? view.words.flatMap((text, number) => (text.includes(part) ? [number] : [])) : [];
  view.light(part ? new Set(found) : null);
  output.textContent = part ? say("found", found.length) : hint;
}

function next() {
  if (found.length) go(found[(found.indexOf(selected) + 1) % found.length]);
}

// Unpack the views that the page does not start with.
async function unpack() {
  const bytes = Uint8Array.from(atob($("#rest").textContent), (each) => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  packed = await new Response(stream).json();
}

unpack();

function draw(number, direction) {
  const facts = packed[direction]?.[number];
  if (!facts || drawn.has(direction + number)) return;
  const frame = document.createElement("div");
  frame.className = "view";
  frame.innerHTML = facts.markup;
  stage.append(frame);
  drawn.set(direction + number, new View(frame, facts));
}

function show(number, direction = to) {
  draw(number, direction);
  if (!drawn.has(direction + number)) return;
  select(null);
  view.frame.hidden = true;
  [at, to, view] = [number, direction, drawn.get(direction + number)];
  view.frame.hidden = false;
  button("turn").setAttribute("aria-pressed", String(to === "backward"));
  button("fold")?.setAttribute("aria-pressed", String(at === wholes - 1));
  paint();
  offer();
  fit();
  if (scale < LEAST) {
    zoom(0.8); // too large to read: show the start of the picture
    const start = view.boxes[to === "forward" ? view.boxes.length - 1 : 0].getBoundingClientRect();
    stage.scrollTo(stage.scrollLeft + start.left - middle().clientX, 0);
  }
  look();
}

// Colour the boxes as chosen in the menu, and show the key of the colours.
function paint() {
  view.paint(color.value);
  const keys = (view.heat[color.value]?.legend ?? []).map(([marks, meaning]) => {
    const key = document.createElement("span");
    key.append(...marks.map((className) => Object.assign(document.createElement("i"), { className })), meaning);
    return key;
  });
  legend.replaceChildren(...keys);
}

// Switch between the modules and all nodes.
function fold() {
  if (wholes < 2) return;
  if (at !== wholes - 1) overview = at;
  show(at === wholes - 1 ? overview : wholes - 1);
}

const turn = () => show(at, to === "forward" ? "backward" : "forward");

// Open the module of a box.
function enter(number = selected) {
  if (number !== null && view.opens[number] >= 0) show(wholes + view.opens[number]);
}

// Go back from a module to its box in the outer view.
function leave() {
  const from = at - wholes;
  if (from < 0) return;
  const outer = modules[from][1];
  show(outer < 0 ? 0 : wholes + outer);
  const box = view.opens.indexOf(from);
  if (box >= 0) go(box);
}

// Show a menu for each level from the model to the open module, to choose another module.
function offer() {
  const path = [];
  for (let module = at - wholes; module >= 0; [, module] = modules[module]) path.unshift(module);
  const choices = [-1, ...path].flatMap((outer, depth) => {
    const inner = [...modules.keys()].filter((number) => modules[number][1] === outer);
    if (!inner.length) return [];
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", outer < 0 ? say("module") : say("module-in", modules[outer][0]));
    choice.append(new Option(outer < 0 ? say("all-of", model) : say("all"), outer));
    choice.append(...inner.map((number) => new Option(modules[number][0], number)));
    choice.value = String(path[depth] ?? outer);
    choice.addEventListener("change", () => show(choice.value === "-1" ? 0 : wholes + Number(choice.value)));
    return [choice];
  });
  way.replaceChildren(...choices);
}

const keys = {
  ArrowDown: () => step((number) => view.ahead[number][0]),
  ArrowUp: () => step((number) => view.back[number][0]),
  Escape: () => select(null),
  Enter: () => enter(),
  Backspace: leave,
  "+": () => zoom(scale * 1.25),
  "=": () => zoom(scale * 1.25),
  "-": () => zoom(scale / 1.25),
  0: fit,
  f: fold,
  d: turn,
  "/": () => search.focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === search) {
    if (event.key === "Enter") next();
    if (event.key === "Escape") {
      search.value = "";
      look();
      stage.focus();
    }
  } else if (event.target.matches("select") || (event.target.matches("button") && event.key === "Enter")) {
    return; // menus and buttons handle these keys themselves
  } else if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

const boxAt = ({ target }) => view.boxes.indexOf(target.closest(".part"));
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
    output.textContent = view.details[boxAt(event)] ?? hint;
  }
});

document.addEventListener("pointerup", () => (grip = null));

stage.addEventListener("click", (event) => select(boxAt(event) < 0 ? null : boxAt(event)));
stage.addEventListener("dblclick", (event) => enter(boxAt(event)));

stage.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom(scale * Math.exp(-event.deltaY / 300), event);
}, { passive: false }); // or preventDefault() cannot keep the browser from zooming the page

search.addEventListener("input", look);
color.addEventListener("change", paint);
const pressed = { in: keys["+"], out: keys["-"], fit, fold, turn };
for (const [name, act] of Object.entries(pressed)) button(name)?.addEventListener("click", act);
addEventListener("resize", () => isFitted && fit());
offer();
paint();
fit();
