from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.alignment import align
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.document.model import ModuleRecord


def pairs(expected: str, obtained: str, modules: str = "", obtained_modules: str = ""):
    """Align two graphs and give the names of partners, and of nodes without one. Modules are written "path=class"."""
    texts, paths = (expected, obtained), (modules, obtained_modules)
    records = [[ModuleRecord(*path.split("=")) for path in side.split()] for side in paths]
    documents = (document(text, modules=tuple(known)) for text, known in zip(texts, records, strict=True))
    alignment = align(*map(graph_index_of, documents))
    ours, theirs = alignment.expected.nodes, alignment.obtained.nodes
    return (
        {ours[one].name: theirs[other].name for one, other in alignment.pairs()},
        [ours[position].name for position in alignment.removed()],
        [theirs[position].name for position in alignment.added()],
    )


def test_a_changed_operator_pairs_with_what_stands_in_its_place():
    found, removed, added = pairs(
        "%x = input x\n%a = f(%x)\n%b = g(%a)\nreturn %b", "%x = input x\n%p = h(%x)\n%q = g(%p)\nreturn %q"
    )

    assert found == {"x": "x", "a": "p", "b": "q", "output": "output"}
    assert (removed, added) == ([], [])


def test_an_operator_that_went_here_and_came_there_is_two_things():
    found, removed, added = pairs(
        "%x = input x\n%a = f(%x, 1)\n%b = g(%a)\n%c = h(%b)\nreturn %c",
        "%x = input x\n%b = g(%x)\n%c = h(%b)\n%a = f(%c, 2)\n%d = k(%a)\nreturn %d",
    )

    assert found["b"] == "b"
    assert found["c"] == "c"
    assert removed == ["a"]
    assert added == ["a", "d"]


def test_an_insertion_in_a_chain_of_like_operators_leaves_the_others_paired():
    chain = [f"%n{i + 1} = f(%n{i})" for i in range(50)]
    longer = [f"%n{i + 1} = f(%n{i})" for i in range(51)]
    expected = "\n".join(["%n0 = input x", *chain, "%z = g(%n50, 1)", "return %z"])
    obtained = "\n".join(["%n0 = input x", *longer, "%z = g(%n51, 2)", "return %z"])

    found, removed, added = pairs(expected, obtained)

    assert removed == []
    assert len(added) == 1
    assert found["z"] == "z"


def test_a_renamed_input_keeps_what_reads_it_paired():
    found, removed, added = pairs(
        "%x = input x\n%a = f(%x)\nreturn %a", "%y = input y\n%b = f(%y)\n%c = g(%b)\nreturn %c"
    )

    assert found == {"x": "y", "a": "b", "output": "output"}
    assert (removed, added) == ([], ["c"])


def test_a_renamed_input_that_nothing_reads_pairs_with_the_one_that_is_left():
    found, removed, added = pairs("%x = input x\n%y = input y\nreturn %x", "%x = input x\n%z = input z\nreturn %x")

    assert found == {"x": "x", "y": "z", "output": "output"}
    assert (removed, added) == ([], [])


def test_exchanged_branches_pair_by_what_they_are():
    found, removed, added = pairs(
        "%x = input x\n%a = f(%x)\n%b = g(%a)\n%c = h(%x)\n%d = k(%b, %c)\nreturn %d",
        "%x = input x\n%c = h(%x)\n%a = f(%x)\n%b = g(%a)\n%d = k(%b, %c)\n%e = m(%d)\nreturn %e",
    )

    assert found == {"x": "x", "a": "a", "b": "b", "c": "c", "d": "d", "output": "output"}
    assert (removed, added) == ([], ["e"])


def test_graphs_with_nothing_in_common_pair_place_by_place():
    expected = "\n".join(["%n0 = input x", *(f"%n{i + 1} = f{i}(%n{i})" for i in range(400)), "return %n400"])
    obtained = "\n".join(["%n0 = input x", *(f"%n{i + 1} = g{i}(%n{i})" for i in range(400)), "return %n400"])

    found, removed, added = pairs(expected, obtained)

    assert found == {**{f"n{i}": f"n{i}" for i in range(401)}, "output": "output"}
    assert (removed, added) == ([], [])


def test_unread_nodes_in_another_order_pair_by_what_they_are():
    found, removed, added = pairs(
        "%x = input x\n%a = k(%x, 1)\n%p = f(%a)\n%q = g(%a)\nreturn %a",
        "%x = input x\n%a = k(%x, 2)\n%q = g(%a)\n%p = f(%a)\nreturn %a",
    )

    assert found == {"x": "x", "a": "a", "p": "p", "q": "q", "output": "output"}
    assert (removed, added) == ([], [])


