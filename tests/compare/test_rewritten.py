from __future__ import annotations

from dataclasses import replace

from fixtures.documents import document
from pytest_fxgraph.compare.rewritten import texts_of, with_inner_graphs, with_texts
from pytest_fxgraph.document.model import ModuleRecord, NodeRecord

NODE = NodeRecord("y", "call_function", "f", ("%x", "1"), (("dim", "2"),), value="float32[3]", meta=(("tag", "%x"),))
INNER = document("%x = input x\nreturn %x")


def test_a_change_reaches_arguments_keywords_and_metadata_and_nothing_else():
    changed = with_texts(NODE, lambda text: f"<{text}>")

    assert changed == NODE._replace(args=("<%x>", "<1>"), kwargs=(("dim", "<2>"),), meta=(("tag", "<%x>"),))


def test_the_texts_of_a_node_begin_with_its_value_if_it_is_known():
    assert texts_of(NODE) == ["float32[3]", "%x", "1", "2"]
    assert texts_of(NODE._replace(value=None)) == ["%x", "1", "2"]


def test_inner_graphs_change_and_other_modules_stay():
    modules = (ModuleRecord("act", "torch.nn.ReLU"), ModuleRecord("inner", "GraphModule", graph=INNER))
    outer = document("%x = input x\nreturn %x", modules=modules)

    changed = with_inner_graphs(outer, lambda graph: replace(graph, notes=("seen",)))

    assert changed.modules == (modules[0], modules[1]._replace(graph=replace(INNER, notes=("seen",))))
    assert with_inner_graphs(INNER, lambda graph: replace(graph, notes=("seen",))) is INNER
