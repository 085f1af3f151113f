"""Repeated blocks of nodes, and the text of a graph without its code."""

from __future__ import annotations

from fixtures.documents import document
from pytest_fxgraph.document.model import StateRecord
from pytest_fxgraph.report.graph_text import graph_text_lines, node_path, repeated_nodes
from pytest_fxgraph.report.repetition import Repetition


def places(found: list[Repetition]) -> list[tuple[int, int, int]]:
    """Say where each repetition begins, how long a block is, and how many there are."""
    return [(block.start, block.length, len(block.blocks)) for block in found]


def test_parameters_that_torch_export_made_inputs_count_along_with_their_layers():
    inputs = [f"%p_layers_{n}_weight = input p_layers_{n}_weight : float32[4]" for n in range(6)]
    layers = [f"%m_{n} = aten.mul(%{f'm_{n - 1}' if n else 'x'}, %p_layers_{n}_weight) @ layers.{n}" for n in range(6)]

    found = repeated_nodes(document("\n".join([*inputs, "%x = input x : float32[4]", *layers, "return %m_5"])))

    assert places(found) == [(7, 1, 6)]


def test_a_layer_that_reads_the_parameter_of_another_is_in_no_block():
    inputs = [f"%p_{n} = input p_{n} : float32[4]" for n in range(12)]
    read = [0, 1, 2, 3, 4, 4, 6, 7, 8, 9, 10, 11]
    layers = [f"%m_{n} = aten.mul(%{f'm_{n - 1}' if n else 'x'}, %p_{read[n]}) @ layers.{n}" for n in range(12)]

    found = repeated_nodes(document("\n".join([*inputs, "%x = input x", *layers, "return %m_11"])))

    assert [(start - 13, count) for start, _, count in places(found)] == [(0, 5), (6, 6)]


def test_the_path_of_a_node_is_where_it_was_made_or_what_it_leads_to():
    made, called, other = document("%a = f(1) @ layers.0\n%b = self.head(%a)\n%c = g(%b)").nodes

    assert [node_path(node) for node in (made, called, other)] == ["layers.0", "head", ""]


def test_constants_that_tracing_numbered_do_not_keep_layers_apart():
    lines = ["%x = input x"]
    for layer in range(6):
        before = f"add_{layer - 1}" if layer else "x"
        lines.append(f"%n_{layer} = torch.neg(%{before}) @ layers.{layer}")
        lines.append(f"%c_{layer} = get _tensor_constant{3 * layer}")
        lines.append(f"%add_{layer} = f(%n_{layer}, %c_{layer}) @ layers.{layer}")
    same = tuple(StateRecord(f"_tensor_constant{3 * n}", "constant", "float32[]", content="1.5") for n in range(6))
    other = (*same[:-1], same[-1]._replace(content="2.5"))
    text = "\n".join([*lines, "return %add_5"])

    assert places(repeated_nodes(document(text, state=same))) == [(1, 3, 6)]
    assert places(repeated_nodes(document(text, state=other))) == [(1, 3, 5)]


def test_the_text_of_a_graph_has_its_blocks_once_and_no_code():
    lines = ["%x = input x"]
    for layer in range(6):
        before = f"b_{layer - 1}" if layer else "x"
        lines += [
            f"%a_{layer} = torch.add(%{before}, %x) @ layers.{layer}",
            f"%b_{layer} = f(%a_{layer}) @ layers.{layer}",
        ]
    graph = document("\n".join([*lines, "return %b_5"]), code="def f()")

    assert graph_text_lines(graph) == [
        "input x",
        "block layers.*:",
        "  %a = torch.add(%0, %1)",
        "  %b = f(%a)",
        "  return %b",
        "%layers_0 = layers.0(%x) like layers.*",
        "  - %a = torch.add(%0, %1)",
        "  + %a = torch.add(%0, %0)",
        *(f"%layers_{n} = layers.{n}(%layers_{n - 1}, %x) like layers.*" for n in range(1, 6)),
        "return %layers_5",
    ]
    assert len(graph_text_lines(graph, folds=False)) == 14
