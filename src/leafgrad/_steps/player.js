"use strict";

function leafgradSteps(root) {
  root.dataset.ready = "";
  const steps = JSON.parse(root.dataset.steps);
  const find = (what) => root.querySelector(what);
  const boxes = [...root.querySelectorAll("svg > .part")];
  const arrows = [...root.querySelectorAll(".links > path")];
  const items = [...root.querySelectorAll("li")];
  const sentence = find(".sentence");
  const hint = sentence.textContent;
  const lines = boxes.map((box) => [...box.querySelectorAll(":scope > :is(.value, .grad)")]);
  const frame = find(".leafgrad-frame");
  const svg = frame.querySelector("svg");
  let at;

  const mark = (elements, ...chosen) =>
    elements.forEach((element, number) => element.classList.toggle("now", chosen.includes(number)));

  // As large as fits beside the buttons and the sentence, but large enough to read.
  const fit = () => {
    const { width, height } = svg.viewBox.baseVal;
    const room = innerHeight - root.querySelector(".top").offsetHeight - 40;
    const scale = Math.max(0.7, Math.min(1, room / height, frame.clientWidth / width));
    svg.style.cssText = `width:${width * scale}px;height:${height * scale}px;max-width:none;margin:auto`;
    frame.firstElementChild.nextElementSibling.style.cssText = `width:max-content;min-width:100%`;
    frame.style.maxHeight = `${Math.max(room, 240)}px`;
  };

  // Scroll the picture, but not the page, until a box is in sight.
  const reveal = (box) => {
    const [inner, outer] = [box, frame].map((each) => each.getBoundingClientRect());
    const bottom = Math.max(Math.min(outer.bottom, innerHeight), outer.top + inner.height);
    if (inner.top < outer.top || inner.bottom > bottom)
      frame.scrollTop += (inner.top + inner.bottom - outer.top - bottom) / 2;
    if (inner.left < outer.left || inner.right > outer.right)
      frame.scrollLeft += (inner.left + inner.right - outer.left - outer.right) / 2;
  };

  // Show the graph after the first `count` steps.
  const show = (count) => {
    at = Math.min(steps.length, Math.max(0, count));
    root.dataset.at = at;
    const shown = new Map();
    for (const step of steps.slice(0, at))
      for (const [box, number, text] of step.writes) shown.set(lines[box][number], text);
    for (const each of lines.flat()) {
      each.classList.toggle("later", !shown.has(each));
      if (shown.has(each)) each.textContent = shown.get(each);
    }
    mark(boxes, steps[at - 1]?.box);
    mark(arrows, ...(steps[at - 1]?.arrows ?? []));
    items.forEach((each, number) => (each.ariaCurrent = number === at - 1 ? "step" : null));
    sentence.textContent = at ? items[at - 1].textContent : hint;
    find(".count").textContent = root.dataset.count.replace("$1", at).replace("$2", steps.length);
    find("ol").scrollTop = at ? items[at - 1].offsetTop - find("ol").offsetTop : 0;
    reveal(boxes[steps[at - 1]?.box ?? 0]);
  };

  const does = {
    first: () => show(0),
    back: () => show(at - 1),
    next: () => show(at + 1),
    last: () => show(steps.length),
  };
  const keys = { Home: "first", ArrowLeft: "back", ArrowRight: "next", End: "last" };

  root.addEventListener("click", (event) => does[event.target.closest("[data-do]")?.dataset.do]?.());
  root.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    does[keys[event.key]]();
  });
  find(".controls").hidden = false;
  sentence.hidden = false;
  // Reserve the height of the longest sentence, so that the picture does not move.
  sentence.textContent = items.reduce((long, { textContent: one }) => (one.length > long.length ? one : long), hint);
  sentence.style.minHeight = `${sentence.offsetHeight}px`;
  fit();
  addEventListener("resize", fit);
  show(Number(root.dataset.at ?? 0));
}

for (const root of document.querySelectorAll(".leafgrad-steps:not([data-ready])")) leafgradSteps(root);
