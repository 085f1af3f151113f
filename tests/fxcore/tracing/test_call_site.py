from __future__ import annotations

import functools
import inspect
import operator
import os
import sys
from types import SimpleNamespace

import numpy
import pytest
import torch
from torch import nn

from fxcore import Tracer
from fxcore.tracing import call_site
from fxcore.tracing.call_site import (
    is_assertion,
    is_library_file,
    is_redundant_condition,
    is_user_file,
    raising_truth,
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


@pytest.mark.parametrize(
    ("name", "is_of_user"),
    [
        (inspect.getfile(nn.Module), False),
        (inspect.getfile(user_line), False),
        (inspect.getfile(numpy), False),
        (inspect.getfile(functools), False),
        ("<string>", False),
        ("<frozen importlib._bootstrap>", False),
        (os.path.abspath(__file__), True),
        (os.path.join(os.path.dirname(os.__file__), "site-packages", "package", "file.py"), True),
        (os.path.join(os.path.dirname(os.__file__), "dist-packages", "package", "file.py"), True),
    ],
)
def test_files_of_installed_packages_are_the_user_s_and_those_of_python_are_not(name, is_of_user):
    assert is_user_file(name) is is_of_user


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
def alone(x):
    return (
        x
    )
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
        ("alone", (23,)),
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


def later_frame(monkeypatch, instructions):
    """Return a stand-in for a frame that runs the first of the instructions, given as opcode and shown argument."""
    items = [
        SimpleNamespace(opname=name, argrepr=shown, offset=2 * place)
        for place, (name, _, shown) in enumerate(each.partition(" ") for each in instructions)
    ]
    monkeypatch.setattr(call_site, "_instructions", lambda code: tuple(items))
    return SimpleNamespace(f_code=object(), f_lasti=0)


@pytest.mark.parametrize(
    ("instructions", "asked", "expected"),
    [
        (["POP_JUMP_FORWARD_IF_TRUE", "LOAD_ASSERTION_ERROR"], operator.eq, True),  # Python 3.11
        (["POP_JUMP_IF_TRUE", "LOAD_ASSERTION_ERROR", "RAISE_VARARGS"], operator.gt, True),
        (["TO_BOOL", "POP_JUMP_IF_TRUE", "LOAD_ASSERTION_ERROR"], operator.gt, True),  # Python 3.13
        (["COMPARE_OP bool(==)", "POP_JUMP_IF_TRUE", "LOAD_ASSERTION_ERROR"], operator.eq, True),
        (["COMPARE_OP bool(>)", "POP_JUMP_IF_TRUE", "LOAD_ASSERTION_ERROR"], operator.gt, True),
        (["COMPARE_OP bool(==)", "POP_JUMP_IF_TRUE", "LOAD_ASSERTION_ERROR"], operator.gt, False),
        (["COMPARE_OP bool(!=)", "POP_JUMP_IF_TRUE", "LOAD_ASSERTION_ERROR"], operator.eq, False),
        (["COMPARE_OP ==", "POP_JUMP_IF_TRUE", "LOAD_ASSERTION_ERROR"], operator.eq, False),
        (["CALL bool(==)", "POP_JUMP_IF_TRUE", "LOAD_ASSERTION_ERROR"], operator.eq, False),
        (["TO_BOOL", "POP_JUMP_IF_TRUE", "NOT_TAKEN", "LOAD_COMMON_CONSTANT AssertionError"], operator.gt, True),
        (["POP_JUMP_IF_TRUE", "LOAD_GLOBAL AssertionError"], operator.gt, True),
        (["POP_JUMP_IF_TRUE", "LOAD_GLOBAL ValueError"], operator.gt, False),
        (["POP_JUMP_IF_TRUE", "LOAD_NAME AssertionError"], operator.gt, False),
        (["POP_JUMP_IF_FALSE", "LOAD_ASSERTION_ERROR"], operator.gt, False),
        (["JUMP_IF_TRUE_OR_POP", "LOAD_ASSERTION_ERROR"], operator.gt, False),
        (["POP_JUMP_IF_TRUE", "NOT_TAKEN"], operator.gt, False),
        (["POP_JUMP_IF_TRUE"], operator.gt, False),
        (["TO_BOOL"], operator.gt, False),
        ([], operator.gt, False),
    ],
)
def test_an_assertion_is_read_from_the_instructions_of_every_python(monkeypatch, instructions, asked, expected):
    assert is_assertion(later_frame(monkeypatch, instructions), asked) is expected


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        (["POP_JUMP_IF_FALSE", "LOAD_GLOBAL ValueError", "CALL", "RAISE_VARARGS"], True),
        (["POP_JUMP_FORWARD_IF_TRUE", "LOAD_ASSERTION_ERROR", "RAISE_VARARGS"], False),
        (["TO_BOOL", "POP_JUMP_IF_FALSE", "LOAD_FAST", "RAISE_VARARGS"], True),
        (["COMPARE_OP bool(>)", "POP_JUMP_IF_TRUE", "LOAD_FAST", "RAISE_VARARGS"], False),
        (["POP_JUMP_IF_FALSE", "STORE_FAST", "RAISE_VARARGS"], None),
        (["POP_JUMP_IF_FALSE", "JUMP_FORWARD", "RAISE_VARARGS"], None),
        (["POP_JUMP_IF_FALSE", "RETURN_VALUE", "RAISE_VARARGS"], None),
        (["POP_JUMP_IF_FALSE", "YIELD_VALUE", "RAISE_VARARGS"], None),
        (["POP_JUMP_IF_FALSE", "GET_ITER", "RAISE_VARARGS"], None),
        (["POP_JUMP_IF_FALSE", "LOAD_FAST"], None),
        (["POP_JUMP_IF_NONE", "LOAD_FAST", "RAISE_VARARGS"], None),
        (["LOAD_FAST", "POP_JUMP_IF_FALSE", "RAISE_VARARGS"], None),
        ([], None),
    ],
)
def test_a_branch_that_only_raises_is_read_from_the_instructions(monkeypatch, instructions, expected):
    assert raising_truth(later_frame(monkeypatch, instructions), operator.gt) is expected


