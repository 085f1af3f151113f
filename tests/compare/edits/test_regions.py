"""Regions: the nodes that differ between two small graphs, and belong together."""

from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.alignment import align
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph
from pytest_fxgraph.compare.edits.regions import Region, block_of, regions_of
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, StateRecord


def program(body: str, **records: tuple[ModuleRecord, ...] | tuple[StateRecord, ...]) -> GraphDocument:
    """Return a graph with the inputs x and y; the body has a call in each line and ends with its result."""
    *calls, result = body.split("; ")
    return document("\n".join(["%x = input x", "%y = input y", *calls, f"return {result}"]), **records)


def found(expected: GraphDocument, obtained: GraphDocument) -> tuple[ComparedGraph, list[Region]]:
    graph = ComparedGraph(align(graph_index_of(expected), graph_index_of(obtained)))
    graph.set_changes(compare_documents(expected, obtained).changes)
    return graph, regions_of(graph)


def told(expected: str, obtained: str) -> list[str]:
    """Return the regions as the names of their expected nodes and of their obtained nodes."""
    graph, regions = found(program(expected), program(obtained))
    return [
        f"{','.join(graph.expected.nodes[n].name for n in region.expected)}"
        f" -> {','.join(graph.obtained.nodes[n].name for n in region.obtained)}"
        for region in regions
    ]


RELU = "%a = torch.relu(%x); "
ADD = "%b = torch.add(%a, %y); "
VIEWS = "%b = .view(%a, 2, 3); %c = .transpose(%b, 0, 1); "


@pytest.mark.parametrize(
    ("expected", "obtained", "regions"),
    [
        # Added and removed nodes, each alone or with those that they read.
        (f"{RELU}%a", f"{RELU}%d = torch.dropout(%a); %d", [" -> d"]),
        (f"{RELU}%d = torch.dropout(%a); %d", f"{RELU}%a", ["d -> "]),
        (f"{RELU}%a", f"{RELU}%d = torch.exp(%a); %e = torch.sin(%d); %e", [" -> d,e"]),
        (
            f"{RELU}%b = torch.exp(%y); (%a, %b)",
            f"{RELU}%d = torch.sin(%a); %b = torch.exp(%y); %e = torch.cos(%b); (%d, %e)",
            [" -> d", " -> e"],
        ),
        # Replaced nodes stay apart if they read partners.
        (f"{RELU}%a", "%a = torch.gelu(%x); %a", ["a -> a"]),
        (
            f"{RELU}%b = torch.exp(%a); %b",
            "%a = torch.gelu(%x); %b = torch.sin(%a); %b",
            ["a -> a", "b -> b"],
        ),
        (f"{RELU}%a", "%a = torch.sigmoid(%x); %b = torch.mul(%a, %x); %b", ["a -> a,b"]),
        (
            f"{RELU}%b = torch.exp(%a); %c = torch.add(%b, %y); %c",
            "%d = torch.sin(%x); %e = torch.cos(%d); %f = torch.tan(%e); %c = torch.add(%f, %y); %c",
            ["a -> d,e", "b -> f"],
        ),
        (f"{RELU}%a", "%z = input z; %a = torch.add(%x, %z); %a", ["a -> a"]),
        # An unchanged call belongs to the added node that it now reads, or no longer reads.
        (f"{RELU}{ADD}%b", f"%d = torch.exp(%y); {RELU}%b = torch.add(%d, %a); %b", ["b -> d,b"]),
        (f"%d = torch.exp(%y); {RELU}%b = torch.add(%d, %a); %b", f"{RELU}{ADD}%b", ["d,b -> b"]),
        (
            f"{RELU}{ADD}%c = torch.sub(%b, %y); %c",
            f"{RELU}{ADD}%d = torch.exp(%x); %c = torch.sub(%y, %b); (%c, %d)",
            [" -> d"],
        ),
        # A call with other arguments alone is no part of a region.
        (
            f"{RELU}%b = torch.sum(%a, dim=0); %b",
            f"{RELU}%e = torch.exp(%a); %b = torch.sum(%e, dim=1); %b",
            [" -> e"],
        ),
        # Calls that only move values are one region where one is removed and one is added beside the third.
        (f"{RELU}{VIEWS}%c", f"{RELU}%c = .transpose(%a, 1, 2); %d = .reshape(%c, 6); %d", ["b,c -> c,d"]),
        (
            f"{RELU}%c = .transpose(%a, 0, 1); %c",
            f"{RELU}%c = .transpose(%a, 1, 2); %d = .reshape(%c, 6); %d",
            [" -> d"],
        ),
        (f"{RELU}{VIEWS}%c", f"{RELU}%e = torch.exp(%a); %c = .transpose(%e, 1, 2); %c", ["b -> e"]),
        # A check of a value belongs to its neighbour that reads the same value.
        (f"{RELU}%a", "%c = torch._assert_ok(%x); %t = .half(%x); %a = torch.relu(%t); %a", [" -> c,t"]),
        ("%c = torch._assert_ok(%x); %t = .half(%x); %a = torch.relu(%t); %a", f"{RELU}%a", ["c,t -> "]),
        (f"{RELU}%a", f"%c = torch._assert_ok(%y); {RELU}%d = torch.exp(%a); %d", [" -> c", " -> d"]),
    ],
)
def test_nodes_that_differ_are_put_together(expected, obtained, regions):
    assert told(expected, obtained) == regions


