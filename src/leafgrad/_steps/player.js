"use strict";

for (const root of document.querySelectorAll(".leafgrad-steps:not([data-ready])")) {
  root.dataset.ready = "";
  const steps = JSON.parse(root.dataset.steps);
  const find = (what) => root.querySelector(what);
  const boxes = [...root.querySelectorAll("svg > .part")];
  const ways = [...root.querySelectorAll(".links > path")];
  const said = [...root.querySelectorAll("li")];
  const told = find(".told");
  const hint = told.textContent;
  const lines = [...root.querySelectorAll(".part > :is(.value, .grad)")];
  const line = (node, style) => boxes[node].querySelector(`:scope > .${style}`);
  let at = 0;

  const mark = (elements, chosen) =>
    elements.forEach((element, number) => element.classList.toggle("now", number === chosen));

  // Show the graph as it is after so many steps.
  const show = (count) => {
    at = Math.min(steps.length, Math.max(0, count));
    const shown = new Map();
    for (const step of steps.slice(0, at))
      for (const [node, style, text] of step.writes) shown.set(line(node, style), text);
    for (const each of lines) {
      each.classList.toggle("later", !shown.has(each));
      if (shown.has(each)) each.textContent = shown.get(each);
    }
    mark(boxes, steps[at - 1]?.node);
    mark(ways, steps[at - 1]?.way);
    mark(said, at - 1);
    said.forEach((each, number) =>
      number === at - 1 ? each.setAttribute("aria-current", "step") : each.removeAttribute("aria-current"),
    );
    told.textContent = at ? said[at - 1].textContent : hint;
    find(".count").textContent = `${at} of ${steps.length}`;
    find("ol").scrollTop = at ? said[at - 1].offsetTop - find("ol").offsetTop : 0;
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
  told.hidden = false;
  show(0);
}
