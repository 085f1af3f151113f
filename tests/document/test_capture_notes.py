from __future__ import annotations

from types import SimpleNamespace

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.capture_notes import (
    NOTES,
    PLACES_OF_NOTES,
    canonical_symbols,
    capture_notes,
    finding_in_words,
    graphs_of_capture,
    is_capture_note,
    is_of_capture,
    kernel_notes,
    kernels_and_counts,
    places_of_notes,
    refuse_without_breaks,
)
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord
from pytest_fxgraph.errors import LevelError

BREAK = "break: item in forward: y = x.item()"


@pytest.mark.parametrize(
    ("kind", "remark", "is_added", "words"),
    [
        ("break", "", True, "one graph break more"),
        ("break", "why", True, "one graph break more"),
        ("break", "", False, "one graph break fewer, which is better: accept it"),
        ("break", "why", False, "one graph break fewer (why)"),
        ("guard", "", False, "one guard fewer"),
        ("guard", "why", False, "one guard fewer"),
        ("frontend", "", False, "one frontend fewer"),
    ],
)
def test_fewer_breaks_are_better_and_other_findings_only_fewer(kind, remark, is_added, words):
    assert finding_in_words(kind, remark, is_added=is_added) == words


@pytest.mark.parametrize("module", [SimpleNamespace(), SimpleNamespace(meta=None), SimpleNamespace(meta={})])
def test_a_module_of_no_capture_has_no_notes_and_no_graphs(module):
    assert (capture_notes(module), dict(places_of_notes(module)), graphs_of_capture(module)) == ((), {}, {})


def test_a_capture_leaves_notes_their_lines_and_its_graphs():
    graphs = {"graph_0": object()}
    meta = {NOTES: [BREAK], PLACES_OF_NOTES: {BREAK: "model.py:3"}}
    module = SimpleNamespace(meta=meta, named_children=graphs.items)

    assert (capture_notes(module), places_of_notes(module)) == ((BREAK,), {BREAK: "model.py:3"})
    assert graphs_of_capture(module) == {}  # one graph alone, which is the module itself

    meta[NOTES].append("frontend: dynamo")

    assert graphs_of_capture(module) == graphs


@pytest.mark.parametrize(
    ("note", "is_of_a_capture"), [(BREAK, True), ("guard: x", True), ("range: s0", False), ("breakfast", False)]
)
def test_a_note_of_a_capture_begins_with_the_name_of_a_finding(note, is_of_a_capture):
    assert is_capture_note(note) is is_of_a_capture


def test_only_a_document_with_a_frontend_holds_a_capture():
    assert not is_of_capture(document("return 1", notes=(BREAK,)))
    assert is_of_capture(document("return 1", notes=(BREAK, "frontend: dynamo")))


def test_level_breaks_refuses_a_graph():
    refuse_without_breaks(document("return 1", notes=("frontend: dynamo",)))
    with pytest.raises(LevelError, match="what Dynamo told of a capture, and this is a graph"):
        refuse_without_breaks(document("return 1"))


def captured(*graphs: GraphDocument | None, notes: tuple[str, ...] = ("frontend: dynamo",)) -> GraphDocument:
    records = tuple(ModuleRecord(f"graph_{n}", "fx", graph=graph) for n, graph in enumerate(graphs))
    return GraphDocument((), records, notes=notes, symbols=("s5", "s7", "u3"))


def sized(symbol: str, **options: tuple[str, ...]) -> GraphDocument:
    return document(f"%x = input x : int8[{symbol}]\n%a = f(%x, {symbol}, dim={symbol})\nreturn %a", **options)


def test_the_symbols_of_a_capture_are_numbered_graph_by_graph():
    result = canonical_symbols(captured(sized("s5"), None, sized("s7"), sized("s5"), sized("u3")))

    graphs = [record.graph for record in result.modules]
    assert graphs == [sized("s0"), None, sized("s1"), sized("s2"), sized("u0")]
    assert result.symbols == ("s0", "s1", "s2", "u0")


def test_words_that_are_no_symbols_of_the_capture_stay():
    assert canonical_symbols(captured(sized("s9"))).modules == captured(sized("s9")).modules


def test_the_symbols_of_a_graph_alone_stay():
    alone = captured(sized("s5"), notes=())

    assert canonical_symbols(alone) is alone


def test_symbols_of_notes_and_of_graphs_inside_are_numbered_too():
    def graph(symbol: str, other: str) -> GraphDocument:
        inner = (ModuleRecord("inner", "fx", graph=sized(other)), ModuleRecord("plain", "torch.nn.ReLU"))
        return document("return 1", modules=inner, notes=(f"range: {symbol} in [2, 4]",))

    result = canonical_symbols(captured(graph("s7", "s5")))

    assert result.modules[0].graph == graph("s0", "s1")


def test_equal_kernels_are_one_note_with_their_number_and_come_back_by_it():
    notes = kernel_notes(["a: 1 op", "b; x: 2 ops", "a: 1 op", "12"], ["no compiler"])

    assert notes == ["kernel: a: 1 op; x2", "kernel: b; x: 2 ops", "kernel: 12", "kernel: missing, because no compiler"]
    assert [*kernels_and_counts([*notes[:3], "guard: k; x3"])] == [("a: 1 op", 2), ("b; x: 2 ops", 1), ("12", 1)]
