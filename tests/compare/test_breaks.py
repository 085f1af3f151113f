"""Level `breaks`, and the words for what of a capture came and went."""

from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord
from pytest_fxgraph.errors import LevelError
from pytest_fxgraph.report.change_text import describe_change
from pytest_fxgraph.report.text import headline


def captured(*notes, graphs=1):
    modules = tuple(
        ModuleRecord(f"graph_{number}", "GraphModule", graph=document("%x = input x : float32[2]\nreturn %x"))
        for number in range(graphs)
    )
    calls = "\n".join(f"%graph_{number} = self.graph_{number}()" for number in range(graphs))
    return document(f"{calls}\nreturn ()", modules=modules, notes=("frontend: dynamo", *notes))


PRINT = 'break: builtin (print) in forward: print("a")'
GUARD = "guard: k == 2"


def words(expected, obtained, level="breaks"):
    return [describe_change(change) for change in compare_documents(expected, obtained, level=level).changes]


def test_a_break_that_came_or_went_is_told_and_fewer_are_better():
    assert words(captured(), captured(PRINT)) == ['one graph break more: builtin (print) in forward: print("a")']
    assert words(captured(PRINT), captured()) == [
        'one graph break fewer, which is better: accept it: builtin (print) in forward: print("a")'
    ]


def test_a_break_in_the_place_of_another_is_not_told_as_better():
    other = 'break: builtin (print) in block.forward: print("a")'
    left = "skipped: forward: builtin"

    assert words(captured(PRINT), captured(other))[1] == (
        'one graph break fewer (others came): builtin (print) in forward: print("a")'
    )
    assert words(captured(PRINT), captured(left))[0].startswith("one graph break fewer (others came): ")
    assert words(captured("recompile: call 2 of forward: k"), captured(PRINT))[1] == (
        "one recompile fewer, which is better: accept it: call 2 of forward: k"
    )


@pytest.mark.parametrize(
    ("expected", "obtained", "is_same"),
    [
        ('print("a", x)', 'print( "a",x )', True),
        ('print("a")', 'print("a")  # says "a"', True),
        ('print("a # b")', 'print("a # c")', False),
        ('print("a b")', 'print("ab")', False),
        ("x = x.item()", "y = x.item()", False),
    ],
)
def test_spaces_and_comments_in_the_statement_of_a_break_are_no_difference(expected, obtained, is_same):
    notes = [f"break: builtin in forward: {source}" for source in (expected, obtained)]

    assert (words(captured(notes[0]), captured(notes[1])) == []) is is_same


def test_at_level_breaks_guards_and_graphs_do_not_count():
    assert words(captured(GUARD), captured(graphs=2)) == []
    assert words(captured("recompile: call 2 of forward: k"), captured()) != []


def test_other_levels_compare_breaks_first_and_guards_too():
    difference = compare_documents(captured(GUARD), captured(PRINT, graphs=2))

    assert headline(difference).startswith('one graph break more: builtin (print) in forward: print("a")')
    assert "one guard fewer: k == 2" in [describe_change(change) for change in difference.changes]
    assert compare_documents(captured(PRINT, GUARD), captured(PRINT, GUARD)).is_empty


def test_the_same_recompile_twice_is_not_the_same_as_once():
    again = "recompile: call 2 of forward: k"

    assert words(captured(again), captured(again, again)) == ["one recompile more: call 2 of forward: k"]


def test_the_signature_of_a_capture_is_that_of_all_its_graphs():
    assert compare_documents(captured(graphs=1), captured(PRINT, GUARD, graphs=1), level="signature").is_empty
    assert not compare_documents(captured(graphs=1), captured(graphs=2), level="signature").is_empty


def test_a_graph_has_no_breaks_to_compare():
    graph = document("%x = input x\nreturn %x")

    with pytest.raises(LevelError, match="level 'breaks' compares what Dynamo told of a capture, and this is a graph"):
        compare_documents(graph, graph, level="breaks")
