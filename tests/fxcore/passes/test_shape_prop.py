from __future__ import annotations

import collections
import operator

import pytest
import torch
import torch.fx
from torch import _prims_common, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.passes.shape_prop import ShapeProp as TorchShapeProp
from torch.fx.passes.shape_prop import _extract_tensor_metadata as torch_metadata

import fxcore
from fxcore.passes.shape_prop import ShapeProp, TensorMetadata, _extract_tensor_metadata, is_tensor_metadata

Pair = collections.namedtuple("Pair", ["low", "high"])


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.scale = nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x):
        y = self.conv(x.contiguous(memory_format=torch.channels_last)) * self.scale
        values, indices = torch.max(y, dim=1)
        return {"values": values, "parts": [indices, values.size(0)]}


def test_every_node_gets_the_metadata_that_torch_gives_it():
    model, x = Convolutions(), torch.randn(2, 3, 8, 8)
    ours, theirs = fxcore.symbolic_trace(model), torch.fx.symbolic_trace(model)

    result = ShapeProp(ours).propagate(x)
    TorchShapeProp(theirs).propagate(x)

    assert torch.equal(result["values"], model(x)["values"])
    for node, expected in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert node.name == expected.name
        assert node.meta.get("tensor_meta") == expected.meta.get("tensor_meta")
        assert node.meta["type"].__name__ == expected.meta["type"].__name__


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(2, 3),
        torch.randn(2, 3).t(),
        torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        torch.randn(1, 2, 3, 4, 5).contiguous(memory_format=torch.channels_last_3d),
        torch.zeros(0, 3),
        torch.eye(3).to_sparse(),
        torch.eye(3).to_sparse_csr(),
        torch.randn(3, requires_grad=True),
        torch.quantize_per_tensor(torch.randn(2, 2), 0.1, 3, torch.quint8),
        torch.quantize_per_channel(torch.randn(2, 2), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8),
    ],
    ids=lambda tensor: f"{tensor.layout}-{tensor.dim()}d-{tensor.dtype}",
)
def test_metadata_of_a_tensor_is_that_of_torch(tensor):
    assert _extract_tensor_metadata(tensor) == torch_metadata(tensor)
    assert _extract_tensor_metadata(tensor, include_contiguity=False).memory_format is None


def test_a_tensor_tells_its_layout_itself_and_torch_that_of_one_with_symbolic_sizes(monkeypatch):
    asked = []

    def ask(tensor, memory_format):
        asked.append(memory_format)
        return memory_format is torch.channels_last

    monkeypatch.setattr(_prims_common, "is_contiguous_for_memory_format_or_false", ask, raising=False)

    assert _extract_tensor_metadata(torch.randn(2, 3)).memory_format is torch.contiguous_format
    assert not asked
    fake = FakeTensorMode().from_tensor(torch.randn(2, 3))
    assert _extract_tensor_metadata(fake).memory_format is torch.channels_last
    assert asked == [torch.contiguous_format, torch.channels_last]


def test_nested_results_keep_their_structure():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    pair = graph.call_function(lambda value: Pair(value, (value + 1, "text")), (x,), name="pair")
    graph.output(graph.call_function(operator.getitem, (pair, 0)))
    gm = fxcore.GraphModule({}, graph)

    ShapeProp(gm).propagate(torch.zeros(3))

    meta = pair.meta["tensor_meta"]
    assert isinstance(meta, Pair)
    assert isinstance(meta.low, TensorMetadata)
    assert meta.high[0].shape == (3,)
    assert meta.high[1] == "text"
    assert pair.meta["type"] is Pair


def test_a_value_without_tensors_gets_a_type_and_no_tensor_metadata():
    gm = fxcore.symbolic_trace(lambda x: x.size(0))

    ShapeProp(gm).propagate(torch.zeros(3))

    size = next(node for node in gm.graph.nodes if node.op == "call_method")
    assert size.meta["type"] is int
    assert "tensor_meta" not in size.meta


def test_under_a_fake_mode_nothing_is_computed_and_the_module_stays_real():
    model = nn.Sequential(nn.Linear(4, 3))
    gm = fxcore.symbolic_trace(model)
    mode = FakeTensorMode()

    result = ShapeProp(gm, mode).propagate(torch.randn(2, 4))

    assert isinstance(result, FakeTensor)
    assert gm.graph.output_node().meta["tensor_meta"].shape == (2, 3)
    assert not any(isinstance(parameter, FakeTensor) for parameter in gm.parameters())


def test_an_error_names_the_node_and_the_line_of_the_user():
    class Model(nn.Module):
        def forward(self, x):
            return x + torch.ones(7)

    tracer = fxcore.Tracer()
    tracer.record_stack_traces = True
    model = Model()
    gm = fxcore.GraphModule(model, tracer.trace(model))

    with pytest.raises(RuntimeError) as caught:
        ShapeProp(gm).propagate(torch.zeros(3))

    message = str(caught.value)
    assert "ShapeProp error for: node=%add" in message
    assert "must match the size of tensor" in message
    assert f"It comes from {__file__}:" in message
    assert "in forward: return x + torch.ones(7)" in message


def test_an_error_of_a_node_without_a_known_place_names_the_node_alone():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.mm, (x, x)))

    with pytest.raises(RuntimeError) as caught:
        ShapeProp(fxcore.GraphModule({}, graph)).propagate(torch.ones(2, 3))

    assert "mm" in str(caught.value)
    assert "It comes from" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (_extract_tensor_metadata(torch.ones(2)), True),
        (torch_metadata(torch.ones(2)), True),
        ((1, 2), False),
        (torch.Size([1]), False),
        (None, False),
        (torch.ones(2), False),
        ([_extract_tensor_metadata(torch.ones(2))], False),
    ],
)
def test_metadata_of_both_libraries_is_known(value, expected):
    class TensorMetadata:
        """A class of this name that is no tuple."""

    assert is_tensor_metadata(value) is expected
    assert not is_tensor_metadata(TensorMetadata())
