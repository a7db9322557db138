"use strict";

const stage = document.querySelector("main");
const search = document.querySelector("input");
const told = document.querySelector("output");
const button = (name) => document.querySelector(`[data-do="${name}"]`);
const hint = told.textContent;

// One drawing of the graph, folded or in full, and who leads to whom in it.
class View {
  constructor(frame, links) {
    const svg = frame.querySelector("svg");
    this.frame = frame;
    this.svg = svg;
    this.boxes = [...svg.querySelectorAll(":scope > .part")];
    this.lines = [...svg.querySelectorAll(".links > path")];
    this.links = links;
    this.ahead = this.boxes.map(() => []);
    this.back = this.boxes.map(() => []);
    for (const [source, target] of links) {
      this.ahead[source].push(target);
      this.back[target].push(source);
    }
    this.width = svg.viewBox.baseVal.width;
    this.height = svg.viewBox.baseVal.height;
    this.details = this.boxes.map((box) => box.querySelector("title").textContent);
    this.words = this.boxes.map((box) => box.textContent.toLowerCase());
  }

  // All boxes that one can get to from a box, itself among them.
  reached(from, ways) {
    const seen = new Set([from]);
    for (const box of seen) ways[box].forEach((next) => seen.add(next));
    return seen;
  }

  show(boxes) {
    const on = (box) => !boxes || boxes.has(box);
    this.boxes.forEach((box, number) => box.classList.toggle("aside", !on(number)));
    this.lines.forEach((line, number) => {
      const both = this.links[number].every(on);
      line.classList.toggle("aside", !both);
      line.classList.toggle("on-path", both && Boolean(boxes));
    });
  }
}

const data = JSON.parse(document.querySelector("#links").textContent);
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
  view.svg.setAttribute("width", view.width * scale);
  view.svg.setAttribute("height", view.height * scale);
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
  } else if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

const boxAt = (event) => {
  const number = view.boxes.indexOf(event.target.closest?.(".part"));
  return number < 0 ? null : number;
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
button("fold")?.addEventListener("click", turn);
zoom(Math.min(1, Math.max(0.5, stage.clientWidth / view.width)));
stage.scrollLeft = (view.width * scale - stage.clientWidth) / 2;
