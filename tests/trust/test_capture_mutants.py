"""Edits of a model that change its capture are caught with the right words; harmless edits are not."""

from __future__ import annotations

import importlib.util
import itertools
from functools import cache
from pathlib import Path

import pytest
import torch

import fixtures.dynamo  # noqa: F401  before any test: Dynamo cannot be imported a second time
from fixtures.capture_mutants import HARMLESS, MODEL, MUTANTS, Edit
from pytest_fxgraph import capture
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.report.text import full_section

X = torch.linspace(-1, 1, 8).reshape(2, 4)
_NUMBERS = itertools.count()
# In each run; the others are long.
SAMPLE = ("a second print", "no print", "another operator", "a flag that nobody asks")
HARMLESS_SAMPLE = ("a comment above", "a renamed local")


def captured_document(folder: Path, source: str) -> GraphDocument:
    name = f"captured_model_{next(_NUMBERS)}"
    file = folder / f"{name}.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    found = capture(module.Model(), X, calls=[((X, 5), {}), ((X.repeat(2, 1),), {})])
    document = build_document(found.as_graph_module())
    return decode(encode(document), "the golden")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return captured_document(tmp_path_factory.mktemp("base"), MODEL)


@cache
def edited(edit: Edit) -> str:
    assert MODEL.count(edit.old), edit.old
    return MODEL.replace(edit.old, edit.new)


def some(names, sample):
    return [pytest.param(name, marks=() if name in sample else pytest.mark.long) for name in names]


@pytest.mark.sampled(every=4, start=1)
@pytest.mark.parametrize("name", some(MUTANTS, SAMPLE))
def test_an_edit_that_changes_the_capture_is_told(name, base, tmp_path):
    obtained = captured_document(tmp_path, edited(MUTANTS[name]))

    difference = compare_documents(base, obtained)

    assert not difference.is_empty
    section = full_section(difference, base, obtained, golden="the golden")
    assert MUTANTS[name].words in section


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", some(HARMLESS, HARMLESS_SAMPLE))
def test_a_harmless_edit_is_no_difference(name, base, tmp_path):
    obtained = captured_document(tmp_path, edited(HARMLESS[name]))

    difference = compare_documents(base, obtained)

    assert difference.is_empty, [change.where for change in difference.changes]
