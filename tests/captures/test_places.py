"""The statement of a line of the user's code, and the module of a function that is no module's."""

from __future__ import annotations

import io
import textwrap
import tokenize

import pytest
import torch
from torch import nn

from pytest_fxgraph import capture
from pytest_fxgraph.captures.places import Place, UserCode, _is_tuple, statement_at

SPLIT = textwrap.dedent(
    """\
    def f(x):
        print("a",  x)  # why
        print(
            "mean of",  # of all
            x.shape,
        )
        y = (
            x,
        )
        if x.sum() > 3 and (
            x.max() < 2
        ):
            y = x
        return f"{{a}} {x!r:>{y}}" + g(
            x)[
            1,
        ]
    print("#"); f(
    """
).splitlines(keepends=True)


@pytest.mark.parametrize(
    ("line", "statement"),
    [
        (1, "def f(x):"),
        (2, 'print("a",  x)  # why'),
        (3, 'print("mean of", x.shape)'),
        (6, 'print("mean of", x.shape)'),
        (8, "y = (x,)"),
        (10, "if x.sum() > 3 and (x.max() < 2):"),
        (13, "y = x"),
        (15, 'return f"{{a}} {x!r:>{y}}" + g(x)[1,]'),
        (99, ""),
    ],
)
def test_a_statement_stands_on_one_line(line, statement):
    assert statement_at(SPLIT[:-1], line) == statement.partition("  #")[0]


def test_a_line_of_a_file_that_python_cannot_read_stands_by_itself():
    assert statement_at(SPLIT, 3) == "print("


def said(x):
    x = x.sin()
    print("a")
    x = x.cos()
    print("b")
    return x


class Saying(nn.Module):
    def forward(self, x):
        return said(x) + 1


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.other = Saying(), nn.Sequential(Saying())

    def forward(self, x):
        return self.other(self.first(x))


def test_breaks_in_a_function_are_told_with_the_modules_that_call_it():
    found = [each.place.text for each in capture(Twice(), torch.rand(3)).breaks]

    assert found == ['first, other.*.said: print("a")', 'first, other.*.said: print("b")']


@pytest.mark.parametrize(
    ("line", "is_tuple"),
    [
        ("(x,)", True),
        ("f(x,)", False),
        ("(x, y,)", False),
        ("[x,]", True),
        ("{x,}", False),
        ("x,", False),
        ("f(x)[y,]", True),
    ],
)
def test_a_comma_at_the_end_makes_a_tuple_of_one_item(line, is_tuple):
    tokens = [each for each in tokenize.generate_tokens(io.StringIO(line).readline) if each.string.strip()]

    assert _is_tuple(tokens[:-1]) is is_tuple


def test_a_model_without_python_code_has_a_place_without_a_line():
    assert UserCode(torch.relu).forward == Place("", 0, "relu", "")
