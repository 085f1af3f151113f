"""How long the page of a large graph takes, and how smoothly it moves: `python -m benchmarks.pictures.speed`.

Frames are measured while a picture is dragged by real events of the mouse, in a browser without a window and without a
graphics card; on a desk it is faster.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from fixtures.browser import VARIABLE, Page, browser_page, browser_path
from fixtures.documents import document
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.page import PageContent, PageGraph, page_text

_STEPS = 60


def layered(count: int, changed: int = -1) -> GraphDocument:
    """Return a graph of so many layers of five nodes, one of which may have another operator."""
    lines, last = ["%x = input x : float32[2, 4]"], "x"
    for number in range(count):
        operator = "torch.tanh" if number == changed else "torch.relu"
        lines += [
            f"%n{number} = torch.neg(%{last}) : float32[2, 4] @ layers.{number}",
            f"%a{number} = {operator}(%n{number}) : float32[2, 4] @ layers.{number}.act",
            f"%b{number} = torch.exp(%a{number}) : float32[2, 4] @ layers.{number}.act",
            f"%m{number} = torch.matmul(%b{number}, %n{number}) : float32[2, 4] @ layers.{number}",
            f"%s{number} = operator.add(%m{number}, %{last}) : float32[2, 4] @ layers.{number}",
        ]
        last = f"s{number}"
    return document("\n".join([*lines, f"return %{last}"]), code="def forward(self, x):\n    return x")


def first_paint(page: Page, file: Path) -> tuple[float, float]:
    """Open a page; return the milliseconds until the browser painted first, and until the picture was drawn."""
    page.open(file)
    painted = page.ask(
        "new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().at(-1).startTime))"
        ".observe({type: 'paint', buffered: true}))"
    )
    drawn = page.ask("performance.getEntriesByType('navigation')[0].loadEventEnd")
    return float(painted), float(drawn)


def frames_while_dragging(page: Page) -> list[float]:
    """Drag the picture to and fro; return the milliseconds from each frame to the next."""
    page.ask(
        "(() => { const times = window.times = []; const note = (t) => { times.push(t); "
        "if (window.times === times) requestAnimationFrame(note); }; requestAnimationFrame(note); })()"
    )
    page.call("Input.dispatchMouseEvent", type="mousePressed", x=900, y=600, button="left", buttons=1, clickCount=1)
    for step in range(_STEPS):
        place = {"x": 900 - 5 * step, "y": 600 - 3 * step}
        page.call("Input.dispatchMouseEvent", type="mouseMoved", button="left", buttons=1, **place)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", x=600, y=420, button="left", clickCount=1)
    times = page.ask("window.times")
    return [after - before for before, after in pairwise(times)]


def measure(page: Page, folder: Path, layers: int) -> list[str]:
    """Return a row of the table: one graph overlaid with another that differs in one node."""
    started = time.process_time()
    graph = PageGraph("net.yaml", "mismatch", expected=layered(layers), obtained=layered(layers, layers // 2))
    file = folder / f"{layers}.html"
    file.write_text(page_text(PageContent("two graphs"), [graph]), encoding="utf-8")
    made = time.process_time() - started
    painted, drawn = first_paint(page, file)
    folded = frames_while_dragging(page)
    # As many boxes open as a reader can open by hand, which is the worst that there is to move.
    page.ask(
        "(v => { let seen = 0; const waiting = [v.root]; while (waiting.length && seen < 2000) { "
        "const c = waiting.shift(); v.opened.add(c); for (const child of v.cluster(c).children) { "
        "seen += 1; if (!v.isNode(child)) waiting.push(child); } } "
        "v.draw(); v.view.scale = 0.7; v.centre(v.seen(v.changes[0])); })"
        "(document.querySelector('.stage').view)"
    )
    page.settle()
    boxes = page.ask("document.querySelectorAll('[data-child]').length")
    opened = frames_while_dragging(page)
    size = file.stat().st_size / 1e6
    return [
        f"{5 * layers + 2:,}",
        f"{size:.1f} MB",
        f"{made:.1f} s",
        f"{painted:.0f} ms",
        f"{drawn:.0f} ms",
        *(f"{median(frames):.0f} ms ({max(frames):.0f})" for frames in (folded, opened)),
        f"{boxes:,}",
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; without a browser, say so and end with 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures.speed", description=__doc__)
    parser.add_argument("layers", nargs="*", type=int, default=[200, 2_000, 4_000], help="sizes: layers of five nodes")
    options = parser.parse_args(arguments)
    path = browser_path()
    if path is None:
        print(f"nothing was measured: there is no Chromium here; name one in {VARIABLE}", file=sys.stderr)
        return 0
    print("| nodes | page | made in | first paint | picture drawn | a frame (longest) | with boxes open | boxes |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, browser_page(path) as page:
        for layers in options.layers:
            print(f"| {' | '.join(measure(page, Path(folder), layers))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
