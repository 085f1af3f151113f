from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.edits.operator_words import (
    common_path,
    described_node,
    described_state,
    full_name,
    home,
    is_check,
    listed_operators,
    moves_values_only,
    numbered_paths,
    outermost_block,
    relative_path,
    spelled_operator,
    without_tensors,
)
from pytest_fxgraph.compare.graph_index import GraphIndex, graph_index_of
from pytest_fxgraph.document.model import ModuleRecord

CALLS = ("exp", "sin", "cos", "tan", "abs")


def index(*calls: str, modules: dict[str, str] | None = None) -> GraphIndex:
    """Index a graph whose nodes from position 1 on are these calls."""
    lines = ["%x = input x", *(f"%n{n} = {call}" for n, call in enumerate(calls, 1)), "return %x"]
    records = tuple(ModuleRecord(path, kind) for path, kind in (modules or {}).items())
    return graph_index_of(document("\n".join(lines), modules=records))


@pytest.mark.parametrize(
    ("call", "kind", "word"),
    [
        (".relu(%x)", "", ".relu"),
        ("get fc.weight", "", "weight"),
        ("self.layers.act(%x)", "", "module act"),
        ("self.act(%x)", "torch.nn.modules.activation.GELU", "nn.GELU"),
        ("self.act(%x)", "torch.ao.nn.quantized.Linear", "quantized Linear"),
        ("self.act(%x)", "models.Attention", "Attention"),
        ("torch.nn.functional.gelu(%x)", "", "F.gelu"),
        ("operator.add(%x, 1)", "", "add"),
        ("builtins.print(%x)", "", "print"),
        ("torch.relu(%x)", "", "torch.relu"),
        ("aten.add.Tensor(%x, %x)", "", "aten.add"),
        ("torch.fft.fft(%x)", "", "torch.fft.fft"),
        ("fxcore.guided.transforms.vmap(%x)", "", "vmap"),
        ("package.ops.scale(%x) ! call", "", "package.ops.scale"),
        ("package.ops.Scale.apply(%x) ! call", "", "package.ops.Scale"),
    ],
)
def test_an_operator_is_spelled_as_users_write_it(call, kind, word):
    assert spelled_operator(index(call, modules={"act": kind} if kind else {}), 1) == word


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (["torch.exp(%x)"], "exp"),
        (["torch.exp(%x)"] * 3, "3 exp"),
        (["torch.exp(%x)", "torch.sin(%x)"], "2 operators (exp, sin)"),
        ([f"torch.{name}(%x)" for name in CALLS[:3]], "3 operators (exp, sin, cos)"),
        ([f"torch.{name}(%x)" for name in CALLS[:4]], "4 operators (exp, sin, cos, ...)"),
        (["torch.exp(%x)", ".view(%x, 2)", "torch.sin(%x)"], "3 operators (exp, view, sin)"),
        (["torch.exp(%x)", ".view(%x, 2)", "torch.sin(%x)", ".clone(%x)"], "4 operators (exp, sin, ...)"),
        (
            [".view(%x, 2)", ".clone(%x)", ".permute(%x, 0)", ".size(%x)"],
            "4 operators (view, clone, permute, ...)",
        ),
    ],
)
def test_operators_are_listed_by_their_names(calls, words):
    assert listed_operators(index(*calls), range(1, len(calls) + 1)) == words


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (["self.gate(%x)", "torch.exp(%x)"], "2 operators (gate, exp)"),
        (["self.kept(%x)", "torch.exp(%x)"], "2 operators (Linear, exp)"),
        (["self.row.0(%x)", "torch.exp(%x)"], "2 operators (Linear, exp)"),
        (["self.gate(%x)", "self.up(%x)"], "2 Linear"),
    ],
)
def test_among_several_operators_a_new_module_has_its_own_name(calls, words):
    modules = dict.fromkeys(("gate", "up", "kept", "row.0"), "torch.nn.Linear")
    other = index(modules={"kept": "torch.nn.Linear"})

    assert listed_operators(index(*calls, modules=modules), range(1, len(calls) + 1), other) == words


