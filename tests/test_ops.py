"""Operators are counted, forbidden and put in order; a target that can never match is refused."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fxcore
from pytest_fxgraph.operator_patterns import TargetError
from pytest_fxgraph.ops import OpsQuery


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1)
        self.special = type("Special", (nn.Conv2d,), {"__module__": "torch.nn.made_up"})(1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x)) + self.special(x)
        return F.relu(y).relu() + torch.ops.aten.sigmoid.default(y)


@pytest.fixture
def query() -> OpsQuery:
    return OpsQuery(fxcore.symbolic_trace(Small()))


@pytest.mark.parametrize(
    ("target", "count"),
    [
        (torch.relu, 1),
        (F.relu, 1),
        ("relu", 1),
        ("*relu", 3),
        ("torch.*relu", 2),
        (nn.Conv2d, 2),
        ("torch.nn.Conv2d", 1),
        ("torch.nn.Conv?d", 1),
        (operator.add, 2),
        ("operator.add", 2),
        ("aten.sigmoid*", 1),
        (torch.ops.aten.sigmoid, 1),
        (torch.ops.aten.sigmoid.default, 1),
        ("aten.batch_norm*", 0),
        (nn.BatchNorm2d, 0),
        (torch.sigmoid, 0),
        ("tanh", 0),
        ("torch.nn.functional.gelu", 0),
    ],
)
def test_targets_are_functions_classes_method_names_and_globs(query, target, count):
    assert query.count(target) == count


def test_an_absent_operator_passes_and_a_present_one_is_listed(query):
    query.absent("aten.batch_norm*")

    with pytest.raises(
        AssertionError, match=r"\*relu must be absent, and 3 nodes of the graph call it: relu \(torch.relu\)"
    ):
        query.absent("*relu")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("reluu", "'reluu' could never match: it is not a method of Tensor; did you mean 'relu'"),
        ("aten.batchnorm*", "could never match: it is not the name of any operator known here"),
        ("torch.nn.functional.reluu", "did you mean 'torch.nn.functional.relu'"),
        ("conv2d", "did you mean 'torch.conv2d'"),
        (nn.Conv2d(1, 1, 1), "named by its class, not by a module: write Conv2d"),
        (3, "no operator can be named by 3"),
    ],
)
def test_a_target_that_can_never_match_is_refused(query, target, words):
    for ask in (query.count, query.absent, query.in_order):
        with pytest.raises(TargetError) as caught:
            ask(target)
        assert words in str(caught.value)


def test_order_is_that_of_execution_with_others_between(query):
    query.in_order(nn.Conv2d, torch.relu, operator.add, "relu", "aten.sigmoid*")

    with pytest.raises(
        AssertionError, match=r"no torch.relu \(number 2\) after add; the graph calls, in order: torch.nn.Conv2d"
    ):
        query.in_order(operator.add, torch.relu)


def test_only_what_the_list_names_may_be_called(query):
    query.only_from([nn.Conv2d, "*relu", operator.add, "aten.*"])

    with pytest.raises(
        AssertionError, match=r"what is not on the list: torch.ops|aten.sigmoid.default x1; allowed are"
    ):
        query.only_from([nn.Conv2d, "*relu", operator.add])


def test_globs_over_packages_of_the_users_are_taken_at_their_word(query):
    query.absent("numpy.fft.*")
