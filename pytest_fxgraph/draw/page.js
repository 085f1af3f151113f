"use strict";
// The same layout as placement.py, for boxes that open and close here; tests compare the two.
const CHARACTER = 7.25, LINE = 15, MARGIN = 12, HEADER = 20, LONGEST_LABEL = 38;
const ACROSS = 18, DOWN = 34, SWEEPS = 6, BEND_WEIGHT = 3, BOX_WEIGHT = 1;
const SIGNS = {added: "+", removed: "\u2212", changed: "~"};
const MOST_BOXES = 3000;
const SVG = "http://www.w3.org/2000/svg";
// Rows of texts with an index are shorter than objects with names: a graph has thousands.
const NAME = 0, LABEL = 1, PLACE = 2, SORT = 3, STATUS = 4, VALUE = 5, FACTS = 6;

const clipped = (text) => [...text].length <= LONGEST_LABEL ? text : [...text].slice(0, LONGEST_LABEL - 1).join("") + "\u2026";
const long = (text) => [...text].length;
// Half goes to the even neighbour, as in Python.
const rounded = (number) => { const r = Math.round(number); return Math.abs(number % 1) === 0.5 && r % 2 ? r - 1 : r; };

function nodeSize(node) {
  const lines = [node[LABEL], node[PLACE]].filter(Boolean).map(clipped);
  return [rounded(Math.max(0, ...lines.map(long)) * CHARACTER + 18), LINE * lines.length + 9];
}

function clusterLines(cluster) {
  const counts = Object.keys(SIGNS).filter((status) => cluster.changes[status]).map((status) => SIGNS[status] + cluster.changes[status]);
  return [clipped(cluster.label), [`${cluster.count} node${cluster.count > 1 ? "s" : ""}`, ...counts].join(" ")];
}

function inside(picture, cluster, opened, depth) {
  const {children, links, rows} = cluster, first = picture.nodes.length;
  const insides = new Map(), sizes = [];
  for (const child of children) {
    if (child < first) sizes.push(nodeSize(picture.nodes[child]));
    else if (opened.has(child)) {
      const inner = inside(picture, picture.clusters[child - first], opened, depth + 1);
      insides.set(child, inner);
      sizes.push([inner.width, inner.height]);
    } else sizes.push([rounded(Math.max(...clusterLines(picture.clusters[child - first]).map(long)) * CHARACTER + 30), 2 * LINE + 11]);
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
  const title = depth ? Math.min(long(cluster.label), LONGEST_LABEL) * CHARACTER + 30 : 0;
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

function svg(name, attributes = {}, ...inner) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inner);
  return element;
}

function html(name, attributes = {}, ...inner) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inner);
  return element;
}

class PictureView {
  constructor(stage, picture) {
    this.picture = picture;
    this.stage = stage;
    this.opened = new Set(picture.opened);
    this.view = {x: 0, y: 0, scale: 1};
    this.selected = null;  // a child
    this.current = null;   // the child that has the focus when the picture is tabbed to
    this.parents = new Map();
    picture.clusters.forEach((cluster, index) => {
      for (const child of cluster.children) this.parents.set(child, picture.nodes.length + index);
    });
    this.readers = picture.nodes.map(() => []);
    this.reads = picture.nodes.map(() => []);
    for (const [source, target] of picture.edges) { this.readers[source].push(target); this.reads[target].push(source); }
    this.changes = picture.nodes.flatMap((node, index) => SIGNS[node[STATUS]] ? [index] : []);
    this.build();
    this.draw();
    this.fit();
    if (this.changes.length) this.showFirstChange();
    else if (this.view.scale < 0.6) this.view = {scale: 0.8, x: (this.size[0] - this.placed.width * 0.8) / 2, y: 8};
    this.move();
  }

