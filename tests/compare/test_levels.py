from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.errors import LevelError
from pytest_fxgraph.report.change_text import describe_change
from pytest_fxgraph.report.text import headline

PLAIN = "%x = input x\n%a = torch.relu(%x)\nreturn %a"


@pytest.mark.parametrize("level", ["vague", ""])
def test_an_unknown_level_is_refused_with_those_that_exist(level):
    plain = document(PLAIN)

    with pytest.raises(LevelError, match=f"cannot compare at level '{level}': .*exact, structure, ops, signature"):
        compare_documents(plain, plain, level=level)


@pytest.mark.parametrize("level", ["exact", "structure", "ops", "signature"])
def test_a_difference_carries_the_level_it_was_made_at(level):
    plain = document(PLAIN)

    assert compare_documents(plain, plain, level=level).level == level


def test_what_differs_at_structure_may_match_at_ops_and_signature():
    expected = document("%x = input x\n%a = f(%x, 1)\n%b = g(%a)\nreturn %b")
    obtained = document("%x = input x\n%a = g(%x)\n%b = f(%a, 2)\nreturn %b")

    assert not compare_documents(expected, obtained).is_empty
    assert compare_documents(expected, obtained, level="ops").is_empty
    assert compare_documents(expected, obtained, level="signature").is_empty


def test_comparing_leaves_garbage_collection_as_it_was():
    plain = document(PLAIN)

    compare_documents(plain, plain)
    assert gc.isenabled()

    gc.disable()
    try:
        compare_documents(plain, plain)
        assert not gc.isenabled()
    finally:
        gc.enable()


LETTERS = document(
    "%x = input x : int64[2]\n%a = f(%x, dim=1, keepdim=True)\n%b = g(%x) ! random\nreturn (%a, %b)",
    modules=(ModuleRecord("p", "P", (("k", "1"), ("l", "2"))), ModuleRecord("q", "Q")),
    state=(StateRecord("v", "buffer", "float32[1]"), StateRecord("w", "buffer", "float32[1]")),
    code="def forward(self, x):\n    return x",
    notes=("specialised on len(x) == 2",),
)


def exact(obtained, expected=LETTERS):
    return compare_documents(expected, obtained, level="exact")


def nodes(text: str):
    return replace(LETTERS, nodes=document(text).nodes)


