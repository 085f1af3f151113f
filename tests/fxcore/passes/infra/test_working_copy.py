"""What a pass may change: a copy of a graph module of fxcore, and of nothing else."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import PassArgumentError
from fxcore.interop import on_torch_graphs
from fxcore.passes.dialect.common.cse_pass import CSEPass
from fxcore.passes.infra.working_copy import RewritingPass, working_copy
from fxcore.transforms.identities import RemoveIdentities


def test_a_working_copy_shares_layers_and_has_a_graph_of_its_own():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))

    made = working_copy(gm)
    made.graph.erase_node(list(made.graph.nodes)[-1])

    assert len(gm.graph.nodes) == 4
    assert made.get_submodule("0") is gm.get_submodule("0")


@pytest.mark.parametrize("apply", [RemoveIdentities(), CSEPass()], ids=["RemoveIdentities", "CSEPass"])
def test_a_graph_of_torch_is_refused_with_the_way_over(apply):
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Identity(), nn.ReLU()))

    with pytest.raises(PassArgumentError, match=r"a torch\.fx\.graph_module\.\S+; give the pass to .*on_torch_graphs"):
        apply(gm)
    assert isinstance(on_torch_graphs(apply)(gm), torch.fx.GraphModule)


def test_a_model_is_refused_with_the_call_that_traces_it():
    with pytest.raises(
        PassArgumentError, match=r"was given a torch\.nn\..*ReLU; trace it first: fxcore.symbolic_trace"
    ):
        RemoveIdentities()(nn.ReLU())


class Swap(RewritingPass):
    """Subtracts where the graph adds."""

    def rewrite(self, gm):
        nodes = gm.graph.find_nodes(op="call_function", target=operator.add)
        for node in nodes:
            node.target = operator.sub
        return bool(nodes)


def test_a_rewriting_pass_changes_a_copy_that_shares_the_layers():
    model = nn.Sequential(nn.Linear(2, 2))
    traced = fxcore.symbolic_trace(lambda x: x + x)
    layered = fxcore.symbolic_trace(model)

    made, modified = Swap()(traced)

    assert modified
    assert torch.equal(made(torch.ones(2)), torch.zeros(2))
    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 2.0))
    assert Swap()(layered) == (layered, False)
