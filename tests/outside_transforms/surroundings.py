"""Wrong transforms of the things around a graph: modes, hooks, the model itself, the settings of the process."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxcore
from tests.outside_transforms.case import Model, t, wrong


class Net(Model):
    """A model for passes that leave its values alone."""

    def build(self) -> None:
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


@wrong(lambda: t(3, 4))
class AutocastDropped(Net):
    def forward(self, x: Tensor) -> Tensor:
        return in_bfloat16(self.first.weight, self.first.bias, x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.linear(x, self.first.weight, self.first.bias)


@fxcore.wrap
def in_bfloat16(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(x, weight, bias)


@wrong(lambda: t(3, 4))
class AutocastDroppedBeforeACast(Net):
    """The result is single precision in both; its values are not."""

    def forward(self, x: Tensor) -> Tensor:
        return in_bfloat16(self.first.weight, self.first.bias, x).float()

    def rewritten(self, x: Tensor) -> Tensor:
        return F.linear(x, self.first.weight, self.first.bias)


@wrong(lambda: t(3, 4))
class ForwardHookLost(Net):
    def build(self) -> None:
        super().build()
        self.first.register_forward_hook(lambda module, inputs, output: output * 2)

    def rewritten(self, x: Tensor) -> Tensor:
        return self.second(F.linear(x, self.first.weight, self.first.bias).relu())


@wrong(lambda: t(3, 4))
class PreHookLost(Net):
    def build(self) -> None:
        super().build()
        self.first.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))

    def rewritten(self, x: Tensor) -> Tensor:
        return self.second(F.linear(x, self.first.weight, self.first.bias).relu())


@wrong(lambda: t(3, 4))
class BackwardHookLost(Net):
    def build(self) -> None:
        super().build()
        self.first.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x * 1).relu())

    def rewritten(self, x: Tensor) -> Tensor:
        return self.second(F.linear(x * 1, self.first.weight, self.first.bias).relu())


@wrong(lambda: t(3, 4))
class ParametrizationFolded(Net):
    """Take the raw weight for the weight."""

    def build(self) -> None:
        super().build()
        nn.utils.parametrizations.weight_norm(self.first)
        with torch.no_grad():
            self.first.parametrizations.weight.original0.mul_(2)

    def rewritten(self, x: Tensor) -> Tensor:
        direction = self.first.parametrizations.weight.original1
        return self.second(F.linear(x, direction, self.first.bias).relu())


@wrong(lambda: t(3, 4))
class PatchedForwardLost(Net):
    def build(self) -> None:
        super().build()
        linear = self.first
        linear.forward = lambda x: F.linear(x, linear.weight)

    def rewritten(self, x: Tensor) -> Tensor:
        return self.second(F.linear(x, self.first.weight, self.first.bias).relu())


def changing(change: Any) -> Any:
    """Return a pass that changes a module it shares with the model, and leaves the graph."""

    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        change(gm)
        return gm

    return staticmethod(rewrite)


@wrong(lambda: t(3, 4))
class ModelFrozen(Net):
    rewrite = changing(lambda gm: gm.first.requires_grad_(False))


@wrong(lambda: t(3, 4))
class ModelHalved(Net):
    rewrite = changing(lambda gm: gm.half().float())


@wrong(lambda: t(3, 4))
class ModelHooked(Net):
    rewrite = changing(lambda gm: gm.first.register_forward_hook(lambda *_: None))


@wrong(lambda: t(3, 4))
class ModelInTrainingMode(Net):
    rewrite = changing(lambda gm: gm.first.train())


@wrong(lambda: t(3, 4))
class WeightReplacedByAnEqualOne(Net):
    rewrite = changing(lambda gm: setattr(gm.first, "weight", nn.Parameter(gm.first.weight.detach().clone())))


@wrong(lambda: t(3, 4))
class AttributeLeftOnTheModel(Net):
    rewrite = changing(lambda gm: setattr(gm.first, "fused", True))


@wrong(lambda: t(3, 4))
class BiasRemovedFromTheModel(Net):
    rewrite = changing(lambda gm: setattr(gm.first, "bias", None))


@wrong(lambda: t(3, 4))
class SubmoduleAddedToTheModel(Net):
    rewrite = changing(lambda gm: gm.first.add_module("observer", nn.Identity()))


@wrong(lambda: t(3, 4))
class GradientsLeftBehind(Net):
    rewrite = changing(lambda gm: gm(torch.ones(1, 4)).sum().backward())


@wrong(lambda: t(3, 4))
class AnomalyDetectionLeftOn(Net):
    rewrite = changing(lambda gm: torch.autograd.set_detect_anomaly(True))


@wrong(lambda: t(3, 4))
class InferenceOfTheProcessChanged(Net):
    rewrite = changing(lambda gm: torch.set_grad_enabled(False))


@wrong(lambda: t(3, 4))
class DeterminismLeftOn(Net):
    rewrite = changing(lambda gm: torch.use_deterministic_algorithms(True))


@wrong(lambda: t(3, 4))
class DefaultTypeLeftOn(Net):
    rewrite = changing(lambda gm: torch.set_default_dtype(torch.float64))


class _Mish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.mish(x)


@wrong(lambda: t(3, 4))
class ClassPatchedForAll(Model):
    """The fused forward goes into the class of all other models, too."""

    def build(self) -> None:
        self.act = _Mish()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(x) * 2

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        _Mish.forward = lambda self, x: x * F.softplus(x).tanh()  # type: ignore[method-assign]
        return gm


@wrong(lambda: t(3, 4))
class CodeNotRecompiled(Net):
    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        for node in gm.graph.nodes:
            if node.target == "relu":
                node.target = "sigmoid"
        return gm


@wrong(lambda: t(3, 4))
class LayersShared(Net):
    """Two equal layers become one: their weights differ."""

    def build(self) -> None:
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def rewritten(self, x: Tensor) -> Tensor:
        return self.first(self.first(x).relu())


@wrong(lambda: t(3, 4))
class ReaderOfADeletedLayer(Net):
    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        gm.delete_submodule("second")
        return gm


@wrong(lambda: t(3, 4))
class WeightsDrawnAnew(Net):
    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        gm = copy.deepcopy(gm)
        gm.second.reset_parameters()
        return gm


@wrong(lambda: t(3, 4), keeps_meta=True)
class OriginsForgotten(Net):
    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        for node in gm.graph.nodes:
            node.meta.clear()
        return gm


@wrong(lambda: t(3, 4), idempotent=True)
class GrowsEachTime(Net):
    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        (output,) = (node for node in gm.graph.nodes if node.op == "output")
        with gm.graph.inserting_before(output):
            output.args = (gm.graph.call_function(torch.mul, (output.args[0], 1)),)
        gm.recompile()
        return gm


@wrong(lambda: t(3, 4))
class DeadNodesLeft(Net):
    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        with gm.graph.inserting_before(next(node for node in gm.graph.nodes if node.op == "output")):
            gm.graph.call_function(torch.ones, (3,))
        gm.recompile()
        return gm
