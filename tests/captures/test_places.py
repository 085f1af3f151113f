"""The statement of a line of the user's code, and the module of a function that is no module's."""

from __future__ import annotations

import io
import linecache
import textwrap
import tokenize

import pytest
import torch
from torch import nn

from pytest_fxgraph import capture
from pytest_fxgraph.captures.places import Place, UserCode, _is_tuple, function_name, in_module, statement_at

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


class Base(nn.Module):
    def forward(self, x):
        return self.helped(x)

    def helped(self, x):
        return x * 2


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Base(), Base()])
        self.head = Child()

    def forward(self, x):
        return x

    @classmethod
    def plain(cls, x):
        return x


class Child(Base):
    def forward(self, x):
        return super().forward(x) + 1


def place_of(function, offset=1, model=None):
    code = function.__code__
    return UserCode(model or Blocks()).place(code.co_filename, code.co_firstlineno + offset, code.co_name)


@pytest.mark.parametrize(
    ("function", "module", "source"),
    [
        (Base.forward, "blocks.*, head", "return self.helped(x)"),
        (Base.helped, "blocks.*, head", "return x * 2"),
        (Child.forward, "head", "return super().forward(x) + 1"),
        (Blocks.forward, "", "return x"),
        (said, "", "x = x.sin()"),
    ],
)
def test_a_place_has_the_modules_of_its_function(function, module, source):
    place = place_of(function)

    assert (place.module, place.source, place.function) == (module, source, function.__name__)
    assert UserCode(Blocks()).has(place) is (function is not said)
    assert place.text == f"{f'{module}.' * bool(module)}{function.__name__}: {source}"
    assert str(place).endswith(f"test_places.py:{place.line}, in {function.__name__}: {source}")
    assert place.line_of_source.endswith(f"test_places.py:{place.line}: {source}")


def test_a_line_before_a_function_of_the_same_name_is_of_no_module():
    assert place_of(Base.forward, -1).module == ""
    assert place_of(Base.forward, 0).module == "blocks.*, head"
    assert UserCode(len).has(place_of(Base.forward)) is False
    assert Place("", 3, "f", "x").line_of_source == ""
    assert place_of(Child.forward, model=nn.Sequential(nn.ReLU(), Child())).module == "1"
    assert UserCode(Blocks()).has(place_of(Blocks.plain.__func__))


def test_a_resumed_function_has_the_name_of_the_users():
    place = UserCode(None).place(__file__, 1, "torch_dynamo_resume_in_torch_dynamo_resume_in_forward_at_3_at_5")

    assert place.function == "forward"
    assert function_name("torch_dynamo_resume_in_f_at_x") == "torch_dynamo_resume_in_f_at_x"


def test_the_innermost_place_gets_the_module_that_called_its_function():
    outer, inner = Place("a.py", 1, "forward", "f(x)", "head"), Place("b.py", 2, "f", "x")

    assert in_module([outer, inner]) == Place("b.py", 2, "f", "x", "head")
    assert in_module([Place("a.py", 1, "forward", "f(x)", "tail"), outer, inner]).module == "head"
    assert in_module([inner]) is inner
    assert in_module([outer]) is outer


def test_the_place_of_a_model_is_its_own_function():
    code = Child.forward.__code__

    assert UserCode(Child()).forward == Place(code.co_filename, code.co_firstlineno, "forward", "def forward(self, x):")
    assert UserCode(said).forward.function == "said"
    assert UserCode(Child().helped).forward.function == "helped"


@pytest.mark.parametrize(("length", "shown"), [(200, True), (201, False)])
def test_a_statement_of_more_than_two_hundred_characters_is_its_line(length, shown):
    first, second = "y = f(", f"    {'x' * (length - 7)})\n"

    assert (statement_at([f"{first}\n", second], 1) == f"{first}{second.strip()}") is shown
    assert statement_at([f"{first}\n", second], 1).startswith(first)
    assert (statement_at([f"{first}\n", second], 2) == second.strip()) is not shown
    assert statement_at([f"{first}\n", second], 0) == ""
    assert statement_at(["y = 1\n"], 1) == "y = 1"
    assert statement_at(["y = 1\n"], 2) == ""


def test_the_innermost_statement_of_several_lines_counts():
    lines = ["with a(", "    b", ") as c, d(", "    e", "):"]
    lines += ["    x = (", "        1", "    )"]
    lines += ["match f(", "    x", "):", "    case 1:", "        y = 1"]

    found = [statement_at([f"{line}\n" for line in lines], number) for number in range(1, 14)]

    assert found[:5] == ["with a(b) as c, d(e):"] * 5

    assert found[5:8] == ["x = (1)"] * 3
    assert found[8:11] == ["match f(x):"] * 3
    assert found[12] == "y = 1"


def test_a_text_of_several_lines_stands_on_one():
    lines = ["y = f(\n", "    1, '''a\n", "  b'''\n", ")\n"]

    assert statement_at(lines, 2) == "y = f(1, '''a b''')"


def test_a_line_of_torch_is_the_line_alone():
    lines = linecache.getlines(torch.__file__)
    number = next(n for n in range(1, len(lines)) if statement_at(lines, n) != lines[n - 1].strip())

    assert UserCode(None).place(torch.__file__, number, "f").source == lines[number - 1].strip()
