from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.changed_records import ChangedRecords
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.compare.record_changes import add_capture_notes, code_of_note, state_records
from pytest_fxgraph.document.model import ModuleRecord, StateRecord

CONV = ModuleRecord("conv", "torch.nn.Conv2d", (("stride", "(1, 1)"), ("bias", "True")), training=True)
WEIGHT = StateRecord("w", "parameter", "float32[2]", requires_grad=True)


def graph(modules=(CONV,), state=(WEIGHT,)):
    return document("%x = input x\n%w = get w\n%a = self.conv(%x, %w)\nreturn %a", modules=modules, state=state)


def changes(obtained):
    return [
        (change.kind, change.action, change.where, change.field, change.expected, change.obtained)
        for change in compare_documents(graph(), obtained).changes
    ]


@pytest.mark.parametrize(
    ("obtained", "found"),
    [
        (CONV._replace(kind="torch.nn.Conv3d"), ("operators", "kind", "torch.nn.Conv2d", "torch.nn.Conv3d")),
        (
            CONV._replace(config=(("stride", "(2, 2)"), ("bias", "True"))),
            ("arguments", "config.stride", "(1, 1)", "(2, 2)"),
        ),
        (CONV._replace(config=(("bias", "True"),)), ("arguments", "config.stride", "(1, 1)", "")),
        (CONV._replace(training=False), ("arguments", "training", "True", "False")),
        (CONV._replace(training=None), ("arguments", "training", "True", "")),
    ],
)
def test_each_field_of_a_module_is_compared(obtained, found):
    kind, *texts = found

    assert changes(graph(modules=(obtained,))) == [(kind, "changed", "conv", *texts)]


def test_order_of_configuration_is_free():
    assert changes(graph(modules=(CONV._replace(config=CONV.config[::-1]),))) == []


@pytest.mark.parametrize(
    ("obtained", "found"),
    [
        (WEIGHT._replace(kind="buffer"), ("kind", "parameter", "buffer")),
        (WEIGHT._replace(value="float64[2]"), ("value", "float32[2]", "float64[2]")),
        (WEIGHT._replace(requires_grad=False), ("requires_grad", "True", "False")),
        (WEIGHT._replace(persistent=False), ("persistent", "True", "False")),
        (WEIGHT._replace(content="[1.0, 2.0]"), ("content", "", "[1.0, 2.0]")),
        (WEIGHT._replace(same_as="v"), ("same_as", "", "v")),
    ],
)
def test_each_field_of_the_state_is_compared(obtained, found):
    assert changes(graph(state=(obtained,))) == [("state", "changed", "w", *found)]


def test_state_that_came_or_went_is_listed():
    bias = StateRecord("b", "parameter", "float32[2]")

    assert changes(graph(state=(WEIGHT, bias))) == [("state", "added", "b", "", "", "parameter float32[2]")]
    assert changes(graph(state=())) == [("state", "removed", "w", "", "parameter float32[2]", "")]


def test_a_change_names_the_node_that_uses_what_changed():
    obtained = graph(modules=(CONV._replace(training=False),), state=(WEIGHT._replace(value="float64[2]"),))

    nodes = {change.where: change.node for change in compare_documents(graph(), obtained).changes}

    assert nodes == {"conv": "a", "w": "w"}


def test_a_change_of_removed_state_names_the_node_that_used_the_state():
    unread = document("%x = input x\n%a = self.conv(%x, 1)\nreturn %a", modules=(CONV,))
    changed = replace(unread, state=(WEIGHT._replace(value="float64[2]"),))

    nodes = [
        [change.node for change in compare_documents(graph(), obtained).changes if change.kind == "state"]
        for obtained in (unread, changed)
    ]

    assert nodes == [["w"], [""]]


def test_a_module_that_became_a_graph_is_a_difference():
    inner = document("%x = input x\nreturn %x")

    assert changes(graph(modules=(CONV._replace(graph=inner),))) == [
        ("operators", "changed", "conv", "graph", "no graph", "a graph")
    ]


