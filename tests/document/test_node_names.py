from __future__ import annotations

from dataclasses import replace
from textwrap import indent

import pytest
from hypothesis import given, settings

from fixtures.document_strategies import documents
from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
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


PARTS = ("norm", "up", "down", "gate")


def layer(number, value, function="torch.relu"):
    path = f"layers.{number}"
    return (
        NodeRecord(f"norm_{number}", "call_module", f"{path}.norm", (value,), scope=path),
        NodeRecord(f"up_{number}", "call_module", f"{path}.up", (f"%norm_{number}",), scope=path),
        NodeRecord(f"act_{number}", "call_function", function, (f"%up_{number}", "%x"), scope=path),
        NodeRecord(f"down_{number}", "call_module", f"{path}.down", (f"%act_{number}",), scope=path),
    )


LAYERS = GraphDocument(
    (
        NodeRecord("x", "placeholder", "x"),
        NodeRecord("y", "placeholder", "y"),
        *layer(0, "%y"),
        *layer(1, "%down_0"),
        *layer(2, "%down_1", "torch.gelu"),
        *layer(3, "%down_2"),
        *layer(4, "%down_3"),
        NodeRecord("tail", "call_function", "torch.neg", ("%down_4",)),
        NodeRecord("output", "output", "output", ("(%tail, %down_0)",)),
    ),
    tuple(ModuleRecord(f"layers.{n}.{part}", "Linear", (("n", "1"),)) for n in range(5) for part in PARTS),
    tuple(StateRecord(f"layers.{n}.{part}", "buffer", "int64[]") for n in range(5) for part in (*PARTS, "last")),
    notes=("one",),
    symbols=("s0",),
)
OF_LAYERS = encode(LAYERS)


def test_layers_are_found_under_other_names_in_blocks_and_without():
    others = {node.name: f"other_{number}" for number, node in enumerate(LAYERS.nodes)}
    whole = encode(replace(LAYERS, keeps_traced_names=True))

    assert "layers.2(%layers_1, %x) like layers.*\n    - " in OF_LAYERS
    assert "block" not in whole
    for text in (OF_LAYERS, whole):
        assert differs_in_names_at_most(text, rename_nodes(LAYERS, others))
        assert not differs_in_names_at_most(text, replace(LAYERS, nodes=LAYERS.nodes[:-1]))
        assert not differs_in_names_at_most(text, replace(LAYERS, nodes=(*LAYERS.nodes, LAYERS.nodes[-1])))
        assert not differs_in_names_at_most(text, replace(LAYERS, modules=LAYERS.modules[:-1]))
        assert not differs_in_names_at_most(text, replace(LAYERS, modules=(*LAYERS.modules, LAYERS.modules[0])))
        assert not differs_in_names_at_most(text, replace(LAYERS, state=LAYERS.state[:-1]))
        assert not differs_in_names_at_most(text, replace(LAYERS, state=()))
        assert not differs_in_names_at_most(text, replace(LAYERS, notes=()))
        assert not differs_in_names_at_most(text, replace(LAYERS, symbols=("s1",)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return %down\n", "    return\n"),
        ("    return %down\n", ""),
        ("    return %down\n", "    return %up\n"),
        ("    return %down\n", "    return %gone\n"),
        ("    return %down\n", "    return %down\n    %more = torch.neg(%down)\n"),
        ("    %up = self.up(%norm)\n", ""),
        ("    %up = self.up(%norm)\n", "    %norm = self.up(%norm)\n"),
        ("    %up = self.up(%norm)\n", "    no node\n"),
        ("self.up(%norm)", "self.up(%0)"),
        ("%layers_1 = layers.1(%layers_0, %x)", "%layers_1 = layers.1(%layers_0, %y)"),
        ("%layers_1 = layers.1(%layers_0, %x)", "%layers_1 = layers.1(%layers_0)"),
        ("%layers_1 = layers.1", "%a, %b = layers.1"),
        ("%layers_1 = layers.1", "%x = layers.1"),
        ("%layers_1 = layers.1", "layers.1"),
        ("%layers_1 = layers.1", "%layers_1 = layers.7"),
        ("layers.1(%layers_0, %x) like layers.*", "layers.1(%layers_0, %x) like other.*"),
        ("layers.1(%layers_0, %x) like layers.*", "layers.1(%layers_0, %x):"),
        ("    - %act = torch.relu(%up, %1)\n", "    - %act = torch.tanh(%up, %1)\n"),
        ("    + %act = torch.gelu(%up, %1)\n", "    + %act = torch.tanh(%up, %1)\n"),
        ("  %layers_4 = layers.4(%layers_3, %x) like layers.*\n", ""),
        ("  %tail =", "  %x ="),
        ("  return (%tail, %layers_0)", "  return (%tail, %layers_1)"),
        ("  return (%tail, %layers_0)", "  return"),
        ("  input y", "  input y as %x"),
        ("    norm: Linear(n=1)", "    norm: Linear(n=2)"),
        ("    norm: Linear(n=1)\n", ""),
        ("  layers.4 like layers.*\nnotes", "notes"),
        ("  layers.4 like layers.*\nstate", "state"),
        ("  layers.4 like layers.*\nstate", "  layers.5 like layers.*\nstate"),
        ("    last: buffer int64[]\n", ""),
        ("    last: buffer int64[]\n", "    last: buffer int64[]\n    last: buffer int64[]\n"),
        ("notes: |", "  last: buffer int64[]\nnotes: |"),
        ("graph: |\n", "graph: |\n  no nodes\n"),
        ("graph: |\n", "graph: |\n  input other\ngraph: |\n"),
        ("notes: |\n", "notes: |\n  other\nnotes: |\n"),
        ("  block layers.*:\n", "  block layers.*:\n    return\n  block layers.*:\n"),
        ("format: 3\n", "format: 2\n"),
        ("end: true\n", ""),
        ("code: |\n  def", "code: |\ndef"),
        ("      return relu\n", "return relu\n"),
    ],
)
def test_a_text_of_other_blocks_is_not_found_to_match(old, new):
    text = OF_LAYERS.replace("end: true\n", f"code: |\n{indent(CODE, '  ')}\nend: true\n")
    assert old in text

    assert differs_in_names_at_most(text, LAYERS)
    assert not differs_in_names_at_most(text.replace(old, new, 1), LAYERS)


