from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord, StateRecord

SAME = {
    "renamed intermediate values": (
        "%x = input x\n%a = torch.relu(%x)\n%b = torch.exp(%a)\nreturn %b",
        "%x = input x\n%b = torch.relu(%x)\n%a = torch.exp(%b)\nreturn %a",
    ),
    "independent statements exchanged": (
        "%x = input x\n%a = torch.relu(%x)\n%b = torch.exp(%x)\nreturn (%a, %b)",
        "%x = input x\n%b = torch.exp(%x)\n%a = torch.relu(%x)\nreturn (%a, %b)",
    ),
    "keyword arguments in another order": (
        "%x = input x\n%a = torch.sum(%x, dim=1, keepdim=True)\nreturn %a",
        "%x = input x\n%a = torch.sum(%x, keepdim=True, dim=1)\nreturn %a",
    ),
    "value known on one side only": (
        "%x = input x : float32[2]\n%a = torch.relu(%x) : float32[2]\nreturn %a",
        "%x = input x\n%a = torch.relu(%x)\nreturn %a",
    ),
    "made in another module": (
        "%x = input x\n%a = torch.relu(%x) @ layers.1\nreturn %a",
        "%x = input x\n%a = torch.relu(%x) @ layers.2\nreturn %a",
    ),
    "unread nodes exchanged": (
        "%x = input x\n%a = torch.relu(%x)\n%b = torch.exp(%x)\n%c = torch.neg(%b)\nreturn %x",
        "%x = input x\n%b = torch.exp(%x)\n%c = torch.neg(%b)\n%a = torch.relu(%x)\nreturn %x",
    ),
    "unread nodes that are alike, read in another order": (
        "%x = input x\n%a = f(%x)\n%b = f(%x)\n%c = g(%a)\n%d = h(%a)\n%e = g(%b)\n%i = h(%b)\nreturn %x",
        "%x = input x\n%a = f(%x)\n%b = f(%x)\n%c = g(%a)\n%d = h(%b)\n%e = g(%b)\n%i = h(%a)\nreturn %x",
    ),
    "random operator beside a plain one": (
        "%x = input x\n%a = torch.relu(%x)\n%b = torch.rand_like(%x) ! random\nreturn (%a, %b)",
        "%x = input x\n%b = torch.rand_like(%x) ! random\n%a = torch.relu(%x)\nreturn (%a, %b)",
    ),
    "updates of different modules exchanged": (
        "%x = input x\n%a = self.bn1(%x) ! state\n%b = self.bn2(%x) ! state\nreturn (%a, %b)",
        "%x = input x\n%b = self.bn2(%x) ! state\n%a = self.bn1(%x) ! state\nreturn (%a, %b)",
    ),
    "writes to different storages exchanged": (
        "%x = input x\n%y = input y\n%a = .add_(%x, 1) ! write %x\n%b = .add_(%y, 1) ! write %y\nreturn %x",
        "%x = input x\n%y = input y\n%b = .add_(%y, 1) ! write %y\n%a = .add_(%x, 1) ! write %x\nreturn %x",
    ),
    "storage known by another of its nodes": (
        "%x = get p\n%y = get p\n%a = .add_(%x, 1) ! write %x\n%b = .neg(%y) ! read %x\nreturn (%a, %b)",
        "%y = get p\n%x = get p\n%a = .add_(%x, 1) ! write %y\n%b = .neg(%y) ! read %y\nreturn (%a, %b)",
    ),
    "text that looks like a reference": (
        '%x = input x\n%a = f(%x, "%x and %a")\nreturn %a',
        '%x = input x\n%b = f(%x, "%x and %a")\nreturn %b',
    ),
}

