from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.weight_norm import WeightNorm

from fxcore import Graph, GraphModule
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.module_hooks import returns_something


def looks_on(module, args, output):
    print(output)


def leaves_early(module, args, output):
    if args:
        return
    for _ in args:
        return


def explicit_none(module, args, output):
    if module.training:
        print(output)
    return


def scales(module, args, output):
    return output * 2


def scales_sometimes(module, args, output):
    return output * 2 if module.training else None


class Observer:
    def __call__(self, module, args, output):
        self.seen = output


class Quantizer:
    def __call__(self, module, args, output):
        return output.round()

    def method(self, module, args):
        return args


@pytest.mark.parametrize(
    "hook", [looks_on, leaves_early, explicit_none, Observer(), functools.partial(looks_on), WeightNorm("weight", 0)]
)
def test_a_hook_that_only_looks_on_returns_nothing(hook):
    assert not returns_something(hook)


@pytest.mark.parametrize(
    "hook",
    [scales, scales_sometimes, Quantizer(), Quantizer().method, functools.partial(scales), torch.relu, lambda *_: 3],
)
def test_a_hook_that_may_return_something_is_told(hook):
    assert returns_something(hook)


def config_of(module):
    graph = Graph()
    graph.output(graph.call_module("layer", (graph.placeholder("x"),)))
    return dict(build_document(GraphModule(nn.ModuleDict({"layer": module}), graph)).modules[0].config)


def test_hooks_of_a_called_module_are_part_of_its_configuration():
    layer = nn.ReLU()
    layer.register_forward_hook(looks_on)
    layer.register_forward_hook(scales)
    layer.register_forward_hook(Quantizer())
    layer.register_forward_pre_hook(Quantizer().method)

    assert config_of(layer) == {
        "forward pre-hooks": f"[{__name__}.Quantizer.method]",
        "forward hooks": f"[{__name__}.scales, {__name__}.Quantizer]",
    }


def test_hooks_of_torch_that_prepare_parameters_are_no_part_of_it():
    layer = prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=1)

    assert not any("hooks" in name for name in config_of(layer))


def test_a_forward_that_one_module_got_is_part_of_its_configuration():
    layer = nn.ReLU()
    layer.forward = scales

    assert config_of(layer) == {"patched forward": f"{__name__}.scales"}
