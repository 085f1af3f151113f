"""A rule keeps mutation, randomness and sharing of memory, or it is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fxcore
from fxcore.errors import PassArgumentError
from fxcore.transforms import Calls, Rule, RuleSet
from fxcore.transforms.rule_effects import effects_of_graph
from pytest_fxgraph import check_transform

NEGATED = Rule(lambda x: torch.neg(torch.neg(x)), lambda x: x * 1, name="negated")
ZERO = Rule(lambda x: x + 0, lambda x: x, name="zero")


@pytest.mark.parametrize(
    ("pattern", "replacement", "words"),
    [
        (
            lambda x: torch.dropout(x, 0.5, True),
            lambda x: x,
            "has 1 and the replacement 0 calls with the effect 'random'",
        ),
        (lambda x: x.add_(1), lambda x: x + 1, "writes to 1 of its inputs, the replacement to no of its inputs"),
        (lambda x: x + 1, lambda x: x.add_(1), "writes to no of its inputs, the replacement to 1 of its inputs"),
        (lambda x: x.view(-1).add_(1), lambda x: x.view(-1) + 1, "writes to 1 of its inputs"),
        (lambda x: x * 0, lambda x: torch.rand_like(x) * 0, "has 0 and the replacement 1 calls"),
    ],
)
def test_a_replacement_with_other_effects_is_refused(pattern, replacement, words):
    with pytest.raises(PassArgumentError, match=f"rule 'wrong' would change effects: the pattern .*{words}"):
        Rule(pattern, replacement, name="wrong")

    assert Rule(pattern, replacement, changes_effects=True)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (lambda x: torch.dropout(x, 0.5, True), lambda x: F.dropout(x, 0.5)),
        (lambda x: torch.add(x, 1, out=x), lambda x: x.add_(1)),
        (lambda x: torch.add(x, 1), lambda x: torch.relu_(x + 1)),
    ],
)
def test_a_replacement_with_the_same_effects_is_taken(pattern, replacement):
    assert Rule(pattern, replacement)


def written_between(x):
    y = torch.neg(x)
    x.add_(1)
    return torch.neg(y) + x


def written_before_the_reader(x):
    y = torch.neg(torch.neg(x))
    x.add_(1)
    return y + x


def apart(x):
    y = torch.neg(x)
    z = torch.zeros_like(x)
    z.add_(1)
    return torch.neg(y) + z


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (written_between, {"neg_1": "add_ writes to memory of x between its calls"}),
        (written_before_the_reader, {"neg_1": "add_ writes to memory of x between its calls"}),
        (apart, {}),
    ],
)
def test_calls_do_not_move_over_a_write_to_their_memory(function, left):
    result = RuleSet([NEGATED])(fxcore.symbolic_trace(function))

    assert dict(result.report.left) == left
    assert result.modified == (not left)
    x = torch.randn(3)
    assert torch.equal(result.graph_module(x.clone()), function(x.clone()))


def test_random_calls_keep_their_order():
    rule = Rule(
        lambda x: torch.neg(torch.dropout(x, 0.5, True)), lambda x: torch.dropout(torch.neg(x), 0.5, True), name="first"
    )

    def drawn(x):
        y = torch.dropout(x, 0.5, True)
        z = torch.rand_like(x)
        return torch.neg(y) + z

    report = RuleSet([rule])(fxcore.symbolic_trace(drawn)).report

    assert dict(report.left) == {
        "neg": "rand_like between its calls has the effect 'random', too, and their order would change"
    }


def written_result(x):
    y = torch.relu(x)
    z = y + 0
    z.add_(1)
    return y + z


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (
            lambda x: x + 0,
            {"add": "the graph returns the result, and the rule changes whether it shares memory with x"},
        ),
        (written_result, {"add": "add_ writes to memory of add, which the rule shares otherwise"}),
        (lambda x: torch.relu(x) + 0, {}),
        (lambda x: torch.relu(x + 0), {}),
    ],
)
def test_a_result_shares_memory_only_where_nobody_notices(function, left):
    result = RuleSet([ZERO])(fxcore.symbolic_trace(function))

    assert dict(result.report.left) == left
    assert result.modified == (not left)


def test_a_rule_for_calls_keeps_effects_too():
    rule = Rule(Calls(torch.dropout), lambda x, rate, train: x, name="gone")
    gm = fxcore.symbolic_trace(lambda x: torch.dropout(x, 0.5, True))

    report = RuleSet([rule])(gm).report

    assert dict(report.left) == {
        "dropout": "its replacement has other effects: the pattern has 1 and the replacement 0 calls with the effect "
        "'random'"
    }


def test_a_rule_that_writes_as_its_pattern_does_is_applied():
    rule = Rule(lambda x: torch.add(x, 1, out=x), lambda x: x.add_(1), name="method")

    def adds(x):
        y = torch.neg(x)
        return torch.add(y, 1, out=y)

    result = check_transform(RuleSet([rule]), adds, (torch.randn(3),))

    assert "add_" in result.after.code


@pytest.mark.parametrize(
    ("read", "is_left"),
    [
        (lambda x, view, other: x * 2, True),
        (lambda x, view, other: view * 2, True),
        (lambda x, view, other: other * 2, False),
    ],
)
def test_a_write_does_not_move_over_a_read_of_its_memory(read, is_left):
    rule = Rule(lambda x: torch.neg(x.add_(1)), lambda x: torch.neg(torch.add(x, 1, out=x)), name="function")

    def function(x, other):
        x = x.clone()  # arguments may share memory
        view = x.view(-1)
        y = x.add_(1)
        z = read(x, view, other)
        return torch.neg(y) + z

    result = RuleSet([rule])(fxcore.symbolic_trace(function))

    left = {"neg": "mul between its calls shares memory that the match writes to"} if is_left else {}
    assert dict(result.report.left) == left
    assert result.modified == (not is_left)
    x, other = torch.randn(3), torch.randn(3)
    assert torch.equal(result.graph_module(x.clone(), other), function(x.clone(), other))


def test_a_value_that_would_be_computed_from_itself_stays():
    rule = Rule(lambda x, y: (torch.relu(x), y), lambda x, y: (x + y, y), name="circle")
    gm = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(x)))

    result = RuleSet([rule])(gm)

    assert dict(result.report.left) == {"relu": "a value that the replacement reads depends on its result"}
    assert not result.modified


@pytest.mark.parametrize(
    ("function", "aliases"),
    [
        (lambda x, y: x.view(-1), {(0, 0)}),
        (lambda x, y: x.expand_as(y), {(0, 0)}),
        (lambda x, y: x.add_(y), {(0, 0)}),
        (lambda x, y: x + y, set()),
        (lambda x, y: (y, x), {(0, 1), (1, 0)}),
        (lambda x, y: x.view(-1).t(), {(0, 0)}),
        (lambda x, y: torch.ops.aten.view.default(x, y), {(0, 0)}),
        (lambda x, y: torch.broadcast_tensors(x, y), {(0, 0), (0, 1)}),
    ],
)
def test_results_share_memory_with_the_inputs_that_they_view_or_write(function, aliases):
    assert effects_of_graph(fxcore.symbolic_trace(function).graph).aliases == aliases


@pytest.mark.parametrize(
    ("function", "written"),
    [(lambda x, y: x.add_(y), {0}), (lambda x, y: torch.add(x, x, out=y), {1}), (lambda x, y: x.view(-1) + y, set())],
)
def test_the_written_inputs_are_known(function, written):
    assert effects_of_graph(fxcore.symbolic_trace(function).graph).written == written
