from __future__ import annotations

import sys
import types

import pytest
import torch

import fxcore
from fixtures.oracle import assert_same
from fxcore.errors import FxError


def function(x: torch.Tensor, y=1):
    return torch.relu(x).add(y, alpha=2), {"k": [x]}


def test_a_graph_is_printed_as_torch_fx_prints_it():
    assert_same(lambda fx: str(fx.symbolic_trace(function).graph))
    assert_same(lambda fx: str(fx.Graph()))


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
