"""A diff holds both graphs to the letter, shows each line once, and has no changed line as context."""

from __future__ import annotations

import random

import pytest

from fixtures.documents import document, node
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.report import graph_diff
from pytest_fxgraph.report.graph_diff import GraphDiff, node_line, places_of

CHAIN = "%x = input x\n%a = f(%x)\n%b = g(%a)\n%c = h(%b)\n%d = k(%c)\n%e = l(%d)\nreturn %e"


def shown(expected, obtained):
    diff = GraphDiff(expected, obtained)
    return diff.hunks(place for change in compare_documents(expected, obtained).changes for place in places_of(change))


def test_an_added_node_is_shown_with_three_nodes_on_each_side_and_its_reader():
    lines = shown(document(CHAIN), document(CHAIN.replace("h(%b)", "h(%n)").replace("%c =", "%n = new(%b)\n%c =")))

    assert lines == [
        "  input x",
        "  %a = f(%x)",
        "  %b = g(%a)",
        "+ %n = new(%b)",
        "- %c = h(%b)",
        "+ %c = h(%n)",
        "  %d = k(%c)",
        "  %e = l(%d)",
    ]


def test_a_removed_node_is_shown_where_it_was():
    lines = shown(document(CHAIN), document(CHAIN.replace("%b = g(%a)\n", "").replace("h(%b)", "h(%a)")))

    assert lines[:6] == ["  input x", "  %a = f(%x)", "- %b = g(%a)", "- %c = h(%b)", "+ %c = h(%a)", "  %d = k(%c)"]


def test_a_replacement_stands_beside_the_replaced_nodes():
    obtained = "%x = input x\n%a = f(%x)\n%s = fused(%a)\n%e = l(%s)\nreturn %e"

    lines = shown(document(CHAIN), document(obtained))

    assert lines[1:6] == ["  %a = f(%x)", "- %b = g(%a)", "- %c = h(%b)", "- %d = k(%c)", "+ %s = fused(%a)"]


def test_a_changed_module_is_shown_by_its_own_line():
    line = "%x = input x\n%a = self.conv(%x)\nreturn %a"
    expected, obtained = (
        document(line, modules=(ModuleRecord("conv", "torch.nn.Conv2d", (("stride", stride),)),)) for stride in "12"
    )

    assert shown(expected, obtained) == ["- conv: torch.nn.Conv2d(stride=1)", "+ conv: torch.nn.Conv2d(stride=2)"]


def test_changed_state_is_shown_by_its_own_line():
    expected, obtained = (
        document("%x = input x\nreturn %x", state=(StateRecord("w", "buffer", f"float32[{size}]"),)) for size in "23"
    )

    assert shown(expected, obtained) == ["- w: buffer float32[2]", "+ w: buffer float32[3]"]


def test_a_line_is_shown_once_and_distant_lines_are_apart():
    long = [f"%n{place + 1} = f{place}(%n{place})" for place in range(30)]
    changed = [line.replace("f3(", "g(").replace("f25(", "g(") for line in long]
    expected, obtained = (document("\n".join(["%n0 = input x", *lines, "return %n30"])) for lines in (long, changed))
    diff = GraphDiff(expected, obtained)
    first, second = [*compare_documents(expected, obtained).changes][:2]

    both = diff.hunks([*places_of(first), *places_of(second)])

    assert both.count("  ...") == 1
    assert diff.hunks(places_of(first)) == []


def test_a_long_hunk_is_cut_and_counted():
    expected = document("\n".join(["%n0 = input x", *(f"%n{p + 1} = f{p}(%n{p})" for p in range(60)), "return %n60"]))
    obtained = document("%n0 = input x\nreturn %n0")

    lines = shown(expected, obtained)

    assert lines == [
        "  input x as %n0",
        *(f"- %n{p + 1} = f{p}(%n{p})" for p in range(23)),
        "  and 37 more changed lines",
    ]


