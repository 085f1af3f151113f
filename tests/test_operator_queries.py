"""Operators are counted, forbidden and put in order; a target that can never match is refused."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fxcore
from fixtures.lowered import EdgeOpOverloadPacket, edge_graph, with_delegate
from pytest_fxgraph.captures.subjects import to_graph_with_operators
from pytest_fxgraph.errors import TargetError, VacuousCheckError
from pytest_fxgraph.operator_queries import FxOps, OpsQuery


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

    words = r"\*relu must be absent, and 3 nodes of the graph call it: relu \(torch.relu\)"
    with pytest.raises(AssertionError, match=words):
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
    with pytest.raises(AssertionError, match=r"no torch.relu \(number 2\) after relu;"):
        query.in_order(torch.relu, torch.relu)


def test_only_what_the_list_names_may_be_called(query):
    query.only_from([nn.Conv2d, "*relu", operator.add, "aten.*"])

    with pytest.raises(
        AssertionError, match=r"what is not on the list: torch.ops|aten.sigmoid.default x1; allowed are"
    ):
        query.only_from([nn.Conv2d, "*relu", operator.add])


def test_globs_over_packages_of_the_users_are_taken_at_their_word(query):
    query.absent("numpy.fft.*")


class Branches(nn.Module):
    """Takes one of two branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) + 1


def nested_graph() -> fxcore.GraphModule:
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.sin, (graph.call_module("inner", (x,)),)))
    root = nn.Module()
    root.inner = fxcore.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    return fxcore.GraphModule(root, graph)


def test_graphs_inside_the_graph_are_looked_into_unless_told_not_to():
    gm = nested_graph()

    assert OpsQuery(gm).counts() == {"torch.sin": 1, "torch.nn.ReLU": 1, "torch.nn.Tanh": 1}
    assert OpsQuery(gm, recursive=False).count(nn.ReLU) == 0
    words = r"torch.nn.ReLU must be absent, and 1 node of the graph calls it: inner/_0 \(torch.nn.ReLU\)"
    with pytest.raises(AssertionError, match=words):
        OpsQuery(gm).absent(nn.ReLU)


def test_a_graph_that_is_called_twice_counts_once():
    gm = nested_graph()
    gm.inner_again = gm.inner
    with gm.graph.inserting_after(next(iter(gm.graph.nodes))) as _:
        gm.graph.call_module("inner_again", (next(iter(gm.graph.nodes)),))

    assert OpsQuery(gm).count(nn.ReLU) == 1


def test_branches_delegates_and_exported_programs_are_looked_into():
    program = torch.export.export(Branches(), (torch.ones(2),))
    query = OpsQuery(to_graph_with_operators(program))
    delegate = OpsQuery(with_delegate(torch.export.export(nn.ReLU(), (torch.ones(2),))))

    assert query.count("aten.sin*") == query.count(torch.ops.aten.cos) == query.count("higher_order.cond") == 1
    assert delegate.count("aten.relu") == 1
    assert delegate.counts() == {"fixtures.lowered.call_delegate": 1, "aten.relu.default": 1}


EDGE = EdgeOpOverloadPacket(torch.ops.aten.sin)


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("edge.aten.sin*", 1),
        ("edge.aten.sin", 1),
        ("edge.aten.sin.default", 1),
        ("edge.*", 2),
        (EDGE, 1),
        (EDGE.default, 1),
        ("edge.aten.tanh*", 0),
        ("aten.sin*", 1),
        ("aten.tanh*", 0),
        ("aten.*", 2),
        (torch.ops.aten.sin, 1),
        (torch.ops.aten.sin.default, 1),
        (torch.ops.aten.sin.out, 0),
    ],
)
def test_operators_of_the_edge_dialect_have_its_names_and_those_of_aten(target, count):
    query = OpsQuery(edge_graph("sin", "cos"))

    assert query.count(target) == count
    assert query.dialects == ["edge"]


def added(x):
    return x + 1


def exported(x):
    return to_graph_with_operators(torch.export.export(fxcore.symbolic_trace(added), (x,)))


FOREIGN = [
    (fxcore.symbolic_trace(added), "aten.add*", "speaks python and not aten (it calls operator.add)", "'operator.add'"),
    (fxcore.symbolic_trace(Small().conv), torch.ops.aten.relu, "speaks torch and not aten", "'torch.relu'"),
    (
        fxcore.symbolic_trace(nn.Sequential(nn.BatchNorm2d(3))),
        "aten.batch_norm*",
        "speaks torch and not aten",
        "here it is 'torch.nn.BatchNorm2d' or 'torch.batch_norm'",
    ),
    (exported(torch.ones(2)), torch.relu, "speaks aten and not torch (it calls aten.add.Tensor)", "'aten.relu'"),
    (exported(torch.ones(2)), nn.BatchNorm2d, "speaks aten and not torch", "Name the operator in a dialect"),
    (exported(torch.ones(2)), "relu", "speaks aten and not torch", "'aten.relu'"),
    (exported(torch.ones(2)), "edge.aten.add*", "speaks aten and not edge", "'aten.add'"),
    (edge_graph("sin"), "torch.nn.functional.relu", "speaks edge and not torch", "'aten.relu'"),
    (edge_graph("sin"), nn.ReLU, "speaks edge and not torch", "'*relu*'"),
]


