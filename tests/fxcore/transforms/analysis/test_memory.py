"""Peak activation memory against what is really live while the model runs."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import fxcore
from fixtures.models.gpt_like import GptLike
from fxcore.transforms.analysis.memory import activation_memory
from fxcore.transforms.analysis.values import propagate


class LiveBytes(TorchDispatchMode):
    """Follows the storages that operators make, until nobody holds them."""

    def __init__(self, module, inputs):
        super().__init__()
        self.state = {tensor.untyped_storage()._cdata for tensor in (*module.parameters(), *module.buffers())}
        self.live = {}
        self.peak = 0
        self.take(inputs)

    def take(self, values):
        for tensor in pytree.tree_leaves(values):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                reference = StorageWeakRef(storage)
                if reference.cdata not in self.state:
                    self.live.setdefault(reference.cdata, (reference, storage.nbytes()))
        self.live = {key: pair for key, pair in self.live.items() if not pair[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.live.values()))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.take(result)
        return result


def measured_peak(module, inputs):
    """Run on the meta device and return the most bytes that were live; parameters and buffers are not counted."""
    with torch.no_grad(), LiveBytes(module, inputs) as mode:
        module(inputs)
    return mode.peak


def classifier(file, function, size=64):
    def make():
        net = getattr(importlib.import_module(f"pytorchcv.models.{file}"), function)()
        net.features.final_pool = nn.AdaptiveAvgPool2d(1)
        return net, torch.empty(1, 3, size, size)

    return make


def gpt():
    return GptLike(layers=2, width=64, heads=4, context=32), torch.zeros(1, 32, dtype=torch.int64)


def perceptron():
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 10)]
    return nn.Sequential(*layers), torch.empty(32, 64)


MODELS = {
    "resnet10": classifier("resnet", "resnet10"),
    "mobilenetv2": classifier("mobilenetv2", "mobilenetv2_w1"),
    "densenet": classifier("densenet", "densenet121"),
    "gpt": gpt,
    "perceptron": perceptron,
}


@pytest.mark.parametrize("name", MODELS)
def test_peak_activation_is_what_is_live_while_the_graph_runs(name):
    if name not in ("gpt", "perceptron"):
        pytest.importorskip("pytorchcv")
    model, inputs = MODELS[name]()
    graph_module = fxcore.symbolic_trace(model.eval())

    memory = activation_memory(propagate(graph_module, inputs))

    measured = measured_peak(graph_module.to("meta"), inputs.to("meta"))
    assert memory.peak == pytest.approx(measured, rel=0.1)


def test_the_nodes_that_hold_the_peak_are_named_with_their_bytes():
    def forward(x):
        wide = torch.cat([x, x, x])
        left = wide * 2
        right = wide.view(6) + 1
        return left.sum() + right.sum()

    memory = activation_memory(propagate(fxcore.symbolic_trace(forward), torch.ones(2)))

    assert [(held.node.name, held.bytes) for held in memory.holders] == [
        ("cat", 24),
        ("mul", 24),
        ("add", 24),
        ("x", 8),
    ]
    assert (memory.peak, str(memory.peak_node)) == (80, "add")
    assert "cat    (root)" in memory.table()


def test_views_and_writes_in_place_take_nothing():
    def forward(x):
        y = x + 1
        y.add_(1)
        return y.view(4).relu_()

    memory = activation_memory(propagate(fxcore.symbolic_trace(forward), torch.ones(2, 2)))

    assert memory.peak == 32


def test_parameters_are_no_activations():
    memory = activation_memory(propagate(fxcore.symbolic_trace(nn.Linear(100, 1)), torch.ones(1, 100)))

    assert memory.peak == 404
