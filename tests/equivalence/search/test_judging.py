"""A difference is a find only if it is the graph's fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

import fxcore
from fixtures.searched_graphs import Calling, drawn, graph_calling, space_around
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.search.judging import Judge, Verdict, _RuleInDouble, has_checks_elsewhere
from pytest_fxgraph.equivalence.tolerance import Tolerance, ToleranceRule
from pytest_fxgraph.errors import MismatchError


class Guards(NamedTuple):
    are_enforced: bool


def judge_of(model, module, x: torch.Tensor, rule=(None, None), *, grads: bool = False) -> Judge:
    """Return the judge of a model and a graph."""
    check = EquivalenceCheck(arguments_of(x), OutputComparison(ToleranceRule(*rule)), 1, 0, grads=grads)
    return Judge(check, model, GraphCall(module, module), None, Snapshot(model, module))


def verdict_of(judge: Judge, **odd) -> Verdict | MismatchError:
    """Judge the input of a check that a recipe calls odd."""
    arguments = judge.check.arguments
    space = space_around(*arguments.args)

    class Space:
        """A search space that makes this input."""

        example, is_extreme = space.example, space.is_extreme

        def make(self, recipe):
            return arguments

    return judge.judge(Space(), space.example()._replace(**odd))


def verdict_on(eager, graph, x: torch.Tensor, rule=(None, None), **odd) -> Verdict | MismatchError:
    """Judge two functions on an input that a recipe calls odd."""
    return verdict_of(judge_of(Calling(eager), graph_calling(graph), x, rule), **odd)


HUGE = {"fills": ("huge",)}


def test_equal_results_agree():
    assert verdict_on(torch.relu, torch.relu, drawn(2, 3)) is Verdict.AGREES


def test_other_values_are_a_find():
    assert isinstance(verdict_on(torch.relu, torch.neg, drawn(2, 3)), MismatchError)


def test_what_eager_refuses_is_none(capsys):
    assert verdict_on(lambda x: x.view(7), torch.relu, drawn(2, 3)) is Verdict.REFUSED
    assert capsys.readouterr().err == ""


def test_what_a_guard_of_the_graph_refuses_is_none():
    def guarded(x):
        torch._assert(x.shape[0] == 4, "made for four")
        return x

    def exported(x):
        raise RuntimeError("Expected input at *args[0].shape[0] to be equal to 4, but got 2")

    traced = fxcore.symbolic_trace(lambda x: x if x.shape[0] == 4 else x + 1, example_inputs=drawn(4, 3))

    for graph in (guarded, exported, lambda x: traced(x)):
        assert verdict_on(torch.clone, graph, drawn(2, 3)) is Verdict.GUARDED


def test_another_error_of_the_graph_is_a_find():
    assert isinstance(verdict_on(torch.clone, lambda x: x.view(4, 3), drawn(2, 3)), MismatchError)


def test_zeros_say_nothing():
    assert verdict_on(torch.relu, lambda x: x * 0, -drawn(2, 3)) is Verdict.SAYS_NOTHING


def test_rounding_is_none():
    cancelled = torch.full((3,), -5.0)

    # 1 + erf(x) is 6e-7 there, and half of that is rounding.
    verdict = verdict_on(
        lambda x: x * 0.5 * torch.erfc(-x / 2**0.5), lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)), cancelled
    )

    assert verdict is Verdict.ROUNDED


def test_overflow_in_one_order_and_not_in_the_other_is_none():
    huge = torch.full((3,), 1e38)

    assert verdict_on(lambda x: x / 10 * 20, lambda x: x * 20 / 10, huge, **HUGE) is Verdict.ROUNDED


def test_a_model_that_answers_otherwise_to_the_last_place_is_none_for_huge_inputs():
    huge = torch.logspace(20, 30, 50)

    assert verdict_on(lambda x: torch.sin(x * 0.7), lambda x: torch.sin(x * 7 / 10), huge, **HUGE) is Verdict.ROUNDED


def test_a_tolerance_of_the_callers_makes_no_find_of_the_rounding_of_huge_values():
    huge = torch.logspace(20, 30, 200)

    verdict = verdict_on(lambda x: x * 0.1 - x * 0.3, lambda x: (x - x * 3) * 0.1, huge, rule=(0.0, 1e-5), **HUGE)

    assert verdict is Verdict.ROUNDED


def test_wrong_values_for_huge_inputs_are_a_find():
    huge = torch.tensor([1e20, -3e25, 7e30])

    assert isinstance(verdict_on(lambda x: x * 2, lambda x: x.clamp(max=1e10) * 2, huge, **HUGE), MismatchError)


def test_what_does_not_run_in_double_precision_is_none_only_for_extreme_inputs():
    def single(x):
        return x @ torch.eye(3)

    def wrong(x):
        return x @ torch.eye(3).flip(0)

    assert isinstance(verdict_on(single, wrong, drawn(2, 3)), MismatchError)
    assert verdict_on(single, wrong, drawn(2, 3) * 1e30, **HUGE) is Verdict.ROUNDED


def test_what_depends_on_memory_is_judged_in_the_same_memory():
    expanded = torch.rand(1, 3).expand(2, 3)

    verdict = verdict_on(lambda x: x + 1, lambda x: x + (2 if 0 in x.stride() else 1), expanded, layouts=("expanded",))

    assert isinstance(verdict, MismatchError)


@pytest.mark.parametrize(("layout", "is_find"), [("example", True), ("reversed", False)])
def test_strides_of_results_count_where_the_inputs_have_those_of_the_example(layout, is_find):
    x = torch.rand(3, 2).t()

    verdict = verdict_on(lambda x: (x + 1).contiguous(), lambda x: x + 1, x, layouts=(layout,))

    assert isinstance(verdict, MismatchError) is is_find


class Uncopied(torch.nn.Module):
    """A module that nobody can copy, and that therefore has no run in double precision."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)

    def __deepcopy__(self, memo):
        raise TypeError("there is only one")