def test_names_of_inputs_results_and_blocks_are_looked_past():
    text = OF_LAYERS.replace("input y", "input y as %other").replace("(%y,", "(%other,")
    text = text.replace("%layers_", "%block_").replace("%norm", "%_first").replace("block layers.*:", "block shared:")

    assert differs_in_names_at_most(text.replace("like layers.*", "like shared"), LAYERS)


def test_a_graph_without_nodes_is_found_to_match():
    empty = GraphDocument((), notes=("one",))

    assert differs_in_names_at_most(encode(GraphDocument(())), GraphDocument(()))
    assert differs_in_names_at_most(encode(empty), empty)
    assert not differs_in_names_at_most(encode(GraphDocument(())), LAYERS)
    assert not differs_in_names_at_most(OF_LAYERS, GraphDocument(()))


@pytest.mark.parametrize(
    "obtained",
    [
        replace(GRAPH, nodes=GRAPH.nodes[1:]),
        replace(GRAPH, modules=()),
        replace(GRAPH, modules=(GRAPH.modules[0], ModuleRecord("act", "ReLU"))),
        replace(GRAPH, modules=(GRAPH.modules[0]._replace(graph=None),)),
        replace(GRAPH, modules=(GRAPH.modules[0]._replace(kind="Other"),)),
        replace(GRAPH, modules=(GRAPH.modules[0]._replace(graph=replace(INNER, notes=("one",))),)),
        replace(GRAPH, modules=(ModuleRecord("act", "ReLU"), GRAPH.modules[0])),
        replace(GRAPH, notes=()),
        replace(GRAPH, nodes=(GRAPH.nodes[0]._replace(value="int64[]"), *GRAPH.nodes[1:])),
    ],
)
def test_another_graph_with_a_graph_inside_is_not_found_to_match(obtained):
    for text, graph in ((encode(GRAPH), obtained), (encode(obtained), GRAPH)):
        assert not differs_in_names_at_most(text, graph)


def test_lines_of_the_source_are_looked_past_beside_a_graph_inside():
    traced = replace(GRAPH, nodes=tuple(node._replace(source="model.py:1: x") for node in GRAPH.nodes))

    assert differs_in_names_at_most(encode(GRAPH), traced)


def test_a_text_in_which_a_result_has_the_name_of_an_input_is_not_found_to_match():
    assert not differs_in_names_at_most(OF_LAYERS.replace("%layers_4", "%x"), LAYERS)


def test_layers_in_layers_are_found_under_other_names():
    nodes, value = [NodeRecord("x", "placeholder", "x")], "%x"
    for number in range(6):
        for name in ("exp", "sin", "cos", "tan", "abs", "neg", "log"):
            scope = f"outer.{number // 2}.inner.{number % 2}"
            nodes.append(NodeRecord(f"{name}_{number}", "call_function", f"torch.{name}", (value,), scope=scope))
            value = f"%{name}_{number}"
    nodes.append(NodeRecord("output", "output", "output", (value,)))
    document = GraphDocument(tuple(nodes))
    text = encode(document)

    assert "\n    block inner.*:\n" in text
    assert differs_in_names_at_most(text, rename_nodes(document, {node.name: f"{node.name}_x" for node in nodes}))
    assert not differs_in_names_at_most(text.replace("    return %inner_1", "    return %inner_0"), document)


def test_a_module_whose_line_nobody_would_see_whole_is_found_to_match():
    module = ModuleRecord("act", "Act", (("name", '"a b"'),))
    document = GraphDocument(LAYERS.nodes, (module, ModuleRecord("again", "Act", same_as="odd\u200b")))

    assert '\n  ~"again: Act(); is odd\\u200b"\n' in encode(document)
    assert differs_in_names_at_most(encode(document), document)