@pytest.mark.parametrize(
    ("calls", "moves"),
    [
        ([".view(%x, 2)", "operator.getitem(%x, 0)"], True),
        ([".size(%x)", "builtins.getattr(%x, 'shape')"], True),
        (["aten.alias.default(%x)", ".clone(%x)"], True),
        ([".view(%x, 2)", "torch.exp(%x)"], False),
        (["nobody.knows(%x)"], False),
        ([], True),
    ],
)
def test_values_only_move_where_no_operator_computes(calls, moves):
    assert moves_values_only(index(*calls), range(1, len(calls) + 1)) is moves


def test_reads_of_tensors_and_checks_are_left_out_beside_other_nodes():
    graph = index("get w", "aten._assert_tensor_metadata(%x)", "torch.exp(%x)")

    assert without_tensors(graph, [1, 2, 3]) == [3]
    assert without_tensors(graph, [1, 2]) == [2]


def test_a_check_has_no_readers():
    graph = index("torch._assert(%x)", "torch._assert(%x)", "torch.exp(%n2)")

    assert [is_check(graph, position) for position in (1, 2, 3)] == [True, False, False]


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("self.layers.0.fc(%x) @ layers.0", "layers.0.fc"),
        ("get layers.0.fc.weight", "layers.0.fc"),
        ("get layers.0.fc.weight @ layers.0", "layers.0"),
        ("torch.exp(%x) @ layers.0", "layers.0"),
        ("torch.exp(%x)", ""),
    ],
)
def test_a_node_belongs_to_a_module(call, path):
    assert home(index(call).nodes[1]) == path


@pytest.mark.parametrize(
    ("paths", "around"),
    [
        ([], ""),
        (["a.b"], "a.b"),
        (["a.b", "a.c"], "a"),
        (["a.b", "a.b.c"], "a.b"),
        (["a.b.c", "a.b"], "a.b"),
        (["a.b.c", "a.x.c"], "a"),
        (["a", "b"], ""),
        (["a.b.c", "a.b.d", "a.e"], "a"),
    ],
)
def test_the_common_path_is_the_innermost_module_around_all(paths, around):
    assert common_path(paths) == around


def test_each_number_in_a_path_is_a_block_and_the_outermost_comes_first():
    assert [*numbered_paths("stages.1.layers.0.fc")] == ["stages.1", "stages.1.layers.0"]
    assert [*numbered_paths("stages.².fc")] == []  # a digit, and no number of a block
    assert outermost_block("stages.1.layers.0.fc") == "stages.1"
    assert outermost_block("fc") == ""


def test_a_path_is_told_as_seen_from_a_module_around_it():
    assert [relative_path("a.b.c", around) for around in ("", "a", "a.b.c")] == ["a.b.c", "b.c", ""]


@pytest.mark.parametrize(
    ("call", "seen_from", "name"),
    [
        ("get fc.weight", "", "weight"),
        ("self.layers.3.norm(%x) @ layers.3", "layers.3", "norm"),
        ("self.layers.3.norm(%x) @ layers.3", "", "layers"),
        ("torch.exp(%x) @ layers.3", "layers", "exp"),
        ("torch.exp(%x) @ a.b", "a.c", "b"),
        ("torch.exp(%x)", "a", "exp"),
    ],
)
def test_a_node_is_described_by_the_module_or_operator_that_made_it(call, seen_from, name):
    assert described_node(index(call), 1, seen_from) == name


def test_inputs_and_the_output_are_described_as_inputs_and_the_output():
    graph = index()

    assert [described_node(graph, position, "") for position in (0, 1)] == ["input x", "the output"]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("self.layers.3.norm(%x) @ layers.3", "layers.3.norm"),
        ("torch.exp(%x) @ layers.3.attn", "layers.3"),
        ("self.norm(%x)", "norm"),
        ("torch.exp(%x) @ attn", "attn"),
    ],
)
def test_a_node_of_a_block_has_a_name_with_the_number_of_the_block(call, name):
    assert full_name(index(call), 1, "") == name


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("block.gamma", "float32[64]", "gamma[64]"),
        ("gamma", "float32[2, 3]", "gamma[2, 3]"),
        ("block.scale", "float32[]", "scale"),
        ("block.packed", "(float32[2], int8[])", "packed"),
    ],
)
def test_a_tensor_is_named_with_its_shape(path, value, words):
    assert described_state(path, value) == words
