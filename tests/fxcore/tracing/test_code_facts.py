"""Facts about code objects, and the functions that code may reach."""

from __future__ import annotations

import dis
import functools
import math
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxcore.tracing import code_facts
from fxcore.tracing.code_facts import (
    Uses,
    facts_of_code,
    is_placed,
    reachable_functions,
    read_names,
    stored_names,
    uses_at,
    uses_of,
)


def facts_of(function):
    return facts_of_code(function.__code__)


def test_the_values_that_are_compared_with_none():
    def compares(a, b, c, d, e):
        if a is None:
            return 1
        if b["key"] is not None or c.field is None or c[1, 2] is None:
            return 2
        found = [each for each in d if each is None]
        return found, e is not None, a is not None

    assert facts_of(compares).compared_with_none == {"a", "key", "field", (1, 2), "each", "e"}
    assert facts_of(lambda a: None is a).compared_with_none == {"a"}
    assert facts_of(lambda a, b: a == b).compared_with_none == frozenset()
    assert not facts_of(compares).compares_results
    assert facts_of(lambda a: a() is None).compares_results
    assert facts_of(lambda a: a() is None).compared_with_none == frozenset()
    assert facts_of(lambda a, b: (a + b) is None).compared_with_none == frozenset()


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: [a is b, lambda value: value],
        lambda a, b: [a, lambda value, other: value is other],
    ],
    ids=["outside", "inside"],
)
def test_a_comparison_of_values_is_seen_in_a_function_and_in_its_inner_functions(function):
    assert facts_of(function).compares_values
    assert not facts_of(function).has_patterns


def test_patterns_are_seen_in_inner_functions_and_outside_of_them():
    def outside(value):
        match value:
            case [a, b]:
                return lambda: (a, b)

    def around():
        def inside(value):
            match value:
                case [a, b]:
                    return a, b

        return inside

    for function in (outside, around):
        assert facts_of(function).has_patterns
        assert not facts_of(function).compares_values


def test_constants_that_are_compared_by_identity_are_told_from_values():
    constants = facts_of(lambda a: (a.dtype is torch.float32, a is True))
    values, results = facts_of(lambda a, b: a is b), facts_of(lambda a, b: a() is b())

    assert constants.compared_constants == {"float32", True}
    assert not constants.compares_values
    for facts in (values, results):
        assert facts.compares_values
        assert facts.compared_constants == frozenset()


def test_patterns_are_seen():
    def matches(value):
        match value:
            case [a, b]:
                return a, b

    assert facts_of(matches).has_patterns
    assert not facts_of(lambda value: value).has_patterns


def test_names_that_a_result_is_stored_in():
    def stores(pair):
        a, b = pair
        return a, b

    code = stores.__code__
    unpacking = next(each.offset for each in dis.get_instructions(code) if each.opname == "UNPACK_SEQUENCE")
    assert stored_names(code, unpacking) == ("a", "b")


class Later:
    """A code object of a later version of Python, given by its opcodes and arguments."""

    co_consts = ()

    def __init__(self, monkeypatch, *instructions):
        items = [SimpleNamespace(opname=name, argval=value, argrepr=value) for name, value in instructions]
        monkeypatch.setattr(code_facts, "instructions_from", lambda code, offset: items[offset:])


@pytest.mark.parametrize(
    ("stores", "names"),
    [
        ([("STORE_FAST_STORE_FAST", ("a", "b")), ("STORE_FAST", "c")], ("a", "b", "c")),
        ([("STORE_FAST", "a"), ("STORE_FAST_LOAD_FAST", ("b", "x"))], ("a", "b")),
        ([("STORE_FAST_MAYBE_NULL", "first"), ("STORE_DEREF", "b")], ("first", "b")),
        ([("STORE_NAME", "a"), ("POP_TOP", None), ("STORE_NAME", "b")], ("a",)),
        ([("POP_TOP", None)], ()),
    ],
)
def test_names_of_stores_are_read_from_the_instructions_of_every_python(monkeypatch, stores, names):
    assert stored_names(Later(monkeypatch, ("UNPACK_SEQUENCE", 2), *stores), 0) == names