DIFFERENT = {
    "operator": ("%x = input x\n%a = torch.relu(%x)\nreturn %a", "%x = input x\n%a = torch.gelu(%x)\nreturn %a"),
    "method instead of function": ("%x = input x\n%a = relu(%x)\nreturn %a", "%x = input x\n%a = .relu(%x)\nreturn %a"),
    "literal": ("%x = input x\n%a = f(%x, 1)\nreturn %a", "%x = input x\n%a = f(%x, 1.0)\nreturn %a"),
    "literal in a text": ('%x = input x\n%a = f(%x, "%x")\nreturn %a', '%x = input x\n%a = f(%x, "%a")\nreturn %a'),
    "keyword": ("%x = input x\n%a = f(%x, dim=1)\nreturn %a", "%x = input x\n%a = f(%x, axis=1)\nreturn %a"),
    "operands exchanged": (
        "%x = input x\n%y = input y\n%a = f(%x, %y)\nreturn %a",
        "%x = input x\n%y = input y\n%a = f(%y, %x)\nreturn %a",
    ),
    "one value read twice is not two equal values": (
        "%x = input x\n%y = .relu(%x)\n%a = f(%y, %y)\nreturn %a",
        "%x = input x\n%y = .relu(%x)\n%z = .relu(%x)\n%a = f(%y, %z)\nreturn %a",
    ),
    "equal values read otherwise": (
        "%x = input x\n%y = g(%x)\n%z = g(%x)\n%a = f(%y, %y)\n%b = f(%z, %z)\nreturn (%a, %b)",
        "%x = input x\n%y = g(%x)\n%z = g(%x)\n%a = f(%y, %z)\n%b = f(%y, %z)\nreturn (%a, %b)",
    ),
    "one of two equal values left unread": (
        "%x = input x\n%y = g(%x)\n%z = g(%x)\n%a = f(%y, %z)\nreturn %a",
        "%x = input x\n%y = g(%x)\n%z = g(%x)\n%a = f(%y, %y)\nreturn %a",
    ),
    "effect": ("%x = input x\n%a = f(%x) ! random\nreturn %a", "%x = input x\n%a = f(%x) ! io\nreturn %a"),
    "effect more": ("%x = input x\n%a = f(%x)\nreturn %a", "%x = input x\n%a = f(%x) ! call\nreturn %a"),
    "kind of access": (
        "%x = input x\n%a = f(%x) ! write %x\nreturn %a",
        "%x = input x\n%a = f(%x) ! read %x\nreturn %a",
    ),
    "unread node": ("%x = input x\n%a = f(%x)\nreturn %x", "%x = input x\nreturn %x"),
    "unread nodes shared otherwise": (
        "%x = input x\n%y = g(%x)\n%z = g(%x)\n%a = f(%y, %y)\n%b = f(%z, %z)\nreturn %x",
        "%x = input x\n%y = g(%x)\n%z = g(%x)\n%a = f(%y, %z)\n%b = f(%y, %z)\nreturn %x",
    ),
    "input name": ("%x = input x\nreturn %x", "%y = input y\nreturn %y"),
    "input order": ("%x = input x\n%y = input y\nreturn (%x, %y)", "%y = input y\n%x = input x\nreturn (%x, %y)"),
    "input default": ("%x = input x = 1\nreturn %x", "%x = input x\nreturn %x"),
    "output structure": ("%x = input x\nreturn (%x,)", "%x = input x\nreturn [%x]"),
    "output key": ('%x = input x\nreturn {"a": %x}', '%x = input x\nreturn {"b": %x}'),
    "output order": (
        "%x = input x\n%a = f(%x)\n%b = g(%x)\nreturn (%a, %b)",
        "%x = input x\n%a = f(%x)\n%b = g(%x)\nreturn (%b, %a)",
    ),
    "value": (
        "%x = input x : float32[2]\n%a = f(%x) : float32[2]\nreturn %a",
        "%x = input x : float32[2]\n%a = f(%x) : float64[2]\nreturn %a",
    ),
    "attribute": ("%a = get weight\nreturn %a", "%a = get bias\nreturn %a"),
    "order of random operators": (
        "%x = input x\n%a = f(%x) ! random\n%b = g(%x) ! random\nreturn (%a, %b)",
        "%x = input x\n%b = g(%x) ! random\n%a = f(%x) ! random\nreturn (%a, %b)",
    ),
    "order of equal random operators": (
        "%x = input x\n%a = f(%x) ! random\n%b = f(%x) ! random\nreturn (%a, %b)",
        "%x = input x\n%b = f(%x) ! random\n%a = f(%x) ! random\nreturn (%a, %b)",
    ),
    "order of updates of one module": (
        "%x = input x\n%y = input y\n%a = self.bn(%x) ! state\n%b = self.bn(%y) ! state\nreturn (%a, %b)",
        "%x = input x\n%y = input y\n%b = self.bn(%y) ! state\n%a = self.bn(%x) ! state\nreturn (%a, %b)",
    ),
    "order of a write and a read": (
        "%x = input x\n%a = f(%x) ! read %x\n%b = .add_(%x, 1) ! write %x\nreturn (%a, %b)",
        "%x = input x\n%b = .add_(%x, 1) ! write %x\n%a = f(%x) ! read %x\nreturn (%a, %b)",
    ),
    "order of writes whose results are not read": (
        "%x = input x\n%a = .add_(%x, 1) ! write %x\n%b = .mul_(%x, 2) ! write %x\nreturn %x",
        "%x = input x\n%b = .mul_(%x, 2) ! write %x\n%a = .add_(%x, 1) ! write %x\nreturn %x",
    ),
    "storage that is shared otherwise": (
        "%x = input x\n%y = input y\n%a = f(%x) ! write %x\n%b = g(%x) ! read %x\n%c = g(%y) ! read %y\nreturn %b",
        "%x = input x\n%y = input y\n%a = f(%x) ! write %x\n%b = g(%x) ! read %x\n%c = g(%y) ! read %x\nreturn %b",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_means_the_same_is_no_difference(name):
    expected, obtained = map(document, SAME[name])

    assert compare_documents(expected, obtained).changes == ()
    assert compare_documents(obtained, expected).changes == ()


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_means_something_else_is_a_difference(name):
    expected, obtained = map(document, DIFFERENT[name])

    assert not compare_documents(expected, obtained).is_empty
    assert not compare_documents(obtained, expected).is_empty


def test_renamed_nodes_are_counted():
    expected, obtained = map(document, SAME["renamed intermediate values"])

    assert compare_documents(expected, obtained).renamed == 2


def test_modules_that_are_one_object_are_known_by_any_of_their_paths():
    one = (ModuleRecord("a", "Net"), ModuleRecord("b", "Net", same_as="a"))
    other = (ModuleRecord("b", "Net"), ModuleRecord("a", "Net", same_as="b"))
    expected = document("%x = input x\n%p = self.a(%x)\n%q = self.b(%x)\nreturn (%p, %q)", modules=one)
    obtained = document("%x = input x\n%q = self.b(%x)\n%p = self.a(%x)\nreturn (%p, %q)", modules=other)

    assert compare_documents(expected, obtained).is_empty


def test_calls_of_one_object_under_two_paths_keep_their_order_if_they_update_it():
    modules = (ModuleRecord("a", "Net"), ModuleRecord("b", "Net", same_as="a"))
    expected = document(
        "%x = input x\n%p = self.a(%x) ! state\n%q = self.b(%x) ! state\nreturn (%p, %q)", modules=modules
    )
    obtained = document(
        "%x = input x\n%q = self.b(%x) ! state\n%p = self.a(%x) ! state\nreturn (%p, %q)", modules=modules
    )

    (change,) = compare_documents(expected, obtained).changes

    assert (change.kind, change.action) == ("order", "moved")


def test_a_nested_graph_is_compared_like_the_outer_one():
    inner = document("%x = input x\n%a = torch.relu(%x)\nreturn %a")
    same = document("%x = input x\n%b = torch.relu(%x)\nreturn %b")
    other = document("%x = input x\n%a = torch.gelu(%x)\nreturn %a")
    expected, renamed, obtained = (
        document(
            "%x = input x\n%a = self.sub(%x)\nreturn %a", modules=(ModuleRecord("sub", "GraphModule", graph=graph),)
        )
        for graph in (inner, same, other)
    )

    (change,) = compare_documents(expected, obtained).changes

    assert compare_documents(expected, renamed).is_empty
    assert (change.where, change.field, change.expected, change.obtained) == (
        "sub/a",
        "target",
        "torch.relu",
        "torch.gelu",
    )


def test_a_changed_stride_names_the_module_and_its_node_before_the_state_that_follows():
    line = (
        "%x = input x\n%c = self.features.conv1(%x) : float32[{size}]\n%r = torch.relu(%c) : float32[{size}]\nreturn %r"
    )
    expected, obtained = (
        document(
            line.format(size=size),
            modules=(ModuleRecord("features.conv1", "torch.nn.Conv2d", (("stride", stride),)),),
            state=(StateRecord("features.conv1.weight", "parameter", f"float32[{size}]"),),
        )
        for size, stride in (("8", "(1, 1)"), ("4", "(2, 2)"))
    )

    difference = compare_documents(expected, obtained)

    assert [(change.where, change.field, change.expected, change.obtained) for change in difference.changes] == [
        ("features.conv1", "config.stride", "(1, 1)", "(2, 2)"),
        ("output", "value", "float32[8]", "float32[4]"),
        ("features.conv1.weight", "value", "float32[8]", "float32[4]"),
    ]
    assert [change.kind for change in difference.changes] == ["arguments", "signature", "state"]
    assert difference.changes[0].node == "c"
    assert difference.followed == 2


def test_a_value_that_differs_without_a_cause_is_listed_and_those_after_it_are_counted():
    lines = "%x = input x : float32[2]\n%a = f(%x) : {0}[2]\n%b = f(%a) : {0}[2]\nreturn 1"
    expected, obtained = document(lines.format("float32")), document(lines.format("float64"))

    difference = compare_documents(expected, obtained)

    assert [(change.where, change.field) for change in difference.changes] == [("a", "value")]
    assert difference.followed == 1


def test_an_inserted_node_is_one_difference_though_all_others_are_renumbered():
    expected = document("%x = input x\n%add = f(%x, 1)\n%add_1 = f(%add, 2)\nreturn %add_1")
    obtained = document("%x = input x\n%add = f(%x, 0)\n%add_1 = f(%add, 1)\n%add_2 = f(%add_1, 2)\nreturn %add_2")

    (change,) = compare_documents(expected, obtained).changes

    assert (change.action, change.kind, change.where, change.obtained) == ("added", "operators", "add", "f(%x, 0)")


def test_what_is_rewired_past_a_removed_node_is_not_listed_beside_it():
    expected = document("%x = input x\n%a = f(%x)\n%b = g(%a)\n%c = h(%b)\nreturn %c")
    obtained = document("%x = input x\n%a = f(%x)\n%c = h(%a)\nreturn %c")

    (change,) = compare_documents(expected, obtained).changes

    assert (change.action, change.where, change.operator) == ("removed", "b", "g")


def test_a_call_that_reads_another_value_in_place_of_a_removed_tensor_is_listed_beside_it():
    expected = document("%x = input x\n%a = get total\n%b = .add_(%a, %x)\n%c = get total\nreturn %c")
    obtained = document("%x = input x\n%b = .add_(%x, %x)\n%c = get total\nreturn %c")

    changes = compare_documents(expected, obtained).changes

    assert [(each.kind, each.action, each.where) for each in changes] == [
        ("operators", "removed", "a"),
        ("wiring", "changed", "b"),
    ]
    assert (changes[1].expected, changes[1].obtained) == ("%a (removed)", "%x")


def test_an_argument_that_changed_beside_an_insertion_is_listed_without_the_insertion():
    expected = document("%x = input x\n%a = f(%x, 1)\nreturn %a")
    obtained = document("%x = input x\n%n = g(%x)\n%a = f(%n, 2)\nreturn %a")

    changes = compare_documents(expected, obtained).changes

    assert [(change.action, change.where, change.field) for change in changes] == [
        ("added", "n", ""),
        ("changed", "a", "args[1]"),
    ]


def test_a_module_that_comes_with_its_node_is_listed_once():
    modules = (ModuleRecord("act", "torch.nn.ReLU"),)
    expected = document("%x = input x\nreturn %x")
    obtained = document("%x = input x\n%a = self.act(%x)\nreturn %a", modules=modules)

    (change,) = compare_documents(expected, obtained).changes

    assert (change.subject, change.operator, change.obtained) == (
        "node",
        "torch.nn.ReLU",
        "self.act(%x)  # torch.nn.ReLU",
    )


def test_total_mismatch_is_bounded():
    def chain(target: str, length: int):
        lines = [f"%n{i + 1} = {target}_{i % 7}(%n{i}, {i})" for i in range(length)]
        return document("\n".join(["%n0 = input x", *lines, f"return %n{length}"]))

    difference = compare_documents(chain("f", 3000), chain("g", 2500))

    assert len(difference.changes) <= 2600
    assert difference.truncated
    assert difference.omitted >= 2000


def test_an_insertion_at_the_front_of_ten_thousand_nodes_is_one_addition():
    def chain(first: list[str]):
        lines = [*first, *(["torch.relu", "torch.tanh", "torch.exp"][i % 3] for i in range(10_000))]
        nodes = [f"%n{i + 1} = {operator}(%n{i})" for i, operator in enumerate(lines)]
        return document("\n".join(["%n0 = input x", *nodes, f"return %n{len(nodes)}"]))

    difference = compare_documents(chain([]), chain(["torch.neg"]))

    assert [(change.action, change.where, change.operator) for change in difference.changes] == [
        ("added", "n1", "torch.neg")
    ]
    assert not difference.truncated


PLAIN = document("%x = input x\n%a = f(%x)\nreturn %a")
NESTED = replace(PLAIN, notes=("output structure: {'a': *}", "x has 2 dimensions"))


@pytest.mark.parametrize("level", ["exact", "structure"])
@pytest.mark.parametrize("note", ["output structure: {'b': *}", "x has 2 dimensions"])
def test_a_changed_note_is_a_difference_where_everything_counts(level, note):
    obtained = replace(NESTED, notes=(note, "x has 3 dimensions"))

    difference = compare_documents(NESTED, obtained, level=level)

    assert difference.kind == "signature"
    assert ("note", "x has 2 dimensions", "x has 3 dimensions") in {
        (change.subject, change.expected, change.obtained) for change in difference.changes
    }


def test_at_level_signature_only_notes_about_inputs_and_outputs_count():
    other_output = replace(NESTED, notes=("output structure: {'b': *}", "x has 2 dimensions"))
    other_shape = replace(NESTED, notes=("output structure: {'a': *}", "x has 3 dimensions"))

    assert not compare_documents(NESTED, other_output, level="signature").is_empty
    assert compare_documents(NESTED, other_shape, level="signature").is_empty


def test_a_graph_inside_that_differs_behind_equal_ones_is_a_difference():
    text = "%x = input x\n%a = self.p(%x)\n%b = self.q(%a)\n%c = self.r(%b)\nreturn %c"

    def of(*operators: str):
        inner = [document(f"%x = input x\n%y = {operator}(%x)\nreturn %y") for operator in operators]
        return document(
            text,
            modules=tuple(
                ModuleRecord(path, "GraphModule", graph=graph) for path, graph in zip("pqr", inner, strict=True)
            ),
        )

    changes = compare_documents(of("f", "g", "h"), of("f", "g", "k")).changes

    assert [(change.where, change.expected, change.obtained) for change in changes] == [("r/y", "h", "k")]
    assert compare_documents(of("f", "g", "h"), of("f", "g", "h")).is_empty


@pytest.mark.parametrize(("names", "renamed"), [("xab", 0), ("xaq", 1), ("xpq", 2), ("ypq", 3)])
def test_a_difference_counts_the_pairs_under_other_names(names, renamed):
    text = "%{0} = input x\n%{1} = f(%{0})\n%{2} = g(%{1}, {3})\nreturn %{2}"

    difference = compare_documents(document(text.format(*"xab", 1)), document(text.format(*names, 2)))

    assert difference.renamed == renamed


TWO = "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%a)\nreturn %b"


def test_a_difference_that_lists_all_changes_has_left_out_nothing():
    difference = compare_documents(document(TWO), document(TWO.replace("sin", "cos")))

    assert (difference.omitted, difference.truncated, difference.omitted_in_edits, difference.followed) == (
        0,
        False,
        0,
        0,
    )


def test_another_tensor_of_the_same_graph_has_no_consequences():
    text = "%x = input x\n%w = get w\n%a = f(%x, %w)\nreturn %a"
    states = [(StateRecord("w", "constant", "f[1]", content=content),) for content in ("[1.0]", "[2.0]")]

    difference = compare_documents(*(document(text, state=state) for state in states))

    assert (len(difference.changes), difference.followed, difference.renamed) == (1, 0, 0)


@pytest.mark.parametrize("room", [1, 2])
def test_a_move_beyond_the_limit_of_changes_is_left_out(monkeypatch, room):
    monkeypatch.setattr("pytest_fxgraph.compare.node_changes.MOST_CHANGES", room)
    text = "%x = input x\n%a = f(%x) ! random\n%b = g(%x) ! random\n%c = h(%x, 1)\nreturn (%a, %b, %c)"
    moved = "%x = input x\n%b = g(%x) ! random\n%a = f(%x) ! random\n%c = h(%x, 2)\nreturn (%a, %b, %c)"

    difference = compare_documents(document(text), document(moved))

    assert (len(difference.changes), difference.omitted) == (room, 2 - room)
    assert difference.truncated is (room == 1)


GRAPH = document("%x = input x\n%a = f(%x)\nreturn %a")


@pytest.mark.parametrize(
    ("graphs", "others", "field"),
    [
        ((None,), (GRAPH,), "graph"),
        ((GRAPH,), (None,), "graph"),
        ((GRAPH,), (), ""),
        ((), (GRAPH,), ""),
    ],
)
def test_a_graph_that_came_or_went_inside_of_a_module_is_one_change(graphs, others, field):
    documents = (
        document(
            "%x = input x\n%y = f(%x)\nreturn %y", modules=tuple(ModuleRecord("m", "M", graph=each) for each in side)
        )
        for side in (graphs, others)
    )

    (change,) = compare_documents(*documents).changes

    assert (change.where, change.field) == ("m", field)


def test_an_added_module_is_listed_if_no_listed_node_calls_it():
    modules = (ModuleRecord("m", "M"), ModuleRecord("n", "N", (("k", "1"),)))
    added = "%x = input x\n%a = self.n(%x)\n%b = self.m(%a)\nreturn %b"
    same = "%x = input x\n%a = self.n(%x)\nreturn %a"

    def changed(text, *records):
        difference = compare_documents(document(same, modules=modules[1:]), document(text, modules=records))
        return [change.where for change in difference.changes if change.subject == "module"]

    assert changed(same, *modules) == ["m"]
    assert changed(added, *modules) == []
    assert changed(added, modules[0], modules[1]._replace(config=(("k", "2"),))) == ["n"]


@pytest.mark.parametrize(("last", "in_edits"), [("f(%a, 2)", 1), ("f(%a, 3)", 0), ("g(%a, 1)", 0)])
def test_a_change_beyond_the_limit_is_counted_at_the_edit_that_it_belongs_to(monkeypatch, last, in_edits):
    monkeypatch.setattr("pytest_fxgraph.compare.node_changes.MOST_CHANGES", 1)
    text = "%x = input x\n%a = f(%x, {})\n%b = {}\nreturn %b"

    difference = compare_documents(document(text.format(1, "f(%a, 1)")), document(text.format(2, last)))

    assert (len(difference.changes), difference.omitted, difference.omitted_in_edits) == (1, 1, in_edits)
