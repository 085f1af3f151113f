from __future__ import annotations

import pytest
import torch

import fxcore
from fxcore.transforms.dead_code import DeadCodeElimination


def with_dead_code(x):
    torch.neg(torch.relu(x))
    return x + 1


def test_what_nobody_reads_goes():
    gm = fxcore.symbolic_trace(with_dead_code)

    result = DeadCodeElimination()(gm)

    assert result.graph_module is gm
    assert result.modified
    assert "relu" not in gm.code
    assert torch.equal(gm(torch.ones(2)), with_dead_code(torch.ones(2)))


def test_a_graph_without_dead_code_stays():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x))

    assert not DeadCodeElimination()(gm).modified


def test_a_graph_that_is_not_well_formed_is_refused():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x) + 1)
    *_, relu, add, _ = gm.graph.nodes
    add.append(relu)

    with pytest.raises(RuntimeError, match="'relu' of Node 'add' was used before it has been defined"):
        DeadCodeElimination()(gm)
