"""A check that passes fails for a spoilt graph, or it was refused: checks, graphs, values and faults are drawn."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import pytest
import torch
from torch import nn

import fxcore
from fixtures.documents import document
from fixtures.lowered import EdgeOpOverload, EdgeOpOverloadPacket, in_the_edge_dialect
from pytest_fxgraph import assert_equivalent, assert_graph_equal, check_transform, ops
from pytest_fxgraph.budget import METRICS, allowances_of
from pytest_fxgraph.compare.cost import cost_difference
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.errors import TargetError, VacuousCheckError
from pytest_fxgraph.vacuity import refuse_nothing_asked, vacuous_error

UNARY = ("neg", "sin", "cos", "exp", "tanh", "sigmoid", "relu", "abs")
SEEDS = range(60)
ODD = (0.0, 1e-30, 1.0, -3.0, 1e6, float("nan"), float("inf"), float("-inf"))
OUTCOMES = {"passed": 0, "refused": 0}


def drawn_names(draw: random.Random) -> list[str]:
    return draw.choices(UNARY, k=draw.randint(1, 4))


def program(names: list[str]) -> nn.Module:
    class Program(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for name in names:
                x = getattr(torch, name)(x)
            return x

    return Program()


def drawn_values(draw: random.Random) -> torch.Tensor:
    """Draw ordinary values, odd values, one odd value throughout, no value, or values without storage."""
    size = draw.choice((0, 1, 5))
    values = torch.tensor(
        draw.choice(
            [
                [draw.uniform(-2, 2) for _ in range(size)],
                [draw.choice(ODD) for _ in range(size)],
                [draw.choice(ODD)] * size,
            ]
        )
    )
    return values.to("meta") if draw.random() < 0.1 else values


def spoilt(graph_module: fxcore.GraphModule, draw: random.Random) -> fxcore.GraphModule:
    """Return a copy with another result: of zeros, of other values, or of another shape."""
    made = copy.deepcopy(graph_module)
    output = made.graph.output_node()
    (value,) = output.all_input_nodes
    with made.graph.inserting_before(output):
        wrong = draw.choice(
            [
                lambda: made.graph.call_function(torch.zeros_like, (value,)),
                lambda: made.graph.call_function(torch.add, (made.graph.call_function(torch.mul, (value, 3)), 1)),
                lambda: made.graph.call_function(torch.unsqueeze, (value, 0)),
            ]
        )()
    output.replace_input_with(value, wrong)
    made.recompile()
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_values_are_told_from_wrong_ones_or_the_check_is_refused(seed):
    draw = random.Random(seed)
    model = program(drawn_names(draw))
    graph, values = fxcore.symbolic_trace(model), drawn_values(draw)

    try:
        assert_equivalent(model, graph, values)
    except VacuousCheckError:
        OUTCOMES["refused"] += 1
        assert_equivalent(model, graph, values, allow_vacuous=True)
        return
    OUTCOMES["passed"] += 1
    with pytest.raises(AssertionError):
        assert_equivalent(model, spoilt(graph, draw), values)


def test_the_draws_above_reach_both_outcomes():
    if sum(OUTCOMES.values()) == len(SEEDS):  # all of them ran in this process
        assert min(OUTCOMES.values()) > len(SEEDS) // 10


FORMS = ("torch", "aten", "edge")
# By dialect: the ways to call an operation and to name that call.
SPELLINGS = {
    "torch": [
        ("function", lambda name: getattr(torch, name)),
        ("function", lambda name: f"torch.{name}"),
        ("method", lambda name: name),
        ("function", lambda name: f"*.{name}*"),
    ],
    "aten": [
        ("operator", lambda name: f"aten.{name}*"),
        ("operator", lambda name: getattr(torch.ops.aten, name)),
        ("operator", lambda name: getattr(torch.ops.aten, name).default),
    ],
    "edge": [
        ("operator", lambda name: f"edge.aten.{name}*"),
        ("operator", lambda name: EdgeOpOverloadPacket(getattr(torch.ops.aten, name))),
        ("operator", lambda name: EdgeOpOverloadPacket(getattr(torch.ops.aten, name)).default),
    ],
}


def in_form(names: list[str], form: str) -> fxcore.GraphModule:
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for name in names:
        function = getattr(torch, name) if form == "torch" else getattr(torch.ops.aten, name).default
        value = graph.call_function(function, (value,))
    graph.output(value)
    made = fxcore.GraphModule({}, graph)
    return in_the_edge_dialect(made) if form == "edge" else made


def with_call(graph_module: fxcore.GraphModule, name: str, form: str, kind: str) -> fxcore.GraphModule:
    """Return a copy that calls one more operation before its output, in the dialect that it speaks."""
    made = copy.deepcopy(graph_module)
    output = made.graph.output_node()
    (value,) = output.all_input_nodes
    overload = getattr(torch.ops.aten, name).default
    function = {"torch": getattr(torch, name), "aten": overload, "edge": EdgeOpOverload(overload)}[form]
    with made.graph.inserting_before(output):
        call = (
            made.graph.call_method(name, (value,)) if kind == "method" else made.graph.call_function(function, (value,))
        )
    output.replace_input_with(value, call)
    made.recompile()
    return made


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_question_about_operators_tells_one_more_call_or_is_refused(seed):
    draw = random.Random(seed)
    names, form = drawn_names(draw), draw.choice(FORMS)
    name, dialect = draw.choice(UNARY), draw.choice(FORMS)
    kind, spelled = draw.choice(SPELLINGS[dialect])
    graph, target = in_form(names, form), spelled(name)
    wrong = with_call(graph, name, form, kind if form == "torch" else "function")

    is_for_all = isinstance(target, str) and target.startswith("*.")
    if not (form == dialect or (dialect, form) == ("aten", "edge") or is_for_all):
        for ask in (ops(graph).count, ops(graph).absent):
            with pytest.raises(TargetError):
                ask(target)
        return
    count = ops(graph).count(target)
    assert ops(wrong).count(target) == count + 1
    with pytest.raises(AssertionError):
        ops(wrong).absent(target)
    if not count:
        ops(graph).absent(target)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_list_of_allowed_operators_tells_another_one_or_is_refused(seed):
    draw = random.Random(seed)
    names, form = drawn_names(draw), draw.choice(FORMS)
    graph = in_form(names, form)
    globs = [["*"], ["*.*", "*"], [f"*{name}*" for name in names], ["aten.*", "edge.*", "torch.*"], names]
    allowed = draw.choice(globs)
    foreign = next(name for name in UNARY if name not in names)

    try:
        ops(graph).only_from(allowed)
    except (TargetError, AssertionError):
        return
    if allowed == globs[3]:
        wrong = copy.deepcopy(graph)
        with wrong.graph.inserting_before(wrong.graph.output_node()):
            wrong.graph.call_function(print, ("not on the list",))
    else:
        wrong = with_call(graph, foreign, form, "function")
    with pytest.raises(AssertionError, match="calls what is not on the list"):
        ops(wrong).only_from(allowed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_transform_is_told_from_one_that_does_nothing(seed):
    draw = random.Random(seed)
    names = [name for name in drawn_names(draw) if name != "relu"] or ["sin"]  # the relu of negative values is zero
    model, values = program(names), torch.linspace(0.25, 1.5, 5)

    def right(gm: fxcore.GraphModule) -> None:
        for node in list(gm.graph.nodes):
            if node.target is getattr(torch, names[0]):
                node.target = getattr(torch.Tensor, names[0])
        gm.recompile()

    def wrong(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        return spoilt(gm, draw)

    check_transform(right, model, values)
    with pytest.raises(VacuousCheckError):
        check_transform(draw.choice([lambda gm: gm, lambda gm: None, [lambda gm: gm, lambda gm: None]]), model, values)
    with pytest.raises(AssertionError):
        check_transform(draw.choice([wrong, [right, wrong], [wrong, right]]), model, values)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_graph_is_told_from_a_spoilt_one(seed):
    draw = random.Random(seed)
    graph = fxcore.symbolic_trace(program(drawn_names(draw)))

    assert_graph_equal(graph, copy.deepcopy(graph))
    with pytest.raises(AssertionError):
        assert_graph_equal(graph, spoilt(graph, draw))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_budget_tells_another_cost_or_is_refused(seed):
    draw = random.Random(seed)
    total = CostRecord(*(draw.choice((0, 3, 1000)) for _ in range(5)))
    dearer = CostRecord(
        *(10 * value + 9000 for value in (total.flops, total.read, total.written, total.params, total.nodes))
    )
    golden, wrong = (replace(document("return None"), cost=CostBlock(each, each.flops, "")) for each in (total, dearer))
    written = draw.choice([(None, 0, 1, 3, 1000, "1%", "100%"), (None,)])

    try:
        budget = allowances_of({metric: draw.choice(written) for metric in METRICS})
    except VacuousCheckError:
        return
    assert cost_difference(golden, golden, budget).is_empty
    assert not cost_difference(golden, wrong, budget).is_empty


def test_the_error_names_check_problem_remedy_and_exit():
    error = vacuous_error("comparing a and b", "both are empty", "Give values")

    assert str(error) == (
        "comparing a and b says nothing: both are empty. Give values; allow_vacuous=True lets the check pass"
    )
    refuse_nothing_asked("assert_ops", ["one"])
    with pytest.raises(VacuousCheckError, match="assert_ops was asked nothing, so that it could never fail; name"):
        refuse_nothing_asked("assert_ops", [])
