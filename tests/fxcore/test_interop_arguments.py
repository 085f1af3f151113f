from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from fixtures.catalog import CATALOG, small_models
from fixtures.graph_identity import differences
from fixtures.process_groups import fake_group, needs_fake_group
from fxcore import interop


@needs_fake_group
def test_a_graph_with_a_reduction_as_argument_runs_in_torch_fx():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.distributed.all_reduce, (x,), {"op": torch.distributed.ReduceOp.MAX})
    graph.output(x)
    ours = fxcore.GraphModule({}, graph)

    theirs = interop.to_torch(ours)

    assert "op = torch.distributed.ReduceOp.MAX" in theirs.code
    assert theirs.code == ours.code
    assert differences(ours, interop.from_torch(theirs)) == []
    with fake_group():
        for module in (theirs, copy.deepcopy(theirs), interop.from_torch(theirs)):
            assert torch.equal(module(torch.ones(2)), torch.ones(2))


@needs_fake_group
def test_a_graph_with_a_reduction_and_nested_inputs_runs_in_torch_fx():
    def reduced(inputs):
        torch.distributed.all_reduce(inputs["x"], op=torch.distributed.ReduceOp.SUM)
        return {"x": inputs["x"]}

    with fake_group():
        ours = fxcore.symbolic_trace(reduced, concrete_args={"inputs": {"x": fxcore.PH}})
    graph = ours.graph
    with graph.inserting_before(graph.output_node()):
        x = next(iter(graph.nodes))
        graph.call_function(torch.distributed.all_reduce, (x,), {"op": torch.distributed.ReduceOp.SUM})
    ours.recompile()

    theirs = interop.to_torch(ours)

    assert theirs.code == ours.code
    with fake_group():
        assert torch.equal(theirs({"x": torch.ones(2)})["x"], torch.ones(2))


@needs_fake_group
def test_functional_collectives_go_there_and_back():
    with fake_group():
        group = torch.distributed.group.WORLD
        original = make_fx(lambda x: functional.all_reduce(x, "sum", group) + 1)(torch.ones(4))

        ours = interop.from_torch(original)

        assert differences(original, ours) == []
        assert differences(original, interop.to_torch(ours)) == []
        assert torch.equal(ours(torch.ones(4)), original(torch.ones(4)))


@pytest.mark.parametrize("name", ["CodeGen", "_BoxedCodeGen"])
def test_a_code_generator_of_torch_goes_along(name):
    kind = getattr(torch.fx.graph, name, None)
    if kind is None:
        pytest.skip(f"this torch has no {name}")
    original = torch.fx.symbolic_trace(nn.ReLU())
    original.graph.set_codegen(kind())
    original.recompile()

    ours = interop.from_torch(original)

    assert ours.code == original.code
    assert type(interop.to_torch(ours).graph._codegen) is kind
    assert interop.to_torch(ours).code == original.code


def zoo():
    quick = {entry.name for entry in small_models()[::4]}
    for name, entry in CATALOG.items():
        if entry.is_symbolic and entry.requires is None:
            yield pytest.param(name, marks=[] if name in quick else [pytest.mark.long])


@pytest.mark.parametrize("name", zoo())
def test_a_model_of_the_zoo_goes_there_and_back(name):
    try:
        original = torch.fx.symbolic_trace(CATALOG[name].build())
    except (TypeError, RuntimeError, torch.fx.proxy.TraceError) as error:
        pytest.skip(f"torch.fx cannot trace it: {error}")

    ours = interop.from_torch(original)

    assert differences(original, ours) == []
    assert differences(original, interop.to_torch(ours)) == []
    assert differences(ours, interop.from_torch(interop.to_torch(ours))) == []


@pytest.mark.parametrize("name", zoo())
def test_a_model_traced_by_fxcore_goes_to_torch_and_back(name):
    ours = fxcore.symbolic_trace(CATALOG[name].build())

    theirs = interop.to_torch(ours)

    assert [line for line in differences(ours, theirs) if not line.startswith("class")] == []
    assert differences(ours, interop.from_torch(theirs)) == []