@pytest.mark.parametrize(
    ("word", "is_cut"), [("{0}" + "b" * 300, True), ("b" * 150 + "{0}" + "b" * 150, False)], ids=["start", "middle"]
)
def test_long_lines_are_cut_unless_the_cut_hides_their_difference(word, is_cut):
    expected, obtained = (document(f"%x = input x\n%a = {word.format(mark)}(%x)\nreturn %a") for mark in "fg")

    for line, mark in zip(shown(expected, obtained)[1:3], "fg", strict=True):
        assert (" ... " in line) is is_cut
        assert is_cut or line[2:] == f"%a = {word.format(mark)}(%x)"


def test_a_renamed_node_and_a_changed_module_are_shown_together():
    modules = [(ModuleRecord("m", "torch.nn.Linear", (("size", size),)),) for size in "12"]
    expected = document(CHAIN, modules=modules[0])
    obtained = document(CHAIN.replace("%b", "%bb"), modules=modules[1])
    diff = GraphDiff(expected, obtained)

    assert [line[0] for line in diff.lines("module")] == ["-", "+"]
    assert diff.lines()[2] == "  %b = g(%a)"


def test_graphs_inside_modules_have_hunks_of_their_own():
    inner = [document(f"%x = input x\n%a = {name}(%x)\nreturn %a") for name in ("f", "g")]
    line = "%x = input x\n%a = self.part(%x)\nreturn %a"
    expected, obtained = (
        document(line, modules=(ModuleRecord("part", "torch.fx.GraphModule", graph=graph),)) for graph in inner
    )

    assert "- %a = f(%x)" in shown(expected, obtained)
    assert "+ %a = g(%x)" in shown(expected, obtained)


def test_each_sort_of_node_has_its_line():
    lines = {
        "%x = input x = None : int64[]": "input x = None  # int64[]",
        "%w = get fc.weight": "%w = self.fc.weight",
        "%a = .view(%x, 2, dtype=torch.int8)": "%a = %x.view(2, dtype=torch.int8)",
        "%a = self.fc(%x)": "%a = self.fc(%x)",
        "return (%a,)": "return (%a,)",
    }

    assert {line: node_line(node(line)) for line in lines} == lines


def rewritten(lines: list[str], choose: random.Random) -> list[str]:
    """Return a graph with nodes replaced, removed or added. A reader of a removed node reads the input."""
    found: list[str] = []
    gone: set[str] = set()
    for place, line in enumerate(lines):
        for name in gone:
            line = line.replace(f"{name},", "%x,").replace(f"{name})", "%x)")
        how = choose.choice(("replaced", "removed", "added", "same", "same", "same"))
        if how == "removed":
            gone.add(line.split(" = ")[0])
            continue
        if how == "added":
            found.append(f"%new{place} = new(%x)")
        found.append(line.replace("f(", "g(") if how == "replaced" else line)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_the_lines_of_a_diff_are_both_graphs(seed):
    choose = random.Random(seed)
    lines = []
    for place in range(12):
        reads = [f"%n{choose.randrange(place)}" if place and choose.random() < 0.8 else "%x" for _ in range(2)]
        lines.append(f"%n{place} = f({', '.join(reads)})")
    expected, obtained = (
        document("\n".join(["%x = input x", *each, f"return ({', '.join(line.split()[0] for line in each[-3:])})"]))
        for each in (lines, rewritten(lines, choose))
    )

    found = GraphDiff(expected, obtained).lines()
    hunks = shown(expected, obtained)

    assert [line[2:] for line in found if line[0] != "+"] == [node_line(each) for each in expected.nodes]
    after = [line[2:].replace("input x", "%x = input x") for line in found if line[0] != "-"]
    assert compare_documents(obtained, document("\n".join(after))).is_empty
    assert {line for line in hunks if not line.startswith(("  ...", "  and "))} <= set(found)
    assert not {line[2:] for line in hunks if line[0] == " "} & {line[2:] for line in hunks if line[0] != " "}
    numbered = [line for line in hunks if " = " in line]
    assert len(numbered) == len(set(numbered))


