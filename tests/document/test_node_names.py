from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from fixtures.document_strategies import documents
from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import ModuleRecord
from pytest_fxgraph.document.node_names import differs_in_names_at_most, rename_nodes

CODE = "def forward(self, x):\n    relu = torch.relu(x)\n\n    return relu"
INNER = document("%x = input x\n%sin = torch.sin(%x)\nreturn %sin", code=CODE)
GRAPH = document(
    "%x = input x\n%relu = torch.relu(%x, [%x], inplace=%x) ! write %x\n%on = self.inner(%relu)\nreturn {0: %on}",
    modules=(ModuleRecord("inner", "GraphModule", graph=INNER),),
    code=CODE,
    notes=('a note with "%relu"',),
)
RENAMED = replace(
    rename_nodes(GRAPH, {"relu": "first", "on": "y"}),
    modules=(ModuleRecord("inner", "GraphModule", graph=rename_nodes(INNER, {"sin": "first"})),),
)


def test_a_node_is_renamed_wherever_it_is_named_and_nowhere_else():
    renamed = rename_nodes(GRAPH, {"x": "a", "relu": "b"})

    assert renamed.nodes[1] == GRAPH.nodes[1]._replace(
        name="b",
        args=("%a", "[%a]"),
        kwargs=(("inplace", "%a"),),
        effects=("write %a",),
    )
    assert renamed.nodes[0].target == "x"
    assert (renamed.modules, renamed.notes, renamed.code) == (GRAPH.modules, GRAPH.notes, GRAPH.code)


def test_metadata_that_names_a_node_follows_its_new_name():
    tagged = replace(
        GRAPH, nodes=(*GRAPH.nodes[:2], GRAPH.nodes[2]._replace(meta=(("from", "%relu"),)), GRAPH.nodes[3])
    )

    assert rename_nodes(tagged, {"relu": "b"}).nodes[2].meta == (("from", "%b"),)


@pytest.mark.parametrize(
    "text",
    [
        encode(GRAPH),
        encode(RENAMED),
        encode(replace(RENAMED, keeps_traced_names=True)),
        encode(replace(RENAMED, code="")),
        encode(replace(RENAMED, code=CODE.replace("relu", "first"))),
    ],
)
def test_other_names_and_other_code_are_looked_past(text):
    assert differs_in_names_at_most(text, GRAPH)
    assert compare_documents(decode(text, "golden"), GRAPH).is_empty


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.relu", "torch.gelu"),
        ("torch.sin", "torch.cos"),
        ("self.inner(%first)", "self.inner(%x)"),
        ("torch.relu(%x, [%x]", "torch.relu(%x, [%y]"),
        ("effects: write %x", "effects: write %first"),
        ("input x", "input y as %x"),
        ("%first = torch.relu", "%x = torch.relu"),
        ("a note", "another note"),
        ("  inner: Gr", "  other: Gr"),
        ("  input x\n", ""),
        ("end: true\n", ""),
        ("end: true\n", "end: tru"),
        ("  def forward(self, x):\n", "def forward(self, x):\n"),
        ("code: |\n", "<<<<<<< HEAD\ncode: |\n"),
        ("    return relu\nend", "    return relu\nmore: 1\nend"),
        ("format: 3\n", "format: 2\n"),
        ("torch.relu(x)\n", "torch.relu(x)\x07\n"),
    ],
)
def test_anything_else_is_left_to_who_reads_the_whole(old, new):
    text = encode(RENAMED)
    assert old in text

    assert not differs_in_names_at_most(text.replace(old, new), GRAPH)


@given(documents())
@settings(max_examples=25, deadline=None)
def test_any_document_is_found_under_other_names(document):
    document = replace(document, code="")
    obtained = rename_nodes(document, {node.name: f"{node.name}_1x" for node in document.nodes})

    text = encode(document)
    # A line in quotes has its names in escapes, so the text has to be read.
    assert differs_in_names_at_most(text, obtained) or "~" in text


@given(documents(), documents())
@settings(max_examples=25, deadline=None)
def test_what_is_found_to_match_matches_when_it_is_read(document, obtained):
    if differs_in_names_at_most(encode(document), obtained):
        assert compare_documents(document, obtained).is_empty


def test_a_text_with_anything_behind_its_code_has_to_be_read():
    text = encode(replace(GRAPH, modules=(), nodes=document("%x = input x\nreturn %x").nodes))
    graph = decode(text, "golden")
    assert differs_in_names_at_most(text, graph)

    for added in ("more: 1\n", "  \nmore\n", "more\n"):
        assert not differs_in_names_at_most(text.replace("end: true\n", f"{added}end: true\n"), graph)


@pytest.mark.parametrize("argument", ['" like "', '"a:"', '" like a:"', '"block a like b:"'])
def test_a_text_that_looks_like_a_block_is_found_under_other_names(argument):
    graph = document(f"%x = input x\n%a = f(%x, {argument})\n%b = g(%a, key={argument})\nreturn %b")

    assert differs_in_names_at_most(encode(graph), rename_nodes(graph, {"a": "c"}))
    assert not differs_in_names_at_most(encode(graph), replace(graph, nodes=(*graph.nodes[:2], *graph.nodes[3:])))


def test_a_graph_that_reads_a_node_that_is_not_there_is_never_found_to_match():
    graph = document("%x = input x\n%a = f(%x)\nreturn %a")
    broken = replace(graph, nodes=(graph.nodes[0], graph.nodes[1]._replace(args=("%gone",)), graph.nodes[2]))

    assert not differs_in_names_at_most(encode(graph).replace("f(%x)", "f(%gone)"), broken)