@pytest.mark.parametrize(("odd", "is_find"), [({}, True), (HUGE, False)])
def test_a_model_that_cannot_be_copied_is_judged_by_its_own_precision(odd, is_find):
    judge = judge_of(Uncopied(lambda x: x * 2), graph_calling(lambda x: x * 3), torch.full((3,), 1e30))
    verdict = verdict_of(judge, **odd)

    assert isinstance(verdict, MismatchError) if is_find else verdict is Verdict.ROUNDED


def test_huge_whole_numbers_are_compared_exactly_and_never_nudged():
    found = verdict_on(lambda x: x + 1, lambda x: x + 2, torch.tensor([10**12, 3]), **HUGE)

    assert isinstance(found, MismatchError)


@pytest.mark.parametrize(("odd", "is_find"), [({}, True), (HUGE, False)])
def test_runs_that_differ_in_dtype_in_double_precision_alone_judge_nothing(odd, is_find):
    verdict = verdict_on(lambda x: x.float() * 2, lambda x: x * 3, torch.full((3,), 1e30), **odd)

    assert isinstance(verdict, MismatchError) if is_find else verdict is Verdict.ROUNDED


class Adding(nn.Module):
    """Adds up the inputs of all calls."""

    def __init__(self, *, shows: bool) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.shows = shows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.detach().sum())
        return x + self.total if self.shows else x.sin()


@pytest.mark.parametrize("shows", [False, True])
def test_a_second_call_counts_where_the_recipe_asks_for_one(shows):
    model = Adding(shows=shows)
    graph_module = fxcore.symbolic_trace(model)
    graph_module.graph.find_nodes(op="call_method", target="add_")[0].target = "copy_"  # right in the first call
    graph_module.recompile()
    judge = judge_of(model, graph_module, drawn(2, 3))

    assert verdict_of(judge, second_call=False) is Verdict.AGREES
    assert isinstance(verdict_of(judge, second_call=True), MismatchError)


@pytest.mark.parametrize(
    ("grads", "fill", "are_compared"),
    [(True, "range", True), (True, "normal", True), (True, "huge", False), (False, "range", False)],
)
def test_gradients_are_compared_at_smooth_values(grads, fill, are_compared):
    x = drawn(2, 3)
    space = space_around(x)

    check = judge_of(nn.ReLU(), nn.ReLU(), x, grads=grads).check_of(space, space.example()._replace(fills=(fill,)))

    assert (check.grads, check.comparison.requires_grad, check.samples) == (are_compared, are_compared, 1)


@pytest.mark.parametrize(
    ("eager", "graph", "is_accepted"),
    [
        (torch.relu, torch.neg, True),
        (lambda x: x.view(7), torch.neg, False),
        (torch.relu, lambda x: x.view(7), True),
        (torch.relu, lambda x: torch._assert(x.shape[0] == 4, "made for four"), False),
    ],
)
def test_an_input_is_accepted_that_eager_answers_and_no_guard_refuses(eager, graph, is_accepted):
    judge = judge_of(Calling(eager), graph_calling(graph), drawn(2, 3))

    assert judge.accepts(judge.check.arguments) is is_accepted
    assert judge.lost_check is None


def test_double_precision_compares_floats_by_their_largest_value_and_whole_numbers_exactly():
    floats, ints = torch.tensor([3.0, -1e6], dtype=torch.float64), torch.tensor([7, 10**9])

    assert _RuleInDouble().for_tensor(floats) == Tolerance(1.3e-6, 1.0)
    assert _RuleInDouble(0.5, 2.0).for_tensor(floats) == Tolerance(0.5, 2.0)
    assert _RuleInDouble(0.0, 0.0).for_tensor(floats.to(torch.complex128)) == Tolerance(0.0, 1.0)
    assert _RuleInDouble().for_tensor(ints).is_exact
    assert _RuleInDouble(0.5, 2.0).for_tensor(ints) == Tolerance(0.5, 2.0)
    assert _RuleInDouble().grown(floats) is None


@pytest.mark.parametrize(
    ("meta", "guards", "has_some"),
    [
        ({}, (), False),
        ({"val": 1}, (), False),
        ({"example_value": 1}, (), True),
        ({}, Guards(are_enforced=False), True),
        ({}, Guards(are_enforced=True), False),
        ({}, ("a guard",), True),
    ],
)
def test_conditions_of_dynamo_and_guards_without_effect_stand_elsewhere(meta, guards, has_some):
    nodes = [SimpleNamespace(meta={}), SimpleNamespace(meta=meta)]

    assert has_checks_elsewhere(SimpleNamespace(graph=SimpleNamespace(nodes=nodes, guards=guards))) is has_some
    assert has_checks_elsewhere(torch.relu) is False
