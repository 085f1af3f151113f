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
