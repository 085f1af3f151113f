from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.draw.overlay import merged_nodes, near_changes


def chain(length: int, changed: int | None = None):
    calls = [f"%n{place} = torch.{'exp' if place == changed else 'neg'}(%n{place - 1})" for place in range(1, length)]
    return document("\n".join(["%n0 = input n0", *calls, f"return %n{length - 1}"]))


@pytest.mark.parametrize(("changed", "first"), [(50, 48), (1, 0), (99, 97)])
def test_the_part_of_a_large_overlay_is_around_what_differs(changed, first):
    merged = merged_nodes(chain(100), chain(100, changed))

    names = [node.record.name for node in near_changes(merged, 4)]

    assert names[: 1 + changed - first] == [f"n{place}" for place in range(first, changed + 1)]
    assert len(names) <= 4


def test_a_graph_without_changes_is_shown_from_its_beginning():
    part = near_changes(merged_nodes(chain(100)), 3)

    assert [node.record.name for node in part] == ["n0", "n1", "n2"]


def test_a_part_has_the_edges_between_its_own_nodes():
    part = near_changes(merged_nodes(chain(100), chain(100, 50)), 4)

    assert [[(edge.source, edge.target) for edge in node.reads] for node in part] == [[], [(0, 1)], [(1, 2)], [(2, 3)]]


def test_no_more_nodes_are_shown_than_asked_for_where_all_differ():
    calls = [f"%n{place} = torch.{'exp' if place else 'neg'}(%n{place - 1})" for place in range(1, 30)]
    other = document("\n".join(["%n0 = input n0", *calls, "return %n29"]))

    assert len(near_changes(merged_nodes(chain(30), other), 8)) <= 8


LINE = "%x = input x : int8[2]\n%a = torch.exp(%x) : int8[2]\n%b = torch.sin(%a) : int8[2]\nreturn %b"


def statuses(other: str, text: str = LINE) -> dict[str, str]:
    return {node.record.name: node.status for node in merged_nodes(document(text), document(other))}


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        (LINE, {}),
        (LINE.replace("%a", "%k"), {}),  # a name is no difference
        (LINE.replace("torch.sin(%a)", "torch.sin(%a, 1)"), {"b": "changed"}),
        (LINE.replace("int8[2]\n%b", "int8[3]\n%b"), {"a": "followed"}),
        (LINE.replace("input x : int8[2]", "input x : int8[3]"), {"x": "changed"}),
        (LINE.replace("exp(%x) : int8[2]", "exp(%x, 1) : int8[3]"), {"a": "changed"}),
        (LINE.replace("return", "%c = builtins.print(%b) ! io\nreturn"), {"c": "added"}),
        (LINE.replace("int8[2] ", "int8[2]").replace("sin(%a) : int8[2]", "sin(%a) : int8[2] @ head"), {}),
    ],
)
def test_a_node_has_the_status_of_its_worst_difference(other, changed):
    assert {name: status for name, status in statuses(other).items() if status} == changed


def test_a_node_of_the_expected_graph_alone_is_removed():
    more = LINE.replace("return", "%c = builtins.print(%b) ! io\nreturn")

    assert statuses(LINE, more)["c"] == "removed"


def test_one_graph_alone_has_no_status_and_no_expected_nodes():
    nodes = merged_nodes(document(LINE))

    assert {(node.expected, node.status) for node in nodes} == {(None, "")}
    assert [[(edge.source, edge.target, edge.status) for edge in node.reads] for node in nodes] == [
        [],
        [(0, 1, "")],
        [(1, 2, "")],
        [(2, 3, "")],
    ]


def test_an_edge_of_one_graph_alone_is_added_or_removed():
    nodes = merged_nodes(document(LINE), document(LINE.replace("sin(%a)", "sin(%x)")))

    (reader,) = [node for node in nodes if node.record.name == "b"]
    assert [(nodes[edge.source].record.name, edge.status) for edge in reader.reads] == [
        ("a", "removed"),
        ("x", "added"),
    ]


def facts(text: str, **options: object) -> dict[str, str]:
    """Return the facts of the second node of a graph."""
    return {fact.what: fact.obtained for fact in merged_nodes(document(text, **options))[1].facts}


