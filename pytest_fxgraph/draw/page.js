// Tabs. The picture of a tab is made on its first view.
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
const entries = [...document.querySelectorAll("nav li[data-key]")].map((item) => ({item, link: item.querySelector("a"), id: item.querySelector("a").getAttribute("href").slice(1)}));
const filter = document.querySelector(".filter"), box = filter && filter.querySelector("input");
const unhidden = () => entries.filter(({item}) => !item.hidden);
const quietly = (action, otherwise) => { try { return action(); } catch { return otherwise; } };
let shown = "";

// The address is `#ENTRY&filter=TERMS`; either part may be missing.
function address() {
  const [id, ...options] = location.hash.slice(1).split("&"), given = options.find((option) => option.startsWith("filter="));
  const decoded = (text) => quietly(() => decodeURIComponent(text), text);
  return {id: decoded(id), terms: given === undefined ? null : decoded(given.slice(7))};
}

function writeAddress(id) {
  const terms = box && box.value.trim(), hash = `#${id}${terms ? `&filter=${encodeURIComponent(terms)}` : ""}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
}

// Entries that were viewed, in this report or in an earlier one with the same difference. Some browsers keep nothing for
// files; there, the marks last as long as the page.
const STORE = "pytest-fxgraph viewed", MOST_VIEWED = 2000;
const viewed = new Set();
for (const key of quietly(() => [...JSON.parse(localStorage.getItem(STORE) || "[]")], [])) viewed.add(key);

function markViewed(id) {
  for (const {item, id: name} of entries) {
    if (name === id) viewed.add(item.dataset.key);
    item.querySelector(".viewed").hidden = !viewed.has(item.dataset.key);
  }
  quietly(() => localStorage.setItem(STORE, JSON.stringify([...viewed].slice(-MOST_VIEWED))));
}

// `status:missing edit:"relu moved" head`: terms of one field are alternatives, and every field has to match.
const termsOf = (text) => [...text.matchAll(/(?:(test|status|module|edit):)?(?:"([^"]*)"|(\S+))/g)].map(([, field, quoted, plain]) => [field || "", (quoted ?? plain).toLowerCase()]);

function matches({test, status, module, edit, headline}, terms) {
  const isIn = (field, term) => {
    if (field === "module") return module.toLowerCase().split(" ").some((path) => `.${path}.`.includes(`.${term}.`));
    return (field ? {test, status, edit}[field] : `${test} ${status} ${module} ${edit} ${headline}`).toLowerCase().includes(term);
  };
  const fields = [...new Set(terms.map(([field]) => field))].filter(Boolean);
  return terms.every(([field, term]) => field || isIn("", term)) && fields.every((field) => terms.some(([each, term]) => each === field && isIn(field, term)));
}

function applyFilter() {
  if (!box) return;
  const terms = termsOf(box.value);
  for (const {item} of entries) item.hidden = !matches(item.dataset, terms);
  for (const section of document.querySelectorAll("nav section")) {
    const found = section.querySelectorAll("li:not([hidden])").length, more = section.querySelector("details");
    section.hidden = !found;
    if (more) { more.hidden = !more.querySelector("li:not([hidden])"); if (terms.length) more.open = true; }
  }
  for (const chip of filter.querySelectorAll("button")) chip.setAttribute("aria-pressed", String(terms.some(([field, term]) => field === chip.dataset.field && term === chip.dataset.term.toLowerCase())));
  filter.querySelector("[role=status]").textContent = terms.length ? `${unhidden().length} of ${entries.length}` : "";
}

// A chip per status, edit and module that tells entries apart, the most frequent first.
function makeChips() {
  const ofField = {status: ({status}) => [status], edit: ({edit}) => edit.split("; "), module: ({module}) => [...new Set(module.split(" ").map((path) => path.split(".")[0]))]};
  for (const [field, values] of Object.entries(ofField)) {
    const counts = new Map();
    for (const {item} of entries) for (const value of values(item.dataset)) if (value) counts.set(value, (counts.get(value) || 0) + 1);
    if (counts.size < 2) continue;
    const chips = field === "status" ? html("div", {role: "group", "aria-label": "by status"}) : html("details", {}, html("summary", {}, `by ${field}`));
    for (const [value, count] of [...counts].sort((one, other) => other[1] - one[1]).slice(0, 8)) {
      const term = value.split('"')[0], words = /\s/.test(term) ? `"${term}"` : term;
      const chip = html("button", {type: "button", title: value, "aria-pressed": "false"}, `${clipped(value, 30)} ${count}`);
      Object.assign(chip.dataset, {field, term});
      chip.addEventListener("click", () => {
        const written = `${field}:${words}`, isOn = chip.getAttribute("aria-pressed") === "true";
        box.value = isOn ? box.value.replace(written, "").replace(/\s+/g, " ").trim() : `${box.value} ${written}`.trim();
        changeFilter();
      });
      chips.append(chip);
    }
    filter.append(chips);
  }
}

function changeFilter() {
  applyFilter();
  const found = unhidden();
  if (found.length && !found.some(({id}) => id === shown)) show(found[0].id);
  writeAddress(shown);
}

function show(id) {
  shown = id;
  for (const [name, {article, show: showArticle}] of articles) {
    article.hidden = name !== id;
    if (name === id) showArticle();
  }
  for (const {item, link, id: name} of entries) {
    const more = item.closest("details");
    if (name !== id) { link.removeAttribute("aria-current"); continue; }
    link.setAttribute("aria-current", "true");
    if (more) more.open = true;
    item.scrollIntoView({block: "nearest"});
  }
  markViewed(id);
}

function showChosen() {
  const {id, terms} = address();
  if (box && terms !== null) box.value = terms;
  applyFilter();
  const first = unhidden()[0] || entries[0] || {id: [...articles.keys()][0]}, chosen = articles.has(id) ? id : first.id;
  if (chosen !== undefined) show(chosen);
  document.querySelector(".absent").textContent = id && chosen !== id ? `There is no entry ${id} in this report: the test passed or did not run.` : "";
  if (id && chosen === id) writeAddress(id);  // keeps the filter
}

function goToEntry(step) {
  const found = unhidden(), place = found.findIndex(({id}) => id === shown);
  if (!found.length) return;
  const next = found[place < 0 ? 0 : (place + step + found.length) % found.length];
  show(next.id);
  writeAddress(shown);
  window.scrollTo(0, 0);
}

// Keys of a page in which nothing was clicked; a picture with the focus takes its own keys first.
const viewOf = (id) => { const stage = articles.has(id) && articles.get(id).article.querySelector(".stage"); return stage && stage.view; };
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === box && event.key === "Escape") { box.value = ""; changeFilter(); box.blur(); }
  if (event.target.closest("input")) return;
  const view = viewOf(shown), steps = {j: 1, k: -1, ...(view && view.changes.length ? {} : {n: 1, p: -1})};
  if (event.key === "/" && box) { event.preventDefault(); box.focus(); }
  else if (steps[event.key]) { event.preventDefault(); goToEntry(steps[event.key]); }
  else if (view && event.key.length === 1 && event.key !== " ") view.onKey(event);
});

// Copies without the clipboard's own interface too, which browsers withhold from some files; a text that stays selected is copied by hand.
async function copy(button) {
  const code = button.previousElementSibling, selection = getSelection();
  selection.selectAllChildren(code);
  let isCopied = false;
  try {
    await navigator.clipboard.writeText(code.textContent);
    isCopied = true;
  } catch { isCopied = document.execCommand("copy"); }
  button.textContent = isCopied ? "Copied" : "Press Ctrl+C";
  if (isCopied) selection.removeAllRanges();
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}
for (const button of document.querySelectorAll(".copy")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}
for (const button of document.querySelectorAll(".edit")) button.addEventListener("click", () => {
  const article = button.closest("article"), names = button.dataset.nodes.split(" ");
  article.querySelector("[role=tab]").click();
  const view = viewOf(article.id), node = view ? view.picture.nodes.findIndex((each) => names.includes(each[NAME])) : -1;
  if (node >= 0) view.go(node);
});
if (box) {
  filter.hidden = false;
  makeChips();
  box.addEventListener("input", changeFilter);
}
document.body.classList.add("scripted");
window.addEventListener("resize", () => views().forEach((view) => view.fill()));
window.addEventListener("hashchange", () => { showChosen(); window.scrollTo(0, 0); });
// On paper, the whole picture is seen.
const views = () => [...document.querySelectorAll(".stage")].flatMap((stage) => stage.view || []);
window.addEventListener("beforeprint", () => views().forEach((view) => { view.before = view.view; view.fit(); view.showWhatIsSeen(); }));
window.addEventListener("afterprint", () => views().forEach((view) => { view.view = view.before; view.move(); }));
// A node of a lowering is followed through all stages.
for (const strip of document.querySelectorAll(".strip")) {
  const nodes = new Map([...strip.querySelectorAll("[data-node]")].map((node) => [node.dataset.node, node]));
  const readers = new Map();
  for (const node of nodes.values()) for (const source of node.dataset.from.split(" ").filter(Boolean)) readers.set(source, [...(readers.get(source) || []), node]);
  const followed = strip.parentElement.querySelector(".followed");
  strip.addEventListener("click", (event) => {
    const chosen = event.target.closest("[data-node]");
    if (!chosen) return;
    const seen = new Set([chosen]);
    const before = (node) => node.dataset.from.split(" ").filter(Boolean).map((name) => nodes.get(name)).filter(Boolean);
    const after = (node) => readers.get(node.dataset.node) || [];
    for (const next of [before, after]) {
      const waiting = [chosen];
      while (waiting.length) for (const node of next(waiting.pop())) if (!seen.has(node)) { seen.add(node); waiting.push(node); }
    }
    for (const node of nodes.values()) {
      node.classList.toggle("lit", seen.has(node));
      node.setAttribute("aria-pressed", String(node === chosen));
      if (seen.has(node)) for (let box = node.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    }
    strip.classList.add("following");
    const told = [...strip.children].map((column) => [column.querySelector("h3").textContent, [...column.querySelectorAll(".lit")].map((node) => node.querySelector("b").textContent)]);
    const words = told.filter(([, names]) => names.length).map(([stage, names]) => `${stage}: ${names.slice(0, 8).join(", ")}${names.length > 8 ? ` and ${names.length - 8} more` : ""}`);
    followed.textContent = words.join(" \u2192 ") + (chosen.title ? ` (${chosen.title})` : "");
  });
}
for (const button of document.querySelectorAll(".unfold")) button.addEventListener("click", () => {
  const gap = button.closest("tbody");
  gap.nextElementSibling.hidden = false;
  gap.remove();
});
showChosen();
