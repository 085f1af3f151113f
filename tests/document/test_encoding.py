from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings

from fixtures.document_strategies import documents
from pytest_fxgraph.document import encoding
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.errors import DocumentError

EXAMPLE = GraphDocument(
    nodes=(
        NodeRecord("x", "placeholder", "x", value="float32[2, 3]", source="model.py:1: never written"),
        NodeRecord("conv", "call_module", "layer1.conv", ("%x",), scope="layer1"),
        NodeRecord("relu_", "call_method", "relu_", ("%conv", "True"), (("dim", "None"),), effects=("write %conv",)),
        NodeRecord("output", "output", "output", ("[%relu_, (1, 1)]",)),
    ),
    modules=(ModuleRecord("layer1.conv", "torch.nn.Conv2d", (("stride", "(1, 1)"),), training=False),),
    state=(
        StateRecord("layer1.conv.weight", "parameter", "float32[5]", requires_grad=True),
        StateRecord("table", "buffer", "int64[]", persistent=False, same_as="layer1.conv.weight", content="3"),
    ),
    notes=("input structure: ((*,), {})",),
    code="def forward(self, x):\n    return x",
    torch_version="2.13.0",
)

TEXT = """\
format: 3
graph: |
  input x  # float32[2, 3]
  %conv = self.layer1.conv(%x)  # in layer1
  %relu_ = %conv.relu_(True, dim=None)  # effects: write %conv
  return [%relu_, (1, 1)]
modules: |
  layer1.conv: torch.nn.Conv2d(stride=(1, 1)); not training
state: |
  layer1.conv.weight: parameter float32[5]
  table: buffer int64[]; = 3; not persistent; is layer1.conv.weight
notes: |
  input structure: ((*,), {})
code: |
  def forward(self, x):
      return x
end: true
"""


def test_a_document_is_written_one_node_a_line_with_the_code_at_the_end():
    assert encode(EXAMPLE) == TEXT


def test_what_is_written_is_read_back_without_what_changes_between_runs():
    nodes = tuple(node._replace(source=None) for node in EXAMPLE.nodes)

    assert decode(TEXT, "g.yaml") == replace(EXAMPLE, nodes=nodes)


@given(documents())
@settings(max_examples=25, deadline=None)
def test_any_document_comes_back(document):
    text = encode(document)

    assert decode(text, "g.yaml") == document
    assert decode(text.replace("\n", "\r\n").encode("utf-8-sig"), "g.yaml") == document


@given(documents())
@settings(max_examples=25, deadline=None)
def test_no_line_ends_with_a_blank_and_the_text_with_one_line_feed(document):
    text = encode(document)

    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert all(line == line.rstrip() for line in text.split("\n"))


@given(documents())
@settings(max_examples=25, deadline=None)
def test_yaml_reads_every_section_as_a_text(document):
    data = yaml.safe_load(encode(document))

    assert data.pop("format") == 3
    assert data.pop("end") is True
    assert all(isinstance(text, str) and text.endswith("\n") for text in data.values())


@pytest.mark.parametrize(
    "code",
    ["  indented", "blank at the end ", "a\n\n", "\na", "a\n \nb", "tab\there", "\u2028", "\U0001f600", "a\rb", "\x00"],
)
def test_code_that_a_literal_block_would_change_is_kept_line_by_line(code):
    text = encode(GraphDocument(nodes=(), code=code))

    assert '\ncode: |\n  "' in text
    assert decode(text, "g.yaml").code == code


def test_a_graph_inside_a_graph_is_a_block_below_its_module():
    inner = GraphDocument(nodes=(NodeRecord("x", "placeholder", "x"),), code="a\n\nb")

    text = encode(GraphDocument(nodes=(), modules=(ModuleRecord("sub", "GraphModule", graph=inner),), code="c"))

    assert text == (
        "format: 3\ngraph: |\n  no nodes\nmodules: |\n  sub: GraphModule()\n    input x\n"
        "    code:\n      a\n\n      b\ncode: |\n  c\nend: true\n"
    )


