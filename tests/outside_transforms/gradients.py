"""Wrong transforms whose values are right and whose gradients are not."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxcore
from tests.outside_transforms.case import GRADS, Model, integers, t, wrong


@wrong(lambda: t(3, 4), GRADS)
class StraightThroughLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x + (x.round() - x).detach()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.round()


@wrong(lambda: t(3, 4), GRADS)
class TeacherAttached(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp().detach() * x

    def rewritten(self, x: Tensor) -> Tensor:
        return x.exp() * x


@wrong(lambda: t(3, 4), GRADS)
class StudentDetached(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp() * x

    def rewritten(self, x: Tensor) -> Tensor:
        return x.exp().detach() * x


@wrong(lambda: t(3, 4), GRADS)
class OutputDetached(Model):
    def build(self) -> None:
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return self.linear(x).detach()


class Reverse(torch.autograd.Function):
    """The identity; its gradient has the other sign."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


@fxcore.wrap
def reverse(x: Tensor) -> Tensor:
    return Reverse.apply(x)  # type: ignore[no-any-return, no-untyped-call]


@wrong(lambda: t(3, 4), GRADS)
class GradientReversalTakenForIdentity(Model):
    def forward(self, x: Tensor) -> Tensor:
        return reverse(x) * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x.clone() * 2


@wrong(lambda: t(3, 4), GRADS)
class SafeWhereSimplified(Model):
    """The inner where keeps NaN out of the gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x.sqrt(), 0.0)


@wrong(lambda: integers(3, high=4), GRADS)
class PaddingIndexForgotten(Model):
    def build(self) -> None:
        self.table = nn.Embedding(4, 3, padding_idx=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.embedding(x, self.table.weight)


@wrong(lambda: torch.ones(3, 4), GRADS)
class TiesShareTheGradient(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.amax(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.max(-1).values


@wrong(lambda: t(3, 4), GRADS)
class UnusedWeightForgotten(Model):
    """The zero gives every weight a gradient, as distributed training asks."""

    def build(self) -> None:
        self.linear, self.unused = nn.Linear(4, 2), nn.Parameter(t(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + 0 * self.unused

    def rewritten(self, x: Tensor) -> Tensor:
        return self.linear(x) + 0


@wrong(lambda: t(3, 4), GRADS)
class ZeroBiasDropped(Model):
    def build(self) -> None:
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (4,), self.norm.weight)


@wrong(lambda: t(3, 4), GRADS)
class OnesFolded(Model):
    def build(self) -> None:
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x.exp() * self.scale

    def rewritten(self, x: Tensor) -> Tensor:
        return x.exp()


@wrong(lambda: t(3, 4), GRADS)
class WeightBakedInAsBuffer(Model):
    def build(self) -> None:
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        weight = gm.get_parameter("linear.weight").detach().clone()
        bias = gm.get_parameter("linear.bias").detach().clone()
        return fxcore.symbolic_trace(lambda x: F.linear(x, weight, bias))


@wrong(lambda: t(3, 4), GRADS)
class TiedWeightsUntied(Model):
    def build(self) -> None:
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        copied = nn.Linear(4, 4)
        copied.load_state_dict(gm.get_submodule("second").state_dict())
        gm.add_submodule("copied", copied)
        for node in gm.graph.nodes:
            if node.target == "second":
                node.target = "copied"
        gm.delete_all_unused_submodules()
        gm.recompile()
        return gm


@wrong(lambda: t(3, 4), GRADS)
class ClampForHardtanhOfParameters(Model):
    """The clamp on the weight lets no gradient through beyond its bounds; its constant copy none at all."""

    def build(self) -> None:
        self.weight = nn.Parameter(t(4) * 3)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight.clamp(-1, 1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x * self.weight.detach().clamp(-1, 1)


@wrong(lambda: t(3, 4), GRADS)
class ScaledTwiceOnTheWayBack(Model):
    def build(self) -> None:
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def rewritten(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return 2 * y - y.detach()


@wrong(lambda: t(3, 4), GRADS)
class GradientSwitchedOff(Model):
    def build(self) -> None:
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return without_gradient(self.linear.weight, self.linear.bias, x)


@fxcore.wrap
def without_gradient(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    with torch.no_grad():
        return F.linear(x, weight, bias)


@wrong(lambda: t(3, 4), GRADS)
class NoGradDropped(Model):
    """The model computes its features without gradients."""

    def build(self) -> None:
        self.features, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(without_gradient(self.features.weight, self.features.bias, x))

    def rewritten(self, x: Tensor) -> Tensor:
        return self.head(F.linear(x, self.features.weight, self.features.bias))


@wrong(lambda: t(3, 4).relu(), GRADS)
class AbsoluteBySquareRoot(Model):
    """The gradient at zero is NaN."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.pow(2).sqrt()
