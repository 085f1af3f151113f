"""Statements that run on the example's values behind the back of a diagnosis."""

from __future__ import annotations

import json
import linecache
import sys

import pytest
import torch

import fxcore
from fxcore.guided.value_statements import statement_lines

SOURCE = """\
def function(x):
    y = (
        x
        + 1
    )
    if x.sum() > (
        y.mean()
    ):
        y = 2
    try:
        pass
    except ValueError:
        z = 3
    match x:
        case 1:
            w = 4
    with a, \\
            b: c = 5
    for _ in x: y = 3
    return y
"""


@pytest.fixture
def file():
    name = "<a program of a test>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(True), name)
    yield name
    del linecache.cache[name]


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (1, range(1, 2)),
        (2, range(2, 6)),
        (4, range(2, 6)),
        (5, range(2, 6)),
        (6, range(6, 9)),
        (8, range(6, 9)),
        (9, range(9, 10)),
        (10, range(10, 11)),
        (13, range(13, 14)),
        (14, range(14, 15)),
        (16, range(16, 17)),
        (17, range(17, 18)),
        (19, range(19, 20)),
        (20, range(20, 21)),
        (99, range(99, 100)),
    ],
)
def test_the_lines_of_a_statement_are_its_own_or_those_of_its_head(file, line, lines):
    assert statement_lines(file, line) == lines


def test_a_file_without_source_has_statements_of_one_line():
    assert statement_lines("<no such file>", 3) == range(3, 4)


def test_a_file_that_is_no_program_has_statements_of_one_line():
    linecache.cache["<no program>"] = (5, None, ["def (\n"], "<no program>")
    try:
        assert statement_lines("<no program>", 3) == range(3, 4)
    finally:
        del linecache.cache["<no program>"]


def sources_of(function, *example):
    """Return for each obstacle of a function its line of source and how often it was met."""
    return {each.source: each.count for each in fxcore.diagnose(function, example).obstacles}


def test_a_statement_that_cannot_be_traced_hides_no_later_one():
    def function(x):
        y = x + 1
        text = json.dumps(
            y.tolist(),
        )
        other = json.dumps(x.tolist())
        return y * (len(text) + len(other))

    assert sources_of(function, torch.ones(2)) == {"text = json.dumps(": 1, "other = json.dumps(x.tolist())": 1}


def test_values_are_proxies_again_behind_the_statement():
    def function(x):
        y = x + 1
        text = json.dumps(y.tolist())
        return x if y.sum() > 0 else text

    assert sources_of(function, torch.ones(2)) == {
        "text = json.dumps(y.tolist())": 1,
        "return x if y.sum() > 0 else text": 1,
    }


def test_a_tensor_of_the_statement_follows_from_contents():
    def function(x):
        y, n = torch.tensor([float(len(json.dumps(x.tolist())))]), 1
        return x if y.sum() > n else y

    assert sources_of(function, torch.ones(2)) == {
        "y, n = torch.tensor([float(len(json.dumps(x.tolist())))]), 1": 1,
        "return x if y.sum() > n else y": 1,
    }


TEXTS = {"of one line": lambda x: json.dumps(x.tolist())}


def test_a_function_of_one_line_is_a_statement():
    def function(x):
        return TEXTS["of one line"](x) + TEXTS["of one line"](x + 1)

    assert sources_of(function, torch.ones(2)) == {'TEXTS = {"of one line": lambda x: json.dumps(x.tolist())}': 2}


def test_a_changed_variable_keeps_its_new_value():
    def function(x):
        x = len(json.dumps(x.tolist()))
        return x if x > 0 else x.missing

    assert sources_of(function, torch.ones(2)) == {"x = len(json.dumps(x.tolist()))": 1}


def test_each_run_of_a_statement_counts():
    def function(x):
        for _ in range(3):
            text = json.dumps(x.tolist())
        return x, text

    assert sources_of(function, torch.ones(2)) == {"text = json.dumps(x.tolist())": 3}


def test_a_statement_may_call_functions_and_may_return():
    def inner(x):
        return json.dumps(x.tolist())

    def function(x):
        x = x * 2
        return inner(x)

    assert set(sources_of(function, torch.ones(2))) == {"return json.dumps(x.tolist())"}


def test_another_trace_function_is_there_again_after_a_diagnosis():
    def look(frame, event, argument):
        return None

    def function(x):
        return x, json.dumps(x.tolist())

    before = sys.gettrace()
    sys.settrace(look)
    try:
        fxcore.diagnose(function, torch.ones(2))
        after = sys.gettrace()
    finally:
        sys.settrace(before)

    assert after is look
