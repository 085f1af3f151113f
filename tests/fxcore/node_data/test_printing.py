from __future__ import annotations

import re
import sys
import types

import pytest
import torch

import fxcore
from fixtures.oracle import assert_same_success
from fxcore.errors import FxError
from fxcore.node_data.printing import DTYPE_ABBREVIATIONS, format_argument


def function(x: torch.Tensor, y=1):
    return torch.relu(x).add(y, alpha=2), {"k": [x]}


def test_a_graph_is_printed_as_torch_fx_prints_it():
    assert_same_success(lambda fx: str(fx.symbolic_trace(function).graph))
    assert_same_success(lambda fx: str(fx.Graph()))


def test_a_table_has_a_row_for_each_node(monkeypatch, capsys):
    tabulate = types.ModuleType("tabulate")
    tabulate.tabulate = lambda rows, headers: f"{headers} {rows}"
    monkeypatch.setitem(sys.modules, "tabulate", tabulate)

    def table(fx):
        fx.symbolic_trace(function).graph.print_tabular()
        return capsys.readouterr().out

    assert "['opcode', 'name', 'target', 'args', 'kwargs']" in table(fxcore)
    assert table(fxcore) == table(torch.fx)


def test_a_missing_library_for_tables_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tabulate", None)

    with pytest.raises(ImportError, match="pip install tabulate") as caught:
        fxcore.symbolic_trace(function).graph.print_tabular()

    assert isinstance(caught.value, FxError)


def typed(x: int, y: list[torch.Tensor] = [1, 2]) -> int:  # noqa: B006 - a default that has to be printed
    return torch.nn.functional.dropout(x, y, training=[1, (2,), {"a": x}])


def mended(names):
    """Return names of inputs with their types as they should be: torch.fx writes the name twice."""
    return [re.sub(r"^(\w+)\1(?=:)", r"\1", name) for name in names]


def test_a_node_is_printed_as_torch_fx_prints_it():
    def lines(fx):
        graph = fx.symbolic_trace(typed).graph
        texts = []
        for node in graph.nodes:
            node.meta["val"] = torch.ones(2, 3)
            placeholders, returned = ["shown before"], ["->"]
            texts += [node.format_node(), node.format_node(placeholders, returned), mended(placeholders), returned]
            texts.append(node.format_node(include_tensor_metadata=True))
            for value in (torch.eye(2).to_sparse_csr(), torch.ones(2, dtype=torch.bool).t(), 3):
                node.meta["val"] = value
                texts.append(node.format_node(include_tensor_metadata=True))
        return texts

    assert_same_success(lines)


def test_a_placeholder_goes_into_the_head_of_a_graph_s_text():
    def text(fx):
        graph = fx.symbolic_trace(typed).graph
        heads = [""]
        return [node.format_node(heads) for node in graph.nodes], mended(heads)

    assert_same_success(text)


def test_arguments_of_every_kind_are_printed_alike():
    def text(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        odd = (x, [x, (x,)], {"k": x}, slice(x, None), "text", 1e400, -0.0, None, ..., torch.float32, torch.Size([1]))
        graph.call_function(torch.add, odd, {"alpha": {"n": [x]}})
        return str(graph)

    assert_same_success(text)


def test_the_returned_type_goes_into_the_head_of_a_graph_s_text():
    def text(fx):
        graph = fx.symbolic_trace(typed).graph
        output = list(graph.nodes)[-1]
        output.type = int
        returned = [""]
        return output.format_node(["shown before"], returned), returned, output.format_node()

    assert_same_success(text)


def test_an_argument_may_write_itself():
    class Axis:
        def _custom_fx_repr_fn(self):
            return "axis(1)"

    assert format_argument(Axis()) == "axis(1)"
    assert format_argument([Axis(), {"k": Axis()}]) == "[axis(1), {k: axis(1)}]"


@pytest.mark.parametrize(
    ("longest", "text"),
    [
        (0, "[, ...[total_len=3]]"),
        (1, "[1, ...[total_len=3]]"),
        (2, "[1, a, ...[total_len=3]]"),
        (3, "[1, a, (2.0,)]"),
        (4, "[1, a, (2.0,)]"),
    ],
)
def test_a_long_list_is_cut(longest, text):
    assert format_argument([1, "a", (2.0,)], longest) == text


def test_a_graph_s_text_has_types_and_no_shapes():
    def text(fx):
        graph = fx.symbolic_trace(function).graph
        for node in graph.nodes:
            node.meta["val"] = torch.ones(2, 3)
            if node.op == "call_function":
                node.type = torch.Tensor
        return str(graph), [node.format_node() for node in graph.nodes]

    assert_same_success(text)


def test_a_node_that_writes_itself_does_so_among_arguments():
    graph = fxcore.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    x._repr_fn = lambda node: f"<{node.name}>"

    assert format_argument([x, y, {"k": (x,)}]) == "[%<x>, %y, {k: (%<x>,)}]"
    assert format_argument(x) == "%<x>"


@pytest.mark.parametrize(
    ("prefix", "letter", "sizes"),
    [
        ("uint", "u", (8, 16, 32, 64)),
        ("int", "i", (8, 16, 32, 64)),
        ("float", "f", (16, 32, 64)),
        ("complex", "c", (32, 64, 128)),
    ],
)
def test_the_short_name_of_a_dtype_is_a_letter_and_its_size(prefix, letter, sizes):
    shortened = {size: DTYPE_ABBREVIATIONS[getattr(torch, f"{prefix}{size}")] for size in sizes}

    assert shortened == {size: f"{letter}{size}" for size in sizes}
    assert (DTYPE_ABBREVIATIONS[torch.bool], DTYPE_ABBREVIATIONS[torch.bfloat16]) == ("b8", "bf16")
    assert DTYPE_ABBREVIATIONS[torch.float8_e5m2] == "f8e5m2"
