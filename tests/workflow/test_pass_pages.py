"""The examples in docs/passes run, and print what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
PAGES = sorted(Path(__file__, "../../../docs/passes").resolve().glob("*.md"))
BLOCK = re.compile(r"(?ms)^```(python|text)\n(.*?)^```$")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_and_print_what_it_says(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    names = {"__name__": "example"}
    assert any(kind == "python" for kind, _ in blocks), "a page has an example"

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for kind, text in blocks:
            if kind == "python":
                capsys.readouterr()
                # Compiled as of the page, so that a traceback names it.
                exec(compile(text, str(page), "exec", dont_inherit=True), names)
            else:
                assert capsys.readouterr().out.strip() == text.strip()


def test_the_pictures_of_the_pages_are_there():
    pictures = [page.parent / found for page in PAGES for found in PICTURE.findall(page.read_text(encoding="utf-8"))]

    assert len(pictures) == 4
    assert all(picture.read_text(encoding="utf-8").startswith("<svg ") for picture in pictures)
