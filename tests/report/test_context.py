from __future__ import annotations

from fixtures.documents import document, node
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord
from pytest_fxgraph.report.context import node_line, surroundings


def shown(expected, obtained):
    (change,) = compare_documents(expected, obtained).changes
    return surroundings(change, expected, obtained)


CHAIN = "%x = input x\n%a = f(%x)\n%b = g(%a)\n%c = h(%b)\n%d = k(%c)\n%e = l(%d)\nreturn %e"


def test_an_added_node_is_shown_with_three_nodes_on_each_side():
    lines = shown(document(CHAIN), document(CHAIN.replace("h(%b)", "h(%n)").replace("%c =", "%n = new(%b)\n%c =")))

    assert lines == [
        "  input x",
        "  %a = f(%x)",
        "  %b = g(%a)",
        "+ %n = new(%b)",
        "  %c = h(%n)",
        "  %d = k(%c)",
        "  %e = l(%d)",
    ]


def test_a_removed_node_is_shown_among_the_expected_ones():
    lines = shown(document(CHAIN), document(CHAIN.replace("%b = g(%a)\n", "").replace("h(%b)", "h(%a)")))

    assert lines == ["  input x", "  %a = f(%x)", "- %b = g(%a)", "  %c = h(%b)", "  %d = k(%c)", "  %e = l(%d)"]


def test_a_changed_module_is_shown_by_the_node_that_calls_it():
    line = "%x = input x\n%a = self.conv(%x)\nreturn %a"
    expected, obtained = (
        document(line, modules=(ModuleRecord("conv", "torch.nn.Conv2d", (("stride", stride),)),)) for stride in "12"
    )

    assert shown(expected, obtained) == ["  input x", "> %a = self.conv(%x)", "  return %a"]


def test_what_no_node_uses_has_no_surroundings():
    line = "%x = input x\nreturn %x"
    expected, obtained = (
        document(line, modules=(ModuleRecord("conv", "torch.nn.Conv2d", (("stride", stride),)),)) for stride in "12"
    )

    assert shown(expected, obtained) == []


def test_each_sort_of_node_has_its_line():
    lines = {
        "%x = input x = None : int64[]": "input x = None  # int64[]",
        "%w = get fc.weight": "%w = self.fc.weight",
        "%a = .view(%x, 2, dtype=torch.int8)": "%a = %x.view(2, dtype=torch.int8)",
        "%a = self.fc(%x)": "%a = self.fc(%x)",
        "return (%a,)": "return (%a,)",
    }

    assert {line: node_line(node(line)) for line in lines} == lines


def test_nodes_removed_together_are_marked_together():
    expected = document(CHAIN)
    obtained = document("%x = input x\n%a = f(%x)\n%d = k(%a)\n%e = l(%d)\nreturn %e")
    changes = compare_documents(expected, obtained).changes

    lines = surroundings(changes[0], expected, obtained, changes)

    assert [line for line in lines if line.startswith("-")] == ["- %b = g(%a)", "- %c = h(%b)"]