CHANGED = {
    "name": (
        nodes("%x = input x : int64[2]\n%c = f(%x, dim=1, keepdim=True)\n%b = g(%x) ! random\nreturn (%c, %b)"),
        ("cosmetic", "c", "name", "a", "c"),
    ),
    "order": (
        nodes("%x = input x : int64[2]\n%b = g(%x) ! random\n%a = f(%x, dim=1, keepdim=True)\nreturn (%a, %b)"),
        ("order", "b", "order", "later", "earlier"),
    ),
    "order of keywords": (
        nodes("%x = input x : int64[2]\n%a = f(%x, keepdim=True, dim=1)\n%b = g(%x) ! random\nreturn (%a, %b)"),
        ("cosmetic", "a", "order of keywords", "dim, keepdim", "keepdim, dim"),
    ),
    "value that one side lacks": (
        nodes("%x = input x\n%a = f(%x, dim=1, keepdim=True)\n%b = g(%x) ! random\nreturn (%a, %b)"),
        ("signature", "x", "value", "int64[2]", "not recorded"),
    ),
    "code": (
        replace(LETTERS, code="def forward(self, x):\n    return x + 1"),
        ("cosmetic", "line 2", "", "return x", "return x + 1"),
    ),
    "length of code": (
        replace(LETTERS, code=LETTERS.code + "\n    # done"),
        ("cosmetic", "line 3", "", "", "# done"),
    ),
    "notes": (
        replace(LETTERS, notes=("specialised on len(x) == 3",)),
        ("signature", "notes[0]", "", "specialised on len(x) == 2", "specialised on len(x) == 3"),
    ),
    "order of modules": (replace(LETTERS, modules=LETTERS.modules[::-1]), ("order", "q", "order", "p", "q")),
    "order of state": (replace(LETTERS, state=LETTERS.state[::-1]), ("order", "w", "order", "v", "w")),
    "effect that went": (
        nodes("%x = input x : int64[2]\n%a = f(%x, dim=1, keepdim=True)\n%b = g(%x)\nreturn (%a, %b)"),
        ("order", "b", "effects", "random", "none"),
    ),
    "effects that came": (
        nodes(
            "%x = input x : int64[2]\n%a = f(%x, dim=1, keepdim=True) ! read %x; write %a\n"
            "%b = g(%x) ! random\nreturn (%a, %b)"
        ),
        ("order", "a", "effects", "none", "read %x, write %a"),
    ),
    "operator": (
        nodes("%x = input x : int64[2]\n%a = h(%x, dim=1, keepdim=True)\n%b = g(%x) ! random\nreturn (%a, %b)"),
        ("operators", "a", "target", "f", "h"),
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_one_letter_is_one_difference(name):
    obtained, found = CHANGED[name]

    changes = [
        (change.kind, change.where, change.field, change.expected, change.obtained)
        for change in exact(obtained).changes
    ]

    assert changes == [found]


def test_a_difference_that_lists_all_changes_is_not_truncated():
    difference = exact(CHANGED["code"][0])

    assert (len(difference.changes), difference.omitted, difference.truncated) == (1, 0, False)


def test_a_change_beyond_the_limit_is_omitted(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.compare.levels.MOST_CHANGES", 1)
    obtained = replace(CHANGED["name"][0], code=CHANGED["code"][0].code)

    difference = exact(obtained)

    assert (len(difference.changes), difference.omitted, difference.truncated) == (1, 1, True)


def test_numbers_that_differ_by_rounding_differ_at_exact():
    text = "%x = input x\n%a = f(%x, {})\nreturn %a"

    (change,) = exact(document(text.format("0.10000000000000002")), document(text.format("0.1"))).changes

    assert (change.field, change.expected, change.obtained) == ("args[1]", "0.1", "0.10000000000000002")


def test_a_value_that_the_golden_lacks_is_a_difference():
    (change,) = exact(LETTERS, CHANGED["value that one side lacks"][0]).changes

    assert (change.where, change.expected, change.obtained) == ("x", "not recorded", "int64[2]")


def test_a_name_that_a_tracer_or_capture_generated_is_one_letter_at_every_place():
    expected, obtained = (
        replace(
            document(f"%x = input {name} : float32[{size}]\n%a = f(%x, {size}) : float32[{size}]\nreturn %a"),
            symbols=(size,),
        )
        for name, size in (("arg0_1", "s0"), ("arg3_1", "s7"))
    )
    sides = [
        replace(side, nodes=(side.nodes[0]._replace(name_from="position"), *side.nodes[1:]))
        for side in (expected, obtained)
    ]

    assert compare_documents(*sides).is_empty
    assert {(change.kind, change.where, change.field, change.expected) for change in exact(*sides[::-1]).changes} == {
        ("cosmetic", "arg3_1", "target", "arg0_1"),
        ("cosmetic", "arg3_1", "value", "float32[s0]"),
        ("cosmetic", "a", "value", "float32[s0]"),
    }


def test_the_order_of_the_effects_of_one_node_is_no_difference_that_a_field_names():
    text = "%x = input x\n%a = f(%x) ! read %x; write %a\nreturn %a"

    (change,) = exact(document(text.replace("read %x; write %a", "write %a; read %x")), document(text)).changes

    assert (change.where, change.field) == ("the document", "text")


def test_effects_are_compared_under_the_names_of_the_obtained_graph():
    text = "%x = input x\n%a = f(%x) ! read %x; write %a\nreturn %a"

    (change,) = exact(document(text.replace("%a", "%b")), document(text)).changes

    assert (change.field, change.expected, change.obtained) == ("name", "a", "b")


def test_order_of_configuration_is_a_difference_that_nothing_else_names():
    modules = (LETTERS.modules[0]._replace(config=LETTERS.modules[0].config[::-1]), LETTERS.modules[1])

    (change,) = exact(replace(LETTERS, modules=modules)).changes

    assert (change.kind, change.where) == ("cosmetic", "the document")


def test_where_a_node_comes_from_is_never_compared():
    moved = tuple(node._replace(scope="layers.3", source="model.py:3: x") for node in LETTERS.nodes)

    assert exact(replace(LETTERS, nodes=moved)).is_empty


def test_a_name_in_a_nested_graph_is_a_difference():
    outer = "%x = input x\n%a = self.sub(%x)\nreturn %a"
    expected, obtained = (
        document(outer, modules=(ModuleRecord("sub", "GraphModule", graph=document(inner)),))
        for inner in ("%x = input x\n%p = f(%x)\nreturn %p", "%x = input x\n%q = f(%x)\nreturn %q")
    )

    (change,) = exact(obtained, expected).changes

    assert (change.kind, change.where, change.expected, change.obtained) == ("cosmetic", "sub/q", "p", "q")


def test_a_graph_in_the_place_of_a_plain_module_is_a_difference_at_exact():
    text, inner = "%x = input x\n%a = self.sub(%x)\nreturn %a", document("%x = input x\nreturn %x")
    records = (ModuleRecord("sub", "GraphModule", graph=inner), ModuleRecord("sub", "GraphModule"))
    plain, graph = (document(text, modules=(record,)) for record in records[::-1])

    for sides, texts in (((plain, graph), ("no graph", "a graph")), ((graph, plain), ("a graph", "no graph"))):
        found = [
            (change.where, change.field, change.expected, change.obtained) for change in exact(*sides[::-1]).changes
        ]
        assert ("sub", "graph", *texts) in found


def counts(expected, obtained):
    changes = compare_documents(expected, obtained, level="ops").changes
    return [(change.where, change.expected, change.obtained) for change in changes]


def test_how_many_of_what_is_compared_and_nothing_else():
    expected = document("%x = input x\n%a = f(%x, 1)\n%b = g(%a)\n%c = f(%b, 2)\nreturn %c")
    obtained = document("%y = input y\n%a = f(%y, 7)\n%b = g(%a)\n%c = g(%b)\n%d = .f(%c)\nreturn (%c, %d)")

    assert counts(expected, expected) == []
    assert counts(expected, obtained) == [("f", "2", "1"), ("g", "1", "2"), ("f (method)", "0", "1")]


def test_modules_count_by_class():
    line = "%x = input x\n%a = self.act(%x)\nreturn %a"
    expected = document(line, modules=(ModuleRecord("act", "torch.nn.ReLU"),))
    renamed = document(line.replace("act", "other"), modules=(ModuleRecord("other", "torch.nn.ReLU"),))
    obtained = document(line, modules=(ModuleRecord("act", "torch.nn.GELU"),))

    assert counts(expected, renamed) == []
    assert counts(expected, obtained) == [("torch.nn.GELU", "0", "1"), ("torch.nn.ReLU", "1", "0")]


def test_operators_of_nested_graphs_count():
    line = "%x = input x\n%a = self.sub(%x)\nreturn %a"
    expected, obtained = (
        document(line, modules=(ModuleRecord("sub", "GraphModule", graph=document(inner)),))
        for inner in ("%x = input x\n%a = f(%x)\nreturn %a", "%x = input x\nreturn %x")
    )

    assert counts(expected, obtained) == [("f", "1", "0")]


def signature(expected, obtained):
    changes = compare_documents(expected, obtained, level="signature").changes
    return [
        (change.action, change.subject, change.where, change.field, change.expected, change.obtained)
        for change in changes
    ]


WEIGHT = (StateRecord("fc.weight", "parameter", "float32[2, 3]"),)


def test_what_lies_between_inputs_and_outputs_is_free():
    expected = document("%x = input x\n%a = f(%x)\nreturn (%a, %x)", state=WEIGHT)
    obtained = document("%x = input x\n%b = g(%x)\n%c = h(%b)\nreturn (%c, %b)", state=WEIGHT)

    assert signature(expected, obtained) == []


@pytest.mark.parametrize(
    ("obtained", "found"),
    [
        ("%y = input y\nreturn %y", ("removed", "input", "x", "", "x", "")),
        ("%x = input x\n%y = input y\nreturn %x", ("added", "input", "y", "", "", "y")),
        ("%x = input x = 1 : float32[2]\nreturn %x", ("changed", "input", "x", "default", "", "1")),
        ("%x = input x : int64[2]\nreturn %x", ("changed", "input", "x", "value", "float32[2]", "int64[2]")),
        ("%x = input x : int64[2]\nreturn %x", ("changed", "output", "output", "value", "float32[2]", "int64[2]")),
        ("%x = input x : float32[2]\nreturn (%x,)", ("changed", "output", "output", "args[0]", "%", "(%,)")),
    ],
)
def test_inputs_and_outputs_are_compared(obtained, found):
    expected = document("%x = input x : float32[2]\nreturn %x")

    assert found in signature(expected, document(obtained))


def test_default_and_value_of_an_input_are_compared_each():
    expected, obtained = (document(f"%x = input x = {n} : int64[{n}]\n%y = input y\nreturn %y") for n in (1, 2))

    assert signature(expected, obtained) == [
        ("changed", "input", "x", "default", "1", "2"),
        ("changed", "input", "x", "value", "int64[1]", "int64[2]"),
    ]


def test_inputs_behind_one_that_came_or_went_are_compared():
    expected = document("%x = input x\n%y = input y : int64[1]\nreturn %y")
    obtained = document("%z = input z\n%y = input y : int64[2]\nreturn %y")

    assert ("changed", "input", "y", "value", "int64[1]", "int64[2]") in signature(expected, obtained)


def test_values_of_results_are_compared_only_in_one_structure():
    expected, obtained = (
        document(f"%x = input x : int64[1]\n%y = input y : int64[2]\nreturn {result}") for result in ("%x", "[%y]")
    )

    assert signature(expected, obtained) == [("changed", "output", "output", "args[0]", "%", "[%]")]


def test_the_value_of_an_output_without_nodes_is_compared():
    expected, obtained = document("%x = input x\nreturn () : ()"), document("%x = input x\nreturn () : (int64[],)")

    assert signature(expected, obtained) == [("changed", "output", "output", "value", "()", "(int64[],)")]


def test_order_of_inputs_is_compared():
    expected = document("%x = input x\n%y = input y\nreturn %x")
    obtained = document("%y = input y\n%x = input x\nreturn %x")

    assert signature(expected, obtained) == [("moved", "input", "y", "order", "x, y", "y, x")]


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ((), ("removed", "state", "fc.weight", "", "float32[2, 3]", "")),
        (
            (StateRecord("fc.weight", "parameter", "float32[3, 2]"),),
            ("changed", "state", "fc.weight", "value", "float32[2, 3]", "float32[3, 2]"),
        ),
        (
            (*WEIGHT, StateRecord("fc.bias", "parameter", "float32[2]")),
            ("added", "state", "fc.bias", "", "", "float32[2]"),
        ),
    ],
)
def test_names_shapes_and_dtypes_of_state_are_compared(state, found):
    line = "%x = input x\nreturn %x"

    assert signature(document(line, state=WEIGHT), document(line, state=state)) == [found]


# Level `breaks`, and the words for what of a capture came and went.


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
        ("else :", "else:", True),  # no statement by itself
        ("except A:", "except B:", False),
    ],
)
def test_spaces_and_comments_in_the_statement_of_a_break_are_no_difference(expected, obtained, is_same):
    notes = [f"break: builtin in forward: {source}" for source in (expected, obtained)]

    assert (words(captured(notes[0]), captured(notes[1])) == []) is is_same


