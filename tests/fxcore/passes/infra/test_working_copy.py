"""What a pass may change: a copy of a graph module of fxcore, and of nothing else."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import PassArgumentError
from fxcore.interop import from_torch, on_torch_graphs
from fxcore.passes.dialect.common.cse_pass import CSEPass
from fxcore.passes.infra.working_copy import RewritingPass, free_name, keep_hooks, rebuilt, working_copy
from fxcore.transforms.decomposition import Decompose
from fxcore.transforms.identities import RemoveIdentities


def test_a_working_copy_shares_layers_and_has_a_graph_of_its_own():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))

    made = working_copy(gm)
    made.graph.erase_node(list(made.graph.nodes)[-1])

    assert len(gm.graph.nodes) == 4
    assert made.get_submodule("0") is gm.get_submodule("0")


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.same = nn.Identity()

    def forward(self, x):
        return torch.exp(self.same(x)) + torch.exp(x) + torch.exp(x)


@pytest.mark.parametrize(
    "apply",
    [RemoveIdentities(), CSEPass(), Decompose({torch.exp: lambda x: x.exp()})],
    ids=lambda each: type(each).__name__,
)
def test_hooks_of_the_module_run_in_the_result(apply):
    gm, calls = fxcore.symbolic_trace(Twice()), []
    gm.note = "mine"
    gm.register_forward_pre_hook(lambda module, _: calls.append(module.note))

    made = apply(gm).graph_module
    made(torch.ones(2))

    assert made is not gm
    assert calls == ["mine"]


def test_the_result_refuses_what_the_program_refuses():
    program = torch.export.export(Twice(), (torch.ones(3, 4),), strict=False)

    made = CSEPass()(from_torch(program)).graph_module

    assert made(torch.ones(3, 4)).shape == (3, 4)
    with pytest.raises(RuntimeError, match=r"to be equal to 3, but got 2"):
        made(torch.ones(2, 4))


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


class SwapOnce(RewritingPass):
    """Subtracts where the graph adds a value for the first time, and says so."""

    def rewrite(self, gm):
        first, *others = gm.graph.find_nodes(op="call_function", target=operator.add)
        first.target = operator.sub
        return [first.name], {node.name: "it comes later" for node in others}


def test_a_pass_reports_its_changes_and_the_reasons_to_leave_others():
    traced = fxcore.symbolic_trace(lambda x: x + x + 1)

    result = SwapOnce()(traced)

    assert str(result.report) == "changed 1\n  add\nleft alone 1\n  add_1: it comes later"
    assert len(result) == 2, "a result unpacks into module and flag"
    assert str(Swap()(traced).report) == "changed 1\n  Swap\nleft alone 0"


def test_a_read_of_an_attribute_that_a_pass_removed_goes_if_nobody_uses_it():
    made = working_copy(fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2))))
    with made.graph.inserting_before(made.graph.find_nodes(op="call_module")[0]):
        made.graph.get_attr("0.weight")
    made.add_submodule("0", nn.ReLU())

    assert not rebuilt(made).graph.find_nodes(op="get_attr")


def test_a_read_of_an_attribute_stays_if_it_is_used_or_there():
    made = working_copy(fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2))))
    call = made.graph.find_nodes(op="call_module")[0]
    with made.graph.inserting_before(call):
        made.graph.get_attr("0.bias")
        weight = made.graph.get_attr("0.weight")
    call.replace_all_uses_with(weight)
    made.graph.erase_node(call)

    again = rebuilt(made)

    assert [node.target for node in again.graph.find_nodes(op="get_attr")] == ["0.bias", "0.weight"]


def test_attributes_that_hooks_may_read_come_along():
    source, made = (fxcore.symbolic_trace(nn.ReLU()) for _ in range(2))
    given = {"note": "mine", "table": {1: 2}, "_in_spec": 1, "_out_spec": 2}
    left = {"_private": 3, "function": print, "constant": torch.ones(1)}
    for name, value in (given | left | {"known": "theirs"}).items():
        vars(source)[name] = value
    made.known = "own"

    keep_hooks(made, source)

    assert {name: vars(made)[name] for name in given} == given
    assert not any(name in vars(made) for name in left)
    assert made.known == "own"


@pytest.mark.parametrize(
    ("wish", "name"), [("free", "free"), ("a.b-c", "a_b_c"), ("taken", "taken_2"), ("layer.0", "layer_0_1")]
)
def test_a_free_name_has_the_next_number(wish, name):
    root = nn.Module()
    root.taken = root.taken_1 = root.layer_0 = 1

    assert free_name(root, wish) == name
