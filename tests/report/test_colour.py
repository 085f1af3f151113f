"""A line is split into the parts that have a colour of their own."""

from __future__ import annotations

import pytest

from pytest_fxgraph.report.colour import coloured_spans


@pytest.mark.parametrize(
    ("line", "spans"),
    [
        ("  - %a = torch.relu(%x)", [("  - %a = torch.relu(%x)", "red")]),
        ("  + %a = torch.gelu(%x)", [("  + %a = torch.gelu(%x)", "green")]),
        ("operators (2)", [("operators (2)", "bold")]),
        ("  block x3: layers.0 .. layers.2", [("  block x3: layers.0 .. layers.2", "cyan")]),
        ("      in layers.0; x.py:1", [("      in layers.0; x.py:1", "light")]),
        ("  conv1: stride (1, 1) -> (2, 2)",
         [("  conv1: stride ", ""), ("(1, 1)", "red"), (" -> ", ""), ("(2, 2)", "green"), ("", "")]),
        ("  a: torch.relu -> torch.gelu",
         [("  a: ", ""), ("torch.relu", "red"), (" -> ", ""), ("torch.gelu", "green"), ("", "")]),
        ("n: eps 1 -> 2 (and at 3 more places)",
         [("n: eps ", ""), ("1", "red"), (" -> ", ""), ("2", "green"), (" (and at 3 more places)", "")]),
        ('  a: mode "x -> y" -> "z"',
         [("  a: mode ", ""), ('"x -> y"', "red"), (" -> ", ""), ('"z"', "green"), ("", "")]),
        ("    %a = torch.relu(%x)", [("    %a = torch.relu(%x)", "")]),
        ("  %a = g(%x)  # float32[2]", [("  %a = g(%x)", ""), ("  # float32[2]", "light")]),
        ("", [("", "")]),
    ],
)  # fmt: skip
def test_a_line_is_coloured_by_what_it_is(line, spans):
    assert coloured_spans(line) == spans


@pytest.mark.parametrize("line", ["operators (1)", "  a: f -> g", "around a", "  > %a = g(%x)  # f", "b = c  # d"])
def test_colour_adds_and_takes_nothing_away(line):
    assert "".join(text for text, _ in coloured_spans(line)) == line
