from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.graph_document import ModuleRecord, StateRecord
from pytest_fxgraph.report.document_blocks import node_path, repeated_modules, repeated_nodes, repeated_state
from pytest_fxgraph.report.repetition import Repetition


def modules(*paths: str) -> list[ModuleRecord]:
    return [ModuleRecord(path, "torch.nn.ReLU") for path in paths]


def test_layers_of_two_modules_each_are_blocks_of_two():
    paths = [f"layers.{layer}.{name}" for layer in range(5) for name in ("norm", "act")]

    assert repeated_modules(modules("stem", *paths, "head")) == [Repetition(1, 2, 5)]


def test_blocks_begin_with_a_layer_even_if_what_comes_before_looks_like_its_end():
    paths = [f"layers.{layer}.{name}" for layer in range(6) for name in ("norm", "act", "drop")]

    assert repeated_modules(modules(*paths[2:])) == [Repetition(1, 3, 5)]


def test_layers_that_skip_a_number_in_between_are_two_runs():
    paths = [f"layers.{layer}.act" for layer in (0, 1, 2, 3, 4, 9, 10, 11, 12, 13)]

    assert repeated_modules(modules(*paths)) == [Repetition(0, 1, 5), Repetition(5, 1, 5)]


@pytest.mark.parametrize("field", ["kind", "value", "requires_grad", "persistent", "content"])
def test_state_that_differs_in_anything_is_in_no_block_with_the_others(field):
    other = {"kind": "parameter", "value": "int64[1]", "requires_grad": True, "persistent": False, "content": "1"}
    plain = {"kind": "buffer", "value": "float32[1]"}
    records = [StateRecord(f"l.{n}.w", **{**plain, **({field: other[field]} if n == 5 else {})}) for n in range(11)]

    assert repeated_state(records) == [Repetition(0, 1, 5), Repetition(6, 1, 5)]


def test_parameters_that_torch_export_made_inputs_count_along_with_their_layers():
    inputs = [f"%p_layers_{n}_weight = input p_layers_{n}_weight : float32[4]" for n in range(6)]
    layers = [f"%m_{n} = aten.mul(%{f'm_{n - 1}' if n else 'x'}, %p_layers_{n}_weight)" for n in range(6)]

    found = repeated_nodes(document("\n".join([*inputs, "%x = input x : float32[4]", *layers, "return %m_5"])))

    assert found == [Repetition(7, 1, 6)]


def test_a_layer_that_reads_the_parameter_of_another_is_in_no_block():
    inputs = [f"%p_{n} = input p_{n} : float32[4]" for n in range(12)]
    read = [0, 1, 2, 3, 4, 4, 6, 7, 8, 9, 10, 11]
    layers = [f"%m_{n} = aten.mul(%{f'm_{n - 1}' if n else 'x'}, %p_{read[n]})" for n in range(12)]

    found = repeated_nodes(document("\n".join([*inputs, "%x = input x", *layers, "return %m_11"])))

    assert [(block.start - 13, block.count) for block in found] == [(0, 5), (6, 6)]


def test_layers_of_two_sorts_in_turn_are_blocks_of_two_layers():
    kinds = ["torch.nn.ReLU", "torch.nn.GELU"] * 4
    records = [ModuleRecord(f"layers.{n}.act", kind) for n, kind in enumerate(kinds)]

    assert repeated_modules(records) == [Repetition(0, 2, 4)]


def test_the_path_of_a_node_is_where_it_was_made_or_what_it_leads_to():
    made, called, other = document("%a = f(1) @ layers.0\n%b = self.head(%a)\n%c = g(%b)").nodes

    assert [node_path(node) for node in (made, called, other)] == ["layers.0", "head", ""]
