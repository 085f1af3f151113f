from __future__ import annotations

import functools
import inspect
import operator
import os
import sys

import pytest
import torch
from torch import nn

from fxcore import Tracer
from fxcore.tracing.call_site import (
    is_assertion,
    is_library_file,
    return_lines,
    returning_line,
    unpacked_length,
    user_frame,
    user_line,
    user_stacklevel,
)


def test_the_innermost_frame_outside_of_fxcore_and_torch_is_the_user_s():
    here = inspect.currentframe()

    line = user_line()  # this one

    assert user_frame() is here
    assert line == f"{__file__}:{here.f_lineno - 3}: line = user_line()  # this one"


def test_a_call_through_torch_still_is_the_user_s_line():
    class Looking(nn.Module):
        def forward(self):
            return user_frame().f_code.co_name

    assert Looking()() == "forward"


def test_files_of_torch_and_fxcore_are_libraries():
    assert is_library_file(inspect.getfile(nn.Module))
    assert is_library_file(inspect.getfile(user_line))
    assert not is_library_file(os.path.abspath(__file__))


ASSERTIONS_AND_OTHERS = """
assert value
assert value, f"a message about {value}"
if value:
    pass
negated = not value
if value > 0:
    pass
assert value > 0
assert value == 0, f"a message about {value}"
try:
    assert [value] != [0]
except AssertionError:
    pass
both = value and 1
"""


class Asked:
    """Notes what the code that iterates it, or asks for its truth, is about to do."""

    def __init__(self):
        self.answers = []
        self.compared = None

    def __iter__(self):
        self.answers.append(unpacked_length(sys._getframe(1)))
        return iter(range(self.answers[-1] or 1))

    def __bool__(self):
        self.answers.append(is_assertion(sys._getframe(1), self.compared))
        return True

    def __gt__(self, other):
        self.compared = operator.gt
        return self

    def __eq__(self, other):
        self.compared = operator.eq
        return self


def test_unpacking_into_names_is_told_from_other_iteration():
    value = Asked()

    _a, _b = value
    (_c, _d, _e), _f = value, 1
    _g, *_h = value
    for _i in value:
        pass
    list(value)

    assert value.answers == [2, 3, None, None, None]


def test_an_assertion_is_told_from_other_questions():
    value = Asked()

    # Run as text: pytest rewrites the asserts of a test module.
    exec(ASSERTIONS_AND_OTHERS, {"value": value})

    assert value.answers == [True, True, False, False, False, True, True, False, False]


RETURNS = """\
def several(x, flag):
    if flag:
        return None
    for number in range(3):
        if number == 2:
            return x + number
    def inside():
        return 1
    return (
        x,
        inside,
    )
def either(x, flag):
    return x if flag else x + 1
def perhaps_a_constant(x, flag):
    return 1 if flag else x
def nothing(x):
    x + 1
def items(x):
    yield x
last = lambda x: x
"""


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("several", (6, 9)),
        ("either", (14,)),
        ("perhaps_a_constant", (16,)),
        ("nothing", ()),
        ("items", ()),
        ("last", (21,)),
    ],
)
def test_the_lines_that_return_a_value_are_read_from_the_code(name, lines):
    names = {}
    exec(compile(RETURNS, "without_source.py", "exec"), names)
    code = names[name].__code__

    assert return_lines(code) == lines
    assert returning_line(code) == {
        (): f"without_source.py:{code.co_firstlineno}",
        (6, 9): "without_source.py:6 or 9",
    }.get(lines, f"without_source.py:{(*lines, 0)[0]}")


def returns_from_inside(x):
    def helper():
        return 1

    with torch.no_grad():
        if helper() == 2:
            return None
        try:
            return (
                x,
                helper,
            )
        finally:
            helper()


def test_the_line_of_a_return_statement_is_read_from_the_source():
    code = returns_from_inside.__code__

    assert returning_line(code) == f"{__file__}:{code.co_firstlineno + 8}: return ("


def returns_an_object(x):
    y = x + 1
    return [y, object()]  # this one


class Decorated(nn.Module):
    @torch.no_grad()
    def forward(self, x):
        return returns_an_object(x), {1}  # this one


class Called:
    def __call__(self, x):
        return {x}  # this one


@pytest.mark.parametrize(
    "root",
    [
        returns_an_object,
        functools.partial(returns_an_object),
        Decorated(),
        Called(),
        Called().__call__,
        lambda x: object(),  # this one
    ],
    ids=["function", "partial", "decorated", "callable", "method", "lambda"],
)
def test_the_line_of_an_unsupported_result_is_the_user_s(root):
    with pytest.raises(NotImplementedError, match="argument of type") as caught:
        Tracer().trace(root)

    assert f" at {__file__}:" in str(caught.value)
    assert "# this one, in what the traced function returns" in str(caught.value)


def test_the_line_of_an_unsupported_argument_is_the_user_s():
    def function(x):
        x = x + 1
        return x.add(
            1,
            object(),
        )

    with pytest.raises(NotImplementedError, match="argument of type") as caught:
        Tracer().trace(function)

    assert f" at {__file__}:{function.__code__.co_firstlineno + 2}: return x.add(" in str(caught.value)


def helper(x):
    return x * 2


class Inner(nn.Module):
    def forward(self, x):
        return helper(x) + 1


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(torch.relu(x))


def traces(**settings):
    tracer = Tracer()
    tracer.record_stack_traces = True
    for name, value in settings.items():
        setattr(tracer, name, value)
    return {node.name: node.stack_trace for node in tracer.trace(Outer()).nodes}


def functions_in(trace):
    return [line.rpartition(" in ")[2] for line in trace.splitlines() if line.strip().startswith("File")]


def test_the_user_s_frames_from_forward_inwards_are_kept():
    stacks = traces()

    assert functions_in(stacks["mul"]) == ["forward", "forward", "helper"]
    assert functions_in(stacks["relu"]) == ["forward"]
    assert stacks["mul"].startswith(f'File "{__file__}", line ')
    assert stacks["mul"].endswith("return x * 2")


def test_inputs_and_outputs_have_none():
    stacks = traces()

    assert (stacks["x"], stacks["output"]) == (None, None)


def test_only_frames_of_forward_are_kept_if_asked_for():
    stacks = traces(_record_forward_stack_traces_only=True)

    assert functions_in(stacks["mul"]) == ["forward", "forward"]


def test_a_warning_points_to_the_caller_where_no_frame_is_the_user_s(monkeypatch):
    assert user_stacklevel() == 1  # this test calls it

    monkeypatch.setattr("fxcore.tracing.call_site.is_user_file", lambda name: False)

    assert user_stacklevel() == 1
    assert user_frame() is None
    assert user_line() == ""
