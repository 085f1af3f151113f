from __future__ import annotations

import torch
import torch.fx
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.fake_tensor_prop import FakeTensorProp as TorchFakeTensorProp

import fxcore
from fxcore.passes.fake_tensor_prop import FakeTensorProp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        y = self.linear(x)
        return y.t(), [y.size(0), torch.max(y, 1)]


def described(node):
    def text(value):
        if isinstance(value, torch.Tensor):
            return f"{type(value).__name__}{list(value.shape)}{value.stride()}{value.dtype}"
        if isinstance(value, (list, tuple)):
            return [text(item) for item in value]
        return value

    return node.name, text(node.meta.get("val", "nothing"))


def test_every_node_gets_the_fake_values_that_torch_gives_it():
    ours, expected = fxcore.symbolic_trace(Model()), torch.fx.symbolic_trace(Model())

    FakeTensorProp(ours, FakeTensorMode(allow_non_fake_inputs=True)).propagate(torch.randn(2, 4))
    TorchFakeTensorProp(expected, FakeTensorMode(allow_non_fake_inputs=True)).propagate(torch.randn(2, 4))

    assert list(map(described, ours.graph.nodes)) == list(map(described, expected.graph.nodes))


def test_a_module_with_parameters_needs_no_mode_of_its_own():
    gm = fxcore.symbolic_trace(Model())

    result = FakeTensorProp(gm).propagate(torch.randn(2, 4))

    assert isinstance(result[0], FakeTensor)
    assert result[0].shape == (3, 2)
    assert not isinstance(gm.linear.weight, FakeTensor)


def test_inputs_that_are_fake_already_are_taken_as_they_are():
    gm = fxcore.symbolic_trace(lambda x: x.add_(1))
    mode = FakeTensorMode()
    x = mode.from_tensor(torch.randn(2))

    result = FakeTensorProp(gm, mode).propagate_dont_convert_inputs(x)

    assert result is x
    assert gm.graph.output_node().meta["val"] is not x


def test_a_value_with_data_is_noted_without_it():
    gm = fxcore.symbolic_trace(lambda x: torch.neg(x))

    result = FakeTensorProp(gm).propagate_dont_convert_inputs(torch.ones(2, 3))

    assert isinstance(result, FakeTensor)
    note = gm.graph.find_nodes(op="placeholder")[0].meta["val"]
    assert isinstance(note, FakeTensor)
    assert note.shape == (2, 3)


def test_numbers_are_handed_on_and_tensors_become_fakes_of_the_mode():
    gm = fxcore.symbolic_trace(lambda x, count: x * count)
    mode = FakeTensorMode()
    before = mode.epoch

    result = FakeTensorProp(gm, mode).propagate(torch.randn(2), 3)

    assert isinstance(result, FakeTensor)
    x, count, *_ = (node.meta.get("val") for node in gm.graph.nodes)
    assert (type(x), count) == (FakeTensor, 3)
    assert mode.epoch == before + 1


def test_the_note_of_a_value_with_data_has_fixed_sizes():
    gm = fxcore.symbolic_trace(lambda x: torch.neg(x))
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())

    FakeTensorProp(gm, mode).propagate_dont_convert_inputs(torch.ones(5, 3))

    note = gm.graph.find_nodes(op="placeholder")[0].meta["val"]
    assert [type(size) for size in note.shape] == [int, int]
