"use strict";

// The layout of `leafgrad._layout` once more, for what is folded while someone looks: boxes
// [{width, height, outputs, clear}] and links [{source, target, output}] in, coordinates out.
// A test holds the two to the same drawings.
const layout = (() => {
  const LANE = 3;
  const GAP = 16;
  const LAYERS = 8;
  const APART = 14;
  const MARGIN = 8;

  const first = (items, better) =>
    items.reduce((best, item) => (best === undefined || better(item, best) ? item : best), undefined);
  const least = (items, key) => first(items, (a, b) => key(a) < key(b));
  const most = (items, key) => first(items, (a, b) => key(a) > key(b));
  const top = (numbers, lowest = -Infinity) => numbers.reduce((a, b) => Math.max(a, b), lowest);

  function rowsOf(boxes, links) {
    const from = boxes.map(() => []);
    const to = boxes.map(() => []);
    links.forEach(({ source, target }, number) => {
      from[source].push(number);
      to[target].push(number);
    });
    const fall = boxes.map(() => 0);
    for (let box = boxes.length - 1; box >= 0; box--) {
      for (const number of to[box]) {
        const { source } = links[number];
        fall[source] = Math.max(fall[source], fall[box] + 1);
      }
    }
    const deepest = top(fall);
    const row = [];
    boxes.forEach((_, box) => {
      const above = to[box].map((number) => row[links[number].source]);
      row.push(above.length ? top(above) + 1 : deepest - fall[box]);
    });
    return { row, fall, from, to, count: deepest + 1 };
  }

  function tracksOf(boxes, links, rows) {
    const tracks = [];
    const ofBox = new Map();
    const ofLink = new Map();
    const onward = new Map();
    const buses = new Map();
    const passed = (n) => rows.row[links[n].target] - rows.row[links[n].source] - 1;
    const keyOf = (n) => `${links[n].target} ${links[n].output}`;
    const homeless = (bus) => bus.filter((n) => !ofLink.has(n));
    links.forEach((_, n) => {
      if (passed(n)) buses.set(keyOf(n), [...(buses.get(keyOf(n)) ?? []), n]);
    });
    for (const bus of buses.values()) bus.sort((a, b) => passed(b) - passed(a));

    function pass(longest, numbers, track) {
      for (let row = 0; row < passed(longest); row++) track.halves.push(LANE);
      if (passed(longest)) numbers.forEach((n) => ofLink.set(n, tracks.length - 1));
    }

    function goOn(number, numbers, track) {
      onward.set(links[number].source, number);
      pass(number, numbers, track);
    }

    function settle(box, track) {
      ofBox.set(box, tracks.length - 1);
      track.halves.push(boxes[box].width / 2);
    }

    const isParallel = (one, other) =>
      ["source", "target", "output"].every((end) => links[one][end] === links[other][end]);

    function layPath(box) {
      const track = { first: rows.row[box], link: least(rows.to[box], passed), halves: [] };
      tracks.push(track);
      settle(box, track);
      for (;;) {
        const ways = rows.from[box].filter((n) => !ofBox.has(links[n].target));
        if (!ways.length) break;
        const on = most(ways, (n) => rows.fall[links[n].target]);
        goOn(on, rows.from[box].filter((n) => isParallel(n, on)), track);
        box = links[on].target;
        settle(box, track);
      }
      const heads = rows.from[box].filter((n) => passed(n) && buses.get(keyOf(n))[0] === n);
      if (heads.length) {
        const on = most(heads, passed);
        goOn(on, homeless(buses.get(keyOf(on))), track);
      }
    }

    const order = boxes.map((_, box) => box).sort((a, b) => rows.row[a] - rows.row[b]);
    for (const box of order) if (!ofBox.has(box)) layPath(box);
    for (const bus of buses.values()) {
      const numbers = homeless(bus);
      if (numbers.length) {
        const start = rows.row[links[numbers[0]].source] + 1;
        const track = { first: start, link: numbers[0], halves: [] };
        tracks.push(track);
        pass(numbers[0], numbers, track);
      }
    }
    return { tracks, ofBox, ofLink, onward };
  }

  function columnsOf(links, { tracks, ofBox, onward }) {
    const halfOf = [0];
    const branches = new Map();
    const hanging = (parent, side) => branches.get(`${parent} ${side}`) ?? [];

    function sideOf(link, parent, number) {
      const target = ofBox.get(links[link].target);
      const here = halfOf[parent];
      const there = target === parent || target === number ? here : halfOf[target];
      if (here !== there) return -here || there;
      return link < (onward.get(links[link].source) ?? link) ? -1 : 1;
    }

    for (let number = 1; number < tracks.length; number++) {
      const { link } = tracks[number];
      const parent = link === undefined ? 0 : ofBox.get(links[link].source);
      const side = link === undefined ? 1 : sideOf(link, parent, number);
      halfOf.push(halfOf[parent] || side);
      branches.set(`${parent} ${side}`, [...hanging(parent, side), number]);
    }
    function inLayers(siblings) {
      const layers = [];
      siblings.sort((a, b) => tracks[a].halves.length - tracks[b].halves.length);
      for (const number of siblings) {
        const start = tracks[number].first;
        const stop = start + tracks[number].halves.length;
        const isFree = ({ taken }) => taken.every(([from, to]) => to <= start || stop <= from);
        let layer = layers.slice(0, LAYERS).find(isFree);
        if (!layer) layers.push((layer = { taken: [], numbers: [] }));
        layer.taken.push([start, stop]);
        layer.numbers.push(number);
      }
      return layers.flatMap(({ numbers }) => numbers);
    }

    for (const [place, siblings] of branches) branches.set(place, inLayers(siblings));

    function outwards(half) {
      const order = [];
      const ahead = hanging(0, half).map((number) => [number, false]).reverse();
      while (ahead.length) {
        const [number, isOpen] = ahead.pop();
        if (isOpen) {
          order.push(number);
          continue;
        }
        ahead.push(...hanging(number, half).map((branch) => [branch, false]).reverse());
        ahead.push([number, true]);
        ahead.push(...hanging(number, -half).map((branch) => [branch, false]).reverse());
      }
      return order;
    }

    const columns = tracks.map(() => 0);
    for (const half of [-1, 1]) {
      const edge = [...tracks[0].halves];
      for (const number of outwards(half)) {
        const { first: start, halves } = tracks[number];
        const x = top(halves.map((wide, row) => edge[start + row] + wide)) + GAP;
        halves.forEach((wide, row) => (edge[start + row] = x + wide));
        columns[number] = half * x;
      }
    }
    return columns;
  }

  function routes(boxes, links, rows, { ofBox, ofLink }, columns) {
    const column = (box) => columns[ofBox.get(box)];
    const laneOf = (n) => (ofLink.has(n) ? columns[ofLink.get(n)] : undefined);
    const aim = (n, end) => laneOf(n) ?? column(end);
    const way = (n) => (ofLink.has(n) ? -1 - ofLink.get(n) : n);
    const heights = Array(rows.count).fill(0);
    const bends = Array(rows.count).fill(0);
    boxes.forEach((box, n) => {
      heights[rows.row[n]] = Math.max(heights[rows.row[n]], box.height);
    });
    links.forEach(({ source, target }, n) => {
      const lane = laneOf(n) ?? column(target);
      const [above, below] = [rows.row[source], rows.row[target] - 1];
      bends[above] = Math.max(bends[above], Math.abs(column(source) - lane));
      bends[below] = Math.max(bends[below], Math.abs(column(target) - lane));
    });
    const tops = [];
    const bottoms = [];
    let y = 0;
    heights.forEach((height, row) => {
      tops.push(y);
      bottoms.push(y + height);
      y += height + Math.min(Math.max(26, bends[row] / 10), 64);
    });

    function spread(box, aims, clear, found) {
      const x = column(box);
      const order = [...aims.keys()].sort((a, b) => aims.get(a) - aims.get(b));
      const left = order.filter((n) => aims.get(n) < x).length;
      const straight = order.filter((n) => aims.get(n) === x).length;
      const middle = straight ? left + (straight - 1) / 2 : (order.length - 1) / 2;
      const room = boxes[box].width / 2 - MARGIN - clear;
      const farthest = Math.max(middle, order.length - 1 - middle, 1);
      const step = Math.min(APART, room / farthest);
      order.forEach((n, place) => found.set(n, x + (place - middle) * step));
    }

    const leave = new Map();
    const arrive = new Map();
    boxes.forEach(({ width, outputs, clear }, box) => {
      spread(box, new Map(rows.from[box].map((n) => [n, aim(n, links[n].target)])), clear, leave);
      if (outputs) {
        for (const n of rows.to[box]) {
          arrive.set(n, column(box) + width * ((links[n].output + 0.5) / outputs - 0.5));
        }
        return;
      }
      const ports = new Map();
      spread(box, new Map(rows.to[box].map((n) => [way(n), aim(n, links[n].source)])), 0, ports);
      rows.to[box].forEach((n) => arrive.set(n, ports.get(way(n))));
    });

    const places = boxes.map((_, box) => ({ x: column(box), top: tops[rows.row[box]] }));
    const paths = links.map(({ source, target }, n) => {
      const points = [
        [leave.get(n), places[source].top + boxes[source].height],
        [leave.get(n), bottoms[rows.row[source]]],
      ];
      const lane = laneOf(n);
      if (lane !== undefined) {
        points.push([lane, tops[rows.row[source] + 1]], [lane, bottoms[rows.row[target] - 1]]);
      }
      points.push([arrive.get(n), places[target].top]);
      return points.filter(([x, y], at) => !at || x !== points[at - 1][0] || y !== points[at - 1][1]);
    });
    const half = (box) => boxes[box].width / 2;
    return {
      places,
      paths,
      left: -top([...places.map(({ x }, box) => half(box) - x), ...columns.map((x) => -x)]),
      right: top([...places.map(({ x }, box) => half(box) + x), ...columns]),
      height: bottoms.at(-1),
    };
  }

  return (boxes, links) => {
    const rows = rowsOf(boxes, links);
    const tracks = tracksOf(boxes, links, rows);
    return routes(boxes, links, rows, tracks, columnsOf(links, tracks));
  };
})();