INNER = "%x = input x\n%a = {}(%x)\nreturn %a"
OUTER = "%x = input x\n%u = get w\n%c = torch.{}(%x)\n%a = self.part(%c)\nreturn %a"


def nested(outer: str, inner: str):
    part = ModuleRecord("part", "torch.fx.GraphModule", graph=document(INNER.format(inner)))
    return document(OUTER.format(outer), modules=(part,), state=(StateRecord("w", "buffer", "float32[2]"),))


@pytest.mark.parametrize("level", ["structure", "exact"])
def test_a_diff_takes_the_pairs_of_nodes_from_the_comparison(level, monkeypatch):
    expected, obtained = nested("cos", "f"), nested("sin", "g")
    difference = compare_documents(expected, obtained, level=level)
    is_exact = level == "exact"
    if not is_exact:  # level `exact` compares inner graphs once more, under the traced names
        monkeypatch.setattr(graph_diff, "align", None)

    diff = GraphDiff(expected, obtained, difference.alignment, keeps_names=is_exact)
    lines = diff.hunks(place for change in difference.changes for place in places_of(change))

    # Levels but `exact` do not compare a tensor that no node reads.
    assert ("  %u = self.w" in lines) is is_exact
    assert [line for line in lines if line[0] != " "] == [
        "- %c = torch.cos(%x)",
        "+ %c = torch.sin(%x)",
        "- %a = f(%x)",
        "+ %a = g(%x)",
    ]


def test_a_diff_of_graphs_that_were_respelled_has_the_text_of_the_golden():
    expected, obtained = document("%x = input x\n%a = .relu(%x)\nreturn %a"), document("%x = input x\nreturn %x")
    difference = compare_documents(expected, obtained, normalize=True)

    diff = GraphDiff(expected, obtained, difference.alignment)

    assert "- %a = %x.relu()" in diff.lines()


@pytest.mark.parametrize("keeps_names", [False, True])
def test_a_renamed_node_is_a_difference_where_names_count(keeps_names):
    lines = GraphDiff(document(CHAIN), document(CHAIN.replace("%b", "%bb")), keeps_names=keeps_names).lines()

    changed = ["- %b = g(%a)", "+ %bb = g(%a)", "- %c = h(%b)", "+ %c = h(%bb)"]
    assert [line for line in lines if line[0] in "+-"] == (changed if keeps_names else [])
    assert len(lines) == 9 if keeps_names else 7


def test_the_numbers_of_the_golden_are_taken_over_unless_names_count():
    expected, obtained = (document(f"%x = input x\n%a = f(%x, {number})\nreturn %a") for number in ("1.0", "1"))

    assert [line for line in GraphDiff(expected, obtained, keeps_names=True).lines() if line[0] != " "] == [
        *("- %a = f(%x, 1.0)", "+ %a = f(%x, 1)"),
    ]


def test_a_replaced_node_has_its_own_name_and_a_new_node_none_that_is_taken():
    replaced = document(CHAIN.replace("%b = g", "%bb = gg").replace("h(%b)", "h(%bb)"))
    before = document("%x = input x\n%a = f(%x)\nreturn %a")
    after = document("%x = input x\n%a = new(%x)\n%a_1 = f(%a)\nreturn %a_1")

    assert "+ %bb = gg(%a)" in GraphDiff(document(CHAIN), replaced).lines()
    assert GraphDiff(before, after).lines() == [
        *("  input x", "+ %a_1 = new(%x)", "- %a = f(%x)", "+ %a = f(%a_1)", "  return %a"),
    ]


def test_lines_behind_lines_of_one_graph_are_found():
    diff = GraphDiff(document(CHAIN), document(CHAIN.replace("%b = g(%a)\n", "").replace("%b", "%a")))

    assert [line for line in diff.hunks([(1, "node", "c")]) if line[0] in "+-"] == [
        *("- %b = g(%a)", "- %c = h(%b)", "+ %c = h(%a)"),
    ]


