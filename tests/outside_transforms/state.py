"""Wrong transforms that leave another state behind, or answer a second call otherwise."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import fxcore
from tests.outside_transforms.case import SEARCH, Model, t, wrong


@wrong(lambda: t(3, 4))
class MovingAverageOutOfPlace(Model):
    def build(self) -> None:
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return x - self.mean.lerp_(x.mean(0), 0.1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x - self.mean.lerp(x.mean(0), 0.1)


@wrong(lambda: t(3, 4))
class CounterForgotten(Model):
    def build(self) -> None:
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.steps.add_(x.new_ones((), dtype=torch.long))
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 2


@wrong(lambda: t(3, 4))
class CountedTwice(Model):
    def build(self) -> None:
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.steps.add_(x.new_ones(()))
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        self.steps.add_(x.new_ones(()))
        self.steps.add_(x.new_ones(()))
        return x * 2


@wrong(lambda: t(3, 4))
class UpdatedBeforeTheRead(Model):
    def build(self) -> None:
        self.register_buffer("last", torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = x - self.last
        self.last.copy_(x)
        return y

    def rewritten(self, x: Tensor) -> Tensor:
        self.last.copy_(x)
        return x - self.last


@wrong(lambda: t(3, 4))
class MomentumOfAnotherFramework(Model):
    def build(self) -> None:
        self.register_buffer("mean", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.lerp_(x.mean(0), 0.1)
        return x.exp()

    def rewritten(self, x: Tensor) -> Tensor:
        self.mean.lerp_(x.mean(0), 0.9)
        return x.exp()


@wrong(lambda: t(3, 4))
class RingBufferStandsStill(Model):
    def build(self) -> None:
        self.register_buffer("ring", torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.ring.copy_(torch.cat((self.ring[1:], x[:1])))
        return self.ring.sum(0)

    def rewritten(self, x: Tensor) -> Tensor:
        self.ring[2:].copy_(x[:1])
        return self.ring.sum(0)


@wrong(lambda: t(3, 4), SEARCH)
class GreatestOfTheFirstCall(Model):
    """An observer keeps the greatest value of all calls; the graph overwrites it."""

    def build(self) -> None:
        self.register_buffer("greatest", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.greatest.copy_(torch.maximum(self.greatest, x.abs().max()))
        return x / self.greatest

    def rewritten(self, x: Tensor) -> Tensor:
        self.greatest.copy_(x.abs().max())
        return x / self.greatest


@wrong(lambda: t(3, 4))
class ParameterCenteredInPlace(Model):
    def build(self) -> None:
        self.weight = nn.Parameter(t(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.weight - self.weight.mean())

    def rewritten(self, x: Tensor) -> Tensor:
        centred = self.weight.detach()
        centred.sub_(centred.mean())
        return x * centred


@wrong(lambda: t(3, 4))
class BufferReusedAsWorkspace(Model):
    def build(self) -> None:
        self.register_buffer("bias", t(4, seed=1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias

    def rewritten(self, x: Tensor) -> Tensor:
        y = x + self.bias
        self.bias.copy_(x[0])
        return y


@wrong(lambda: t(3, 4))
class FirstResultKept(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        kept: dict[str, Tensor] = {}
        return _calling(lambda x: kept.setdefault("result", x.tanh()), gm)


def _calling(function: Any, gm: fxcore.GraphModule) -> fxcore.GraphModule:
    """Replace the graph by one call of the function."""
    graph = fxcore.Graph()
    graph.output(graph.call_function(function, (graph.placeholder("x"),)))
    return fxcore.GraphModule(gm, graph)


@wrong(lambda: t(3, 4))
class EveryOtherCall(Model):
    """Work in one of two buffers in turn; only the first is right."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        calls = [0]

        def in_turn(x: Tensor) -> Tensor:
            calls[0] += 1
            return x * (3 if calls[0] % 2 else 4)

        return _calling(in_turn, gm)


@wrong(lambda: t(3, 4))
class WorkspaceHandedOut(Model):
    """The second call overwrites the result of the first."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        workspace = torch.empty(3, 4)
        return _calling(lambda x: torch.mul(x, 3, out=workspace), gm)


class Calls:
    number = 0


def warm_up(x: Tensor) -> Tensor:
    Calls.number += 1
    return x * 3 if Calls.number < 2 else x * 3 + 1e-2


@wrong(lambda: t(3, 4))
class CountedInAClass(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        Calls.number = 0
        return _calling(warm_up, gm)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if not self.scales:
            self.scales.append(x.abs().max())
        return x / self.scales[0]


class LeafTracer(fxcore.Tracer):
    def is_leaf_module(self, module: nn.Module, path: str) -> bool:
        return True


@wrong(lambda: t(3, 4), SEARCH)
class ScaleOfTheFirstCall(Model):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of nn.Sequential's input
        return input / input.abs().max()

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        root = nn.Sequential(Scaled())
        return fxcore.GraphModule(root, LeafTracer().trace(root))
