from __future__ import annotations

import math
import operator

import pytest
import torch
import torch.nn.functional as F

from pytest_fxgraph.document.effects import function_profile, holds, method_profile
from pytest_fxgraph.document.target_names import TargetNames


def of_the_user(x):
    return x


def profile_of(function):
    return function_profile(function, TargetNames(repr).name(function))


@pytest.mark.parametrize(
    "function", [torch.rand, torch.bernoulli, F.gumbel_softmax, torch.ops.aten.rand.default, torch.Tensor.normal_]
)
def test_random_operators_are_known(function):
    assert profile_of(function).kinds == ("random",)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "is_random"),
    [
        (F.dropout, (0,), {}, True),
        (F.dropout, (0, 0.5, False), {}, False),
        (F.dropout, (0,), {"training": False}, False),
        (F.dropout, (0,), {"training": object()}, True),
        (F.alpha_dropout, (0,), {}, False),
        (torch.dropout, (0, 0.5, True), {}, True),
        (torch.ops.aten.dropout.default, (0, 0.5, False), {}, False),
        (F.scaled_dot_product_attention, (0, 0, 0), {}, False),
        (F.scaled_dot_product_attention, (0, 0, 0), {"dropout_p": 0.1}, True),
        (F.rrelu, (0,), {}, False),
    ],
)
def test_what_is_random_in_training_only_is_judged_by_its_arguments(function, args, kwargs, is_random):
    profile = profile_of(function)

    assert profile.kinds == ("random",)
    assert holds(profile.condition, args, kwargs) is is_random


@pytest.mark.parametrize(
    "function", [torch.relu_, F.relu_, torch.Tensor.add_, torch.nn.init.zeros_, operator.setitem, operator.iadd]
)
def test_functions_that_write_their_first_argument_are_known(function):
    assert 0 in [position for position, _ in profile_of(function).writes]


def test_an_overload_says_itself_what_it_writes_and_aliases():
    assert profile_of(torch.ops.aten.add_.Tensor).writes == ((0, "self"),)
    assert profile_of(torch.ops.aten.add.out).writes == ((3, "out"),)
    assert profile_of(torch.ops.aten.add.Tensor).writes == ()
    assert profile_of(torch.ops.aten.add.Tensor).shares == "none"
    assert profile_of(torch.ops.aten.view.default).shares == (0,)


def test_methods_that_end_with_one_underscore_write_their_object():
    assert method_profile("add_").writes
    assert method_profile("__setitem__").writes
    assert method_profile("append").writes
    assert not method_profile("add").writes
    assert not method_profile("__add__").writes


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (print, ("io",)),
        (torch._assert, ("io",)),
        (of_the_user, ("call",)),
        (lambda x: x, ("call",)),
        (torch.ops.higher_order.cond, ("call",)),
        (torch.relu, ()),
        (math.sqrt, ()),
        (len, ()),
    ],
)
def test_side_effects_and_functions_of_the_user_are_known(function, kinds):
    assert profile_of(function).kinds == kinds


def test_results_of_well_known_operators_are_fresh_and_views_are_not():
    assert profile_of(torch.add).shares == "none"
    assert profile_of(operator.mul).shares == "none"
    assert method_profile("softmax").shares == "none"
    assert method_profile("view").shares == "first"
    assert profile_of(torch.flatten).shares == "all"
    assert profile_of(of_the_user).shares == "all"