@pytest.mark.parametrize(
    ("reads", "names"),
    [
        ([("LOAD_FAST_LOAD_FAST", ("a", "b")), ("LOAD_CONST", "key"), ("BINARY_SUBSCR", "")], {"a"}),
        ([("LOAD_FAST_BORROW_LOAD_FAST_BORROW", ("a", "b")), ("LOAD_SMALL_INT", 0), ("BINARY_OP", "[]")], {"a"}),
        ([("LOAD_FAST", "a"), ("LOAD_CONST", "key"), ("BINARY_OP", "+")], {"a"}),
        ([("LOAD_FAST", "a"), ("LOAD_FAST", "b"), ("BINARY_OP", "[]")], {"a", "b"}),
        ([("LOAD_FAST", "a"), ("LOAD_CONST", "key")], {"a"}),
        ([("LOAD_DEREF", "a")], {"a"}),
        ([("LOAD_GLOBAL", "a")], set()),
    ],
)
def test_reads_of_names_are_read_from_the_instructions_of_every_python(monkeypatch, reads, names):
    assert read_names(Later(monkeypatch, *reads)) == names


def test_a_read_of_one_item_is_no_read_of_the_container():
    def reads(options, others):
        return options["mask"], list(others)

    assert read_names(reads.__code__) == {"others"}
    assert read_names((lambda options, key: options[key]).__code__) == {"options", "key"}


def helper(x):
    return deeper(x)


def deeper(x):
    return x


