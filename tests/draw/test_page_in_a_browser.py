"""The page in a real browser, as a reader uses it; skipped where there is none."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.page import PageContent, PageGraph, page_text
from pytest_fxgraph.draw.placement import placement_of

if sys.platform == "win32":
    pytest.skip("a browser is driven over files 3 and 4, which Windows does not hand over", allow_module_level=True)

from fixtures.browser import VARIABLE, Page, browser_page, browser_path

BROWSER = browser_path()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(BROWSER is None, reason=f"there is no Chromium here; name one in {VARIABLE}"),
]
HOSTILE = "</script><script>document.body.remove()</script><img src=http://127.0.0.1:9/x onerror=alert(1)>"


def layers(count: int, operator: str = "torch.relu", changed: int = -1) -> GraphDocument:
    """Return a graph of so many layers of five nodes, one of which has another operator."""
    lines, last = ["%x = input x : float32[2, 4]"], "x"
    for number in range(count):
        used = operator if number == changed else "torch.relu"
        lines += [
            f"%n{number} = torch.neg(%{last}) : float32[2, 4] @ layers.{number}",
            f"%a{number} = {used}(%n{number}) : float32[2, 4] @ layers.{number}.act",
            f"%b{number} = torch.exp(%a{number}) : float32[2, 4] @ layers.{number}.act",
            f"%m{number} = torch.matmul(%b{number}, %n{number}) : float32[2, 4] @ layers.{number}",
            f"%s{number} = operator.add(%m{number}, %{last}) : float32[2, 4] @ layers.{number}",
        ]
        last = f"s{number}"
    return document("\n".join([*lines, f"return %{last}"]), code="def forward(self, x):\n    return x")


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    assert BROWSER is not None
    with browser_page(BROWSER) as page:
        yield page


def opened(browser: Page, folder: Path, *graphs: PageGraph, content: PageContent | None = None) -> Page:
    file = folder / "page.html"
    file.write_text(page_text(content or PageContent("two graphs"), graphs), encoding="utf-8")
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(file)
    return browser


def differing(count: int, changed: int, **more: str) -> PageGraph:
    return PageGraph(
        "net.yaml", "mismatch", expected=layers(count), obtained=layers(count, "torch.tanh", changed), **more
    )


def said(browser: Page) -> str:
    return str(browser.ask("document.querySelector('.said').textContent"))


def test_the_page_asks_for_nothing_and_complains_of_nothing(browser, tmp_path):
    page = opened(browser, tmp_path, differing(8, 5, headline="relu -> tanh", words="in words"))
    for number in (2, 3, 4, 1):
        page.click(f"[role=tab]:nth-child({number})")

    assert [address.partition(":")[0] for address in page.requests] == ["file"]
    assert page.complaints == []


def test_what_changed_is_seen_at_first_and_what_did_not_is_folded(browser, tmp_path):
    page = opened(browser, tmp_path, differing(40, 20))

    assert page.ask("[...document.querySelectorAll('.node.changed .label')].map(e => e.textContent)") == ["relu → tanh"]
    assert page.ask("document.querySelectorAll('.folded.unchanged').length") == 2
    assert page.ask("document.querySelectorAll('[data-child]').length") < 25


def test_searching_opens_the_boxes_around_what_was_found(browser, tmp_path):
    page = opened(browser, tmp_path, differing(40, 20))
    page.click("input[type=search]")
    page.write("m3")
    assert said(page) == "22 nodes found"  # m3, m30 to m39, and what reads them

    page.press("Enter")

    assert page.ask("document.querySelector('.details h3').textContent") == "matmul"
    assert page.ask("document.querySelector('.selected').getAttribute('aria-label')").startswith("m3, matmul")


def test_the_keys_go_from_change_to_change_and_along_the_graph(browser, tmp_path):
    page = opened(browser, tmp_path, differing(8, 5))
    page.click(".canvas")

    page.ask("document.querySelector('[tabindex=\"0\"][data-child]').focus()")
    page.press("n")
    assert said(page) == "change 1 of 1"
    assert page.ask("document.activeElement.getAttribute('aria-label')").startswith("a5, relu → tanh")
    page.press("ArrowDown")
    assert page.ask("document.activeElement.getAttribute('aria-label')").startswith("b5, exp")
    page.press("Escape")
    assert page.ask("document.querySelector('.details').hidden")


def test_a_box_opens_and_closes_by_click_and_key_and_stays_where_it_is(browser, tmp_path):
    page = opened(browser, tmp_path, differing(8, 5))
    before = page.ask("(r => [r.x, r.y])(document.querySelector('.folded.unchanged').getBoundingClientRect())")

    page.click(".folded.unchanged")

    child = page.ask("document.querySelector('.cluster.unchanged').dataset.child")
    after = page.ask("(r => [r.x, r.y])(document.querySelector('.cluster.unchanged').getBoundingClientRect())")
    assert after == pytest.approx(before, abs=3)
    page.ask(f"document.querySelector('[data-child=\"{child}\"]').focus()")
    page.press("Enter")
    assert page.ask(f"document.querySelector('[data-child=\"{child}\"]').getAttribute('aria-expanded')") == "false"


def test_wheel_drag_and_map_move_the_picture(browser, tmp_path):
    page = opened(browser, tmp_path, differing(8, 5))
    look = "document.querySelector('.canvas > g').getAttribute('transform')"
    seen = [page.ask(look)]

    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=700, y=500, deltaX=0, deltaY=-240)
    page.settle()
    seen.append(page.ask(look))
    for kind, x in (("mousePressed", 1100), ("mouseMoved", 1000), ("mouseReleased", 1000)):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=700, button="left", buttons=1, clickCount=1)
    page.settle()
    seen.append(page.ask(look))
    page.click(".map")
    seen.append(page.ask(look))

    assert len(set(seen)) == len(seen)


def test_the_browser_places_everything_where_python_does(browser, tmp_path):
    graph = differing(12, 5)
    page = opened(browser, tmp_path, graph)
    picture = picture_of(graph.expected, graph.obtained, title="")
    for chosen in (picture.opened(150), picture.all_opened()):
        placed = placement_of(picture, chosen)
        numbers = json.dumps(sorted(chosen))
        script = (
            "(v => { v.opened = new Set(CHOSEN); v.draw(); return [v.placed.boxes.map(b => [b.child, b.x, b.y, "
            "b.width, b.height]), v.placed.lines.map(l => l.points.flat())] })(document.querySelector('.stage').view)"
        ).replace("CHOSEN", numbers)
        boxes, lines = page.ask(script)
        expected = [[box.child, box.x, box.y, box.width, box.height] for box in placed.boxes]
        assert [value for box in boxes for value in box] == pytest.approx([value for box in expected for value in box])
        points = [number for line in placed.lines for point in line.points for number in point]
        assert [number for line in lines for number in line] == pytest.approx(points)


def test_a_graph_of_ten_thousand_nodes_is_shown_searched_and_moved(browser, tmp_path):
    page = opened(browser, tmp_path, differing(2_000, 1_234))

    assert page.ask("document.querySelectorAll('[data-child]').length") < 200
    page.click("input[type=search]")
    page.write("b1777")
    page.press("Enter")
    assert page.ask("document.activeElement.getAttribute('aria-label')").startswith("b1777, exp")
    moved = page.ask(
        "(v => { const start = performance.now(); for (let i = 0; i < 60; i++) { v.view.x += 1; v.move(); } "
        "v.paintMap(); return performance.now() - start })(document.querySelector('.stage').view)"
    )
    assert moved < 60 * 16  # sixty steps within sixty frames
    page.ask("document.querySelector('.stage').view.openAll()")
    assert "too many to be seen at once" in said(page)
    assert page.complaints == []


def test_hostile_names_and_sources_do_nothing(browser, tmp_path):
    plain = document(f'%x = input x\n%y = torch.foo(%x, "{HOSTILE}")\nreturn %y', code=HOSTILE)
    other = document(f'%x = input x\n%y = torch.bar(%x, "{HOSTILE}")\nreturn %y', code=HOSTILE + "\n# more")
    graph = PageGraph(HOSTILE, HOSTILE, HOSTILE, HOSTILE, plain, other, sources={"y": HOSTILE})
    content = PageContent(HOSTILE, HOSTILE, sections=[HOSTILE], others={HOSTILE: [HOSTILE]})

    page = opened(browser, tmp_path, graph, content=content)
    page.click(".node.changed")

    assert page.ask("document.querySelectorAll('img').length") == 0
    assert HOSTILE in page.ask("document.querySelector('.details').textContent")
    assert [address.partition(":")[0] for address in page.requests] == ["file"]
    assert page.complaints == []


def test_the_page_of_a_run_switches_between_its_goldens(browser, tmp_path):
    graphs = [PageGraph(f"golden/{name}.yaml", "mismatch", expected=layers(2), obtained=layers(3)) for name in "ab"]
    page = opened(browser, tmp_path, *graphs)
    assert page.ask("[...document.querySelectorAll('article')].map(a => a.hidden)") == [False, True]

    page.click("nav li:nth-child(2) a")

    assert page.ask("[...document.querySelectorAll('article')].map(a => a.hidden)") == [True, False]
    assert page.ask("document.querySelectorAll('article:nth-of-type(2) .node').length") > 0
    assert page.ask("document.querySelector('nav').getBoundingClientRect().right") <= page.ask(
        "document.querySelector('main').getBoundingClientRect().left"
    )


def test_paper_shows_the_whole_picture_and_the_view_comes_back(browser, tmp_path):
    page = opened(browser, tmp_path, differing(8, 5))
    look = "document.querySelector('.canvas > g').getAttribute('transform')"
    page.ask("document.querySelector('.stage').view.zoom(3)")
    before = page.ask(look)

    page.ask("dispatchEvent(new Event('beforeprint'))")
    on_paper = page.ask("(r => [r.left, r.right])(document.querySelector('.canvas > g').getBoundingClientRect())")
    page.ask("dispatchEvent(new Event('afterprint'))")

    assert on_paper[0] >= 0
    assert on_paper[1] <= 1300
    assert page.ask(look) == before


# Pairs of labels, or of a label and a box around another label, that overlap by more than the edge of a letter.
OVERLAPS = """(() => {
  const found = [];
  for (const pane of document.querySelectorAll(".pane:not([hidden])")) {
    const frame = (e) => [e, e.getBBox()], texts = [...pane.querySelectorAll("text")].map(frame);
    const boxes = [...pane.querySelectorAll(".node > rect, .folded > rect")].map(frame);
    const meet = (a, b) => Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x) > 1
      && Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 2;
    texts.forEach(([text, at], index) => {
      for (const [other, there] of texts.slice(index + 1))
        if (meet(at, there)) found.push([text.textContent, other.textContent]);
      for (const [box, there] of boxes)
        if (box.parentElement !== text.parentElement && meet(at, there)) found.push([text.textContent, "a box"]);
    });
  }
  return [document.querySelectorAll(".pane:not([hidden]) text").length, found];
})()"""
SHAPE = "float32[{0}, 12, 197, 197]"
WIDE = """
%a = input a : SHAPE
%b = input b : SHAPE
%c = input c : SHAPE
%d = torch.addcmul(%a, %b, %c) : SHAPE @ layers.0
%e = torch.relu(%d) : SHAPE @ layers.0
%f = torch.tanh(%d) : SHAPE @ layers.0
%g = torch.{1}(%e, %f) : SHAPE @ layers.0
%h = torch.split(%g, {0}) : (SHAPE, SHAPE) @ layers.1.deeply.nested
%i = operator.getitem(%h, 0) : SHAPE @ layers.1.deeply.nested
%j = operator.getitem(%h, 1) : SHAPE @ layers.1.deeply.nested
%k = torch.add(%i, %j) : SHAPE @ layers.1.deeply.nested
%l = torch.add(%k, %a) : SHAPE @ layers.1
return %l
""".replace("SHAPE", SHAPE)


def edited_everywhere(count: int) -> PageGraph:
    """Return an overlay in which the same edit was made in each layer."""
    plain = layers(count)
    nodes = [node._replace(target=node.target.replace("relu", "tanh")) for node in plain.nodes]
    return PageGraph("net.yaml", "mismatch", expected=plain, obtained=replace(plain, nodes=tuple(nodes)))


@pytest.mark.parametrize("name", ["wide", "small", "large", "repeated"])
def test_no_label_lies_over_another(browser, tmp_path, name):
    wide = PageGraph("w", expected=document(WIDE.format(2, "add")), obtained=document(WIDE.format(4, "mul")))
    graphs = {"wide": wide, "small": differing(6, 3), "large": differing(40, 20), "repeated": edited_everywhere(20)}
    page = opened(browser, tmp_path, graphs[name])

    for script in ("v.zoom(1)", "v.openAll()", "v.split()"):
        page.ask(f"(v => {{ {script}; v.view.scale = 1; v.move() }})(document.querySelector('.stage').view)")
        page.settle()  # a browser measures letters at the scale in which they were painted last
        page.ask("document.querySelectorAll('.unseen').forEach(e => e.classList.remove('unseen'))")
        count, overlaps = page.ask(OVERLAPS)
        assert count > 10
        assert overlaps == []


def test_equal_edits_are_drawn_once_and_the_others_are_opened_on_request(browser, tmp_path):
    page = opened(browser, tmp_path, edited_everywhere(20))
    drawn = "[...document.querySelectorAll('.node.changed')].length"
    assert page.ask(drawn) == 1
    assert page.ask("document.querySelector('.folded.repeated .label').textContent").startswith(
        "\N{MULTIPLICATION SIGN}20"
    )
    page.ask("document.querySelector('.stage').view.step(1)")
    assert said(page) == "change 1 of 1"

    page.click(".folded.repeated .label")

    assert page.ask("document.querySelectorAll('.folded.changed').length") == 19
    page.ask("document.querySelector('.stage').view.step(1)")
    assert said(page) == "change 2 of 20"
    assert page.ask(drawn) == 2


def test_what_lies_outside_of_the_window_is_not_painted_but_keeps_the_focus(browser, tmp_path):
    page = opened(browser, tmp_path, differing(30, 5))
    page.ask("document.querySelector('.stage').view.openAll()")
    page.ask("document.querySelector('.stage').view.go(0)")
    page.settle()
    unseen = "document.querySelectorAll('.node.unseen').length"
    assert page.ask(unseen) > 50

    page.ask("document.querySelector('.stage').view.fit()")
    page.settle()
    assert page.ask(unseen) == 0
    page.ask("(v => { v.zoom(20); v.view.y = -9000; v.move() })(document.querySelector('.stage').view)")
    page.settle()
    assert page.ask("document.activeElement.getAttribute('aria-label')").startswith("x,")
    page.press("ArrowDown")
    assert page.ask("document.activeElement.getAttribute('aria-label')") != "x, x, 2\N{MULTIPLICATION SIGN}4"
    assert page.ask("document.activeElement.getBoundingClientRect().top") > 0