def test_texts_are_compared_not_numbers():
    assert changes(graph(state=(WEIGHT._replace(content="[0.0]"),))) != []
    expected = graph(state=(WEIGHT._replace(content="[0.0, nan]"),))
    negative = graph(state=(WEIGHT._replace(content="[-0.0, nan]"),))

    assert compare_documents(expected, expected).is_empty
    assert not compare_documents(expected, negative).is_empty


CONSTANT = StateRecord("w", "constant", "float32[2]", content="[1.0, 2.0]")
BUFFER = StateRecord("w", "buffer", "float32[2]")


@pytest.mark.parametrize("other", [BUFFER, CONSTANT._replace(content=None)])
def test_a_constant_whose_content_one_side_does_not_know_is_not_reported(other):
    constant, unknown = graph(state=(CONSTANT,)), graph(state=(other,))

    assert compare_documents(constant, unknown).is_empty
    assert compare_documents(unknown, constant).is_empty
    assert not compare_documents(constant, unknown, level="exact").is_empty


@pytest.mark.parametrize(
    "other",
    [
        CONSTANT._replace(content="[1.0, 3.0]"),
        BUFFER._replace(value="float32[3]"),
        BUFFER._replace(persistent=False),
        BUFFER._replace(kind="parameter"),
        CONSTANT._replace(content=None, requires_grad=True),
    ],
)
def test_what_both_sides_know_of_a_constant_is_compared(other):
    assert not compare_documents(graph(state=(CONSTANT,)), graph(state=(other,))).is_empty
    assert not compare_documents(graph(state=(other,)), graph(state=(CONSTANT,))).is_empty


def test_the_content_of_a_shared_constant_is_compared_whichever_of_its_names_comes_first():
    first = (CONSTANT._replace(path="v"), CONSTANT._replace(same_as="v", content=None))
    turned = (CONSTANT, CONSTANT._replace(path="v", same_as="w", content=None))
    other = (CONSTANT._replace(content="[1.0, 3.0]"), CONSTANT._replace(path="v", same_as="w", content=None))

    assert compare_documents(graph(state=first), graph(state=turned)).is_empty
    assert not compare_documents(graph(state=first), graph(state=other)).is_empty


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("break: branch on a tensor in Net.forward: if x.sum() > 0:", "if (x.sum() > 0):"),
        ("break: number out of a tensor in forward: y = x.item() + 1", "y = (x.item() + 1)"),
        ("break: builtin (print) in blocks.*.forward: print('a', x)", 'print("a", x,)'),
        ("break: branch in f: elif x > 0:", "elif (x > 0):"),
        ("break: a function in f: with (open(x) as a, open(y) as b):", "with open(x) as a, open(y) as b:"),
    ],
)
def test_the_layout_of_a_statement_is_no_difference(one, other):
    before, _, _ = one.partition(": " + one.split(": ", 2)[2])

    assert code_of_note(one) == code_of_note(f"{before}: {other}")
    assert code_of_note(one) != code_of_note(f"{before}: {other.replace('x', 'z')}")