def test_a_called_module_is_told_with_its_class_configuration_mode_and_own_tensors():
    modules = (ModuleRecord("fc", "torch.nn.Linear", (("bias", "True"),), training=False),)
    state = (
        StateRecord("fc.weight", "parameter", "float32[4]", requires_grad=True),
        StateRecord("fc.inner.weight", "parameter", "float32[4]"),
    )

    assert facts("%x = input x\n%a = self.fc(%x) @ fc\nreturn %a", modules=modules, state=state) == {
        "name": "a",
        "operation": "call_module",
        "target": "fc",
        "args[0]": "%x",
        "module": "torch.nn.Linear",
        "module, bias": "True",
        "module, mode": "evaluating",
        "tensor weight": "parameter float32[4], requires grad",
        "in module": "fc",
    }
    trains = (modules[0]._replace(training=True),)
    assert facts("%x = input x\n%a = self.fc(%x)\nreturn %a", modules=trains)["module, mode"] == "training"


def test_a_tensor_that_is_read_is_told_with_its_content():
    state = (StateRecord("w", "constant", "float32[1]", content="[2.0]"),)

    told = facts("%x = input x\n%w = get w\n%y = f(%x, %w)\nreturn %y", state=state)

    assert told["tensor"] == "constant float32[1] = [2.0]"


@pytest.mark.parametrize(
    ("call", "by_node", "fact"),
    [
        ("torch.exp(%x) @ body", {}, ("cost of its module", "1,000 FLOPs, 5 bytes, 0 parameters")),
        ("self.fc(%x)", {}, ("cost", "7 FLOPs, 0 bytes, 4 parameters")),
        ("torch.exp(%x)", {"a": CostRecord(3)}, ("cost", "3 FLOPs, 0 bytes, 0 parameters")),
        ("self.fc(%x)", {"a": CostRecord(3)}, ("cost", "3 FLOPs, 0 bytes, 0 parameters")),
        ("get w @ body", {}, None),
        ("torch.exp(%x) @ other", {}, None),
    ],
)
def test_a_call_is_told_with_its_cost_or_the_cost_of_its_module(call, by_node, fact):
    costs = (("body", CostRecord(1000, 2, 3)), ("fc", CostRecord(7, params=4)))
    graph = document(f"%x = input x\n%a = {call}\nreturn %a")
    with_costs = replace(graph, cost=CostBlock(CostRecord(), 0, "", costs, by_node=by_node))

    told = [(each.what, each.obtained) for each in merged_nodes(with_costs)[1].facts if each.what.startswith("cost")]

    assert told == ([fact] if fact else [])


def test_a_call_of_a_module_whose_inner_graph_changed_is_changed():
    text = "%x = input x\n%a = self.body(%x)\n%b = torch.exp(%a)\nreturn %b"
    graphs = [
        document(text, modules=(ModuleRecord("body", "fx", graph=document(inner)),))
        for inner in (LINE, LINE.replace("torch.sin(%a)", "torch.sin(%a, 1)"))
    ]

    nodes = merged_nodes(*graphs)

    assert [node.status for node in nodes] == ["", "changed", "", ""]
    assert [(fact.what, fact.expected, fact.obtained) for fact in nodes[1].facts if fact.what.startswith("inside")] == [
        ("inside, b args[1]", "", "1")
    ]


def test_a_read_of_a_renamed_input_is_no_difference():
    merged = merged_nodes(
        document("%x = input x\n%a = torch.neg(%x)\nreturn %a"), document("%y = input y\n%a = torch.neg(%y)\nreturn %a")
    )

    assert [node.status for node in merged] == ["changed", "", ""]
    assert ("args[0]", "%y", "%y") in [(fact.what, fact.expected, fact.obtained) for fact in merged[1].facts]


def test_the_part_ends_as_far_behind_a_difference_as_it_begins_before_it():
    merged = merged_nodes(chain(100), chain(100, 50))

    assert [node.record.name for node in near_changes(merged, 7)] == [f"n{place}" for place in range(47, 54)]
    assert [node.record.name for node in near_changes(merged, 8)] == [f"n{place}" for place in range(46, 54)]
    assert [node.record.name for node in near_changes(merged, 1)] == ["n50"]
    assert len(near_changes(merged_nodes(chain(100), chain(100, 1)), 7)) == 5
