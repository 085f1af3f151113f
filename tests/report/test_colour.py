from __future__ import annotations

import re

import pytest

from pytest_fxgraph.report.colour import coloured, coloured_text

RED, GREEN, BOLD, CYAN, END = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[36m", "\x1b[0m"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  - %a = torch.relu(%x)", f"{RED}  - %a = torch.relu(%x){END}"),
        ("  + %a = torch.gelu(%x)", f"{GREEN}  + %a = torch.gelu(%x){END}"),
        ("operators (2)", f"{BOLD}operators (2){END}"),
        ("  block x3: layers.0 .. layers.2", f"{CYAN}  block x3: layers.0 .. layers.2{END}"),
        ("  conv1: stride (1, 1) -> (2, 2)", f"  conv1: stride {RED}(1, 1){END} -> {GREEN}(2, 2){END}"),
        ("  a: torch.relu -> torch.gelu", f"  a: {RED}torch.relu{END} -> {GREEN}torch.gelu{END}"),
        ("n: eps 1 -> 2 (and at 3 more places)", f"n: eps {RED}1{END} -> {GREEN}2{END} (and at 3 more places)"),
        ('  a: mode "x -> y" -> "z"', f'  a: mode {RED}"x -> y"{END} -> {GREEN}"z"{END}'),
        ("    %a = torch.relu(%x)", "    %a = torch.relu(%x)"),
        ("", ""),
    ],
)
def test_a_line_is_coloured_by_what_it_is(line, expected):
    assert coloured(line) == expected


def test_colour_adds_and_takes_nothing_away():
    text = "it does not match\n\noperators (1)\n  a: f -> g\n      in layers.0; x.py:1\n\naround a\n  > %a = g(%x)  # f"

    assert re.sub(r"\x1b\[\d+m", "", coloured_text(text)) == text
