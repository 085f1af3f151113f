"""The example of docs/passes/cost.md prints what stands there."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs" / "passes" / "cost.md"


def test_the_example_prints_what_the_page_says(capsys):
    page = PAGE.read_text(encoding="utf-8")
    code, printed = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()

    exec(compile(code, str(PAGE), "exec"), {})

    assert capsys.readouterr().out == printed


def test_the_pictures_of_the_page_are_there():
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))

    assert len(pictures) == 4
    assert all((PAGE.parent / picture).read_text(encoding="utf-8").startswith("<svg ") for picture in pictures)
