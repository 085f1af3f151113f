"""The difference that Python code gets has words, a page and a notebook's view."""

from __future__ import annotations

import html

import pytest
import torch

from pytest_fxgraph import Difference, diff_graphs


def relu(x):
    return torch.relu(x) + 1


def gelu(x):
    return torch.sigmoid(x) + 1


def test_a_difference_is_told_in_whole_words():
    lines = diff_graphs(relu, gelu).text().split("\n")

    assert str(diff_graphs(relu, gelu)).split("\n") == lines
    assert lines[:2] == ["the graphs differ at level structure", "torch.relu -> torch.sigmoid"]
    assert "  - %relu = torch.relu(%x)" in lines
    assert "  + %sigmoid = torch.sigmoid(%x)" in lines


def test_equal_graphs_are_told_to_be_equal():
    assert diff_graphs(relu, relu, level="exact").text() == "the graphs are equal at level exact"


@pytest.mark.parametrize("level", ["structure", "ops", "exact"])
def test_a_difference_is_saved_as_a_page(tmp_path, level):
    difference = diff_graphs(relu, gelu, level=level)

    difference.save_html(tmp_path / "difference.html")

    page = (tmp_path / "difference.html").read_text(encoding="utf-8")
    assert isinstance(difference, Difference)
    assert difference.level == level
    assert "torch.sigmoid" in page
    assert f"<h1>the graphs differ at level {level}</h1>" in page
    assert difference._repr_html_().startswith("<iframe ")
    framed, end, _ = difference._repr_html_().partition('srcdoc="')[2].partition('"')
    assert (html.unescape(framed), end) == (page, '"')
