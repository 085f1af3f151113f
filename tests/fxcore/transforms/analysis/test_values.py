"""The facts of every value of a graph, without the tensors."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import InterpreterError
from fxcore.transforms.analysis.values import TensorSpec, concrete, example_arguments, propagate, tensors_in


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 4))
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.constant = torch.ones(4)

    def forward(self, x):
        y = x @ self.weight * self.scale + self.constant
        return y.t(), {"chunks": y.chunk(2)}


WAYS = ("meta", "fake", "real")


def values_of(module, *args, **options):
    graph_module = fxcore.symbolic_trace(module)
    values = propagate(graph_module, *args, **options)
    return values, {node.name: node for node in graph_module.graph.nodes}


def spec(*shape, stride=None, dtype=torch.float32, held=None):
    return TensorSpec(shape, stride if stride is not None else (1,) * len(shape), dtype, 0, 0, held)


def test_the_bytes_of_a_tensor_count_an_expanded_element_once():
    assert spec(2, 3, stride=(3, 1)).nbytes == 24
    assert spec(2, 3, stride=(0, 1)).nbytes == 12
    assert spec(2, 0, stride=(0, 0)).nbytes == 0
    assert spec(2, 3, stride=()).nbytes == 24, "a layout without strides"
    assert spec(2, 3, dtype=torch.float64).nbytes == 48
    assert spec(2, 3, held=5).nbytes == 5
    assert spec(2, 3).numel == 6
    assert spec().numel == 1


def test_tensors_are_found_in_every_structure():
    one, two = spec(1), spec(2)

    assert tensors_in([one, (two, 3), {"a": one}, None]) == [one, two, one]
    assert tensors_in(one) == [one]
    assert tensors_in("a") == []


@pytest.mark.parametrize("propagation", WAYS)
def test_each_way_finds_the_same_facts(propagation):
    values, nodes = values_of(Model(), torch.rand(6, 3), propagation=propagation)

    (product,) = values.tensors(nodes["mul"])
    assert (product.shape, product.stride, product.dtype) == ((6, 4), (4, 1), torch.float32)
    assert product.storage_bytes == 96
    (turned,) = values.tensors(nodes["t"])
    assert (turned.shape, turned.stride) == ((4, 6), (1, 4))
    assert [each.shape for each in values.tensors(nodes["output"])] == [(4, 6), (3, 4), (3, 4)]
    assert values.results[nodes["output"]][1]["chunks"][0].shape == (3, 4)


@pytest.mark.parametrize("propagation", WAYS)
def test_views_share_a_storage_and_state_is_told_from_activations(propagation):
    model = Model()
    values, nodes = values_of(model, torch.rand(6, 3), propagation=propagation)

    storage = {name: values.tensors(node)[0].storage for name, node in nodes.items()}

    assert storage["t"] == storage["chunk"] == storage["add"]
    assert len({storage[name] for name in ("x", "weight", "matmul", "scale", "mul", "constant", "add")}) == 7
    assert values.state_storages == {storage["weight"], storage["scale"], storage["constant"]}
    assert values.state_specs[id(model.weight)].shape == (3, 4)
    assert values.state_specs[id(model.scale)].storage == storage["scale"]


@pytest.mark.parametrize("propagation", WAYS)
def test_module_inputs_generators_and_modes_stay_as_they_are(propagation):
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout()).train()
    x = torch.rand(6, 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs, generator = x.clone(), torch.get_rng_state()
    graph_module = fxcore.symbolic_trace(model)

    propagate(graph_module, x, propagation=propagation)

    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(x, inputs)
    assert torch.equal(torch.get_rng_state(), generator)
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.is_grad_enabled()


def test_an_input_without_data_goes_to_the_device_of_the_parameters():
    class Asks(nn.Linear):
        def forward(self, x):
            return super().forward(x), x.device

    graph_module = fxcore.symbolic_trace(Asks(3, 2))

    values = propagate(graph_module, torch.empty(4, 3, device="meta"), propagation="fake")

    output = values.results[graph_module.graph.output_node()]
    assert output[0].shape == (4, 2)
    assert output[1] == torch.device("cpu")


def test_a_parameter_stays_a_parameter():
    seen = []

    def note(value):
        seen.append((isinstance(value, nn.Parameter), value.requires_grad))
        return value

    graph = fxcore.Graph()
    model = Model()
    for name in ("weight", "scale"):
        graph.call_function(note, (graph.get_attr(name),))
    graph.output(None)

    propagate(fxcore.GraphModule(model, graph))

    assert seen == [(True, True), (False, False)]


def test_a_graph_reads_attributes_that_are_no_tensors():
    graph = fxcore.Graph()
    pair = graph.get_attr("pair")
    graph.output(graph.call_function(operator.mul, (graph.call_function(operator.getitem, (pair, 0)), 2)))
    model = nn.Module()
    model.pair = (torch.ones(2, 3), 1)

    values = propagate(fxcore.GraphModule(model, graph))

    assert values.tensors(graph.output_node())[0].shape == (2, 3)


def test_another_propagation_is_refused():
    with pytest.raises(ValueError, match="propagation='none' is not known; use one of meta, fake, real"):
        values_of(Model(), torch.rand(6, 3), propagation="none")


def test_a_graph_that_does_not_run_is_refused_at_its_node():
    with pytest.raises(
        InterpreterError, match=r"at node 'matmul': RuntimeError: .*; where shapes depend on values, use"
    ):
        values_of(Model(), torch.rand(6, 5))
    with pytest.raises(InterpreterError, match=r"at node 'matmul': RuntimeError: ") as refusal:
        values_of(Model(), torch.rand(6, 5), propagation="real")
    assert "use propagation" not in str(refusal.value)


def test_calls_inside_an_unknown_operator_are_kept():
    asked = []

    def knows(name):
        asked.append(name)
        return name != "relu"

    values, nodes = values_of(nn.Sequential(nn.ReLU(), nn.Tanh()), torch.rand(2, 3), knows=knows)

    assert asked == ["relu", "tanh"]
    (calls,) = values.inner_calls.values()
    assert list(values.inner_calls) == [nodes["_0"]]
    assert [call.name for call in calls if call.name != "detach"] == ["relu"]
    assert calls[0].args[0].shape == calls[0].result.shape == (2, 3)


def test_the_call_of_a_node_has_the_facts_of_its_arguments():
    values, nodes = values_of(nn.Sequential(nn.ReLU()), torch.rand(2, 3))

    call = values.call(nodes["_0"])

    assert call.name == "relu"
    assert call.args[0].shape == call.result.shape == (2, 3)
    assert isinstance(call.module, nn.ReLU)
    assert values.call(nodes["output"]).module is None


def with_meta(**meta):
    graph = fxcore.Graph()
    graph.placeholder("x").meta.update(meta)
    graph.output(None)
    return graph


def test_arguments_are_made_of_metadata():
    tensor = torch.rand(3, 4).t()

    for meta in ({"val": tensor}, {"example_value": tensor}, {"val": tensor, "example_value": torch.rand(1)}):
        (made,) = example_arguments(with_meta(**meta))
        assert (made.shape, made.stride(), made.dtype, made.is_meta) == ((4, 3), (1, 4), torch.float32, True)
    assert example_arguments(with_meta(val=[3, tensor]))[0][0] == 3
    assert example_arguments(with_meta(val=(tensor,)))[0][0].shape == (4, 3)


def test_arguments_without_metadata_are_none():
    assert example_arguments(with_meta()) is None


def test_a_noted_form_without_strides_is_contiguous():
    class TensorMetadata:
        shape, stride, dtype = (2, 3, 4), (), torch.int64

    (made,) = example_arguments(with_meta(tensor_meta=TensorMetadata()))

    assert (made.shape, made.stride(), made.dtype) == ((2, 3, 4), (12, 4, 1), torch.int64)


class Symbol:
    def __init__(self, hint):
        self.node = self
        self.hint = hint

    def __str__(self):
        return "s0"


def test_a_symbolic_size_has_its_value_in_the_capture():
    assert concrete(3) == 3
    assert concrete(Symbol(5)) == 5
    with pytest.raises(ValueError, match="the size s0 is not known before the model runs; give example inputs"):
        concrete(Symbol(None))


def test_a_sparse_tensor_has_no_strides_and_a_storage_of_its_own():
    values, nodes = values_of(lambda x: (x.to_sparse(), x.to_sparse()), torch.eye(3), propagation="real")

    first, second = values.tensors(nodes["output"])

    assert (first.shape, first.stride, first.storage_bytes) == ((3, 3), (), 36)
    assert first.storage != second.storage
