from __future__ import annotations

import importlib

import pytest
import torch
import torch.fx
from torch import nn

import fxcore
from fixtures.oracle import assert_same_success
from fxcore.errors import FxError


def tools(fx):
    return importlib.import_module(f"{fx.__name__}.passes.tools_common")


def test_names_of_what_is_called():
    def names(fx):
        found = tools(fx)
        kinds = [found.get_acc_ops_name(kind) for kind in ("text", nn.Linear, torch.relu, torch.ops.aten.relu.default)]
        return kinds, sorted(found.CALLABLE_NODE_OPS)

    assert_same_success(names)


def disordered(fx):
    module = fx.symbolic_trace(lambda x, y: ((x + 1).relu(), (y * 2).sum() - x.neg()))
    add, mul = (next(node for node in module.graph.nodes if node.name == name) for name in ("add", "mul"))
    module.graph.output_node().prepend(add)
    module.graph.output_node().prepend(mul)
    return module


@pytest.mark.parametrize("sort", ["legalize_graph", "stable_topological_sort"])
def test_nodes_are_put_in_order(sort):
    def order(fx):
        module = disordered(fx)
        returned = getattr(tools(fx), sort)(module)
        module.graph.lint()
        return returned is module, [node.name for node in module.graph.nodes], module.code

    assert_same_success(order)


def test_a_circle_is_refused():
    module = fxcore.symbolic_trace(lambda x: torch.relu(torch.neg(x)))
    module.graph.find_nodes(op="call_function", target=torch.neg)[0].args = (
        module.graph.find_nodes(op="call_function", target=torch.relu)[0],
    )

    with pytest.raises(RuntimeError, match=r"Input graph has cycles, unable to add \[neg, relu, output\]") as caught:
        tools(fxcore).legalize_graph(module)
    assert isinstance(caught.value, FxError)


def test_whether_a_value_is_a_tensor_is_known_after_shape_propagation():
    def answers(fx):
        module = fx.symbolic_trace(lambda x: (x.shape, x + 1))
        importlib.import_module(f"{fx.__name__}.passes.shape_prop").ShapeProp(module).propagate(torch.ones(2))
        return {node.name: tools(fx).is_node_output_tensor(node) for node in module.graph.nodes}

    assert_same_success(answers)


def test_a_node_that_calls_nothing_has_no_name():
    (x,) = fxcore.symbolic_trace(lambda x: torch.relu(x)).graph.find_nodes(op="placeholder")

    with pytest.raises(AssertionError, match=r"Expect op types of call_.*, but found placeholder: x calls nothing"):
        tools(fxcore).get_node_target({}, x)


def test_functions_and_layers_of_fx2trt_have_short_names():
    def function(x):
        return x

    class Layer(nn.Module):
        pass

    class Traced(nn.Module):
        _base_class_origin = nn.Linear

    function.__module__ = Layer.__module__ = "torch_tensorrt.fx.acc_ops"

    def names(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        calls = [graph.create_node("call_function", each, (x,)) for each in (function, torch.relu, torch.neg)]
        calls += [graph.create_node("call_module", each, (x,)) for each in ("layer", "traced", "relu")]
        calls.append(graph.call_method("size", (x,)))
        modules = {"layer": Layer(), "traced": Traced(), "relu": nn.ReLU()}
        return [tools(fx).get_node_target(modules, call) for call in calls]

    assert names(fxcore) == names(torch.fx)
    assert names(fxcore)[0] == "acc_ops.function"
    assert names(fxcore)[3] == "acc_ops.Layer"


def test_a_function_without_a_module_has_its_name():
    def function(x):
        return x

    function.__module__ = None

    assert tools(fxcore).get_acc_ops_name(function) == ".function"