  build() {
    const button = (words, title, action) => {
      const element = html("button", {type: "button", title}, words);
      element.addEventListener("click", action);
      return element;
    };
    this.search = html("input", {type: "search", placeholder: "Search nodes  ( / )", "aria-label": "Search nodes"});
    this.results = html("ol", {class: "results", hidden: ""});
    this.said = html("span", {class: "said", role: "status"});
    const tools = html("div", {class: "tools", role: "toolbar", "aria-label": "picture"});
    tools.append(html("div", {class: "searching"}, this.search, this.results));
    if (this.changes.length) {
      tools.append(button("\u2190 change", "Previous change (p)", () => this.step(-1)), button("change \u2192", "Next change (n)", () => this.step(1)));
    }
    tools.append(
      button("\u2212", "Smaller (-)", () => this.zoom(0.8)), button("+", "Larger (+)", () => this.zoom(1.25)),
      button("Fit", "Show the whole picture (0)", () => this.fit()),
      button("Open all", "Open every box", () => this.openAll()), button("Fold all", "Close every box", () => this.foldAll()), ...this.legend(), this.said);
    this.group = svg("g");
    this.canvas = svg("svg", {role: "group", "aria-label": "the graph; arrow keys go from node to node, Enter opens", class: "canvas"}, this.group);
    this.map = html("canvas", {class: "map", width: 150, height: 200, "aria-hidden": "true"});
    this.details = html("aside", {class: "details", "aria-label": "the selected node", hidden: ""});
    this.stage.replaceChildren(tools, html("div", {class: "field"}, this.canvas, this.map, this.details));
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => this.onSearchKey(event));
    this.stage.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("wheel", (event) => this.onWheel(event), {passive: false});
    this.canvas.addEventListener("click", (event) => this.onClick(event));
    this.listenForDrags();
    const move = (event) => this.onMap(event);
    this.map.addEventListener("pointerdown", (event) => { this.map.setPointerCapture(event.pointerId); move(event); });
    this.map.addEventListener("pointermove", (event) => { if (event.buttons) move(event); });
    new ResizeObserver(() => this.move()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.mapImage = null; this.move(); });
  }

  legend() {
    const used = ["added", "removed", "changed"].filter((status) => this.picture.nodes.some((node) => node[STATUS] === status));
    return used.map((status) => html("span", {class: `mark ${status}`}, `${this.picture.nodes.filter((node) => node[STATUS] === status).length} ${status}`));
  }

  cluster(child) { return this.picture.clusters[child - this.picture.nodes.length]; }
  isNode(child) { return child < this.picture.nodes.length; }
  get root() { return this.picture.nodes.length; }

  draw() {
    const placed = inside(this.picture, this.picture.clusters[0], this.opened, 0);
    this.placed = placed;
    this.boxes = new Map(placed.boxes.map((box) => [box.child, box]));
    this.elements = new Map();
    const parts = document.createDocumentFragment();
    for (const box of placed.boxes) if (box.isOpen) parts.append(this.openElement(box));
    this.lineElements = placed.lines.map((line) => svg("path", {class: `edge ${line.status}`, d: pathText(line.points)}));
    parts.append(...this.lineElements, ...this.valueElements());
    for (const box of placed.boxes) if (!box.isOpen) parts.append(this.isNode(box.child) ? this.nodeElement(box) : this.foldedElement(box));
    this.group.replaceChildren(parts);
    this.collectParts();
    this.mapImage = null;
    if (!this.elements.has(this.current)) this.current = placed.boxes.length ? placed.boxes[0].child : null;
    const current = this.elements.get(this.current);
    if (current) current.setAttribute("tabindex", "0");
    this.mark();
    this.move();
  }

  element(box, kind, label, attributes, ...inner) {
    const element = svg("g", {class: kind, "data-child": box.child, tabindex: "-1", role: "button", "aria-label": label, ...attributes}, ...inner);
    element.append(svg("title", {}, label));
    this.elements.set(box.child, element);
    return element;
  }

  rectangle(box, radius, shift = 0) {
    return svg("rect", {x: box.x + shift, y: box.y + shift, width: box.width, height: box.height, rx: radius});
  }

  text(box, row, words, kind) {
    return svg("text", {class: kind, x: box.x + box.width / 2, y: box.y + 16 + row * LINE}, words);
  }

  openElement(box) {
    const cluster = this.cluster(box.child);
    const title = svg("text", {x: box.x + 9, y: box.y + 15}, `\u25be ${clipped(cluster.label)}`);
    return this.element(box, `cluster ${cluster.sort}`, `${cluster.path || cluster.label}, open, ${cluster.count} nodes`, {"aria-expanded": "true"}, this.rectangle(box, 8), title);
  }

  foldedElement(box) {
    const cluster = this.cluster(box.child), [first, second] = clusterLines(cluster);
    const status = Object.keys(cluster.changes).find((each) => cluster.changes[each]) || "";
    const inner = [this.rectangle(box, 6), this.text(box, 0, first, "label"), this.text(box, 1, second, "place")];
    if (cluster.sort === "repeated") inner.unshift(this.rectangle(box, 6, 5));
    return this.element(box, `folded ${cluster.sort} ${status}`, `${cluster.label}, folded, ${second}`, {"aria-expanded": "false"}, ...inner);
  }

  nodeElement(box) {
    const node = this.picture.nodes[box.child], radius = {input: 14, output: 14, state: 2}[node[SORT]] || 5;
    const inner = [this.rectangle(box, radius), this.text(box, 0, clipped(node[LABEL]), "label")];
    if (node[PLACE]) inner.push(this.text(box, 1, clipped(node[PLACE]), "place"));
    const label = [node[NAME], node[LABEL], node[PLACE], node[STATUS], node[VALUE]].filter(Boolean).join(", ");
    return this.element(box, `node ${node[SORT]} ${node[STATUS]}`, label, {}, ...inner);
  }

  valueElements() {
    const told = new Set(), found = [];
    for (const {source, values, points} of this.placed.lines) {
      const key = `${source} ${values}`;
      if (source < 0 || values.length !== 1 || told.has(key) || this.boxes.get(source).isOpen) continue;
      told.add(key);
      const value = clipped(this.picture.nodes[values[0]][VALUE]);
      if (value && points[1][1] > points[0][1]) found.push(svg("text", {class: "value", x: points[0][0] + 5, y: points[0][1] + 11}, value));
    }
    return found;
  }

  // What is seen.

  move() {
    const {x, y, scale} = this.view;
    this.group.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.showWhatIsSeen(); this.paintMap(); });
  }

  collectParts() {
    // With the place of each, so that only what is seen has to be painted when the picture moves.
    this.parts = [...this.elements].map(([child, element]) => {
      const {x, y, width, height} = this.boxes.get(child);
      return {element, left: x, top: y, right: x + width + 6, bottom: y + height + 6, isShown: true};
    });
    this.placed.lines.forEach(({points}, index) => {
      const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
      this.parts.push({element: this.lineElements[index], left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys), isShown: true});
    });
    for (const element of this.group.querySelectorAll(".value")) {
      const x = Number(element.getAttribute("x")), y = Number(element.getAttribute("y"));
      this.parts.push({element, left: x, top: y - 12, right: x + 200, bottom: y + 4, isShown: true});
    }
  }

  showWhatIsSeen() {
    const {x, y, scale} = this.view, [width, height] = this.size;
    const left = -x / scale, top = -y / scale, right = (width - x) / scale, bottom = (height - y) / scale;
    const current = this.elements.get(this.current);
    for (const part of this.parts) {
      const isShown = part.element === current || part.right > left && part.left < right && part.bottom > top && part.top < bottom;
      if (isShown === part.isShown) continue;
      part.isShown = isShown;
      part.element.classList.toggle("unseen", !isShown);
    }
    this.group.classList.toggle("far", scale < 0.3);
  }

  get size() { return [this.canvas.clientWidth || 800, this.canvas.clientHeight || 600]; }

  fit() {
    const [width, height] = this.size, {width: most, height: tallest} = this.placed;
    const scale = Math.min(1.25, Math.max(0.01, Math.min(width / (most + 20), height / (tallest + 20))));
    this.view = {scale, x: (width - most * scale) / 2, y: (height - tallest * scale) / 2};
    this.move();
  }

  zoom(factor, at = this.size.map((length) => length / 2)) {
    const scale = Math.min(4, Math.max(0.01, this.view.scale * factor)), ratio = scale / this.view.scale;
    this.view = {scale, x: at[0] - (at[0] - this.view.x) * ratio, y: at[1] - (at[1] - this.view.y) * ratio};
    this.move();
  }

  showFirstChange() {
    const [width] = this.size;
    if (this.view.scale < 0.7) {
      this.view = {scale: Math.min(1, Math.max(0.7, width / (this.placed.width + 20))), x: 0, y: 0};
      this.centre(this.seen(this.changes[0]));
    }
  }

  centre(child) {
    const box = this.boxes.get(child), [wide, height] = this.size;
    if (!box) return;
    // What is told of a node lies over the right side.
    const width = wide - (this.details.hidden || wide < 700 ? 0 : this.details.offsetWidth);
    const tall = Math.min(box.height, height / this.view.scale - 40);
    this.view.x = width / 2 - (box.x + box.width / 2) * this.view.scale;
    this.view.y = height / 2 - (box.y + tall / 2) * this.view.scale;
    this.move();
  }

  keepInSight(child) {
    const box = this.boxes.get(child), [width, height] = this.size, {x, y, scale} = this.view;
    if (!box) return;
    const left = box.x * scale + x, top = box.y * scale + y;
    if (left < 0 || top < 0 || left + box.width * scale > width || top + Math.min(box.height, 60) * scale > height) this.centre(child);
  }

  paintMap() {
    const {width, height} = this.placed, context = this.map.getContext("2d");
    const ratio = Math.min(this.map.width / width, this.map.height / height), [wide, tall] = this.size;
    this.mapImage = this.mapImage || this.drawMap(ratio);
    context.clearRect(0, 0, this.map.width, this.map.height);
    context.drawImage(this.mapImage, 0, 0);
    const {x, y, scale} = this.view;
    context.strokeStyle = this.ink;
    context.strokeRect(-x / scale * ratio, -y / scale * ratio, wide / scale * ratio, tall / scale * ratio);
  }

  drawMap(ratio) {
    const image = html("canvas", {width: this.map.width, height: this.map.height}), context = image.getContext("2d");
    const style = getComputedStyle(this.stage);
    this.ink = style.getPropertyValue("--ink");
    const colours = Object.fromEntries(["added", "removed", "changed", "group", "edge"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
    for (const box of this.placed.boxes) {
      const status = this.isNode(box.child) ? this.picture.nodes[box.child][STATUS] : Object.keys(this.cluster(box.child).changes).length && !box.isOpen ? "changed" : "";
      context.fillStyle = colours[SIGNS[status] ? status : box.isOpen ? "group" : "edge"];
      context.fillRect(box.x * ratio, box.y * ratio, Math.max(1.5, box.width * ratio), Math.max(1.5, box.height * ratio));
    }
    return image;
  }

  onMap(event) {
    const {width, height} = this.placed, ratio = Math.min(this.map.width / width, this.map.height / height), [wide, tall] = this.size;
    const frame = this.map.getBoundingClientRect(), scale = this.view.scale;
    this.view.x = wide / 2 - (event.clientX - frame.left) / ratio * scale;
    this.view.y = tall / 2 - (event.clientY - frame.top) / ratio * scale;
    this.move();
  }

  onWheel(event) {
    event.preventDefault();
    const frame = this.canvas.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), [event.clientX - frame.left, event.clientY - frame.top]);
  }

  listenForDrags() {
    const held = new Map();
    this.dragged = 0;
    this.canvas.addEventListener("pointerdown", (event) => { held.set(event.pointerId, event); this.dragged = 0; });
    this.canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
      this.dragged += Math.abs(dx) + Math.abs(dy);
      if (this.dragged > 4 && !this.canvas.hasPointerCapture(event.pointerId)) this.canvas.setPointerCapture(event.pointerId);
      const other = [...held.values()].find((each) => each.pointerId !== event.pointerId);
      if (other) {  // two fingers
        const far = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1, frame = this.canvas.getBoundingClientRect();
        this.zoom(far(event) / far(before), [other.clientX - frame.left, other.clientY - frame.top]);
      } else { this.view.x += dx; this.view.y += dy; this.move(); }
      held.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) this.canvas.addEventListener(end, (event) => held.delete(event.pointerId));
  }

  // What is open and selected.

  toggle(child) {
    const box = this.boxes.get(child), {x, y, scale} = this.view, before = [box.x * scale + x, box.y * scale + y];
    if (this.opened.has(child)) this.opened.delete(child);
    else this.opened.add(child);
    this.current = child;
    this.draw();
    const after = this.boxes.get(child);
    this.view.x = before[0] - after.x * scale;
    this.view.y = before[1] - after.y * scale;
    this.move();
    this.say(`${this.cluster(child).label} ${after.isOpen ? "open" : "folded"}`);
  }

  openAll() {
    if (this.picture.nodes.length > MOST_BOXES) return this.say(`${this.picture.nodes.length} nodes are too many to be seen at once; open boxes one by one`);
    this.picture.clusters.forEach((_, index) => this.opened.add(this.root + index));
    this.draw();
    return this.fit();
  }

  foldAll() {
    this.opened = new Set([this.root]);
    this.draw();
    this.fit();
  }

  reveal(node) {
    let isNew = false;
    for (let cluster = this.parents.get(node); cluster !== undefined; cluster = this.parents.get(cluster)) {
      isNew = isNew || !this.opened.has(cluster);
      this.opened.add(cluster);
    }
    if (isNew) this.draw();
  }

  seen(child) {
    let found = child;
    for (let cluster = this.parents.get(child); cluster !== undefined; cluster = this.parents.get(cluster)) if (!this.opened.has(cluster)) found = cluster;
    return found;
  }

  go(node) {
    this.reveal(node);
    if (this.view.scale < 0.6) this.view.scale = 0.9;
    this.select(node);
    this.centre(node);
    this.focus(node);
  }

  focus(child) {
    const before = this.elements.get(this.current), element = this.elements.get(child);
    if (before) before.setAttribute("tabindex", "-1");
    if (!element) return;
    this.current = child;
    element.setAttribute("tabindex", "0");
    this.keepInSight(child);
    this.showWhatIsSeen();  // what is hidden takes no focus
    element.focus({preventScroll: true});
  }

  step(direction) {
    if (!this.changes.length) return;
    const place = this.changes.indexOf(this.selected);
    const next = place < 0 ? (direction > 0 ? 0 : this.changes.length - 1) : (place + direction + this.changes.length) % this.changes.length;
    this.go(this.changes[next]);
    this.say(`change ${next + 1} of ${this.changes.length}`);
  }

  select(node) {
    this.selected = node;
    this.mark();
    this.details.hidden = node === null;
    if (node !== null) this.tell(node);
  }

  mark() {
    for (const [child, element] of this.elements) element.classList.toggle("selected", child === this.selected);
    this.placed.lines.forEach((line, index) => {
      const isLit = this.selected !== null && (line.values.includes(this.selected) || line.target === this.selected);
      this.lineElements[index].classList.toggle("lit", isLit);
    });
  }

  tell(index) {
    const node = this.picture.nodes[index], table = html("table");
    for (const [what, expected, obtained = expected] of node[FACTS]) {
      const cell = html("td");
      if (expected === obtained || !this.picture.overlay) cell.append(obtained);
      else cell.append(html("del", {}, expected || "nothing"), " ", html("ins", {}, obtained || "nothing"));
      if (what === "name" && expected !== obtained && expected && obtained) cell.replaceChildren(obtained, html("span", {class: "soft"}, ` (${expected} before)`));
      if (node[STATUS] === "added" || node[STATUS] === "removed") cell.replaceChildren(expected || obtained);
      table.append(html("tr", {}, html("th", {scope: "row"}, what), cell));
    }
    const close = html("button", {type: "button", class: "close", "aria-label": "Close"}, "\u00d7");
    close.addEventListener("click", () => this.select(null));
    const status = {added: "added", removed: "removed", changed: "changed", followed: "only its value differs"}[node[STATUS]];
    this.details.replaceChildren(close, html("h3", {}, node[LABEL]), ...(status ? [html("p", {class: `mark ${node[STATUS]}`}, status)] : []), table,
      this.neighbours("reads", this.reads[index]), this.neighbours("is read by", this.readers[index]));
  }

  neighbours(words, nodes) {
    const part = html("div", {class: "neighbours"});
    if (!nodes.length) return part;
    part.append(html("h4", {}, words));
    for (const other of nodes.slice(0, 30)) {
      const button = html("button", {type: "button"}, this.picture.nodes[other][NAME]);
      button.addEventListener("click", () => this.go(other));
      part.append(button);
    }
    if (nodes.length > 30) part.append(` and ${nodes.length - 30} more`);
    return part;
  }

  say(words) { this.said.textContent = words; }

  // Searching.

  find() {
    const wanted = this.search.value.trim().toLowerCase();
    this.texts = this.texts || this.picture.nodes.map((node) => [node[NAME], node[LABEL], node[PLACE], node[VALUE], ...node[FACTS].flat()].join("\n").toLowerCase());
    // What a node is comes before what it reads.
    const isIt = (index) => this.picture.nodes[index].slice(0, 3).some((text) => text.toLowerCase().includes(wanted));
    const some = wanted ? this.texts.flatMap((text, index) => text.includes(wanted) ? [index] : []) : [];
    const found = [...some.filter(isIt), ...some.filter((index) => !isIt(index))];
    this.found = found;
    this.results.hidden = !wanted;
    this.results.replaceChildren(...found.slice(0, 40).map((index) => {
      const node = this.picture.nodes[index], scope = (node[FACTS].find(([what]) => what === "in module") || [""]).at(-1);
      const button = html("button", {type: "button", class: node[STATUS]}, html("b", {}, node[LABEL]), ` ${node[NAME]} `, html("span", {class: "soft"}, scope));
      button.addEventListener("click", () => this.choose(index));
      return html("li", {}, button);
    }));
    this.say(wanted ? `${found.length} node${found.length === 1 ? "" : "s"} found` : "");
  }

  choose(index) {
    this.results.hidden = true;
    this.go(index);
  }

  onSearchKey(event) {
    if (event.key === "Enter" && this.found && this.found.length) { event.preventDefault(); this.choose(this.found[0]); }
    if (event.key === "ArrowDown") { const first = this.results.querySelector("button"); if (first) { event.preventDefault(); first.focus(); } }
    if (event.key === "Escape") { this.search.value = ""; this.find(); }
  }

  // Keys and clicks.

  onClick(event) {
    const element = event.target.closest("[data-child]");
    if (this.dragged > 4) return;
    if (!element) return this.select(null);
    const child = Number(element.dataset.child);
    if (this.isNode(child)) { this.focus(child); return this.select(child); }
    // In an open box, its title closes it; the space between its nodes does nothing.
    if (!this.opened.has(child) || event.target.tagName === "text") this.toggle(child);
    return undefined;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target === this.search;
    const keys = {n: () => this.step(1), p: () => this.step(-1), "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.fit(), "/": () => this.search.focus()};
    if (!isTyping && keys[event.key]) { event.preventDefault(); keys[event.key](); return; }
    if (event.key === "Escape" && !isTyping) { this.results.hidden = true; this.select(null); return; }
    const element = event.target.closest && event.target.closest("[data-child]");
    if (!element) return;
    const child = Number(element.dataset.child);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.isNode(child)) this.select(child);
      else { this.toggle(child); this.focus(child); }
      return;
    }
    const next = this.neighbour(child, event.key);
    if (next === undefined) return;
    event.preventDefault();
    this.focus(next);
  }

  neighbour(child, key) {
    const box = this.boxes.get(child);
    const steps = {ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]}[key];
    if (!steps) return undefined;
    let best, least = Infinity;
    for (const other of this.placed.boxes) {
      if (other === box) continue;
      const dx = other.x + other.width / 2 - box.x - box.width / 2, top = other.isOpen ? 10 : other.height / 2, dy = other.y + top - box.y - (box.isOpen ? 10 : box.height / 2);
      const ahead = dx * steps[0] + dy * steps[1], aside = Math.abs(dx * steps[1]) + Math.abs(dy * steps[0]);
      if (ahead > 1 && ahead + 2 * aside < least) [best, least] = [other.child, ahead + 2 * aside];
    }
    return best;
  }
}

