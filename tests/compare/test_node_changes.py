"""Changes of two aligned graphs are listed node by node, and consequences of listed changes are left out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fixtures.documents import document, node
from pytest_fxgraph.compare import node_changes
from pytest_fxgraph.compare.changed_records import ChangedRecords, changed_fields
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.isomorphism import Alignment
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.compare.node_changes import NodeComparison, about_node, in_reading_order
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord


def with_node(text: str, place: int, **fields) -> GraphDocument:
    made = document(text)
    nodes = [*made.nodes[:place], made.nodes[place]._replace(**fields), *made.nodes[place + 1 :]]
    return replace(made, nodes=tuple(nodes))


def compared(
    expected: str | GraphDocument, obtained: str | GraphDocument, pairs: str = "", *, paths: tuple[str, ...] = ()
):
    """Compare two texts; nodes of one name are partners, and so are `a=b c=d`."""
    documents = [each if isinstance(each, GraphDocument) else document(each) for each in (expected, obtained)]
    alignment = Alignment(*map(graph_index_of, documents))
    places = {each.name: place for place, each in enumerate(alignment.obtained.nodes)}
    other = dict(pair.split("=") for pair in pairs.split())
    for place, each in enumerate(alignment.expected.nodes):
        partner = places.get(other.get(each.name, each.name))
        if partner is not None:
            alignment.pair(place, partner)
    records = ChangedRecords()
    return NodeComparison(alignment, set(paths), records), records


def listed(*args, **options):
    comparison, records = compared(*args, **options)
    return [
        (change.kind, change.action, change.where, change.field, change.expected, change.obtained)
        for change in comparison.changes(changed_fields(records))
    ]


# What a change is about.


def test_a_change_names_the_node_and_its_scope_or_those_of_its_partner():
    own, partner = node("%a = f(%x) @ layers.1"), node("%b = f(%x) @ layers.2")

    assert (about_node(own).where, about_node(own).scope, about_node(own).subject) == ("a", "layers.1", "node")
    assert about_node(own, partner).scope == "layers.1"
    assert about_node(own._replace(scope=None), partner).scope == "layers.2"
    assert about_node(own._replace(scope=None)).scope is None
    assert about_node(own).expected_node == about_node(own, own).expected_node == ""
    assert about_node(own, partner).expected_node == "b"
    assert about_node(own._replace(source="model.py:3")).source == "model.py:3"


def test_an_input_is_named_by_its_parameter():
    own, partner = node("%x_1 = input x"), node("%y_1 = input y")

    assert (about_node(own).subject, about_node(own).where) == ("input", "x")
    assert about_node(own, partner).expected_node == "y"
    assert about_node(own, own._replace(name="x_2")).expected_node == ""
    assert about_node(node("return %x")).subject == "output"


# Added and removed nodes.


def test_added_and_removed_nodes_have_their_calls_and_their_readers_are_not_listed():
    expected = "%x = input x\n%a = f(%x)\n%r = g(%a)\n%b = h(%r)\nreturn %b"
    obtained = "%x = input x\n%n = k(%x)\n%a = f(%n)\n%b = h(%a)\nreturn %b"

    assert listed(expected, obtained) == [
        ("operators", "added", "n", "", "", "k(%x)"),
        ("operators", "removed", "r", "", "g(%a)", ""),
    ]


def test_a_removed_node_is_a_record_under_its_old_name():
    _, records = compared("%x = input x\n%r = g(%x, k=1)\nreturn %x", "%x = input x\nreturn %x")

    removed = {"target": "call_function g", "args": ["%x"], "kwargs": {"k": "1"}}
    assert records.of_section("nodes") == {"r (removed)": (removed, None)}


def test_an_added_input_is_a_change_of_the_signature():
    comparison, records = compared("%x = input x\nreturn %x", "%x = input x\n%y = input y\nreturn %x")

    (change,) = comparison.changes(changed_fields(records))
    assert (change.kind, change.action, change.subject, change.where) == ("signature", "added", "input", "y")


def test_an_added_node_has_its_operator():
    comparison, records = compared("%x = input x\nreturn %x", "%x = input x\n%n = k(%x)\nreturn %x")

    (change,) = comparison.changes(changed_fields(records))
    assert change.operator == "k"
    assert records.of_section("nodes")["n"] == (
        None,
        {"target": "call_function k", "args": ["%x"], "kwargs": {}},
    )


def test_a_reader_of_another_tensor_in_place_of_a_removed_one_is_listed():
    expected = "%x = input x\n%w = get w\n%a = f(%x, %w)\nreturn %a"
    obtained = "%x = input x\n%y = input y\n%a = f(%x, %x)\nreturn %a"

    assert ("wiring", "changed", "a", "args[1]", "%w (removed)", "%x") in listed(expected, obtained)


def test_nodes_beyond_the_limits_are_counted(monkeypatch):
    monkeypatch.setattr(node_changes, "MOST_PRESENCES", 1)
    monkeypatch.setattr(node_changes, "MOST_CHANGES", 4)
    expected = "%x = input x\n%a = f(%x, 1)\n%b = f(%x, 1, k=1)\n%c = f(%x, 1)\n%d = f(%x, 1)\nreturn %x"
    obtained = expected.replace("1", "2").replace("return", "%m = g(%x)\n%n = g(%x)\nreturn")
    comparison, records = compared(expected, obtained)

    assert [change.where for change in comparison.changes(changed_fields(records))] == ["a", "b", "b", "c", "m"]
    assert comparison.omitted == [(4, 4), (-1, 6)]
    assert comparison.room == 0


def test_a_node_at_the_front_may_be_added():
    comparison, records = compared("%y = input y\nreturn %y", "%x = get x\n%y = input y\nreturn %y")

    (change,) = comparison.changes(changed_fields(records))
    assert (change.action, change.where, change.expected, change.obtained) == ("added", "x", "", "self.x")
    assert records.of_section("nodes") == {"x": (None, {"target": "get_attr x", "args": [], "kwargs": {}})}


def test_a_reader_of_another_node_in_place_of_the_first_is_listed():
    expected = "%x = input x\n%a = f(%x)\n%b = h(%a)\nreturn %b"
    obtained = "%a = f()\n%x = input x\n%b = h(%x)\nreturn %b"

    assert ("wiring", "changed", "b", "args[0]", "%a", "%x") in listed(expected, obtained)


@pytest.mark.parametrize(
    ("expected", "obtained", "fields"),
    [
        ("f(%r, 1)", "f(%x, 2)", ["args[1]"]),
        ("f(%x, 1)", "f(%n, 2)", ["args[1]"]),
        ("f([%x, %y], 1)", "f([%n, %y], 2)", ["args[1]"]),
        ("f([%r, %y], 1)", "f([%x, %y], 2)", ["args[1]"]),
        ("f([%x, %y], 1)", "f([%y, %y], 2)", ["args[0]", "args[1]"]),
        ("f([%r, %y], 1)", "f([%x, %x], 2)", ["args[0]", "args[1]"]),
        ("f([%x, 1])", "f([%n, 2])", ["args[0]"]),
        ("f([%x], 1)", "f([%n, %n], 2)", ["args[0]", "args[1]"]),
        ("f(%w, 1)", "f(%x, 2)", ["args[0]", "args[1]"]),
        ("f('a (removed)', %r)", "f('a', %x)", ["args[0]"]),
    ],
)
def test_references_to_listed_nodes_are_no_change_beside_a_changed_argument(expected, obtained, fields):
    frame = "%x = input x\n%y = input y\n{}\n%a = {}\nreturn 1"
    removed = "%w = get w\n%r = g(%x)"

    found = listed(frame.format(removed, expected), frame.format("%n = k(%x)", obtained))

    assert [change[3] for change in found if change[2] == "a"] == fields


# Changed nodes.


@pytest.mark.parametrize(
    ("expected", "obtained", "change"),
    [
        ("f(%x, 1)", "f(%x, 2)", ("arguments", "changed", "a", "args[1]", "1", "2")),
        ("f(%x, k=1)", "f(%x, k=2)", ("arguments", "changed", "a", "kwargs['k']", "1", "2")),
        ("f(%x)", "g(%x)", ("operators", "changed", "a", "target", "f", "g")),
        ("f(%x)", ".f(%x)", ("operators", "changed", "a", "target", "call_function f", "call_method f")),
        ("f(%x)", "f(%y)", ("wiring", "changed", "a", "args[0]", "%x", "%y")),
    ],
)
def test_a_changed_field_of_a_call_is_listed(expected, obtained, change):
    frame = "%x = input x\n%y = input y\n%a = {}\nreturn 1"

    assert listed(frame.format(expected), frame.format(obtained)) == [change]


def test_metadata_of_one_side_is_shown_on_both():
    tagged = with_node("%x = input x\n%a = f(%x)\nreturn %a", 1, meta=(("tag", "1"),))
    _, records = compared("%x = input x\n%a = g(%x)\nreturn %a", tagged)
    _, plain_records = compared("%x = input x\n%a = g(%x)\nreturn %a", "%x = input x\n%a = f(%x)\nreturn %a")

    expected, obtained = records.of_section("nodes")["a"]
    assert (expected["meta"], obtained["meta"]) == ({}, {"tag": "1"})
    assert all("meta" not in record for record in plain_records.of_section("nodes")["a"])


def test_a_renumbered_node_is_no_change():
    assert listed("%x = input x\n%a = f(%x)\nreturn %a", "%x = input x\n%b = f(%x)\nreturn %b", "a=b") == []


def test_a_changed_input_is_a_change_of_the_signature():
    text = "%x = input x\nreturn 1"

    assert listed("%x = input x : f[2]\nreturn 1", "%x = input x : f[3]\nreturn 1") == [
        ("signature", "changed", "x", "value", "f[2]", "f[3]")
    ]
    assert listed(with_node(text, 0, args=("1",)), with_node(text, 0, args=("2",))) == [
        ("signature", "changed", "x", "default", "1", "2")
    ]


def test_numbers_that_are_close_have_their_distance_as_a_remark():
    frame = "%x = input x\n%a = f(%x, {})\nreturn %a"
    comparison, records = compared(frame.format("1.0"), frame.format("1.0001"))

    (change,) = comparison.changes(changed_fields(records))
    assert change.remark


# Values.


def test_a_value_that_follows_from_a_change_is_counted_alone():
    expected = "%x = input x : f[2]\n%a = f(%x, 1) : f[2]\n%b = g(%a) : f[2]\n%c = h(%b) : f[2]\nreturn %x"
    obtained = "%x = input x : f[2]\n%a = f(%x, 2) : f[3]\n%b = g(%a) : f[3]\n%c = h(%b) : f[2]\nreturn %x"
    comparison, records = compared(expected, obtained)

    assert [change.field for change in comparison.changes(changed_fields(records))] == ["args[1]"]
    assert comparison.followed == 2


def test_a_value_without_a_cause_is_listed_and_those_after_it_are_counted():
    expected = "%x = input x : f[2]\n%a = f(%x) : f[2]\n%b = g(%a) : f[2]\nreturn %x"
    comparison, records = compared(
        expected, expected.replace("(%x) : f[2]", "(%x) : f[3]").replace("%a) : f[2]", "%a) : f[4]")
    )

    assert [change.where for change in comparison.changes(changed_fields(records))] == ["a"]
    assert comparison.followed == 1


@pytest.mark.parametrize(("paths", "is_listed"), [((), True), (("w",), False), (("v",), True)])
def test_a_value_of_a_changed_tensor_is_explained_by_it(paths, is_listed):
    expected = "%w = get w : f[2]\nreturn 1"

    assert bool(listed(expected, expected.replace("[2]", "[3]"), paths=paths)) is is_listed


def test_a_value_behind_a_changed_call_with_its_old_value_may_differ():
    expected = "%x = input x\n%a = f(%x, 1) : f[2]\n%b = g(%a) : f[2]\nreturn %x"
    comparison, records = compared(expected, expected.replace("1", "5").replace("(%a) : f[2]", "(%a) : f[3]"))

    assert [change.field for change in comparison.changes(changed_fields(records))] == ["args[1]"]
    assert comparison.followed == 1


def test_a_value_behind_an_added_node_is_explained():
    expected = "%x = input x : f[2]\n%a = f(%x) : f[2]\nreturn %a"
    obtained = "%x = input x : f[2]\n%n = g(%x) : f[3]\n%a = f(%n) : f[3]\nreturn %a"
    comparison, records = compared(expected, obtained)

    assert [change.where for change in comparison.changes(changed_fields(records))] == ["n", "output"]
    assert comparison.followed == 1


def test_the_output_shows_the_values_that_it_returns():
    expected = "%x = input x : f[2]\n%a = f(%x) : f[2]\n%u = k(%x)\nreturn (%a, %u)"
    obtained = "%x = input x : f[2]\n%a = f(%x, 1) : f[3]\n%u = k(%x)\nreturn (%a, %u)"

    assert listed(expected, obtained)[-1] == ("signature", "changed", "output", "value", "(f[2], ?)", "(f[3], ?)")
    assert listed("%x = input x\nreturn %x : f[2]", "%x = input x\nreturn %x : f[3]") == [
        ("signature", "changed", "output", "value", "f[2]", "f[3]")
    ]
    assert listed("%x = input x\nreturn %x : f[2]", "%x = input x\nreturn %x") == []


def test_an_output_of_another_form_is_a_change_of_its_arguments():
    expected = "%x = input x : f[2]\nreturn (%x, 1)"

    assert [change[:4] for change in listed(expected, expected.replace("1", "2"))] == [
        ("signature", "changed", "output", "args[0]")
    ]


# Order.


@pytest.mark.parametrize(
    ("obtained_of", "count", "order"),
    [
        ([0, 1], 2, [(0, 0), (1, 1)]),
        ([1, 0], 2, [(1, 0), (0, 1)]),
        ([-1, 0], 1, [(0, -1), (1, 0)]),
        ([0, -1, -1, 1], 3, [(0, 0), (1, -1), (2, -1), (3, 1), (-1, 2)]),
        ([-1, -1], 1, [(0, -1), (1, -1), (-1, 0)]),
        ([1, -1, 0], 2, [(2, 0), (0, 1), (1, -1)]),
    ],
)
def test_pairs_stand_in_the_order_of_the_obtained_graph(obtained_of, count, order):
    expected_of = [obtained_of.index(place) if place in obtained_of else -1 for place in range(count)]

    assert in_reading_order(SimpleNamespace(obtained_of=obtained_of, expected_of=expected_of)) == order


def moves(expected: str, obtained: str):
    changes = compare_documents(document(expected), document(obtained)).changes
    return [(change.kind, change.action, change.where, change.expected, change.obtained) for change in changes]


def test_only_the_random_operator_that_moved_is_named():
    one, two, three = (f"%{name} = {name}(%x) ! random" for name in ("f", "g", "h"))

    found = moves(
        "\n".join(["%x = input x", one, two, three, "return (%f, %g, %h)"]),
        "\n".join(["%x = input x", two, three, one, "return (%f, %g, %h)"]),
    )

    assert found == [("order", "moved", "f", "first of its kind", "after h")]


def test_an_operator_that_moved_to_the_front_is_named_behind_others_that_stay():
    one, two, three = (f"%{name} = {name}(%x) ! random" for name in ("f", "g", "h"))

    found = moves(
        "\n".join(["%x = input x", one, two, three, "return (%f, %g, %h)"]),
        "\n".join(["%x = input x", three, one, two, "return (%f, %g, %h)"]),
    )

    assert found == [("order", "moved", "h", "after g", "first of its kind")]


def test_an_added_random_operator_moves_none_of_the_others():
    found = moves(
        "%x = input x\n%a = f(%x) ! random\n%b = g(%a) ! random\nreturn %b",
        "%x = input x\n%n = h(%x) ! random\n%a = f(%n) ! random\n%b = g(%a) ! random\nreturn %b",
    )

    assert [change[1:3] for change in found] == [("added", "n")]


def test_a_read_that_moved_past_a_write_is_named():
    found = moves(
        "%x = input x\n%r = f(%x) ! read %x\n%w = .add_(%x, 1) ! write %x\nreturn (%r, %w)",
        "%x = input x\n%w = .add_(%x, 1) ! write %x\n%r = f(%x) ! read %x\nreturn (%r, %w)",
    )

    assert found == [("order", "moved", "r", "before the first write to its storage", "after 1 write to its storage")]


def test_an_added_write_does_not_move_the_reads_after_it():
    found = moves(
        "%x = input x\n%r = f(%x) ! read %x\n%w = .add_(%x, 1) ! write %x\nreturn (%r, %w)",
        "%x = input x\n%n = .zero_(%x) ! write %x\n%r = f(%x) ! read %x\n%w = .add_(%x, 1) ! write %x\nreturn (%r, %w)",
    )

    assert [change[1:3] for change in found] == [("added", "n")]


def test_exchanged_inputs_are_a_change_of_the_signature():
    found = moves("%x = input x\n%y = input y\nreturn (%x, %y)", "%y = input y\n%x = input x\nreturn (%x, %y)")

    assert found == [("signature", "moved", "x", "first of its kind", "after y")]


def test_effects_are_named_where_nothing_else_differs():
    (change,) = compare_documents(
        document("%x = input x\n%a = f(%x) ! random\nreturn %a"), document("%x = input x\n%a = f(%x)\nreturn %a")
    ).changes

    assert (change.kind, change.where, change.field, change.expected, change.obtained) == (
        "order",
        "a",
        "effects",
        "random",
        "none",
    )


def test_effects_that_follow_from_a_module_are_not_listed_beside_it():
    expected, obtained = (
        document(
            f"%x = input x\n%a = self.bn(%x){effect}\nreturn %a",
            modules=(ModuleRecord("bn", "torch.nn.BatchNorm1d", training=training),),
        )
        for training, effect in ((True, " ! state"), (False, ""))
    )

    (change,) = compare_documents(expected, obtained).changes

    assert (change.where, change.field) == ("bn", "training")


def test_writes_that_follow_from_a_module_are_no_other_storage():
    expected, obtained = (
        document(
            f"%x = input x\n%a = self.act(%x){effect}\nreturn %a",
            modules=(ModuleRecord("act", "torch.nn.ReLU", (("inplace", inplace),)),),
        )
        for inplace, effect in (("False", ""), ("True", " ! write %x"))
    )

    (change,) = compare_documents(expected, obtained).changes

    assert (change.where, change.field) == ("act", "config.inplace")


def test_reads_of_a_storage_that_a_changed_module_now_writes_are_not_listed_beside_it():
    expected, obtained = (
        document(
            f"%x = input x\n%a = self.act(%x){write}\n%b = f(%a){read}\nreturn %b{read}",
            modules=(ModuleRecord("act", "torch.nn.ReLU", (("inplace", inplace),)),),
        )
        for inplace, write, read in (("False", "", ""), ("True", " ! write %x", " ! read %x"))
    )

    for one, other in ((expected, obtained), (obtained, expected)):
        (change,) = compare_documents(one, other).changes
        assert (change.where, change.field) == ("act", "config.inplace")


def test_another_effect_than_a_read_is_listed_beside_a_module_that_now_writes():
    expected, obtained = (
        document(
            f"%x = input x\n%a = self.act(%x){write}\n%b = f(%a){read}\nreturn %b",
            modules=(ModuleRecord("act", "torch.nn.ReLU", (("inplace", inplace),)),),
        )
        for inplace, write, read in (("False", "", ""), ("True", " ! write %x", " ! random; read %x"))
    )

    changes = compare_documents(expected, obtained).changes

    assert {(each.where, each.field) for each in changes} == {("act", "config.inplace"), ("b", "effects")}


@pytest.mark.parametrize(
    ("effects", "found"),
    [
        (" ! random", [("act", "config.p"), ("b", "effects")]),  # a changed module that writes nothing
        (" ! write %x", [("act", "config.p")]),
    ],
)
def test_a_changed_module_explains_reads_only_if_it_now_writes(effects, found):
    expected, obtained = (
        document(
            f"%x = input x\n%a = self.act(%x){made}\n%b = f(%a){read}\nreturn %b",
            modules=(ModuleRecord("act", "A", (("p", number),)),),
        )
        for number, made, read in (("1", "", ""), ("2", effects, " ! read %x"))
    )

    changes = compare_documents(expected, obtained).changes

    assert [(change.where, change.field) for change in changes] == found


def test_a_write_of_an_unchanged_module_explains_no_reads():
    text = "%x = input x\n%a = f(%x){}\n%b = g(%a){}\nreturn %b"

    changes = compare_documents(
        document(text.format("", "")), document(text.format(" ! write %x", " ! read %x"))
    ).changes

    assert [(change.where, change.field) for change in changes] == [("a", "effects"), ("b", "effects")]


def test_reads_of_another_written_storage_are_told_of_the_graph_as_a_whole():
    text = (
        "%x = input x\n%y = input y\n%a = f(%x) ! write %x\n%b = g(%y) ! write %y\n%c = h(%x, %y) ! read %x\nreturn %c"
    )

    (change,) = compare_documents(document(text), document(text.replace("read %x", "read %y"))).changes

    assert (change.kind, change.where, change.field) == ("order", "the graph", "effects")
    assert (change.expected, change.obtained) == ("other values share storage", "these do")


def test_a_node_under_another_name_is_told_with_both_names_where_its_effects_or_its_order_differ():
    text = "%x = input x\n%a = f(%x) ! random\n%b = g(%x) ! random\nreturn (%a, %b)"
    moved = "%x = input x\n%q = g(%x) ! random\n%p = f(%x) ! random\nreturn (%p, %q)"

    (effects,) = compare_documents(
        document(text), document(text.replace("%a", "%p").replace(") ! random\n%b", ")\n%b"))
    ).changes
    (order,) = compare_documents(document(text), document(moved)).changes

    assert (effects.field, effects.where, effects.expected_node) == ("effects", "p", "a")
    assert (order.action, order.where, order.expected_node) in (("moved", "p", "a"), ("moved", "q", "b"))


def test_a_read_that_moved_past_two_writes_is_told_with_their_number():
    writes = "%w = .add_(%x, 1) ! write %x\n%v = .mul_(%x, 2) ! write %x"
    texts = [
        f"%x = input x\n{body}\nreturn (%r, %w, %v)"
        for body in (f"%r = f(%x) ! read %x\n{writes}", f"{writes}\n%r = f(%x) ! read %x")
    ]

    assert moves(*texts) == [
        ("order", "moved", "r", "before the first write to its storage", "after 2 writes to its storage")
    ]


def test_writes_of_the_first_node_count_for_the_reads_after_it():
    write, read, last = "%w = f() ! write %w", "%r = g(1) ! read %w", "%s = h(%w) ! read %w"
    first, later = (f"{body}\n{last}\nreturn (%r, %s)" for body in (f"{write}\n{read}", f"{read}\n{write}"))

    assert [change[2] for change in moves(first, later)] == [change[2] for change in moves(later, first)] == ["r"]
