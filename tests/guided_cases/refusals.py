"""Models whose graph can refuse a call only after it has computed, written or drawn something."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxcore
from tests.guided_cases.case import Call, after, call, case, t, training, under


def positive(*shape: int) -> Tensor:
    return t(*shape).abs() + 0.5


def either() -> list[Call]:
    """Return a call that follows the example's branch, one that does not, and the first again."""
    return [call(positive(3)), call(-positive(3)), call(positive(3)), call(positive(4))]


@case(either)
class WritesInputThenAsks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        return x + 1 if fxcore.assume(x.sum() > 0) else x


@case(either)
class CountsThenAsks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls if fxcore.assume(x.mean() > 0) else x


@case(either)
class DrawsThenAsks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.rand_like(x) * random.random() + numpy.random.rand()
        return x + 1 if fxcore.assume(x.sum() > 0) else x - 1


@case(lambda: [training(positive(4, 2)), training(-positive(4, 2)), training(positive(4, 2)), training(positive(6, 2))])
class NormsThenAsks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(self.norm(x))
        return y * 2 if fxcore.assume(x.sum() > 0) else y


@case(lambda: [call(positive(2), []), call(-positive(2), []), call(positive(2), [t(2)]), call(positive(2), [])])
class AppendsThenAsks(nn.Module):
    def forward(self, x: Tensor, collected: list[Tensor]) -> Tensor:
        collected.append(x * 2)
        return x + 1 if fxcore.assume(x.sum() > 0) else x


@case(lambda: [call({"x": positive(2)}), call({"x": -positive(2)}), call({"x": positive(3)})])
class WritesDictThenAsks(nn.Module):
    def forward(self, batch: dict[str, Any]) -> Tensor:
        batch["y"] = batch["x"] * 2
        return batch["y"] if fxcore.assume(batch["x"].sum() > 0) else batch["x"]


@case(either)
class AsksTwice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if fxcore.assume(x.max() > 0):
            x = x * 2
        x.add_(1)
        return x * 3 if fxcore.assume(x.min() > 0) else x


@case(either)
class AsksInSharedModule(nn.Module):
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if fxcore.assume(x.sum() > 0) else x

    def __init__(self) -> None:
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + self.inner(x - 0.4)


@case(either)
class AsksAboutLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(3))
        self.register_buffer("largest", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        self.largest.copy_(y.max().detach())
        return y.relu() if fxcore.assume(y.sum() > 0) else y


@case(
    lambda: [
        call(positive(3)),
        under(torch.no_grad, -positive(3)),
        under(torch.inference_mode, positive(3)),
        under(torch.no_grad, positive(3)),
    ]
)
class AsksUnderNoGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            is_positive = (x * self.weight).sum() > 0
        return x * self.weight if fxcore.assume(is_positive) else x


@case(lambda: [call(positive(3), positive(3)), call(positive(3), -positive(3)), call(-positive(3), positive(3))])
class WritesOutThenAsks(nn.Module):
    def forward(self, x: Tensor, out: Tensor) -> Tensor:
        total = out.sum()
        torch.mul(x, 2, out=out)
        return out + 1 if fxcore.assume(total > 0) else out


@case(either)
class ViewWrittenThenAsks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x[:1].neg_()
        x.view(-1)[-1] = 7
        return x * 2 if fxcore.assume(x[1] > 0) else x


def mark_ready(model: BranchOnReady) -> None:
    model.ready.fill_(True)


@case(lambda: [call(t(3)), after(mark_ready, t(3)), call(t(3))])
class BranchOnReady(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ready", torch.tensor(False))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x.add_(1)
        return x * 2 if self.ready else x


@case(lambda: [call(t(4)), call(t(4) * float("nan")), call(t(4) * float("inf")), call(t(5))])
class AsksForNan(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if fxcore.assume(x.isnan().any()):
            return torch.zeros_like(x)
        return F.softmax(x, 0) if fxcore.assume(x.abs().max() < 100) else x


@case(lambda: [call(t(4, 3)), call(t(3, 3)), call(t(4, 2)), call(t(6, 3))])
class SizesAskedAfterWrites(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        self.seen.add_(x.shape[0])
        y = x.reshape(-1)
        if y.shape[0] % 4 == 0:
            y = y.view(4, -1).sum(0)
        return y + self.seen


@case(lambda: [call(positive(3)), call(torch.tensor([1.0, -1.0, 2.0])), call(positive(5))])
class KeptByMask(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.sub_(0.1)
        kept = x[x > 0]
        return kept * 2 if fxcore.assume(kept.shape[0] == x.shape[0]) else kept


@case(either)
class HookThenAsks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()
        self.register_buffer("hooked", torch.zeros(()))
        self.act.register_forward_hook(self.count)

    def count(self, module: nn.Module, args: Any, output: Tensor) -> None:
        self.hooked += 1

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(x)
        return y + 1 if fxcore.assume(x.sum() > 0) else y


@case(either)
class GradientThenAsks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        energy = (self.weight * x**3).sum()
        (slope,) = torch.autograd.grad(energy, self.weight, create_graph=True)
        return slope * x if fxcore.assume(slope > 0) else x
