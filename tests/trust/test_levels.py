"""Each line of docs/levels.md, and no line there without a test."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from fixtures.level_lines import LINES
from fixtures.mutant_trials import GRAPH_LEVELS as LEVELS
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document

DOCUMENT = Path(__file__).parents[2] / "docs" / "levels.md"
OPTIONS = {"commutative": {"commutative": True}, "normalize": {"normalize": True}}


def lines_of_the_document():
    """Read the lists: a heading names the level, a paragraph that ends with a colon the verdict."""
    level = verdict = ""
    for line in DOCUMENT.read_text(encoding="utf-8").split("\n"):
        if line.startswith("## "):
            level, verdict = line.removeprefix("## ").strip("`"), ""
        elif line in ("Passes:", "Fails:"):
            verdict = line.removesuffix(":").lower()
        elif line.startswith("- ") and verdict:
            yield level, verdict, line.removeprefix("- ")


def document_of(make):
    torch.manual_seed(0)
    subject = make()
    return build_document(to_graph_module(copy.copy(subject) if callable(subject) else subject))


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.level}-{line.verdict}-{line.text}")
def test_a_line_holds(line):
    expected, obtained = document_of(line.expected), document_of(line.obtained)
    level, options = (line.level, {}) if line.level in LEVELS else ("structure", OPTIONS[line.level])

    passes = compare_documents(expected, obtained, level=level, **options).is_empty
    passes_the_other_way = compare_documents(obtained, expected, level=level, **options).is_empty

    assert passes is passes_the_other_way is (line.verdict == "passes")


def test_every_line_of_the_document_has_a_test_and_every_test_its_line():
    assert sorted(lines_of_the_document()) == sorted({(line.level, line.verdict, line.text) for line in LINES})


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.level}-{line.verdict}-{line.text}")
def test_what_passes_a_stricter_level_passes_the_looser_ones(line):
    expected, obtained = document_of(line.expected), document_of(line.obtained)
    passes = {level: compare_documents(expected, obtained, level=level).is_empty for level in LEVELS}

    assert passes["exact"] <= passes["structure"] <= min(passes["ops"], passes["signature"])
