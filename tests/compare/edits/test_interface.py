from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.difference import Edit
from pytest_fxgraph.compare.levels import compare_documents

INPUTS = "%x = input x\n%y = input y\n%a = torch.exp(%x)\n%b = torch.sin(%y)\n%c = torch.cos(%y)\n"
GRAPH = INPUTS + "return (%a, %b, %c)"


def edits(before: str, after: str, kind: str) -> list[Edit]:
    return [edit for edit in compare_documents(document(before), document(after)).edits if edit.kind == kind]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (GRAPH.replace("%y = input y\n", "%y = input y\n%z = input z\n"), ["input z added"]),
        (GRAPH.replace("input y", "input other"), ["input y renamed to other"]),
        (GRAPH.replace("input y", "input y = 2"), ["input y: default nothing -> 2"]),
        (GRAPH.replace("input y", "input y : int8[2]"), []),  # a value that one side lacks
        (
            GRAPH.replace("%x = input x\n%y = input y", "%y = input y\n%x = input x"),
            ["input x moved: first of its kind -> after y"],
        ),
    ],
)
def test_a_change_of_an_input_has_its_words(after, words):
    assert [edit.text for edit in edits(GRAPH, after, "input")] == words


def test_an_input_that_went_and_a_default_that_went_are_told():
    with_more = GRAPH.replace("%y = input y\n", "%y = input y = 2\n%z = input z\n")

    assert sorted(edit.text for edit in edits(with_more, GRAPH, "input")) == [
        "input y: default 2 -> nothing",
        "input z removed",
    ]


def test_a_value_of_an_input_is_told_without_a_field():
    before, after = (GRAPH.replace("input y", f"input y : {value}") for value in ("int8[2]", "str"))

    assert [edit.text for edit in edits(before, after, "input")] == ["input y: int8[2] -> str"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("%a", "(%a, %b)", "the graph also returns sin"),
        ("(%a, %b)", "%a", "the graph no longer returns sin"),
        ("(%a,)", "(%a, %b, %c)", "the graph also returns sin, cos"),
        ("[%a]", "[%a, %b]", "the graph also returns sin"),
        ('{"out": %a}', '{"out": %a, "low": %b}', 'the graph also returns "low": sin'),
        ("(%a, %b)", "(%c,)", "the graph returns 1 value in place of 2"),
        ("(%a,)", "(%b, %c)", "the graph returns 2 values in place of 1"),
        ("(%a, %a)", "(%a,)", "the graph returns 1 value in place of 2"),
        ("(%a, %b)", "(%b, %a)", "the graph returns (exp, sin) -> (sin, exp)"),
        ("%a", "%b", "the graph returns exp -> sin"),
        ("%a", "None", "the graph no longer returns exp"),
        ("(%a, 1)", "(%a, 2)", "the graph returns (exp, 1) -> (exp, 2)"),
        (
            "(%a,)",
            "(%a, (%x, %y), (%b, %c))",
            "the graph returns 5 values in place of 1",
        ),
        ("(%x,)", "(%x, %a, %b, %c)", "the graph also returns exp, sin, cos"),
    ],
)
def test_other_results_have_their_words(before, after, words):
    # All operators are read in both graphs, so that none of them is new.
    graphs = [f"{INPUTS}%d = builtins.print(%a, %b, %c) ! io\nreturn {each}" for each in (before, after)]

    assert [edit.text for edit in edits(*graphs, "output")] == [words]


def test_results_of_the_same_names_are_told_by_the_names_of_the_graph():
    text = "%x = input x\n%a = torch.exp(%x)\n%b = torch.exp(%a)\n%d = builtins.print(%a, %b) ! io\nreturn "

    assert [edit.text for edit in edits(text + "%a", text + "%b", "output")] == ["the graph returns %a -> %b"]


def test_other_values_of_other_results_belong_to_the_same_edit():
    before, after = (
        f"{INPUTS}%d = builtins.print(%a, %b) ! io\nreturn {name} : {value}"
        for name, value in (("%a", "int8[2]"), ("%b", "str"))
    )

    (edit,) = edits(before, after, "output")

    assert edit.text == "the graph returns exp -> sin"
    assert {change.field for change in edit.changes} == {"args[0]", "value"}


def test_other_values_of_inputs_and_nodes_do_not_belong_to_other_results():
    before, after = (
        f"%x = input x : {value}\n%a = f(%x)\n%b = g(%a)\n%d = builtins.print(%a, %b) ! io\nreturn {name} : {value}"
        for name, value in (("%a", "int8[2]"), ("%b", "str"))
    )

    (edit,) = edits(before, after, "output")

    assert {(change.subject, change.field) for change in edit.changes} == {("output", "args[0]"), ("output", "value")}


def test_another_value_of_the_same_result_is_told():
    before, after = (f"%x = input x\n%a = f(%x)\nreturn %a : {value}" for value in ("int8[2]", "str"))

    assert [edit.text for edit in edits(before, after, "output")] == ["output: int8[2] -> str"]


def test_an_output_that_came_or_went_is_told():
    without, returning = "%x = input x\n%a = f(%x) ! io", "%x = input x\n%a = f(%x) ! io\nreturn %a"

    assert [edit.text for edit in edits(without, returning, "inserted")] == ["output added after f"]
    assert [edit.text for edit in edits(returning, without, "removed")] == ["output removed after f"]


def test_inputs_that_moved_are_told_beside_other_results_with_other_values():
    text = "%{0} = input {0}\n%{1} = input {1}\n%a = f(%x, %y) : int8[2]\nreturn {2}"
    graphs = text.format("x", "y", "%a : int8[2]"), text.format("y", "x", "(%a, %x) : (int8[2], str)")

    assert len(edits(*graphs, "input")) == 1
    assert [edit.text for edit in edits(*graphs, "output")] == ["the graph also returns x"]
