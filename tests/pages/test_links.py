"""Links within the repository lead to something, and the menu of the site names every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from fixtures.page_blocks import DOCS, PAGES, ROOT

CODE = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2$|(`+)(?!`)[^\n]*?\3|<!--.*?-->", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"(?m)^#+ +(.+)$")
# Made of docstrings when the site is built.
GENERATED = "docs/reference"


def prose_of(page: Path) -> str:
    return CODE.sub("", page.read_text(encoding="utf-8"))


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def pages_of(entry: object) -> set[str]:
    """Collect the pages that a part of the menu names."""
    if isinstance(entry, str):
        return {entry}
    parts = entry.values() if isinstance(entry, dict) else entry
    return set().union(*map(pages_of, parts))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_to_something(page):
    for link in LINK.findall(prose_of(page)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        if anchor and target.suffix == ".md" and not target.is_relative_to(ROOT / GENERATED):
            assert anchor in anchors_of(target), f"{page.name} links to {link}; there is no such heading"


def test_the_menu_of_the_site_names_every_page():
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]

    assert pages_of(menu) == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