def test_the_first_node_of_a_graph_may_be_added_or_removed():
    plain = document("%x = input x\n%a = torch.relu(%x)\nreturn %a")
    noisy = document("%n = torch.rand(2)\n%x = input x\n%b = torch.mul(%x, %n)\n%a = torch.relu(%b)\nreturn %a")

    for (expected, obtained), (removed, added) in (((plain, noisy), ([], [0, 2])), ((noisy, plain), ([0, 2], []))):
        (region,) = found(expected, obtained)[1]
        assert (region.expected, region.obtained) == (removed, added)


def test_a_region_ends_with_its_repeated_block():
    two = "%d = torch.sin(%a) @ layers.0; %e = torch.cos(%d) @ layers.1; %e"
    one = two.replace("layers.0", "layers.0.first").replace("layers.1", "layers.0.last.act")

    assert told(f"{RELU}%a", RELU + two) == [" -> d", " -> e"]
    ((region,), (first, second)) = (found(program(f"{RELU}%a"), program(RELU + each))[1] for each in (one, two))
    assert (region.where, first.where, second.where) == ("layers.0", "layers.0", "layers.1")


@pytest.mark.parametrize(
    ("path", "block"),
    [
        ("layers.0", "layers.0"),
        ("layers.0.fc", "layers.0"),
        ("layers.0.heads.12.fc", "layers.0.heads.12"),
        ("fc", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_the_innermost_numbered_module_is_the_block(path, block):
    assert block_of(path) == block


def explained(expected: GraphDocument, obtained: GraphDocument) -> list[tuple[str, list[str]]]:
    return [
        (region.where, [f"{change.subject} {change.action} {change.where}" for change in region.changes])
        for region in found(expected, obtained)[1]
    ]


GAMMA = StateRecord("layers.0.gamma", "parameter", "float32[4]")
LAYER = ModuleRecord("fc", "torch.nn.Linear")
WEIGHT = StateRecord("fc.weight", "parameter", "float32[4]")


def test_a_region_explains_the_tensors_that_its_nodes_read():
    plain = program(f"{RELU}%a")
    scaled = "%w = get layers.0.gamma; %v = torch.mul(%x, %w) @ layers.0; %a = torch.relu(%v); %a"
    with_gamma = program(scaled, state=(GAMMA,))

    for action, pair in (("added", (plain, with_gamma)), ("removed", (with_gamma, plain))):
        changes = [f"node {action} w", f"node {action} v", f"state {action} layers.0.gamma"]
        assert explained(*pair) == [("layers.0", changes)]


def test_a_tensor_of_two_blocks_belongs_to_neither():
    body = "%w = get layers.gamma; %v = torch.mul(%x, %w) @ layers.0; %u = torch.mul(%v, %w) @ layers.1; "

    scaled = f"{body}%a = torch.relu(%u); %a"

    assert told(f"{RELU}%a", scaled) == [" -> w", " -> v", " -> u"]
    assert [where for where, _ in explained(program(f"{RELU}%a"), program(scaled))] == [
        "layers",
        "layers.0",
        "layers.1",
    ]


def test_a_region_explains_the_modules_that_it_calls():
    plain, called = program(f"{RELU}%a"), "%d = self.fc(%x); %a = torch.relu(%d); %a"
    with_layer = program(called, modules=(LAYER,), state=(WEIGHT,))

    assert explained(plain, with_layer) == [("", ["node added d", "state added fc.weight"])]
    assert explained(with_layer, plain) == [("", ["node removed d", "state removed fc.weight"])]


def test_a_region_explains_the_module_that_took_over_a_path():
    linear, norm = ModuleRecord("net.0", "torch.nn.Linear"), ModuleRecord("net.1", "torch.nn.LayerNorm")
    weight, relu = StateRecord("net.1.weight", "parameter", "float32[4]"), "torch.nn.ReLU"
    two = program(
        "%a = self.net.0(%x); %b = self.net.1(%a); %b",
        modules=(linear, ModuleRecord("net.1", relu)),
    )
    three = program(
        "%a = self.net.0(%x); %n = self.net.1(%a); %b = self.net.2(%n); %b",
        modules=(linear, norm, ModuleRecord("net.2", relu)),
        state=(weight,),
    )

    for action, pair in (("added", (two, three)), ("removed", (three, two))):
        ((_, changes),) = explained(*pair)
        exchanged = [f"node {action} n", "node changed b", "module changed net.1", f"state {action} net.1.weight"]
        assert sorted({*changes}) == sorted(exchanged)


def row(*kinds: str) -> GraphDocument:
    lines = [f"%n{n} = self.{n}(%{f'n{n - 1}' if n else 'x'})" for n in range(len(kinds))]
    state = tuple(StateRecord(f"{n}.weight", "parameter", "f[2]") for n, kind in enumerate(kinds) if "Linear" in kind)
    modules = tuple(ModuleRecord(f"{n}", kind) for n, kind in enumerate(kinds))
    return document("\n".join(["%x = input x", *lines, f"return %n{len(kinds) - 1}"]), modules=modules, state=state)


@pytest.mark.parametrize(
    ("action", "renumbered"), [("inserted", "module renumbered 1 -> 2"), ("removed", "module renumbered 2 -> 1")]
)
def test_a_module_whose_path_another_module_had_takes_its_tensors_along(action, renumbered):
    short, long = row("torch.nn.Linear", "torch.nn.ReLU"), row("torch.nn.Linear", "torch.nn.Linear", "torch.nn.ReLU")

    difference = compare_documents(*((short, long) if action == "inserted" else (long, short)))

    assert [(edit.text, [change.where for change in edit.changes]) for edit in difference.edits] == [
        (f"nn.Linear {action} after Linear", ["n1", "1.weight"]),
        (renumbered, ["n2" if action == "inserted" else "n1", "1"]),
    ]


def test_a_call_of_a_module_without_record_is_a_region_like_any_other():
    modules = (ModuleRecord("p", "torch.nn.Linear"),)
    expected, obtained = program("%a = self.p(%x); %a"), program("%a = torch.exp(%x); %a", modules=modules)

    assert [edit.text for edit in compare_documents(expected, obtained).edits] == ["module p -> torch.exp"]