def test_lines_of_one_graph_stand_first_where_they_begin_it():
    before, after = document("%w = get w\n%x = input x\nreturn %x"), document("%x = input x\nreturn %x")

    assert GraphDiff(before, after).lines()[1:] == ["  input x", "  return %x"]
    assert GraphDiff(before, after).lines()[0][0] == "-"
    assert GraphDiff(after, before).lines()[0][0] == "+"


def test_an_input_is_found_by_its_name_for_callers():
    before, after = (document(f"%x_1 = input x = {default}\n%x = f(%x_1)\nreturn %x") for default in "12")

    assert GraphDiff(before, after).hunks([(0, "input", "x")])[:2] == [
        *("- input x as %x_1 = 1", "+ input x as %x_1 = 2"),
    ]
    assert GraphDiff(before, after).hunks([(0, "input", "x_1")]) == []


def test_a_changed_module_stands_without_its_neighbours():
    modules = [
        tuple(ModuleRecord(name, "torch.nn.Linear", (("size", size if name == "b" else "1"),)) for name in "abc")
        for size in "12"
    ]
    before, after = (document("%x = input x\nreturn %x", modules=each) for each in modules)

    diff = GraphDiff(before, after)
    assert diff.hunks([(0, "module", "b")]) == ["- b: torch.nn.Linear(size=1)", "+ b: torch.nn.Linear(size=2)"]
    assert [line[0] for line in diff.lines("module")] == [" ", "-", "+", " "]


def inner_graphs(*operators: str) -> list[ModuleRecord]:
    graphs = [document(f"%y = input y\n%z = {operator}(%y)\nreturn %z") if operator else None for operator in operators]
    return [ModuleRecord(f"sub{place}", "fxcore.GraphModule", graph=graph) for place, graph in enumerate(graphs)]


def test_graphs_inside_several_modules_have_hunks_beside_the_outer_graph():
    outer = "%x = input x\n%a = {}(%x)\n%b = self.sub0(%a)\n%c = self.sub1(%b)\nreturn %c"
    before = document(outer.format("f"), modules=tuple(inner_graphs("neg", "sin")))
    after = document(outer.format("g"), modules=tuple(inner_graphs("exp", "cos")))

    hunks = GraphDiff(before, after).hunks([(0, "node", "sub0/z"), (0, "node", "a"), (1, "node", "sub1/z")])

    assert [line for line in hunks if line[0] in "+-"] == [
        *("- %a = f(%x)", "+ %a = g(%x)", "- %z = neg(%y)", "+ %z = exp(%y)", "- %z = sin(%y)", "+ %z = cos(%y)"),
    ]


def test_a_graph_inside_one_of_the_modules_has_no_hunk():
    outer = "%x = input x\n%a = self.sub0(%x)\n%b = self.sub1(%a)\nreturn %b"
    before = document(outer, modules=tuple(inner_graphs("neg", "sin")))
    after = document(outer, modules=tuple(inner_graphs("", "cos")))

    assert GraphDiff(before, after).hunks([(0, "node", "sub0/z")]) == []


@pytest.mark.parametrize(
    ("change", "places"),
    [
        (Change("arguments", "changed", "node", "a", expected_node="b"), [(0, "node", "b"), (1, "node", "a")]),
        (Change("operators", "added", "node", "a"), [(1, "node", "a")]),
        (Change("operators", "removed", "node", "a"), [(0, "node", "a")]),
        (Change("wiring", "changed", "output", "output"), [(0, "node", "output"), (1, "node", "output")]),
        (Change("signature", "added", "input", "x"), [(1, "input", "x")]),
        (Change("arguments", "added", "module", "fc", node="c"), [(1, "module", "fc"), (1, "node", "c")]),
        (Change("cosmetic", "changed", "code", "line 3"), []),
    ],
)
def test_the_lines_of_a_change_are_those_of_its_graphs(change, places):
    assert [*places_of(change)] == places
