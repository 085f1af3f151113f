from __future__ import annotations

from fixtures.documents import document
from pytest_fxgraph.compare.graph_index import (
    NodeHashes,
    accesses,
    effects_of,
    graph_index_of,
    input_hashes,
    shared_paths,
    storage_histories,
)
from pytest_fxgraph.document.model import ModuleRecord, StateRecord


def test_shared_paths_are_known_by_the_first_in_alphabetical_order():
    records = [ModuleRecord("c", "Net"), ModuleRecord("a", "Net", same_as="c"), ModuleRecord("b", "Net", same_as="c")]

    assert shared_paths(records) == {"a": "a", "b": "a", "c": "a"}


def test_what_is_not_shared_is_not_there():
    records = [StateRecord("w", "parameter", "float32[2]"), StateRecord("v", "parameter", "float32[2]")]

    assert shared_paths(records) == {}


def test_chains_bind_inputs_outputs_and_effects_of_one_kind():
    nodes = document(
        "%x = input x\n%a = f(%x) ! random\n%b = g(%x) ! io; random\n%c = self.bn(%x) ! state\nreturn %c"
    ).nodes

    effects = effects_of(nodes, {})

    assert effects.chains == {"placeholder": (0,), "random": (1, 2), "io": (2,), "state bn": (3,), "output": (4,)}


def test_modules_that_are_one_object_share_a_chain():
    nodes = document("%x = input x\n%a = self.p(%x) ! state\n%b = self.q(%x) ! state\nreturn %b").nodes

    assert effects_of(nodes, {"p": "p", "q": "p"}).chains["state p"] == (1, 2)


def test_only_modules_that_update_state_are_bound_each_by_itself():
    nodes = document(
        "%x = input x\n%a = self.p(%x) ! random\n%b = self.q(%a) ! random\n%c = f(%b) ! state\n%d = g(%c) ! state\n"
        "return %d"
    ).nodes

    chains = effects_of(nodes, {}).chains

    assert (chains["random"], chains["state"]) == ((1, 2), (3, 4))


def test_an_access_knows_the_writes_before_it():
    nodes = document(
        "%x = input x\n%a = f(%x) ! read %x\n%b = g(%x) ! write %x\n%c = h(%x) ! read %x; write %y\nreturn %c"
    ).nodes

    found = accesses(effects_of(nodes, {}), lambda _: True)

    assert found == {1: (("read", "%x", 0),), 2: (("write", "%x", 0),), 3: (("read", "%x", 1), ("write", "%y", 0))}


def test_labels_hold_everything_but_names():
    graph = graph_index_of(document("%x = input x\n%a = f([%x, %x], 2, out=%x, dim=1)\nreturn %a"))

    assert graph.labels[1] == ("call_function", "f", ("[%, %]", "2"), (("dim", "1"), ("out", "%")))
    assert graph.inputs == ((), (0, 0, 0), (1,))


def test_readers_are_known_with_the_position_at_which_they_read():
    graph = graph_index_of(document("%x = input x\n%a = f(%x, %x)\n%b = g(%a, %x)\nreturn %b"))

    assert graph.users == (((1, 0), (1, 1), (2, 1)), ((2, 0),), ((3, 0),), ())


def test_a_reference_to_nothing_stays_a_literal():
    graph = graph_index_of(document("%x = input x\n%a = f(%gone, [%gone, %x])\nreturn %a"))

    assert graph.labels[1][2] == ("%gone", "[%gone, %]")
    assert graph.inputs[1] == (0,)


def test_the_history_of_a_storage_tells_reads_before_a_write_from_reads_behind_it():
    lines = ["%a = f(%x) ! read %x", "%b = g(%x) ! write %x"]

    histories = [
        storage_histories(effects_of(document("\n".join(["%x = input x", *order, "return ()"])).nodes, {}), places.get)
        for order, places in ((lines, {1: "a", 2: "b"}), (lines[::-1], {1: "b", 2: "a"}))
    ]

    assert [list(map(sorted, history)) for history in histories] == [
        [[("a", "read", 0), ("b", "write", 0)]],
        [[("a", "read", 1), ("b", "write", 0)]],
    ]


def test_calls_inside_a_module_are_known_by_its_path_and_the_paths_around_it():
    graph = graph_index_of(
        document("%x = input x\n%w = get a.w @ a\n%p = f(%x) @ a.b\n%q = g(%p) @ a\n%r = h(%q)\nreturn %r")
    )

    assert graph.calls_inside == {"a.b": [2], "a": [2, 3]}


def test_a_call_of_a_module_is_told_with_the_class_of_the_module():
    modules = (ModuleRecord("p", "torch.nn.ReLU"),)
    graph = graph_index_of(
        document("%x = input x\n%a = self.p(%x)\n%b = p(%x)\n%c = self.q(%x)\nreturn %a", modules=modules)
    )

    assert [graph.operator(position) for position in (1, 2, 3)] == ["torch.nn.ReLU", "p", "q"]
    assert [graph.call_text(node) for node in graph.nodes[1:4]] == [
        "self.p(%x)  # torch.nn.ReLU",
        "p(%x)",
        "self.q(%x)",
    ]


def test_a_node_that_reads_itself_or_a_later_node_is_like_no_reader_of_an_earlier_node():
    graph = graph_index_of(document("%x = input x\n%a = f(%x)\n%b = f(%c)\n%c = f(%c)\nreturn %c"))

    hashes = input_hashes(graph, graph.labels, NodeHashes())

    assert hashes[1] != hashes[2] == hashes[3]