def decorated(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


@decorated
def wrapped(x):
    return x


class Net(nn.Module):
    def forward(self, x):
        return self.inner(helper(wrapped(x)))

    def inner(self, x):
        return x * math.pi


def test_functions_are_reached_through_globals_methods_and_decorators():
    found = reachable_functions([(Net.forward, Net)])

    assert {each.function for each in found} >= {Net.forward, Net.inner, helper, deeper, wrapped.__wrapped__}
    assert {(each.name, each.holder is Net) for each in found} >= {("inner", True), ("helper", False)}


def test_a_function_in_a_closure_is_reached_behind_a_variable_without_value():
    def inner(x):
        return x

    def outer(x):
        return a_later(x) + inner(x)

    assert {each.function for each in reachable_functions([(outer, None)])} == {outer, inner}
    a_later = outer


def test_functions_of_torch_are_not_reached():
    assert reachable_functions([(nn.Linear.forward, nn.Linear)]) == []
    assert {each.function for each in reachable_functions([(helper, None), (nn.Linear.forward, nn.Linear)])} == {
        *(helper, deeper)
    }


def test_a_search_of_functions_has_an_end(monkeypatch):
    monkeypatch.setattr(code_facts, "_MOST_FUNCTIONS", 2)

    assert len(reachable_functions([(Net.forward, Net)])) == 2


@functools.lru_cache
def cached(x):
    return deeper(x)


def named(x):
    return x


def behind(x):
    return x


named.__wrapped__ = behind


class Callable:
    def __call__(self, x):
        return x


@functools.wraps(Callable())
def around_an_object(x):
    return x


def test_the_functions_behind_decorators_are_reached():
    assert {each.function for each in reachable_functions([(cached, None)])} == {cached.__wrapped__, deeper}
    assert {each.function for each in reachable_functions([(named, None)])} == {named, behind}
    assert [each.function for each in reachable_functions([(around_an_object, None)])] == [around_an_object]


UNUSED = Uses(is_compared=False, is_handed_on=False, is_returned=False, attributes=frozenset(), called=frozenset())
COMPARED, HANDED_ON, RETURNED = (UNUSED._replace(**{name: True}) for name in UNUSED._fields[:3])


def called(name):
    return UNUSED._replace(called=frozenset({name}))


def kept_in_a_dict(a, f):
    kept = {"key": a}
    return f(kept)


def kept_under_a_key(a, f):
    f[0] = a


def kept_in_an_attribute(a, f):
    f[0].name = a


def compared_under_another_name(a, f):
    b = c = a
    f.b = 1
    return c is None or b


def kept_under_another_name(a, f):
    b = a
    f([b, f])
    return f


def compared_in_a_branch(a, f):
    b = a if f else f.other()
    if b is None:
        return 1
    return 2


def stored_again(a, f):
    a = a + 1
    return {"key": a}, a


def yielded(a, f):
    yield a


def called_over_lines(a, f):
    f(
        1,
        a,
    )


def called_with_more(a, f):
    f.first(f.second(1), a).third()


def called_and_compared(a, f):
    f(1)(a, f is None)


class Sub(dict):
    def called_in_the_base(self, a, f):
        super().update(a)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the places of instructions are known from Python 3.11 on")
@pytest.mark.parametrize(
    ("function", "uses"),
    [
        (lambda a, f: f, UNUSED),
        (lambda a, f: a is None, COMPARED),
        (lambda a, f: a is not None, COMPARED),
        (lambda a, f: None is a, COMPARED),
        (lambda a, f: a is f, UNUSED),
        (lambda a, f: a + f, UNUSED),
        (lambda a, f: a.name, UNUSED),
        (lambda a, f: a[0], UNUSED),
        (lambda a, f: a, RETURNED),
        (lambda a, f: (f, a), RETURNED),
        (lambda a, f: [f, a][0], HANDED_ON),
        (lambda a, f: f(a), called("f")),
        (lambda a, f: f(1, key=a), called("f")),
        (lambda a, f: f(a + 1), UNUSED),
        (lambda a, f: f([a]), HANDED_ON),
        (lambda a, f: f.method(a), called(".method")),
        (lambda a, f: f.first.second(f.third, a), called(".second")),
        (lambda a, f: Uses(a, f), called("Uses")),
        (lambda a, f: f[0](a), called("[]")),
        (kept_in_a_dict, HANDED_ON),
        (kept_under_a_key, HANDED_ON),
        (kept_in_an_attribute, UNUSED._replace(attributes=frozenset({"name"}))),
        (compared_under_another_name, COMPARED._replace(is_returned=True)),
        (kept_under_another_name, HANDED_ON),
        (compared_in_a_branch, COMPARED),
        (stored_again, UNUSED),
        (yielded, HANDED_ON),
        (called_over_lines, called("f")),
        (called_with_more, called(".first")),
        (called_and_compared, called("f")),
        (Sub.called_in_the_base, called(".update")),
    ],
)
def test_what_code_does_with_a_parameter(function, uses):
    assert uses_of(function.__code__, "a") == uses


def reading_of(function):
    """Return the place of the first read of an item, a step of a loop, or a sum."""
    names = ("BINARY_", "FOR_ITER")
    return next(each.offset for each in dis.get_instructions(function) if each.opname.startswith(names))


def loop(a, f):
    for b in a:
        f(b)


def loop_of_pairs(a, f):
    for b, c in a:
        f(b, c)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the places of instructions are known from Python 3.11 on")
@pytest.mark.parametrize(
    ("function", "uses", "placed"),
    [
        (lambda a, f: f(a[1]), called("f"), True),
        (lambda a, f: {"key": a["key"]}.get("key"), HANDED_ON, True),
        (lambda a, f: a["key"] is None, COMPARED, True),
        (lambda a, f: a + f, RETURNED, False),
        (loop, called("f"), True),
        (loop_of_pairs, UNUSED, False),
    ],
)
def test_what_code_does_with_an_item(function, uses, placed):
    at = reading_of(function)

    assert uses_at(function.__code__, at) == uses
    assert is_placed(function.__code__, at) == placed