@pytest.mark.parametrize(("graph", "target", "words", "hint"), FOREIGN)
def test_a_question_in_a_dialect_that_the_graph_does_not_speak_is_refused(graph, target, words, hint):
    query = OpsQuery(graph)

    for ask in (query.count, query.nodes, query.absent):
        with pytest.raises(TargetError) as caught:
            ask(target)
        assert words in str(caught.value)
        assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("graph", "target"),
    [
        (fxcore.symbolic_trace(added), "aten.*"),
        (fxcore.symbolic_trace(added), "*relu*"),
        (fxcore.symbolic_trace(added), torch.relu),
        (fxcore.symbolic_trace(added), torch.ops.higher_order.cond),
        (exported(torch.ones(2)), "torch.nn.functional.*"),
        (exported(torch.ones(2)), "edge.aten.*"),
        (exported(torch.ones(2)), "prims.neg*"),
        (exported(torch.ones(2)), operator.mul),
        (edge_graph("sin"), "prims.neg*"),
        (fxcore.symbolic_trace(lambda x: x), "aten.add*"),
    ],
)
def test_a_question_that_could_find_something_is_answered(graph, target):
    OpsQuery(graph).absent(target)


def test_one_operator_may_be_forbidden_by_its_names_in_every_dialect():
    for graph in (fxcore.symbolic_trace(added), exported(torch.ones(2)), edge_graph("sin")):
        OpsQuery(graph).absent(nn.Dropout, F.dropout, "aten.dropout*")

    with pytest.raises(TargetError, match=r"aten.dropout\*, aten.neg could never match"):
        OpsQuery(fxcore.symbolic_trace(added)).absent("aten.dropout*", torch.ops.aten.neg)


def test_a_check_that_asks_nothing_or_allows_everything_is_refused(query):
    for ask in (query.absent, query.in_order):
        with pytest.raises(VacuousCheckError, match="was asked nothing, so that it could never fail"):
            ask()
    with pytest.raises(TargetError, match=r"only_from\(\['\*'\]\) could never fail: the list allows every operator"):
        query.only_from(["*"])


def test_a_query_tells_the_dialects_of_its_graph(query):
    assert query.dialects == ["torch", "python", "aten"]
    assert OpsQuery(exported(torch.ones(2))).dialects == ["aten"]


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def test_a_function_with_a_gradient_of_its_own_is_named_by_its_class():
    graph = fxcore.Graph()
    graph.output(graph.call_function(Double.apply, (graph.placeholder("x"),)))
    query = OpsQuery(fxcore.GraphModule({}, graph))

    assert query.count(Double) == query.count(f"{__name__}.Double.apply") == query.count("*.Double.apply") == 1


@torch.library.custom_op("fx_ops_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("target", ["fx_ops_test.twice", "fx_ops_test.twice*", twice, torch.ops.fx_ops_test.twice])
def test_operators_of_a_library_are_known_by_name(query, target):
    assert query.count(target) == 0


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("fx_ops_test.twise", "'fx_ops_test.twice'"),
        ("edge.aten.sinn*", "'edge.aten.sin'"),
        ("numpy.ffft.*", ""),
        ("acme.kernels.*", ""),
        (f"{__name__}.Doubled.*", ""),
        ("torch.nn.Conv4d", "'torch.nn.Conv"),
    ],
)
def test_a_name_of_nothing_is_refused_with_the_nearest_and_what_the_graph_calls(query, target, near):
    with pytest.raises(TargetError) as caught:
        query.absent(target)

    assert near in str(caught.value)
    assert "(the graph calls torch.nn.Conv2d, " in str(caught.value)


def test_what_a_hook_calls_an_operator_is_its_name():
    def named(target):
        return "acme.rectify" if target is torch.relu else None

    query = OpsQuery(fxcore.symbolic_trace(Small()), own_name=named)

    assert query.count("acme.*") == query.count("acme.rectify") == query.count(torch.relu) == 1
    assert query.count("torch.relu") == 0
    query.absent("acme.other*")


def test_failures_and_the_query_itself_list_what_is_called(query):
    listed = "operator.add x2, torch.nn.Conv2d x1"

    assert listed in repr(query)
    with pytest.raises(AssertionError, match=r"the graph calls operator.add x2, torch.nn.Conv2d x1"):
        query.absent(torch.relu)
    with pytest.raises(AssertionError, match=r"the graph calls operator.add x2, torch.nn.Conv2d x1"):
        query.only_from([nn.Conv2d])


def test_a_method_of_an_importable_class_may_be_asked_for(query):
    assert query.count("torch.nn.Module.half") == 0
    assert query.count("fixtures.lowered.with_delegate.<locals>.*") == 0
    with pytest.raises(TargetError, match=r"Module.halve"):
        query.count("torch.nn.Module.halve")


def test_a_target_without_a_name_is_asked_for_by_its_text():
    class Nameless:
        def __call__(self, x):
            return x

        def __repr__(self):
            return "a nameless thing"

    graph = fxcore.Graph()
    graph.output(graph.create_node("call_function", Nameless(), (graph.placeholder("x"),), name="call"))

    assert "a nameless thing" in OpsQuery(fxcore.GraphModule({}, graph)).summary()


def test_a_model_that_needs_an_example_is_traced_with_the_example_inputs():
    def by_size(x):
        return x.mean() if x.shape[0] > 2 else -x

    assert FxOps()(by_size, example_inputs=(torch.rand(3),)).count("mean") == 1
    assert FxOps()(by_size, example_kwargs={"x": torch.rand(2)}).count("mean") == 0