def test_a_number_sign_in_another_finding_than_a_break_is_no_comment():
    assert words(captured("break: item in forward: else:  # a"), captured("break: item in forward: else:")) == []
    notes = [f"recompile: call 2 of forward: k # {end}" for end in "ab"]

    assert words(captured(notes[0]), captured(notes[1])) != []


def test_at_level_breaks_guards_and_graphs_do_not_count():
    assert words(captured(GUARD), captured(graphs=2)) == []
    assert words(captured("recompile: call 2 of forward: k"), captured()) != []


def test_at_level_breaks_only_a_difference_has_records():
    again = "recompile: call 2 of forward: k"

    assert compare_documents(captured(GUARD), captured(), level="breaks").records == ({}, {})
    assert compare_documents(captured(again), captured(), level="breaks").records == (
        {"capture": [again]},
        {"capture": []},
    )


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


@pytest.mark.parametrize(
    ("options", "has_pairs"),
    [
        ({}, True),
        ({"normalize": True}, False),
        ({"commutative": True}, False),
        ({"normalize": True, "level": "exact"}, True),
        ({"commutative": True, "level": "exact"}, True),
    ],
)
def test_a_difference_in_another_spelling_has_no_pairs_of_the_documents(options, has_pairs):
    difference = compare_documents(
        document("%x = input x\nreturn f(%x)"), document("%x = input x\nreturn %x"), **options
    )

    assert (difference.alignment is not None) is has_pairs
