"""The pictures: what is opened and chosen on the page before each is taken."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.pictures.png import write_small
from fixtures.browser import Page


@dataclass(frozen=True)
class Shot:
    """One picture."""

    article: str  # a part of its title
    tab: str = "Picture"
    keys: str = ""  # pressed one by one
    script: str = ""
    is_dark: bool = False
    size: tuple[int, int] = (1200, 680)


SHOTS = {
    "diff": Shot("test_decoder-28"),
    "side-by-side": Shot("test_decoder-28", keys="nb"),
    "dark": Shot("test_decoder-28", keys="n", is_dark=True),
    "code": Shot("test_decoder-28", "Code", size=(1200, 500)),
    "numeric": Shot("test_half_precision", "Way", size=(1200, 680)),
    "histogram": Shot("test_half_precision", "Errors", size=(1200, 480)),
    "stages": Shot("test_lowering", "Stages", script="document.querySelector('[data-node=\"2.9\"]').click()"),
    "cost": Shot("test_cost", "Cost", size=(1200, 520)),
}


def take(page: Page, report: Path, name: str, file: Path) -> None:
    """Open a report, show what a picture shows, and write the picture to a file."""
    shot = SHOTS[name]
    page.resize(*shot.size, dark=shot.is_dark)
    page.open(report)
    title, tab = json.dumps(shot.article), json.dumps(shot.tab)
    page.ask(
        "(a => { location.hash = a.id; })([...document.querySelectorAll('article')]"
        f".find(a => a.querySelector('h2').textContent.includes({title})))"
    )
    page.settle()
    page.ask(
        f"[...document.querySelectorAll('article:not([hidden]) [role=tab]')].find(t => t.textContent === {tab}).click()"
    )
    if shot.keys:
        page.ask("document.querySelector('article:not([hidden]) [tabindex=\"0\"][data-child]').focus()")
    for key in shot.keys:
        page.press(key)
    if shot.script:
        page.ask(shot.script)
    page.settle()
    page.screenshot(file)
    write_small(page, file)