def test_graphs_too_unlike_for_an_order_pair_equal_operators_one_after_another(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.compare.alignment.common_subsequence", lambda *_: None)
    monkeypatch.setattr("pytest_fxgraph.compare.alignment.anchors", lambda *_: ())

    found, removed, added = pairs(
        "%x = input x\n%a = f(%x)\n%b = g(%x)\n%c = f(%x)\n%d = f(%x)\nreturn (%a, %b, %c, %d)",
        "%x = input x\n%p = f(%x)\n%q = h(%x, 1)\n%r = f(%x)\nreturn (%p, %q, %r)",
    )

    assert {name: found[name] for name in "abc"} == {"a": "p", "b": "q", "c": "r"}
    assert (removed, added) == (["d"], [])


@pytest.mark.parametrize(
    ("text", "other", "is_paired"),
    [
        # the same module, or a module in the place of one that went
        ("self.p(%x, 1)", "self.p(%x, 2)", True),
        ("self.p(%x)", "self.new(%x)", True),
        ("self.p(%x)", "torch.exp(%x)", True),
        ("torch.exp(%x)", "torch.sin(%x)", True),
        # modules of both graphs took nobody's place
        ("self.p(%x)", "self.q(%x)", False),
        # inputs, outputs and tensors pair with their like alone
        ("get w", "torch.exp(%x)", False),
    ],
)
def test_a_node_pairs_with_a_node_that_could_take_its_place(text, other, is_paired):
    modules = tuple(ModuleRecord(path, "torch.nn.ReLU") for path in "pq")
    graphs = [
        document(f"%x = input x\n%a = {call}\n%b = f(%a, 7)\nreturn %b", modules=known)
        for call, known in ((text, modules), (other, (*modules, ModuleRecord("new", "torch.nn.ReLU"))))
    ]

    alignment = align(*map(graph_index_of, graphs))

    assert (alignment.obtained_of[1] == 1) is is_paired


XY = ["%x = input x", "%y = input y"]
INPUT = "%x = input x\n%a = f(%x)\n%b = h(%a, 1)\n%r = g(%a)\nreturn %b"
MORE_INPUTS = "%x = input x\n%z = input z\n%a = f(%z)\n%b = h(%a, 1)\n%s = k(%a)\nreturn %b"


def test_an_input_of_both_graphs_stays_paired_where_a_call_reads_another_input():
    without = MORE_INPUTS.replace("%s = k(%a)\n", "")
    found, removed, added = pairs(INPUT, without)
    assert (found["x"], found["a"], removed, added) == ("x", "a", ["r"], ["z"])

    found, removed, added = pairs(MORE_INPUTS, INPUT.replace("%r = g(%a)\n", ""))
    assert (found["x"], found["a"], removed, added) == ("x", "a", ["z", "s"], [])


@pytest.mark.parametrize(
    ("calls", "others", "partners", "removed", "added"),
    [
        # the only reader at a place took the place of the other one
        (["f(%x, 1)"], ["g(%x, 2)"], {"a0": "b0"}, [], []),
        (["f(%x, %y)", "f(%y, %x)"], ["g(%y, %x)", "g(%x, %y)"], {"a0": "b1", "a1": "b0"}, [], []),
        # several readers would be a guess
        (["f(%x, 1)"], ["g(%x, 2)", "g(%x, 3)"], {}, ["a0"], ["b0", "b1"]),
        (["f(%x, 1)", "f(%x, 4)"], ["g(%x, 2)"], {}, ["a0", "a1"], ["b0"]),
    ],
)
def test_the_readers_of_a_pair_are_pairs_where_each_is_the_only_one(calls, others, partners, removed, added):
    texts = [
        "\n".join([*XY, *(f"%{name}{n} = {call}" for n, call in enumerate(side)), "return %x"])
        for name, side in (("a", calls), ("b", others))
    ]

    assert pairs(*texts) == ({"x": "x", "y": "y", **partners, "output": "output"}, removed, added)


def test_an_operator_on_one_value_pairs_with_the_same_operator_on_it_in_any_module_and_order():
    inputs = "%x = input x\n%y = input y\n%w = input w\n"

    found, _, _ = pairs(
        f"{inputs}%a = f(%x, %w, 1) @ p\n%b = f(%y, %w, 2) @ q\nreturn %x",
        f"{inputs}%c = f(%y, %w, 3) @ r\n%d = f(%x, %w, 4) @ s\nreturn %x",
    )

    assert found == {"x": "x", "y": "y", "w": "w", "a": "d", "b": "c", "output": "output"}


def test_equal_readers_of_renamed_inputs_pair_with_the_readers_of_the_same_input():
    def graph(first: str, second: str, order: str, number: int) -> str:
        calls = [f"%{name}{n} = f(%{first if name == 'a' else second})" for name in order for n in range(2)]
        return "\n".join([f"%{first} = input {first}", f"%{second} = input {second}", *calls, f"return {number}"])

    found, removed, added = pairs(graph("x", "y", "ab", 1), graph("u", "v", "ba", 2))

    own = {"a0": "a0", "a1": "a1", "b0": "b0", "b1": "b1"}
    assert (found, removed, added) == ({"x": "u", "y": "v", **own, "output": "output"}, [], [])


def test_graphs_too_unlike_for_an_order_pair_equal_operators_that_several_read_by_their_number(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.compare.alignment.common_subsequence", lambda *_: None)
    monkeypatch.setattr("pytest_fxgraph.compare.alignment.anchors", lambda *_: ())
    texts = (
        "%x = input x\n%a = f(%x, 1)\n%b = f(%x, 2)\n%c = f(%x, 3)\n%d = g(%x, 1)\nreturn %x",
        "%x = input x\n%u = g(%x, 2)\n%v = g(%x, 3)\n%p = f(%x, 4)\n%q = f(%x, 5)\nreturn %x",
    )

    pairs_of_inputs = {"x": "x", "output": "output"}
    assert pairs(*texts) == ({**pairs_of_inputs, "a": "p", "b": "q", "c": "v", "d": "u"}, [], [])


@pytest.mark.parametrize(
    ("call", "other", "is_paired"),
    [
        ("f(1)", "f(2)", True),  # nothing is read on either side
        ("f(%x, 1)", "f(%x, 2)", True),
        ("f(%x, 1)", "f(%y, 2)", False),
        ("f(1)", "f(%y, 2)", False),
        ("f(%x, 1)", "f(2)", False),
    ],
)
def test_calls_that_nothing_reads_are_pairs_if_they_read_one_value_or_none(call, other, is_paired):
    texts = [f"%x = input x\n%y = input y\n%{name} = {each}\nreturn 1" for name, each in (("a", call), ("p", other))]

    found, removed, added = pairs(*texts)

    assert (found.get("a"), removed, added) == (("p", [], []) if is_paired else (None, ["a"], ["p"]))


@pytest.mark.parametrize(
    ("modules", "obtained_modules"),
    [("p=A q=A", "p=A q=A"), ("p=A", "p=B"), ("p=A q=A", "p=B q=A")],
)
def test_calls_of_modules_pair_by_path_with_and_without_records(modules, obtained_modules):
    text = "%x = input x\n%a = self.p(%x, {0})\n%b = self.q(%a, {0})\n%c = self.r(%b, {0})\nreturn %c"

    found, removed, added = pairs(text.format(1), text.format(2), modules, obtained_modules)

    assert (found, removed, added) == ({name: name for name in ("x", "a", "b", "c", "output")}, [], [])


def test_a_call_of_a_module_never_pairs_with_an_input():
    found, _, _ = pairs("%a = self.p(2)\nreturn %a", "%x = input x\n%a = self.p()\nreturn %x", "p=A", "p=B")

    assert found == {"output": "output"}


def test_the_reader_of_an_input_pairs_with_the_reader_of_the_same_input():
    found, removed, added = pairs(
        "%x = input x\n%y = input y\n%a = g(%x) @ s\n%b = f() @ t\nreturn %b",
        "%x = input x\n%p = g(%x)\n%q = g(%p) @ t\nreturn ()",
    )
    assert (found, removed, added) == ({"x": "x", "a": "p", "output": "output"}, ["y", "b"], ["q"])

    found, removed, added = pairs(
        "%x = input x\n%w = h(1)\n%a = f(%x)\nreturn %a", "%u = input u\n%p = f(%u)\n%q = f(%p)\nreturn %q"
    )
    assert (found, removed, added) == ({"x": "u", "a": "p", "output": "output"}, ["w"], ["q"])


def test_a_renamed_input_beside_an_added_input_has_no_partner():
    found, _, _ = pairs("%x = input x\n%a = f(%x)\nreturn 1", "%u = input u\n%v = input v\n%a = f(%u)\nreturn %a")

    assert found == {"output": "output"}


def test_a_module_called_with_other_arguments_beside_a_removed_module_keeps_its_partner():
    found, _, _ = pairs(
        "%x = input x\n%y = input y\n%a = self.q(%y, %y)\n%b = g(%x, 2)\n%c = self.p(%a, 1)\nreturn %c",
        "%p = self.q(2)\n%q = f(%p, 2) @ t\n%r = f(%q, 2)\nreturn %q",
        "p=A q=A",
        "q=A",
    )

    assert found == {"a": "p", "c": "q", "output": "output"}


def test_a_reader_whose_partner_is_the_first_node_makes_no_guess_of_the_other_readers():
    found, _, _ = pairs(
        "%x = input x\n%a = h()\n%b = self.p(%x, 2)\n%c = f(%a) @ s\n%d = self.r(%a)\nreturn %c",
        "%p = g()\n%q = h()\n%r = f(%p, 2) @ t\n%s = g(%q)\n%t = get v\nreturn %p",
        "p=A r=A",
    )

    assert found == {"a": "q", "c": "p", "d": "s", "output": "output"}