class Flags:
    """Attributes of an instance and of its class, and one that is computed."""

    of_class = True

    def __init__(self, own):
        self.own = own

    @property
    def computed(self):
        return True


def asks(answer, found):
    found.append(is_redundant_condition(sys._getframe(1), answer))
    return answer


CONDITIONS = """
def function(asks, answer, found, flag, flags):
    {source}
        found.append("body")
        found.append("end of the body")
        flag = flags = False
    found.append("end")
    return found
"""


@pytest.mark.parametrize(
    ("source", "answer", "flag", "expected"),
    [
        ("if asks(answer, found) and flag:", True, False, True),
        ("if asks(answer, found) and flag:", True, True, False),
        ("if asks(answer, found) and flag:", False, False, False),
        ("if asks(answer, found) or flag:", False, True, True),
        ("if asks(answer, found) or flag:", False, False, False),
        ("if asks(answer, found) or flag:", True, True, False),
        ("if not asks(answer, found) and flag:", False, False, True),
        ("if not asks(answer, found) and flag:", False, True, False),
        ("if not asks(answer, found) and flag:", True, False, False),
        ("if asks(answer, found) and not flag:", True, True, True),
        ("if asks(answer, found) and not flag:", True, False, False),
        ("if asks(answer, found) and flags.own:", True, False, True),
        ("if asks(answer, found) and flags.own:", True, True, False),
        ("if asks(answer, found) or flags.of_class:", False, False, True),
        ("if asks(answer, found) or flags.computed:", False, True, False),
        ("if asks(answer, found):", True, True, False),
        ("for _ in range(bool(asks(answer, found))):", True, False, False),
        ("if asks(answer, found) and len([flag]) > 1:", True, False, False),
        ("if asks(answer, found) and flag is True:", True, False, False),
        ("if asks(answer, found) and flag is None:", True, False, False),
        ("if asks(answer, found) and (flag := not flag):", True, False, False),
        ("if asks(answer, found) or flags.missing:", True, True, False),
        ("if asks(answer, found) and flag:", True, 0, False),
        ("if asks(answer, found) and flag:", True, None, False),
        ("if asks(answer, found) and flag and flags.of_class:", True, False, True),
    ],
)
def test_a_condition_whose_answer_changes_no_branch_is_told(source, answer, flag, expected):
    names = {}
    exec(CONDITIONS.format(source=source), names)

    found = names["function"](asks, answer, [], flag, Flags(flag))

    assert found[0] is expected


def test_a_condition_on_a_variable_of_an_outer_function_may_be_redundant():
    found, flag = [], False

    def inside():
        if asks(True, found) and flag:
            found.append("body")
        found.append("end")

    inside()

    assert found == [True, "end"]
