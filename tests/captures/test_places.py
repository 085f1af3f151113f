"""The statement of a line of the user's code, and the module of a function that is no module's."""

from __future__ import annotations

import textwrap

import pytest
import torch
from torch import nn

from pytest_fxgraph import capture
from pytest_fxgraph.captures.places import statement_at

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
