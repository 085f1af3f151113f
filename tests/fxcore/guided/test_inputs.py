"""The example of a trace is bound to parameters of every kind, and copied."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import ExampleError, TraceArgumentError
from fxcore.guided.inputs import ExampleInputs, copied_example, positional_of

ONES = torch.ones(2)


def traced(function, *args, **kwargs):
    return fxcore.symbolic_trace(function, example_inputs=args, example_kwargs=kwargs)


def guards_of(function, *args, **kwargs):
    return [str(guard) for guard in traced(function, *args, **kwargs).graph.guards]


def adds_all(x, *rest):
    return x + sum(rest)


def asks_names(x, **named):
    return x + len(named)


def reads_none(x, *rest, **named):
    return x + 1


def has_keyword(x, *, scale, shift=0):
    return x * scale + shift


def has_all(first, /, x, *rest, scale, **named):
    return first - x * scale + rest[0] * named["shift"]


def has_defaults(x, y=2, z=None):
    return x * y if z is None else x * z


def decorated(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def test_the_number_of_starred_arguments_is_a_guard():
    assert guards_of(adds_all, ONES, ONES, ONES) == ["len(rest) == 2"]


def test_the_names_of_starred_keywords_are_a_guard():
    assert guards_of(asks_names, ONES, a=1, b=2) == ["list(named) == ['a', 'b']"]


def test_starred_arguments_that_nobody_reads_have_no_guard():
    graph_module = traced(reads_none, ONES, ONES, a=1)

    assert len(graph_module.graph.guards) == 0


def test_a_decorator_reads_all_starred_arguments():
    assert guards_of(decorated(reads_none), ONES, ONES, a=1) == ["len(rest) == 1", "list(named) == ['a']"]


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "parameters"),
    [
        (has_keyword, (ONES,), {"scale": ONES}, "x, *, scale, shift = 0"),
        (has_keyword, (), {"x": ONES, "scale": 2, "shift": 1}, "x, *, scale, shift = 0"),
        (has_all, (ONES, ONES, ONES), {"scale": 2, "shift": ONES}, "first, x, *rest, scale, **named"),
        (has_defaults, (ONES, 3), {}, "x, y = 2, z = None"),
        (has_defaults, (ONES,), {"z": ONES}, "x, y = 2, z = None"),
    ],
)
def test_a_graph_takes_arguments_in_the_form_of_the_function(function, args, kwargs, parameters):
    graph_module = traced(function, *args, **kwargs)

    assert f"def forward(self, {parameters}):" in graph_module.code
    assert torch.equal(graph_module(*args, **kwargs), function(*args, **kwargs))


def test_an_argument_left_at_its_default_is_a_guard():
    assert guards_of(has_defaults, ONES) == ["y == 2", "z is None"]
    assert guards_of(has_defaults, ONES, 3) == ["z is None"]


def test_an_argument_given_instead_of_none_is_a_guard():
    assert guards_of(has_defaults, ONES, 3, ONES) == ["z is not None"]


def test_starred_parameters_are_never_left_at_a_default():
    inputs = ExampleInputs(reads_none, None, (ONES,), None)

    assert inputs.left_at_default == set()
    assert inputs.by_target["*rest"] == ()
    assert inputs.by_target["**named"] == {}


def test_only_given_arguments_can_stand_instead_of_none():
    assert ExampleInputs(has_defaults, None, (ONES, 2, ONES), None).given_instead_of_none == {"z"}
    assert ExampleInputs(has_defaults, None, (ONES, 2), None).given_instead_of_none == set()


def test_the_owner_of_a_method_is_no_parameter():
    inputs = ExampleInputs(nn.Linear.forward, nn.Linear(2, 2), ONES, None)

    assert list(inputs.by_target) == ["input"]
    assert inputs.left_at_default == inputs.given_instead_of_none == set()


def test_an_example_that_does_not_fit_is_refused_with_the_signature():
    with pytest.raises(ExampleError, match=r"do not fit has_keyword\(x, \*, scale, shift=0\): missing a required"):
        traced(has_keyword, ONES)


def test_a_default_that_is_no_argument_of_a_node_is_refused():
    def has_object(x, y=ExampleInputs):
        return x

    with pytest.raises(TraceArgumentError, match="the default of parameter 'y' is no argument of a node"):
        traced(has_object, ONES)


@pytest.mark.parametrize("default", [ONES, [ONES]], ids=["tensor", "list"])
def test_a_default_with_a_tensor_is_refused_with_a_cure(default):
    def has_tensor(x, y=default):
        return x + y[0]

    with pytest.raises(TraceArgumentError, match=r"default of parameter 'y' .*\nGive the parameter the default None"):
        traced(has_tensor, ONES)


def test_a_default_of_none_is_the_cure_for_a_tensor_as_default():
    def has_none(x, y=None):
        y = ONES * 2 if y is None else y
        return x + y

    assert torch.equal(traced(has_none, ONES)(ONES), has_none(ONES))


@pytest.mark.parametrize(("given", "positional"), [(None, ()), (3, (3,)), ([1, 2], (1, 2)), ((1, None), (1, None))])
def test_one_value_is_one_argument_and_none_is_no_argument(given, positional):
    assert positional_of(given) == positional


def test_a_copied_example_shares_no_memory_and_keeps_its_structure():
    weight = torch.ones(2, requires_grad=True)
    example = {"pair": [weight, weight * 2], "again": weight, "number": 3, "names": ["a"]}

    copied = copied_example(example)

    assert copied["pair"][0] is copied["again"]
    assert copied["again"].data_ptr() != weight.data_ptr()
    assert [each.requires_grad for each in copied["pair"]] == [True, True]
    assert all(each.is_leaf for each in copied["pair"])
    assert not copied_example(ONES).requires_grad
    assert copied["names"] == ["a"]
    assert copied["names"] is not example["names"]


def test_an_example_that_cannot_be_copied_is_used_itself():
    def generated():
        yield 1

    example = [ONES, generated()]

    assert copied_example(example) is example