// Tabs, of which the picture is made when it is first seen.
function prepare(article) {
  const tabs = [...article.querySelectorAll("[role=tab]")], panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));
  const show = (chosen) => {
    tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === chosen));
      tab.tabIndex = index === chosen ? 0 : -1;
      panels[index].hidden = index !== chosen;
    });
    const stage = panels[chosen].querySelector(".stage"), data = article.querySelector("script.data");
    if (stage && data && !stage.view) stage.view = new PictureView(stage, JSON.parse(data.textContent));
  };
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => show(index));
    tab.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const next = (index + step + tabs.length) % tabs.length;
      show(next);
      tabs[next].focus();
    });
  });
  return () => { if (tabs.length) show(Math.max(0, tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true"))); };
}

const articles = new Map([...document.querySelectorAll("article")].map((article) => [article.id, {article, show: prepare(article)}]));
function showChosen() {
  const chosen = articles.has(location.hash.slice(1)) ? location.hash.slice(1) : [...articles.keys()][0];
  for (const [id, {article, show}] of articles) {
    article.hidden = id !== chosen;
    if (id === chosen) show();
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${chosen}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
document.body.classList.add("scripted");
window.addEventListener("hashchange", showChosen);
// On paper, the whole picture is seen.
const views = () => [...document.querySelectorAll(".stage")].flatMap((stage) => stage.view || []);
window.addEventListener("beforeprint", () => views().forEach((view) => { view.before = view.view; view.fit(); view.showWhatIsSeen(); }));
window.addEventListener("afterprint", () => views().forEach((view) => { view.view = view.before; view.move(); }));
for (const button of document.querySelectorAll(".unfold")) button.addEventListener("click", () => {
  const gap = button.closest("tbody");
  gap.nextElementSibling.hidden = false;
  gap.remove();
});
showChosen();