def test_the_statement_of_a_break_before_a_recompile_has_no_layout():
    note = "recompile: call 2 of forward behind the break at `y = {}`: k: expected 1, obtained 2"

    assert code_of_note(note.format("x.item()")) == code_of_note(note.format("(x.item())"))
    assert code_of_note(note.format("x.item()")) != code_of_note(note.format("z.item()"))


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ("float32[4]: lib.A(x=1, y=2)", "float32[4]: lib.A(x=1, y=3)", [("config.y", "2", "3")]),
        ("float32[4]: lib.A(x=1)", "float32[4]: lib.A(x=1, z=2)", [("config.z", "", "2")]),
        ("float32[4]: lib.A(x=1)", "float32[4]: lib.B(x=1)", [("class", "lib.A(x=1)", "lib.B(x=1)")]),
        ("float32[4]: lib.A(x=1)", "float32[4]", [("class", "lib.A(x=1)", "")]),
        (
            "float32[4]",
            "float32[5]: lib.A(x=1)",
            [("value", "float32[4]", "float32[5]"), ("class", "", "lib.A(x=1)")],
        ),
    ],
)
def test_a_tensor_of_a_class_of_its_own_differs_in_attributes_or_in_its_class(before, after, fields):
    graphs = (
        document("%x = input x\n%w = get w\n%a = f(%x, %w)\nreturn %a", state=(StateRecord("w", "parameter", value),))
        for value in (before, after)
    )

    changes = compare_documents(*graphs).changes

    assert [(change.field, change.expected, change.obtained) for change in changes] == fields


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ("float32[4]", {"value": "float32[4]"}),
        ("float32[4]: lib.A(x=1)", {"value": "float32[4]", "class": "lib.A(x=1)"}),
        ("lib.B(at=1: 2)", {"value": "lib.B(at=1: 2)"}),
    ],
)
def test_only_a_class_behind_dtype_and_shape_is_a_field_of_its_own(value, fields):
    (record,) = state_records([StateRecord("w", "parameter", value)]).values()

    assert {key: record[key] for key in ("value", "class") if key in record} == fields


def test_a_tensor_under_two_paths_overlaps_others_under_each_of_them():
    first = StateRecord("a", "parameter", "float32[4]", storage="c from byte 64")
    other = StateRecord("b", "parameter", "float32[4]", same_as="a")
    states = ((first, other), (first._replace(path="b"), other._replace(path="a", same_as="b")))
    text = "%x = input x\n%v = get a\n%w = get b\n%a = f(%x, %v, %w)\nreturn %a"

    assert compare_documents(*(document(text, state=state) for state in states)).is_empty
    apart = tuple(record._replace(storage=None) for record in states[1])
    assert {
        change.where
        for change in compare_documents(document(text, state=states[0]), document(text, state=apart)).changes
    } == {"a", "b"}


# Notes of a capture.

BREAK, OTHER = "break: item in f: x.item()", "break: item in g: x.item()"


@pytest.mark.parametrize(
    ("expected", "obtained", "changes"),
    [
        ((), (BREAK,), [("break", "added", "", "a.py:1")]),
        ((BREAK,), (), [("break", "removed", "", None)]),
        ((BREAK,), (OTHER,), [("break", "added", "", None), ("break", "removed", "others came", None)]),
        (("guard: a",), ("guard: b",), [("guard", "added", "", None), ("guard", "removed", "", None)]),
        (
            ("recompile: call 2 of f: k",),
            (BREAK,),
            [("break", "added", "", "a.py:1"), ("recompile", "removed", "", None)],
        ),
    ],
)
def test_a_finding_that_went_as_others_came_has_a_remark_and_a_new_finding_its_place(expected, obtained, changes):
    documents = (replace(graph(), notes=notes, places={BREAK: "a.py:1"}) for notes in (expected, obtained))
    first, second = documents

    found = add_capture_notes(replace(first, places={}), second, ChangedRecords())

    assert [(each.subject, each.action, each.remark, each.source) for each in found] == changes


@pytest.mark.parametrize(
    ("note", "code"),
    [
        ("guard: k  == 'a b'", "guard:k=='a b'"),
        ("break: item in f: else:  # a", "break: item in f: else:"),
        ("guard: k == 2  # a", "guard:k==2#a"),
    ],
)
def test_spaces_outside_of_strings_and_comments_of_breaks_do_not_count(note, code):
    assert code_of_note("guard: k == 'a'") != code_of_note("guard: k == 'b'")
    assert code_of_note(note) == code_of_note(code)
    assert code_of_note(note) != code_of_note(f"{code} 1")
