from __future__ import annotations

import time
from dataclasses import replace

from fixtures.documents import document
from pytest_fxgraph.document.graph_document import ModuleRecord, StateRecord
from pytest_fxgraph.report.document_lines import document_lines


def stack(*rates: str, operator: str = "torch.relu"):
    """Write layers that each call a module of their own, of a rate of their own, and add what they were given."""
    lines = ["%x = input x"]
    before = "x"
    for layer, _ in enumerate(rates):
        lines.append(f"%norm_{layer} = {operator}(%{before}) @ layers.{layer}")
        lines.append(f"%drop_{layer} = self.layers.{layer}.drop(%norm_{layer}) @ layers.{layer}")
        lines.append(f"%add_{layer} = operator.add(%{before}, %drop_{layer}) @ layers.{layer}")
        before = f"add_{layer}"
    modules = [ModuleRecord(f"layers.{n}.drop", "torch.nn.Dropout", (("p", rate),)) for n, rate in enumerate(rates)]
    state = [StateRecord(f"layers.{n}.{name}", "buffer", "float32[2]") for n, _ in enumerate(rates) for name in "ab"]
    return document("\n".join([*lines, f"return %{before}"]), modules=tuple(modules), state=tuple(state))


def lines_of(graph, **options):
    return list(document_lines(graph, **options))


def test_blocks_that_repeat_are_shown_once_with_their_number_and_their_paths():
    assert lines_of(stack(*["0.1"] * 5)) == [
        "  input x as %x",
        "block x5: layers.0 .. layers.4",
        "  in layers.0",
        "    %norm_0 = torch.relu(%x)",
        "    %drop_0 = self.layers.0.drop(%norm_0)",
        "    %add_0 = operator.add(%x, %drop_0)",
        "  return %add_4",
        "modules",
        "  block x5: layers.0 .. layers.4",
        "    layers.0.drop: torch.nn.Dropout(p=0.1)",
        "state",
        "  block x5: layers.0 .. layers.4",
        "    layers.0.a: buffer float32[2]",
        "    layers.0.b: buffer float32[2]",
    ]


def test_a_block_that_differs_in_a_module_is_shown_by_itself():
    lines = lines_of(stack(*["0.1"] * 4, "0.2", *["0.1"] * 4))

    assert [line for line in lines if "block" in line][:2] == [
        "block x4: layers.0 .. layers.3",
        "block x4: layers.5 .. layers.8",
    ]
    assert "  %drop_4 = self.layers.4.drop(%norm_4)" in lines


def test_a_block_that_reads_something_else_is_shown_by_itself():
    graph = stack(*["0.1"] * 6)
    other = [replace(node, args=("%add_0", "%drop_3")) if node.name == "add_3" else node for node in graph.nodes]

    lines = lines_of(replace(graph, nodes=tuple(other)))

    assert "  %add_3 = operator.add(%add_0, %drop_3)" in lines
    assert "block x3: layers.0, layers.1, layers.2" in lines


def test_a_block_that_calls_the_same_module_again_is_no_next_one():
    graph = stack(*["0.1"] * 6)
    other = [replace(node, target="layers.2.drop") if node.name == "drop_3" else node for node in graph.nodes]

    lines = lines_of(replace(graph, nodes=tuple(other)))

    assert "  %drop_3 = self.layers.2.drop(%norm_3)" in lines


def test_what_all_blocks_read_does_not_keep_them_apart():
    lines = ["%x = input x", "%mask = input mask", "%h = torch.abs(%x)"]
    for layer in range(6):
        before = f"b_{layer - 1}" if layer else "h"
        lines += [f"%a_{layer} = torch.add(%{before}, %mask)", f"%b_{layer} = torch.mul(%a_{layer}, %mask)"]

    shown = lines_of(document("\n".join([*lines, "return %b_5"])))

    assert shown[3:6] == ["block x6", "    %a_0 = torch.add(%h, %mask)", "    %b_0 = torch.mul(%a_0, %mask)"]


def test_constants_of_other_values_are_no_repetition():
    state = tuple(StateRecord(f"c.{n}", "constant", "float32[]", content=f"{n % 2}.5") for n in range(8))
    graph = document("%x = input x\nreturn %x", state=state)

    assert [line for line in lines_of(graph) if line.startswith("    c.")] == [
        "    c.0: constant float32[] = 0.5",
        "    c.1: constant float32[] = 1.5",
    ]


def test_inputs_are_all_shown():
    graph = document("\n".join([*(f"%p_{n} = input p_{n} : float32[2]" for n in range(30)), "return %p_0"]))

    assert sum("input" in line for line in lines_of(graph)) == 30


def test_without_folding_every_node_is_shown():
    graph = stack(*["0.1"] * 50)

    lines = lines_of(graph, folds=False)

    assert not any("block" in line for line in lines)
    assert sum(" = " in line and "%" in line for line in lines) == 150


def test_graphs_within_a_graph_are_shown_below_their_module():
    inner = document("%y = input y\n%z = torch.neg(%y)\nreturn %z")
    graph = document("%x = input x\nreturn %x", modules=(ModuleRecord("branch", "GraphModule", graph=inner),))

    assert lines_of(graph)[2:] == [
        "modules",
        "  branch: GraphModule()",
        "      input y as %y",
        "      %z = torch.neg(%y)",
        "      return %z",
    ]


def test_time_grows_with_the_graph_and_not_with_its_square():
    def cost(layers: int) -> float:
        graph = stack(*["0.1", "0.2"] * (layers // 2))
        started = time.process_time()
        lines_of(graph)
        return time.process_time() - started

    cost(100)
    small, large = min(cost(500) for _ in range(3)), min(cost(4000) for _ in range(3))

    assert large < 8 * 4 * small
