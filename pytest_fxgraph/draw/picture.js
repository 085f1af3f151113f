// A picture in its stage: the visible part, and the effect of keys, clicks and searches.
function filled(element, attributes, inner) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inner);
  return element;
}
const svg = (name, attributes = {}, ...inner) => filled(document.createElementNS(SVG, name), attributes, inner);
const html = (name, attributes = {}, ...inner) => filled(document.createElement(name), attributes, inner);

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
    this.isSplit = false;  // the graphs side by side, in one layout: equal nodes stand at equal places
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
    if (this.picture.overlay) {
      this.splitButton = button("Side by side", "Both graphs beside each other, or as one (b)", () => this.split());
      this.splitButton.setAttribute("aria-pressed", "false");
      tools.append(this.splitButton);
    }
    tools.append(
      button("\u2212", "Smaller (-)", () => this.zoom(0.8)), button("+", "Larger (+)", () => this.zoom(1.25)),
      button("Fit", "Show the whole picture (0)", () => this.fit()),
      button("Open all", "Open every box", () => this.openAll()), button("Fold all", "Close every box", () => this.foldAll()), ...this.legend(), this.said);
    this.panes = ["both", "expected", "obtained"].map((side) => {
      const group = svg("g"), words = side === "both" ? "the graph" : `the ${side} graph`;
      const canvas = svg("svg", {role: "group", "aria-label": `${words}; arrow keys go from node to node, Enter opens`, class: "canvas"}, group);
      const frame = html("div", {class: `pane ${side}`}, ...(side === "both" ? [] : [html("h3", {}, side)]), canvas);
      return {side, group, canvas, frame};
    });
    this.map = html("canvas", {class: "map", width: 150, height: 170, "aria-hidden": "true"});
    this.details = html("aside", {class: "details", "aria-label": "the selected node", hidden: ""});
    this.stage.replaceChildren(tools, html("div", {class: "field"}, ...this.panes.map((pane) => pane.frame), this.map, this.details));
    this.fill();
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => this.onSearchKey(event));
    this.stage.addEventListener("keydown", (event) => this.onKey(event));
    for (const {canvas} of this.panes) {
      canvas.addEventListener("wheel", (event) => this.onWheel(event, canvas), {passive: false});
      canvas.addEventListener("click", (event) => this.onClick(event));
      this.listenForDrags(canvas);
      canvas.addEventListener("focusin", () => { this.lastPane = canvas; });
      new ResizeObserver(() => this.move()).observe(canvas);
    }
    const move = (event) => this.onMap(event);
    this.map.addEventListener("pointerdown", (event) => { this.map.setPointerCapture(event.pointerId); move(event); });
    this.map.addEventListener("pointermove", (event) => { if (event.buttons) move(event); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.mapImage = null; this.move(); });
  }

  // The picture takes the window below it, as far as there is room.
  fill() {
    const field = this.stage.querySelector(".field");
    field.style.height = `${Math.max(340, innerHeight - field.getBoundingClientRect().top - scrollY - 10)}px`;
  }

  legend() {
    const used = ["added", "removed", "changed"].filter((status) => this.picture.nodes.some((node) => node[STATUS] === status));
    return used.map((status) => html("span", {class: `mark ${status}`}, `${this.picture.nodes.filter((node) => node[STATUS] === status).length} ${status}`));
  }

  cluster(child) { return this.picture.clusters[child - this.picture.nodes.length]; }
  isNode(child) { return child < this.picture.nodes.length; }
  get root() { return this.picture.nodes.length; }

  get shownPanes() { return this.panes.filter(({side}) => this.isSplit === (side !== "both")); }
  get canvas() { return this.shownPanes[0].canvas; }

  // The status names the graph of a node or edge that one graph lacks.
  isIn(side, status) { return side === "both" || status !== (side === "expected" ? "added" : "removed"); }

  draw() {
    const placed = inside(this.picture, this.picture.clusters[0], this.opened, 0);
    this.placed = placed;
    this.boxes = new Map(placed.boxes.map((box) => [box.child, box]));
    this.elements = new Map();  // by child: its element in each pane
    this.lineElements = placed.lines.map(() => []);
    this.parts = [];
    for (const pane of this.panes) {
      pane.frame.hidden = !this.shownPanes.includes(pane);
      if (pane.frame.hidden) pane.group.replaceChildren();
      else this.drawPane(pane);
    }
    this.mapImage = null;
    if (!this.elements.has(this.current)) this.current = placed.boxes.length ? placed.boxes[0].child : null;
    this.setTabStop("0");
    this.mark();
    this.move();
  }

  drawPane({side, group}) {
    const parts = document.createDocumentFragment();
    const boxes = this.placed.boxes.filter(({child}) => !this.isNode(child) || this.isIn(side, this.picture.nodes[child][STATUS]));
    for (const box of boxes) if (box.isOpen) parts.append(this.openElement(box));
    this.placed.lines.forEach((line, index) => {
      if (!this.isIn(side, line.status)) return;
      const element = svg("path", {class: `edge ${line.status}`, d: pathText(line.points)});
      this.lineElements[index].push(element);
      this.addPart(element, line.points);
      parts.append(element);
    });
    parts.append(...this.valueElements(side));
    for (const box of boxes) if (box.isOpen) parts.append(this.openTitle(box));  // above the lines that cross it
    for (const box of boxes) if (!box.isOpen) parts.append(this.isNode(box.child) ? this.nodeElement(box, side) : this.foldedElement(box));
    group.replaceChildren(parts);
  }

  setTabStop(value) { for (const element of this.elements.get(this.current) || []) element.setAttribute("tabindex", value); }

  split() {
    this.isSplit = !this.isSplit;
    this.splitButton.setAttribute("aria-pressed", String(this.isSplit));
    const [before] = this.size;
    this.draw();
    this.view.x += (this.size[0] - before) / 2;  // the middle stays in the middle
    if (this.selected !== null) this.centre(this.selected);
    this.move();
    this.say(this.isSplit ? "expected and obtained side by side" : "both graphs as one");
  }

  element(box, kind, label, attributes, ...inner) {
    const element = svg("g", {class: kind, "data-child": box.child, tabindex: "-1", role: "button", "aria-label": label, ...attributes}, ...inner);
    element.append(svg("title", {}, label));
    if (!this.elements.has(box.child)) this.elements.set(box.child, []);
    this.elements.get(box.child).push(element);
    this.addPart(element, [[box.x - 8, box.y - 8], [box.x + box.width + 6, box.y + box.height + 6]]);
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
    return this.element(box, `cluster ${cluster.sort}`, `${cluster.path || cluster.label}, open, ${cluster.count} nodes`, {"aria-expanded": "true"}, this.rectangle(box, 8));
  }

  openTitle(box) {
    const element = svg("text", {class: "opened", x: box.x + 9, y: box.y + 15}, `\u25be ${clipped(this.cluster(box.child).label)}`);
    this.addPart(element, [[box.x, box.y], [box.x + box.width, box.y + 20]]);
    return element;
  }

  foldedElement(box) {
    const cluster = this.cluster(box.child), [first, second] = cluster.lines;
    const status = Object.keys(cluster.changes).find((each) => cluster.changes[each]) || "";
    const inner = [this.rectangle(box, 6), this.text(box, 0, first, "label"), this.text(box, 1, second, "place")];
    if (cluster.sort === "repeated") inner.unshift(this.rectangle(box, 6, 5));
    return this.element(box, `folded ${cluster.sort} ${status}`, `${cluster.label}, folded, ${second}`, {"aria-expanded": "false"}, ...inner);
  }

  // The name of a node and the shape of its value, in one graph or in both.
  wordsOf(node, side) {
    if (side === "both" || !node[SIDES]) return [node[LABEL], node[VALUE]];
    return node[SIDES][side === "expected" ? 0 : 1];
  }

  nodeElement(box, side) {
    const node = this.picture.nodes[box.child], radius = {input: 14, output: 14, state: 2}[node[SORT]] || 5;
    const [label, value] = this.wordsOf(node, side), fitting = Math.floor((box.width - 6) / CHARACTER);
    const inner = [this.rectangle(box, radius), this.text(box, 0, clipped(label, Math.min(LONGEST_LABEL, fitting)), "label")];
    [node[PLACE], node[CHANGE]].filter(Boolean).forEach((line, row) => inner.push(this.text(box, 1 + row, clipped(line), "place")));
    if (SIGNS[node[STATUS]]) inner.push(svg("circle", {class: "sign", cx: box.x, cy: box.y + 1, r: 7}), svg("text", {class: "sign", x: box.x, y: box.y + 5}, SIGNS[node[STATUS]]));
    const words = [node[NAME], label, node[PLACE], node[STATUS], node[CHANGE], value].filter(Boolean).join(", ");
    return this.element(box, `node ${node[SORT]} ${node[STATUS]}`, words, {}, ...inner);
  }

  valueElements(side) {
    const shapes = new Map();  // by box: the shapes of the values that leave it
    for (const {source, values, points, status} of this.placed.lines) {
      if (source < 0 || this.boxes.get(source).isOpen || points[1][1] <= points[0][1] || !this.isIn(side, status)) continue;
      if (!shapes.has(source)) shapes.set(source, {place: points[0], texts: new Set()});
      for (const value of values) shapes.get(source).texts.add(this.wordsOf(this.picture.nodes[value], side)[1]);
    }
    return [...shapes].filter(([, {texts}]) => texts.size === 1 && !texts.has("")).map(([source, {place: [x, y], texts: [value]}]) => {
      const shadow = !this.isNode(source) && this.cluster(source).sort === "repeated" ? 6 : 0;
      const element = svg("text", {class: "value", x, y: y + 11 + shadow}, clipped(value));
      this.addPart(element, [[x - 110, y], [x + 110, y + 15]]);
      return element;
    });
  }

  // With the place of each element, so that a move paints the visible elements alone.
  addPart(element, points) {
    const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
    this.parts.push({element, left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys), isShown: true});
  }

  // The visible part.

  move() {
    const {x, y, scale} = this.view;
    for (const {group} of this.shownPanes) group.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.showWhatIsSeen(); this.paintMap(); });
  }

  showWhatIsSeen() {
    const {x, y, scale} = this.view, [width, height] = this.size;
    const left = -x / scale, top = -y / scale, right = (width - x) / scale, bottom = (height - y) / scale;
    const current = this.elements.get(this.current) || [];
    for (const part of this.parts) {
      const isShown = current.includes(part.element) || part.right > left && part.left < right && part.bottom > top && part.top < bottom;
      if (isShown === part.isShown) continue;
      part.isShown = isShown;
      part.element.classList.toggle("unseen", !isShown);
    }
    for (const {group} of this.shownPanes) group.classList.toggle("far", scale < 0.3);
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

  // All changes, or the first change if all of them would be too small to read.
  showFirstChange() {
    if (this.view.scale >= 0.8) return;
    const [width, height] = this.size, boxes = this.changes.map((node) => this.boxes.get(this.seen(node)));
    const left = Math.min(...boxes.map((box) => box.x)), right = Math.max(...boxes.map((box) => box.x + box.width));
    const top = Math.min(...boxes.map((box) => box.y)), bottom = Math.max(...boxes.map((box) => box.y + box.height));
    const fitting = Math.min(1, width / (right - left + 60), height / (bottom - top + 60));
    if (fitting >= 0.55) this.view = {scale: fitting, x: (width - (left + right) * fitting) / 2, y: (height - (top + bottom) * fitting) / 2};
    else {
      this.view = {scale: Math.min(1, Math.max(0.7, width / (this.placed.width + 20))), x: 0, y: 0};
      this.centre(this.seen(this.changes[0]));
    }
  }

  centre(child) {
    const box = this.boxes.get(child), [width, height] = this.size;
    if (!box) return;
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
    const {width, height} = this.placed, context = this.map.getContext("2d"), [wide, tall] = this.size;
    if (!this.mapImage) {
      this.map.width = Math.max(24, Math.min(150, 170 * width / height));
      this.map.height = Math.max(24, Math.min(170, 150 * height / width));
    }
    const ratio = Math.min(this.map.width / width, this.map.height / height);
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

  onWheel(event, canvas) {
    event.preventDefault();
    const frame = canvas.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), [event.clientX - frame.left, event.clientY - frame.top]);
  }

  listenForDrags(canvas) {
    const held = new Map();
    this.dragged = 0;
    canvas.addEventListener("pointerdown", (event) => { held.set(event.pointerId, event); this.dragged = 0; });
    canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
      this.dragged += Math.abs(dx) + Math.abs(dy);
      if (this.dragged > 4 && !canvas.hasPointerCapture(event.pointerId)) canvas.setPointerCapture(event.pointerId);
      const other = [...held.values()].find((each) => each.pointerId !== event.pointerId);
      if (other) {  // two fingers
        const far = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1, frame = canvas.getBoundingClientRect();
        this.zoom(far(event) / far(before), [other.clientX - frame.left, other.clientY - frame.top]);
      } else { this.view.x += dx; this.view.y += dy; this.move(); }
      held.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) canvas.addEventListener(end, (event) => held.delete(event.pointerId));
  }

  // Open and selected boxes.

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
    const elements = this.elements.get(child);
    if (!elements) return;
    // In the pane that had the focus last, if the node is there.
    const element = elements.find((each) => this.lastPane && this.lastPane.contains(each)) || elements[elements.length - 1];
    this.setTabStop("-1");
    this.current = child;
    this.setTabStop("0");
    this.keepInSight(child);
    this.showWhatIsSeen();  // a hidden element takes no focus
    element.focus({preventScroll: true});
  }

  step(direction) {
    if (!this.changes.length) return;
    // A change in a repeated block is like the change in the first block, until a reader opens it.
    const changes = this.changes.filter((node) => { const seen = this.seen(node); return this.isNode(seen) || this.cluster(seen).sort !== "repeated"; });
    const place = changes.indexOf(this.selected);
    const next = place < 0 ? (direction > 0 ? 0 : changes.length - 1) : (place + direction + changes.length) % changes.length;
    this.go(changes[next]);
    this.say(`change ${next + 1} of ${changes.length}`);
  }

  select(node) {
    this.selected = node;
    this.mark();
    this.details.hidden = node === null;
    if (node === null) return;
    this.tell(node);
    this.keepInSight(node);  // the facts take room from the picture
  }

  mark() {
    for (const [child, elements] of this.elements) for (const element of elements) element.classList.toggle("selected", child === this.selected);
    this.placed.lines.forEach((line, index) => {
      const isLit = this.selected !== null && (line.values.includes(this.selected) || line.target === this.selected);
      for (const element of this.lineElements[index]) element.classList.toggle("lit", isLit);
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

  say(words) {
    this.said.textContent = words;
    this.fill();  // the words may take a line of their own
  }

  // Searching.

  find() {
    const wanted = this.search.value.trim().toLowerCase();
    this.texts = this.texts || this.picture.nodes.map((node) => [node[NAME], node[LABEL], node[PLACE], node[VALUE], ...node[FACTS].flat()].join("\n").toLowerCase());
    // The node itself comes before its inputs.
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
    if (this.splitButton) keys.b = () => this.split();
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