def test_a_graph_without_code_is_written_without_the_key():
    text = encode(GraphDocument(nodes=()))

    assert text == "format: 3\ngraph: |\n  no nodes\nend: true\n"
    assert decode(text, "g.yaml") == GraphDocument(nodes=())


def test_names_as_traced_are_noted_below_the_format_and_read_back():
    text = encode(replace(EXAMPLE, keeps_traced_names=True))

    assert text == TEXT.replace("format: 3\n", "format: 3\nnames: traced\n")
    assert decode(text, "g.yaml").keeps_traced_names
    assert not decode(TEXT, "g.yaml").keeps_traced_names


def test_half_a_surrogate_pair_comes_back_from_a_file_that_is_utf_8():
    document = GraphDocument((NodeRecord("x", "placeholder", "\ud800"),), code="\ud800")

    assert decode(encode(document).encode(), "g.yaml") == document


def test_a_graph_that_no_golden_would_be_read_back_from_is_refused(monkeypatch):
    monkeypatch.setattr(encoding, "MOST_RECORDS", 10)
    nodes = tuple(NodeRecord(f"n{i}", "placeholder", f"n{i}") for i in range(20))

    with pytest.raises(DocumentError, match=r"a graph of \d+ nodes, modules and tensors: a golden holds 10 at most"):
        encode(GraphDocument(nodes))
    with pytest.raises(DocumentError, match="a graph of 11 nodes"):
        encode(GraphDocument(nodes[:11]))
    assert encode(GraphDocument(nodes[:10])).count("input n") == 10


def block_nodes(number: int, given: str) -> list[NodeRecord]:
    scope = f"blocks.{number}"
    up = NodeRecord(f"blocks_{number}_up", "call_module", f"{scope}.up", (given,), scope=scope)
    relu = NodeRecord(f"blocks_{number}_relu", "call_function", "torch.relu", (f"%{up.name}",), scope=scope)
    return [up, relu]


def test_a_graph_inside_a_module_is_folded_as_the_outer_one_and_its_code_with_it():
    nodes, given, code = [NodeRecord("x", "placeholder", "x")], "x", "def forward(self, x):"
    for number in range(6):
        nodes += block_nodes(number, f"%{given}")
        code += f"\n    blocks_{number}_up = self.blocks[{number}].up({given});  {given} = None"
        given = f"blocks_{number}_relu"
        code += f"\n    {given} = torch.relu(blocks_{number}_up);  blocks_{number}_up = None"
    nodes.append(NodeRecord("output", "output", "output", (f"%{given}",)))
    inner = GraphDocument(nodes=tuple(nodes), code=f"{code}\n    return {given}")
    document = GraphDocument(nodes=(), modules=(ModuleRecord("graph_0", "GraphModule", graph=inner),))

    text = encode(document)

    assert "    block blocks.*:" in text
    assert text.count("torch.relu(%") == 1
    assert decode(text, "g.yaml") == document
    assert decode(text, "g.yaml").modules[0].graph.code == inner.code  # whole, under the names of its nodes
    assert encode(document, folds_code=True).count("torch.relu(") < text.count("torch.relu(")
    traced = encode(replace(document, keeps_traced_names=True))
    assert traced.count("torch.relu(%") == 6
    assert decode(traced, "g.yaml") == document


@pytest.mark.parametrize(
    ("document", "has_graph"),
    [
        (GraphDocument(()), True),
        (GraphDocument((), notes=("break: item in forward",)), False),
        (GraphDocument((), cost=CostBlock(CostRecord(1, 2, 3, 4, 5), 6, "fc", ())), False),
    ],
)
def test_a_graph_without_nodes_is_written_unless_the_golden_holds_costs_or_breaks_alone(document, has_graph):
    text = encode(document)

    assert ("graph: |" in text) is has_graph
    assert decode(text, "g.yaml") == document
