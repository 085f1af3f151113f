"use strict";
// The same layout as placement.py, for boxes that open and close here; tests compare the two.
const CHARACTER = 7.25, LINE = 15, MARGIN = 12, HEADER = 20, LONGEST_LABEL = 38;
const ACROSS = 18, DOWN = 34, SWEEPS = 6, BEND_WEIGHT = 3, BOX_WEIGHT = 1;
const SIGNS = {added: "+", removed: "\u2212", changed: "~"};
const MOST_BOXES = 3000;
const SVG = "http://www.w3.org/2000/svg";
// Rows of texts with an index are shorter than objects with names: a graph has thousands.
const NAME = 0, LABEL = 1, PLACE = 2, SORT = 3, STATUS = 4, VALUE = 5, FACTS = 6, CHANGE = 7, SIDES = 8;

const clipped = (text, most = LONGEST_LABEL) => [...text].length <= most ? text : [...text].slice(0, most - 1).join("") + "\u2026";

function inside(picture, cluster, opened, depth) {
  const {children, links, rows} = cluster, first = picture.nodes.length;
  const insides = new Map(), sizes = [];
  for (const child of children) {
    if (child < first || !opened.has(child)) { sizes.push(picture.sizes[child]); continue; }
    const inner = inside(picture, picture.clusters[child - first], opened, depth + 1);
    insides.set(child, inner);
    sizes.push([inner.width, inner.height]);
  }
  let count = 0;
  for (const row of rows) for (const item of row) count = Math.max(count, item + 1);
  while (sizes.length < count) sizes.push([6, 0]);
  let xs = across(cluster, sizes);
  const tops = new Array(count).fill(0), bottoms = new Array(count).fill(0);
  let y = MARGIN + (depth ? HEADER : 0), last = y;
  for (const row of rows) {
    const height = row.reduce((most, item) => Math.max(most, sizes[item][1]), 0);
    for (const item of row) {
      const isBend = item >= children.length;
      tops[item] = isBend ? y : y + (height - sizes[item][1]) / 2;
      bottoms[item] = tops[item] + (isBend ? height : sizes[item][1]);
    }
    last = y + height;
    y = last + (height ? DOWN : DOWN / 2);
  }
  let left = count ? Infinity : 0, right = count ? -Infinity : 0;
  for (let item = 0; item < count; item++) {
    left = Math.min(left, xs[item] - sizes[item][0] / 2);
    right = Math.max(right, xs[item] + sizes[item][0] / 2);
  }
  const title = depth ? [...clipped(cluster.label)].length * CHARACTER + 30 : 0;
  const spare = Math.max(0, title - (right - left) - 2 * MARGIN);
  xs = xs.map((x) => x + MARGIN - left + spare / 2);
  const placed = {width: right - left + 2 * MARGIN + spare, height: last + MARGIN, boxes: [], lines: [], into: new Map(), out: new Map()};
  cluster.in.forEach((value, place) => placed.into.set(value, xs[children.length + place]));
  cluster.out.forEach((value, place) => placed.out.set(value, xs[children.length + cluster.in.length + place]));
  children.forEach((child, item) => {
    const [width, height] = sizes[item], inner = insides.get(child);
    const x = xs[item] - width / 2, top = tops[item];
    placed.boxes.push({child, x, y: top, width, height, isOpen: Boolean(inner)});
    if (!inner) return;
    for (const box of inner.boxes) { box.x += x; box.y += top; placed.boxes.push(box); }
    for (const line of inner.lines) { line.points = line.points.map(([px, py]) => [px + x, py + top]); placed.lines.push(line); }
  });
  const port = (item, value, isOut) => {
    const inner = item < children.length ? insides.get(children[item]) : undefined;
    const found = inner && (isOut ? inner.out : inner.into).get(value);
    return found === undefined ? xs[item] : xs[item] - inner.width / 2 + found;
  };
  for (const [source, target, bends, values, status] of links) {
    const byEnds = new Map();
    for (const value of values) {
      const start = port(source, value, true), end = port(target, value, false), key = `${start} ${end}`;
      if (!byEnds.has(key)) byEnds.set(key, {start, end, values: []});
      byEnds.get(key).values.push(value);
    }
    const leadsUp = tops[source] > tops[target];
    const [starts, ends] = leadsUp ? [tops, bottoms] : [bottoms, tops];
    for (const {start, end, values: flowing} of byEnds.values()) {
      const points = [[start, source < children.length ? starts[source] : 0]];
      for (const bend of leadsUp ? [...bends].reverse() : bends)
        for (const at of leadsUp ? [bottoms[bend], tops[bend]] : [tops[bend], bottoms[bend]]) points.push([xs[bend], at]);
      points.push([end, target < children.length ? ends[target] : placed.height]);
      const [from, to] = [source, target].map((item) => item < children.length ? children[item] : -1);
      placed.lines.push({points, source: from, target: to, values: flowing, status});
    }
  }
  return placed;
}

function across({children, links, rows}, sizes) {
  const xs = new Array(sizes.length).fill(0);
  for (const row of rows) {
    let x = -row.reduce((sum, item) => sum + sizes[item][0] + ACROSS, 0) / 2;
    for (const item of row) { xs[item] = x + sizes[item][0] / 2; x += sizes[item][0] + ACROSS; }
  }
  const above = sizes.map(() => []), below = sizes.map(() => []), ranks = new Map();
  rows.forEach((row, rank) => row.forEach((item) => ranks.set(item, rank)));
  for (const [source, target, bends] of links) {
    const way = ranks.get(source) <= ranks.get(target) ? [source, ...bends, target] : [target, ...bends, source];
    for (let place = 1; place < way.length; place++) { below[way[place - 1]].push(way[place]); above[way[place]].push(way[place - 1]); }
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0, neighbours = down ? above : below;
    for (const row of down ? rows : [...rows].reverse()) {
      const wanted = row.map((item) => neighbours[item].length ? neighbours[item].reduce((sum, other) => sum + xs[other], 0) / neighbours[item].length : xs[item]);
      const weights = row.map((item) => (item >= children.length ? BEND_WEIGHT : BOX_WEIGHT) / (neighbours[item].length ? 1 : 4));
      const places = apart(wanted, weights, row.map((item) => sizes[item][0]));
      row.forEach((item, place) => { xs[item] = places[place]; });
    }
  }
  return xs;
}

function apart(wanted, weights, widths) {
  const offsets = [], blocks = [];
  let offset = 0;
  widths.forEach((width, place) => { offset += place ? (widths[place - 1] + width) / 2 + ACROSS : 0; offsets.push(offset); });
  wanted.forEach((want, index) => {
    let place = want - offsets[index], weight = weights[index], count = 1;
    while (blocks.length && blocks[blocks.length - 1][0] > place) {
      const [before, other, more] = blocks.pop();
      place = (before * other + place * weight) / (other + weight);
      weight += other;
      count += more;
    }
    blocks.push([place, weight, count]);
  });
  const places = blocks.flatMap(([place, , count]) => new Array(count).fill(place));
  return places.map((place, index) => place + offsets[index]);
}

function pathText(points) {
  const text = (number) => String(Math.round(number * 10) / 10);
  let [x, y] = points[0], path = `M${text(x)} ${text(y)}`;
  for (const [nextX, nextY] of points.slice(1)) {
    const middle = text((y + nextY) / 2);
    path += x === nextX ? `L${text(nextX)} ${text(nextY)}` : `C${text(x)} ${middle} ${text(nextX)} ${middle} ${text(nextX)} ${text(nextY)}`;
    [x, y] = [nextX, nextY];
  }
  return path;
}
