from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.model import (
    GraphDocument,
    ModuleRecord,
    NodeRecord,
    StateRecord,
    graphs_of,
    recorded_at,
    texts_of,
    with_inner_graphs,
    with_references,
    with_texts,
    without_code,
    without_computed_contents,
)

NOTES = ("program: a", "frontend: dynamo", "break: item in f: x", "guard: x", "range: s0 in [2, 4]")
NODE = NodeRecord("y", "call_function", "f", ("%x", "1"), (("dim", "2"),), value="float32[3]", meta=(("tag", "%x"),))
INNER = document("%x = input x\nreturn %x")
PLAIN = ModuleRecord("fc", "torch.nn.Linear")


def whole(*inner: GraphDocument, code: str = "def forward(self): ...", content: str | None = "[1.0]") -> GraphDocument:
    state = (
        StateRecord("cache", "buffer", "float32[1]", persistent=False, content=content),
        StateRecord("table", "buffer", "float32[1]", content="[2.0]"),
        StateRecord("one", "constant", "float32[1]", content="[3.0]"),
    )
    modules = (PLAIN, *(ModuleRecord(f"m{n}", "fx", graph=graph) for n, graph in enumerate(inner)))
    return document("%x = input x\nreturn %x", modules=modules, state=state, code=code, notes=NOTES)


@pytest.mark.parametrize(("level", "notes"), [("cost", NOTES[:1]), ("breaks", NOTES[:3])])
def test_a_golden_of_costs_or_breaks_holds_these_alone(level, notes):
    cost = CostBlock(CostRecord(1), 2, "")
    graph = GraphDocument(**{**vars(whole()), "cost": cost, "symbols": ("s0",)})

    assert recorded_at(graph, level) == GraphDocument((), notes=notes, cost=cost)


@pytest.mark.parametrize("level", ["exact", "structure", "ops", "signature"])
def test_a_golden_of_another_level_holds_the_whole_document(level):
    graph = whole()

    assert recorded_at(graph, level) is graph


def test_only_buffers_outside_the_state_dict_lose_their_contents_also_in_graphs_inside():
    assert without_computed_contents(whole(whole())) == whole(whole(content=None), content=None)


def test_code_goes_from_all_graphs():
    assert without_code(whole(whole())) == whole(whole(code=""), code="")


@pytest.mark.parametrize(
    ("kind", "persistent", "is_computed"),
    [("buffer", False, True), ("buffer", True, False), ("parameter", False, False), ("constant", True, False)],
)
def test_a_buffer_outside_the_state_dict_is_computed(kind, persistent, is_computed):
    assert StateRecord("t", kind, "float32[1]", persistent=persistent).is_computed is is_computed


NODE = NodeRecord("y", "call_function", "f", ("%x", "1"), (("dim", "2"),), value="float32[3]", meta=(("tag", "%x"),))
INNER = document("%x = input x\nreturn %x")


def test_a_change_reaches_arguments_keywords_and_metadata_and_nothing_else():
    changed = with_texts(NODE, lambda text: f"<{text}>")

    assert changed == NODE._replace(args=("<%x>", "<1>"), kwargs=(("dim", "<2>"),), meta=(("tag", "<%x>"),))


def test_other_names_reach_all_references_and_not_the_own_name():
    node = NODE._replace(effects=("write %x", "random"))

    changed = with_references(node, {"x": "z", "y": "w"})

    assert changed == NODE._replace(args=("%z", "1"), meta=(("tag", "%z"),), effects=("write %z", "random"))


def test_the_texts_of_a_node_begin_with_its_value_if_it_is_known():
    assert texts_of(NODE) == ["float32[3]", "%x", "1", "2"]
    assert texts_of(NODE._replace(value=None)) == ["%x", "1", "2"]


def test_inner_graphs_change_and_other_modules_stay():
    modules = (ModuleRecord("act", "torch.nn.ReLU"), ModuleRecord("inner", "GraphModule", graph=INNER))
    outer = document("%x = input x\nreturn %x", modules=modules)

    changed = with_inner_graphs(outer, lambda graph: replace(graph, notes=("seen",)))

    assert changed.modules == (modules[0], modules[1]._replace(graph=replace(INNER, notes=("seen",))))
    assert with_inner_graphs(INNER, lambda graph: replace(graph, notes=("seen",))) is INNER
    alone = replace(outer, modules=modules[1:])
    assert with_inner_graphs(alone, lambda graph: replace(graph, notes=("seen",))).modules == changed.modules[1:]


def test_documents_are_equal_whatever_no_golden_compares():
    traced = replace(INNER, torch_version="2.13.0", places={"a": "model.py:1"}, keeps_traced_names=True)

    assert traced == INNER
    assert replace(INNER, code="1") != INNER
    assert not INNER.keeps_traced_names


def test_a_graph_comes_with_the_graphs_inside_it_at_any_depth():
    middle = document("%x = input x\nreturn %x", modules=(ModuleRecord("inner", "GraphModule", graph=INNER),))
    outer = document("%x = input x\nreturn %x", modules=(ModuleRecord("middle", "GraphModule", graph=middle),))

    assert list(graphs_of(outer)) == [outer, middle, INNER]
