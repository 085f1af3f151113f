"""Level `cost`: which costs differ, and what accounts for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.budget import allowances_of
from pytest_fxgraph.compare.cost import MOST_MODULES, cost_difference, relative
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.model import ModuleRecord
from pytest_fxgraph.errors import LevelError

GRAPH = document(
    "%x = input x : float32[2]\n%a = torch.relu(%x) : float32[2] @ act\n%b = torch.neg(%a) : float32[2]\nreturn %b"
)
COST = CostBlock(
    CostRecord(flops=300, read=80, written=20, params=10, nodes=2),
    peak_activation=64,
    peak_at="act",
    modules=(("act", CostRecord(100, 40, 10, 10, 1)), ("", CostRecord(200, 40, 10, 0, 1))),
)
GOLDEN = replace(GRAPH, cost=COST)


def with_cost(**changes):
    return replace(GOLDEN, cost=replace(COST, **changes))


def told(difference):
    return [(change.where, change.field, change.expected, change.obtained) for change in difference.changes]


def test_equal_costs_are_no_difference_whatever_the_graphs_are():
    other = replace(document("%y = input y\nreturn %y"), cost=COST)

    assert compare_documents(GOLDEN, other, level="cost").is_empty


def test_every_metric_is_judged_by_its_own_allowance():
    obtained = with_cost(total=CostRecord(303, 81, 20, 11, 2), peak_activation=70)
    budget = allowances_of({"flops": "1%", "bytes": 1, "peak_activation": None})

    assert [change.where for change in cost_difference(GOLDEN, obtained, budget).changes] == ["params"]
    assert [change.where for change in cost_difference(GOLDEN, obtained).changes] == [
        "flops",
        "bytes",
        "params",
        "peak_activation",
    ]


def test_what_got_worse_comes_before_what_got_better():
    obtained = with_cost(total=CostRecord(100, 80, 20, 12, 2))

    changes = cost_difference(GOLDEN, obtained).changes

    assert [(change.where, change.field) for change in changes] == [("params", ""), ("flops", "better")]
    assert changes[0].remark == "+20.00%, the budget is 0"


def test_modules_account_for_it_in_the_order_of_how_much_they_changed():
    modules = (("act", CostRecord(100, 50, 10, 10, 1)), ("new", CostRecord(400, 4, 4, 0, 1)))
    obtained = with_cost(total=CostRecord(500, 54, 14, 10, 2), modules=modules)

    assert told(cost_difference(GOLDEN, obtained))[2:] == [
        ("new", "flops", "0", "400"),
        ("new", "bytes", "0", "8"),
        ("new", "nodes", "0", "1"),
        ("(root)", "flops", "200", "0"),
        ("(root)", "bytes", "50", "0"),
        ("(root)", "nodes", "1", "0"),
        ("act", "bytes", "50", "60"),
    ]


def test_nodes_that_came_went_or_grew_are_named_with_what_they_cost():
    graph = document(
        "%x = input x : float32[2]\n%a = torch.relu(%x) : float32[4] @ act\n%c = torch.exp(%a) : float32[4]\nreturn %c"
    )
    modules = (("act", CostRecord(200, 80, 20, 10, 1)), ("", CostRecord(400, 80, 20, 0, 1)))
    nodes = {"a": CostRecord(200, 80, 20), "c": CostRecord(400, 80, 20)}
    cost = replace(COST, total=CostRecord(600, 160, 40, 10, 2), modules=modules, by_node=nodes)

    changes = [
        change for change in cost_difference(GOLDEN, replace(graph, cost=cost)).changes if change.subject == "node"
    ]

    assert [(change.action, change.where, change.expected, change.obtained) for change in changes] == [
        ("added", "c", "", "torch.exp(%), which costs 400 FLOPs and 100 bytes"),
        ("removed", "b", "torch.neg(%)", ""),
        ("changed", "a", "float32[2]", "float32[4], which costs 200 FLOPs and 100 bytes"),
    ]


def test_a_module_whose_class_is_another_is_told_with_both():
    def calling(kind, flops):
        text = "%x = input x : float32[2]\n%a = self.act(%x) : float32[2]\nreturn %a"
        graph = document(text, modules=(ModuleRecord("act", kind),))
        modules = (("act", CostRecord(flops, 40, 10, 0, 1)),)
        return replace(graph, cost=CostBlock(modules[0][1], 64, "act", modules))

    changes = cost_difference(calling("torch.nn.Identity", 0), calling("torch.nn.ReLU", 100)).changes

    told_of_modules = [(change.where, change.field, change.expected, change.obtained) for change in changes[1:]]
    assert told_of_modules == [
        ("act", "flops", "0", "100"),
        ("act", "class", "torch.nn.Identity", "torch.nn.ReLU"),
    ]


def test_an_operator_that_is_no_longer_counted_is_a_difference():
    obtained = with_cost(uncounted=("lib.f",))

    (change,) = cost_difference(GOLDEN, obtained).changes

    assert (change.where, change.expected, change.obtained) == ("operators without a count of FLOPs", "none", "lib.f")
    assert cost_difference(GOLDEN, obtained, allowances_of({"flops": None})).is_empty


def test_costs_that_one_side_does_not_have_are_one_difference():
    assert told(cost_difference(GRAPH, GOLDEN)) == [("costs", "recorded", "", "")]
    assert [change.action for change in cost_difference(GOLDEN, GRAPH).changes] == ["removed"]


def test_two_graphs_without_costs_cannot_be_compared():
    with pytest.raises(LevelError, match="cannot compare at level 'cost': no costs are recorded for either graph"):
        cost_difference(GRAPH, GRAPH)


def test_no_more_modules_are_listed_than_anybody_reads():
    modules = tuple((f"m.{number}", CostRecord(1, 0, 0, 0, 0)) for number in range(2 * MOST_MODULES))

    difference = cost_difference(GOLDEN, with_cost(total=CostRecord(900, 80, 20, 10, 2), modules=modules))

    assert difference.truncated
    assert len(difference.changes) == 1 + MOST_MODULES
    assert difference.omitted >= MOST_MODULES


@pytest.mark.parametrize(
    ("before", "after", "text"), [(200, 201, "+0.50%"), (4, 1, "-75.00%"), (0, 5, "+5"), (1, 30, "x30")]
)
def test_a_change_is_told_in_percent_or_in_times(before, after, text):
    assert relative(before, after) == text


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        ("torch.neg(%a, 1) : float32[2]", ("torch.neg(%) float32[2]", "torch.neg(%, 1) float32[2]")),
        ("torch.neg(%a) : float32[4]", ("float32[2]", "float32[4]")),
        ("torch.neg(%a, 1)", ("torch.neg(%) float32[2]", "torch.neg(%, 1) ")),
    ],
)
def test_a_call_is_told_by_its_value_if_that_changed_and_else_by_its_arguments(call, texts):
    nodes = document(f"%x = input x : float32[2]\n%a = torch.relu(%x) : float32[2] @ act\n%b = {call}\nreturn %b").nodes
    modules = (COST.modules[0], ("", CostRecord(900, 40, 10, 0, 1)))
    obtained = replace(GOLDEN, nodes=nodes, cost=replace(COST, total=CostRecord(1000, 80, 20, 10, 2), modules=modules))

    changes = compare_documents(GOLDEN, obtained, level="cost").changes

    assert [(each.expected, each.obtained) for each in changes if each.where == "b"] == [texts]


@pytest.mark.parametrize("is_new", [True, False])
def test_the_class_of_a_module_that_one_graph_lacks_is_no_other_class(is_new):
    record = (ModuleRecord("act", "torch.nn.ReLU"),)
    more = with_cost(total=CostRecord(900, 80, 20, 10, 2), modules=(("act", CostRecord(900, 40, 10, 10, 1)),))
    graphs = (GOLDEN, replace(more, modules=record)) if is_new else (replace(GOLDEN, modules=record), more)

    assert "class" not in {change.field for change in cost_difference(*graphs).changes}


def test_each_call_that_one_graph_lacks_is_named_with_its_module():
    text = "%x = input x : float32[2]\n%a = torch.exp(%x) @ act\n%b = torch.sin(%a) @ act\n%c = .cos(%b)\nreturn %c"
    modules = (("act", CostRecord(900, 40, 10, 10, 1)), ("", CostRecord(200, 40, 10, 0, 2)))
    other = replace(document(text), cost=replace(COST, total=CostRecord(1100, 80, 20, 10, 3), modules=modules))

    for graphs, action, calls in (
        ((GOLDEN, other), "added", [("torch.exp(%)", "act"), ("torch.sin(%)", "act"), (".cos(%)", None)]),
        ((other, GOLDEN), "added", [("torch.relu(%)", "act"), ("torch.neg(%)", None)]),
        ((GOLDEN, other), "removed", [("torch.relu(%)", "act"), ("torch.neg(%)", None)]),
    ):
        changes = [change for change in cost_difference(*graphs).changes if change.action == action]
        assert [(change.expected or change.obtained, change.scope) for change in changes] == calls


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ((), "most is live in act"),
        ((("a", 1000),), "held by a 1,000"),
        ((("a", 3), ("b", 2), ("c", 1)), "held by a 3, b 2, c 1"),
        ((("a", 3), ("b", 2), ("c", 1), ("d", 1), ("e", 1)), "held by a 3, b 2, c 1, 2 more"),
    ],
)
def test_a_peak_of_memory_names_three_values_that_are_live_there(held, words):
    (change,) = cost_difference(GOLDEN, with_cost(peak_activation=70, held=held)).changes

    assert change.remark.partition("; ")[2] == words


def test_the_lowest_and_the_highest_change_in_percent_and_in_times():
    assert [relative(100, after) for after in (1099, 1100, 0)] == ["+999.00%", "x11", "-100.00%"]


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_modules_as_anybody_reads_are_listed(more):
    modules = tuple((f"m.{number}", CostRecord(1, 0, 0, 0, 0)) for number in range(MOST_MODULES + more))
    golden = replace(GOLDEN, nodes=(), cost=replace(COST, modules=()))

    difference = cost_difference(golden, with_cost(total=CostRecord(900, 80, 20, 10, 2), modules=modules))

    assert (difference.truncated, difference.omitted, len(difference.changes)) == (more == 1, more, 1 + MOST_MODULES)


def test_modules_with_equally_many_more_flops_are_in_the_order_of_their_bytes():
    modules = tuple((name, CostRecord(900, size, 0, 0, 0)) for name, size in (("a", 1), ("b", 3), ("c", 2)))

    changes = cost_difference(
        replace(GOLDEN, cost=replace(COST, modules=())), with_cost(peak_activation=70, modules=modules)
    )

    assert [change.where for change in changes.changes if change.field == "flops"] == ["b", "c", "a"]
