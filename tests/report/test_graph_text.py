"""A graph as people read it, with blocks that repeat shown once."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.report.graph_text import document_lines, node_path, repeated_modules, repeated_nodes, repeated_state
from pytest_fxgraph.report.repetition import Repetition


def places(found: list[Repetition]) -> list[tuple[int, int, int]]:
    """Say where each repetition begins, how long a block is, and how many there are."""
    return [(block.start, block.length, len(block.blocks)) for block in found]


def modules(*paths: str) -> list[ModuleRecord]:
    return [ModuleRecord(path, "torch.nn.ReLU") for path in paths]


def test_layers_of_two_modules_each_are_blocks_of_two():
    paths = [f"layers.{layer}.{name}" for layer in range(5) for name in ("norm", "act")]

    assert places(repeated_modules(modules("stem", *paths, "head"))) == [(1, 2, 5)]


def test_blocks_begin_with_a_layer_even_if_what_comes_before_looks_like_its_end():
    paths = [f"layers.{layer}.{name}" for layer in range(6) for name in ("norm", "act", "drop")]

    assert places(repeated_modules(modules(*paths[2:]))) == [(1, 3, 5)]


def test_layers_that_skip_a_number_in_between_are_two_runs():
    paths = [f"layers.{layer}.act" for layer in (0, 1, 2, 3, 4, 9, 10, 11, 12, 13)]

    assert places(repeated_modules(modules(*paths))) == [(0, 1, 5), (5, 1, 5)]


@pytest.mark.parametrize("field", ["kind", "value", "requires_grad", "persistent", "content"])
def test_state_that_differs_in_anything_is_in_no_block_with_the_others(field):
    other = {"kind": "parameter", "value": "int64[1]", "requires_grad": True, "persistent": False, "content": "1"}
    plain = {"kind": "buffer", "value": "float32[1]"}
    records = [StateRecord(f"l.{n}.w", **{**plain, **({field: other[field]} if n == 5 else {})}) for n in range(11)]

    assert places(repeated_state(records)) == [(0, 1, 5), (6, 1, 5)]


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


def test_layers_of_two_sorts_in_turn_are_blocks_of_two_layers():
    kinds = ["torch.nn.ReLU", "torch.nn.GELU"] * 4
    records = [ModuleRecord(f"layers.{n}.act", kind) for n, kind in enumerate(kinds)]

    assert places(repeated_modules(records)) == [(0, 2, 4)]


def test_the_path_of_a_node_is_where_it_was_made_or_what_it_leads_to():
    made, called, other = document("%a = f(1) @ layers.0\n%b = self.head(%a)\n%c = g(%b)").nodes

    assert [node_path(node) for node in (made, called, other)] == ["layers.0", "head", ""]


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
        lines += [
            f"%a_{layer} = torch.add(%{before}, %mask) @ layers.{layer}",
            f"%b_{layer} = torch.mul(%a_{layer}, %mask) @ layers.{layer}",
        ]

    shown = lines_of(document("\n".join([*lines, "return %b_5"])))

    assert shown[3:7] == [
        "block x6: layers.0 .. layers.5",
        "  in layers.0",
        "    %a_0 = torch.add(%h, %mask)",
        "    %b_0 = torch.mul(%a_0, %mask)",
    ]


def test_what_the_model_itself_computes_between_two_layers_belongs_to_the_block():
    lines = ["%x = input x"]
    for layer in range(6):
        before = f"add_{layer - 1}" if layer else "x"
        lines += [f"%n_{layer} = torch.neg(%{before}) @ layers.{layer}", f"%add_{layer} = f(%{before}, %n_{layer})"]

    shown = lines_of(document("\n".join([*lines, "return %add_5"])))

    assert shown[1:] == [
        "block x6: layers.0 .. layers.5",
        "  in layers.0",
        "    %n_0 = torch.neg(%x)",
        "  end of layers.0",
        "    %add_0 = f(%x, %n_0)",
        "  return %add_5",
    ]


def test_nodes_that_no_module_made_are_all_shown():
    lines = [f"%n_{n} = torch.neg(%{f'n_{n - 1}' if n else 'x'})" for n in range(20)]

    shown = lines_of(document("\n".join(["%x = input x", *lines, "return %n_19"])))

    assert sum("torch.neg" in line for line in shown) == 20


def test_constants_that_tracing_numbered_do_not_keep_layers_apart():
    lines = ["%x = input x"]
    for layer in range(6):
        before = f"add_{layer - 1}" if layer else "x"
        lines.append(f"%n_{layer} = torch.neg(%{before}) @ layers.{layer}")
        lines.append(f"%c_{layer} = get _tensor_constant{3 * layer}")
        lines.append(f"%add_{layer} = f(%n_{layer}, %c_{layer}) @ layers.{layer}")
    same = tuple(StateRecord(f"_tensor_constant{3 * n}", "constant", "float32[]", content="1.5") for n in range(6))
    other = (*same[:-1], replace(same[-1], content="2.5"))
    text = "\n".join([*lines, "return %add_5"])

    assert places(repeated_nodes(document(text, state=same))) == [(1, 3, 6)]
    assert places(repeated_nodes(document(text, state=other))) == [(1, 3, 5)]


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


def test_where_the_scope_of_a_module_ends_is_shown():
    text = "%x = input x\n%a = f(%x) @ block.0\n%b = g(%a) @ block\n%c = h(%b)\n%d = k(%c) @ head\nreturn %d"

    assert list(document_lines(document(text))) == [
        "  input x as %x",
        "in block.0",
        "  %a = f(%x)",
        "in block",
        "  %b = g(%a)",
        "end of block",
        "  %c = h(%b)",
        "in head",
        "  %d = k(%c)",
        "  return %d",
    ]
