"""Changes of a parallel plan are told in the words of the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord
from pytest_fxgraph.report.text import headline

TP = '"process_group(tp, size=4)"'
X = NodeRecord("x", "placeholder", "x", value="float32[1024, 1024]", name_from="position")


def collective(name: str, read: str, kind: str = "all_reduce", value: str = "float32[1024, 1024]", **facts):
    target = f"_c10d_functional.{kind}.default"
    args = (f"%{read}", *(('"sum"',) if "reduce" in kind else ("4",)), facts.get("group", TP))
    return [
        NodeRecord(name, "call_function", target, args, value=value, effects=("collective",)),
        NodeRecord(
            f"{name}_wait", "call_function", "_c10d_functional.wait_tensor.default", (f"%{name}",), value=value,
            effects=(f"write %{name}",),
        ),
    ]  # fmt: skip


def relu(name: str, read: str, value: str = "float32[1024, 1024]") -> NodeRecord:
    return NodeRecord(name, "call_function", "aten.relu.default", (f"%{read}",), value=value)


def golden(*nodes: NodeRecord, notes: tuple[str, ...] = (), last: str = "") -> GraphDocument:
    """Return the document of ranks that run one graph."""
    output = NodeRecord("output", "output", "output", (f"%{last or nodes[-1].name}",))
    module = ModuleRecord("graph_0", "GraphModule", graph=GraphDocument((X, *nodes, output)))
    calls = NodeRecord("graph_0", "call_module", "graph_0", effects=("collective",))
    shown = ("frontend: make_fx", *(notes or ("world: 4 ranks", "ranks: 0-3 run graph_0")))
    return GraphDocument((calls, NodeRecord("output", "output", "output", ("()",))), (module,), notes=shown)


def told(expected: GraphDocument, obtained: GraphDocument) -> str:
    return headline(compare_documents(expected, obtained, level="structure"))


BASE = [relu("a", "x"), *collective("r", "a"), relu("b", "r_wait")]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (("world: 4 ranks",), ("world: 8 ranks",), "the world has 4 ranks -> 8 ranks"),
        (
            ("world: 8 ranks, mesh dp=2, tp=4",), ("world: 8 ranks, mesh dp=4, tp=2",),
            "a mesh of dp=2, tp=4 -> dp=4, tp=2",
        ),
        (
            ("world: 4 ranks, mesh tp=4",), ("world: 4 ranks, mesh model=4",), "a mesh of tp=4 -> model=4",
        ),
        (
            ("world: 8 ranks, mesh dp=2, tp=4",), ("world: 4 ranks, mesh dp=2, tp=2",),
            "the world has 8 ranks, mesh dp=2, tp=4 -> 4 ranks, mesh dp=2, tp=2",
        ),
        (
            ("placement: up.weight: Shard(0) on tp",), ("placement: up.weight: Replicate() on tp",),
            "up.weight: Shard(0) -> Replicate() on tp",
        ),
        (
            ("placement: blocks.0.up.weight: Shard(0) on tp",), ("placement: blocks.0.up.weight: Shard(1) on tp",),
            "blocks.0.up.weight: Shard(0) -> Shard(1) on tp",
        ),
        (
            tuple(f"placement: blocks.{n}.up.weight: Shard(0) on tp" for n in range(3)), (),
            "blocks.*.up.weight: Shard(0) on tp -> not distributed at 3 places",
        ),
        (
            ("placement: up.weight: Shard(0) on tp", "placement: up.bias: Shard(0) on tp"),
            ("placement: up.weight: Shard(0) on model", "placement: up.bias: Shard(0) on model"),
            "placements: on tp -> on model at 2 places",
        ),
        (
            ("placement: w: Shard(0) on dp, Replicate() on tp",), ("placement: w: Shard(0) on dp, Shard(1) on tp",),
            "w: Replicate() -> Shard(1) on tp",
        ),
        (
            ("ranks: 0-3 run graph_0",), ("ranks: 0-2 run graph_0", "ranks: 3 run graph_1"),
            "rank 3 runs another graph than ranks 0-2 now",
        ),
        (
            ("ranks: 0-7 run graph_0",), ("ranks: 0, 2, 4-7 run graph_0", "ranks: 1, 3 run graph_1"),
            "ranks 1, 3 run another graph than ranks 0, 2, 4-7 now",
        ),
        (
            ("ranks: 0-2 run graph_0", "ranks: 3 run graph_1"), ("ranks: 0-3 run graph_0",),
            "ranks 0-3 run one graph now",
        ),
        (
            tuple(f"placement: blocks.{n}.up.weight: Shard(0) on tp" for n in range(2)), (),
            "blocks.*.up.weight: Shard(0) on tp -> not distributed at 2 places",
        ),
        (
            ("ranks: 0-8 run graph_0",), ("ranks: 0-3 run graph_0", "ranks: 4, 6, 8 run graph_1"),
            "ranks 4, 6, 8 run another graph than ranks 0-3 now",
        ),
        (("ranks: 0-3 run graph_0",), ("ranks: 0-2 run graph_0",), "groups of equal ranks: 0-3 -> 0-2"),
        (
            ("world: 4 ranks",), ("world: 4 ranks", "ranks: captured 0-1"),
            "groups of equal ranks: none -> captured 0-1",
        ),
        (
            ("ranks: captured 0-1",), ("ranks: captured 0-2",),
            "groups of equal ranks: captured 0-1 -> captured 0-2",
        ),
        (
            ("constant of the rank: graph_0: %lt argument 1 is 0, 3",),
            ("constant of the rank: graph_0: %lt argument 1 is 0, 4",),
            "graph_0: %lt argument 1: constant of the rank 0, 3 -> 0, 4",
        ),
    ],
)  # fmt: skip
def test_notes_of_a_plan_are_told_as_changes_of_the_plan(before, after, words):
    first, second = (golden(*BASE, notes=notes or ("world: 4 ranks",)) for notes in (before, after))
    if not after:
        first = replace(first, notes=(*first.notes, "world: 4 ranks"))
    assert told(first, second) == words


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (
            [*BASE, *collective("g", "b", "all_gather_into_tensor", "float32[3, 1024, 1024]")],
            "+1 all_gather of 12.6 MB on tp at graph_0",
        ),
        ([relu("a", "x"), relu("b", "a")], "-1 all_reduce of 4.19 MB on tp at graph_0"),
        (
            [*BASE, *collective("s", "b", group='"process_group(size=2, step=2)"')],
            "+1 all_reduce of 4.19 MB on a group of size 2, step=2 at graph_0",
        ),
    ],
)
def test_collectives_that_came_or_went_are_counted_with_their_bytes(nodes, words):
    assert told(golden(*BASE), golden(*nodes)).startswith(words)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("float32[]", "4 bytes"),
        ("bool[3]", "3 bytes"),
        ("int8[999]", "999 bytes"),
        ("int8[1000]", "1 kB"),
        ("bfloat16[2, 500]", "2 kB"),
        ("int8[999999]", "1e+03 kB"),
        ("complex64[125000]", "1 MB"),
        ("float64[125, 1000000]", "1 GB"),
    ],
)
def test_the_bytes_of_a_collective_are_those_of_its_larger_side(value, words):
    a = relu("a", "x", "int8[2]")

    edits = compare_documents(golden(a), golden(a, *collective("r", "a", value=value))).edits

    assert [edit.text for edit in edits if edit.kind == "collective"] == [f"+1 all_reduce of {words} on tp"]


def test_a_view_belongs_to_a_collective_only_if_it_reads_its_result():
    view = NodeRecord("v", "call_function", "aten.view.default", ("%r_wait", "[-1]"), value="float32[1048576]")
    apart = view._replace(name="w", args=("%x", "[-1]"))
    last = NodeRecord("s", "call_function", "aten.add.Tensor", ("%v", "%w"))
    more = [*BASE[:-1], view, apart, last]

    edits = compare_documents(golden(relu("a", "x")), golden(*more)).edits

    (edit,) = [edit for edit in edits if edit.kind == "collective"]
    assert edit.sites[0].obtained == ("graph_0/r", "graph_0/r_wait", "graph_0/v")


def test_a_collective_with_another_reduction_is_no_new_collective():
    other = [node._replace(args=tuple(text.replace("sum", "avg") for text in node.args)) for node in BASE]
    assert told(golden(*BASE), golden(*other)) == '_c10d_functional.all_reduce argument 2: "sum" -> "avg" at graph_0'


def test_levels_of_counts_and_signatures_leave_the_plan_out():
    first, second = golden(*BASE), golden(*BASE, notes=("world: 8 ranks",))
    for level in ("ops", "signature"):
        assert compare_documents(first, second, level=level).is_empty
