"""Models whose answer depends on what earlier calls left behind, or on tensors beside the inputs."""

from __future__ import annotations

import collections
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from tests.guided_cases.case import after, call, case, ints, t, training


@case(lambda: [call(t(3)), call(t(3)), call(t(4)), call(t(3))])
class CounterAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


@case(lambda: [call(t(3)), call(t(3)), call(t(4)), call(t(3))])
class CounterThatDecides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + 1 if self.calls > 1 else x


@case(lambda: [call(t(3)), call(t(3)), call(t(4)), call(t(3))])
class CounterBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


@case(lambda: [call(t(3)), call(t(3, seed=1)), call(t(3, seed=2)), call(t(4))])
class FirstCallInitialises(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ready", torch.tensor(False))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        if not self.ready:
            self.mean.copy_(x)
            self.ready.fill_(True)
        return x - self.mean


@case(lambda: [call(t(3)), call(t(3, seed=1)), call(t(4, seed=2)), call(t(3, seed=3))])
class CacheOfFirstInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.cache is None:
            self.cache = x.sum()
        return x - self.cache


@case(lambda: [call(t(3)), call(t(3, seed=1)), call(t(4)), call(t(3))])
class CacheOfTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None or self.table.shape[0] < x.shape[0]:
            self.table = torch.arange(x.shape[0]) * 0.5
        return x + self.table[: x.shape[0]]


@case(lambda: [call(t(1, 2)), call(t(1, 2, seed=1)), call(t(1, 2, seed=2)), call(t(2, 2))])
class GrowingKeyCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(0, 2))

    def forward(self, x: Tensor) -> Tensor:
        self.keys = torch.cat([self.keys, x])
        return (x @ self.keys.t()).sum(-1)


@case(lambda: [call(t(1, 2)), call(t(1, 2, seed=1)), call(t(1, 2, seed=2)), call(t(2, 2))])
class KeyCacheWithPosition(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 2))
        self.pos = 0

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        self.keys[self.pos : self.pos + n] = x
        self.pos += n
        return self.keys[: self.pos].sum(0)


@case(lambda: [call(t(1, 2), 0), call(t(1, 2, seed=1), 1), call(t(1, 2, seed=2), 2), call(t(3, 2), 3)])
class KeyCacheByArgument(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 2))

    def forward(self, x: Tensor, start: int) -> Tensor:
        self.keys[start : start + x.shape[0]] = x
        return self.keys[: start + x.shape[0]].sum(0)


@case(lambda: [call(t(1, 2)), call(t(1, 2, seed=1)), call(t(1, 2, seed=2)), call(t(1, 3))])
class ListOfPast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.past: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.past.append(x)
        return torch.cat(self.past).sum(0)


@case(lambda: [call(t(2)), call(t(2, seed=1)), call(t(2, seed=2)), call(t(2, seed=3))])
class DequeOfPast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.past: Any = collections.deque([torch.zeros(2)], maxlen=2)

    def forward(self, x: Tensor) -> Tensor:
        out = x + self.past[0]
        self.past.append(x.detach())
        return out


@case(lambda: [call(t(2)), call(t(2, seed=1)), call(t(2, seed=2))])
class TensorsInDict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sums = {"a": torch.zeros(2), "b": torch.ones(2)}

    def forward(self, x: Tensor) -> Tensor:
        self.sums["a"] += x
        self.sums["b"] = self.sums["b"] * 0.5
        return x + self.sums["a"] + self.sums["b"]


@case(lambda: [call(t(2)), call(t(2, seed=1)), call(t(2, seed=2))])
class TensorsInList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sums = [torch.zeros(2), torch.zeros(())]

    def forward(self, x: Tensor) -> Tensor:
        self.sums[0].add_(x)
        self.sums[1].add_(1)
        return self.sums[0] / self.sums[1]


@case(lambda: [call(t(4, 2)), call(t(4, 2, seed=1)), call(t(6, 2))])
class RunningMeanReassigned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        return x - self.mean


@case(lambda: [call(t(4, 2)), training(t(4, 2, seed=1)), training(t(6, 2)), call(t(4, 2))])
class RunningMeanInTraining(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
        return x - self.mean


@case(lambda: [call(t(2)), call(t(2)), call(t(2, seed=1))])
class WeightDecaysInForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        self.weight.data.mul_(0.5)
        return x * self.weight


@case(lambda: [call(t(2)), call(t(2)), call(t(2, seed=1))])
class WeightClampedUnderNoGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([3.0, -3.0]))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight.mul_(0.9).clamp_(-2, 2)
        return x * self.weight


@case(lambda: [training(t(2, 4)), training(t(2, 4)), call(t(3, 4))])
class SpectralNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Symmetric(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu() + weight.triu(1).transpose(-1, -2)


def double_weight(model: nn.Module) -> None:
    with torch.no_grad():
        next(model.parameters()).mul_(2)


@case(lambda: [call(t(2, 3)), call(t(4, 3)), after(double_weight, t(2, 3))])
class Parametrized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        parametrize.register_parametrization(self.layer, "weight", Symmetric())

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.layer.weight.sum()


@case(lambda: [call(t(2, 3)), call(t(4, 3)), after(double_weight, t(2, 3))])
class WeightNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@case(lambda: [call(ints(3)), call(ints(5, seed=1)), after(double_weight, ints(3))])
class TiedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids))


@case(lambda: [call(t(2, 3)), call(t(5, 3)), call(t(2, 3, seed=1))])
class HookSavesFeatures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.saved: dict[str, Tensor] = {}
        self.layer.register_forward_hook(self.save)

    def save(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        self.saved["layer"] = output

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).sum(-1) + self.saved["layer"].mean(-1)


@case(lambda: [call(t(2, 3)), call(t(5, 3)), call(t(2, 3, seed=1))])
class HooksChangeInputAndOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        self.layer.register_forward_hook(lambda module, args, output: output + args[0])

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@case(lambda: [call(t(2, 3)), call(t(5, 3)), call(t(2, 3, seed=1))])
class HookOfTheRoot(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_hook(lambda module, args, output: output + args[0].shape[0])
        self.register_forward_pre_hook(lambda module, args: (args[0] + 1,))

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@case(lambda: [call(t(2, 3)), call(t(5, 3)), call(t(2, 3, seed=1)), after(double_weight, t(2, 3))])
class FunctionalCall(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        shifted = {name: value + x.mean() for name, value in self.layer.named_parameters()}
        return torch.func.functional_call(self.layer, shifted, (x,))


@case(lambda: [call(t(2, 3)), call(t(5, 3)), call(t(2, 3, seed=1)), after(double_weight, t(2, 3))])
class HyperNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.Linear(3, 9)
        self.layer = nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.maker(x.mean(0)).view(3, 3)
        return torch.func.functional_call(self.layer, {"weight": weight}, x)


@case(lambda: [call(t(2, 3)), call(t(5, 3)), after(double_weight, t(2, 3))])
class VmapOverLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.vmap(self.layer)(x)


@case(lambda: [call(t(2, 3)), call(t(4, 3)), after(double_weight, t(2, 3))])
class GradOfLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.vmap(torch.func.grad(lambda row: self.layer(row).tanh().sum()))(x)


@case(lambda: [call(t(2, 3)), call(t(2, 3, seed=1)), call(t(5, 3))])
class ModuleMadeInForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        norm = nn.LayerNorm(x.shape[-1])
        return norm(x) + nn.Softmax(dim=-1)(x)


@case(lambda: [call(t(2, 3)), call(t(2, 3, seed=1)), call(t(5, 3)), call(t(2, 4))])
class LayerMadeOnFirstCall(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.layer is None:
            self.layer = nn.LayerNorm(x.shape[-1])
        return self.layer(x)


@case(lambda: [call(t(2, 3)), call(t(2, 3, seed=1)), call(t(5, 3))])
class LazyLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(2)
        self.layer(torch.zeros(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def set_scale(model: Any) -> None:
    model.scale = 3.0


@case(lambda: [call(t(2)), after(set_scale, t(2)), call(t(2))])
class PlainAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale if self.scale < 2.5 else x


@case(lambda: [call(t(2)), after(lambda m: m.weights[0].data.fill_(5.0), t(2)), call(t(2))])
class ListOfParameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([torch.ones(2), torch.ones(2)])
        self.named = nn.ParameterDict({"bias": torch.ones(2)})

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = x * weight
        return x + self.named["bias"]


@case(lambda: [call(t(2)), call(t(2, seed=1)), call(t(2, seed=2)), call(t(3))])
class PreviousInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.previous: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        out = x if self.previous is None else x - self.previous
        self.previous = x
        return out


@case(lambda: [call(t(2)), call(t(2, seed=1)), call(t(2, seed=2))])
class PreviousInputDetached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.previous = torch.zeros(2)

    def forward(self, x: Tensor) -> Tensor:
        out = x - self.previous
        self.previous = x.detach().clone()
        return out


@case(lambda: [call(t(1, 3)), call(t(1, 3, seed=1)), call(t(2, 3)), call(t(1, 3))])
class HiddenState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.hidden: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.zeros_like(x) if self.hidden is None else self.hidden
        hidden = self.cell(x, hidden)
        self.hidden = hidden.detach()
        return hidden


@case(lambda: [call(t(3)), call(t(3)), call(t(3, seed=1))])
class BufferWrittenAndIgnored(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("largest", torch.full((), -1e9))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        torch.maximum(self.largest, x.max().detach(), out=self.largest)
        return x * 2


@case(lambda: [call(t(4)), call(t(4, seed=1)), call(t(4, seed=2)), call(t(4, seed=3))])
class RingBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.zeros(2, 4))
        self.register_buffer("position", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.ring[self.position % 2] = x.detach()
        self.position += 1
        return self.ring.sum(0)


@case(lambda: [training(t(6, 2)), training(t(6, 2, seed=1)), call(t(6, 2))])
class CodebookByAverage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", t(3, 2, seed=5))
        self.register_buffer("counts", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        nearest = torch.cdist(x, self.codes).argmin(-1)
        hot = F.one_hot(nearest, 3).to(x.dtype)
        if self.training:
            self.counts.data.mul_(0.9).add_(hot.sum(0), alpha=0.1)
            self.codes.data.copy_(self.codes * 0.9 + 0.1 * (hot.t() @ x) / self.counts[:, None])
        return x + (self.codes[nearest] - x).detach()


@case(lambda: [training(t(2)), training(t(2)), training(t(2)), call(t(2))])
class ExponentialAverageOfWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Linear(2, 2)
        self.target = nn.Linear(2, 2).requires_grad_(False)

    @torch.no_grad()
    def move(self) -> None:
        for one, other in zip(self.online.parameters(), self.target.parameters(), strict=True):
            other.lerp_(one, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.move()
        return self.online(x) - self.target(x)


@case(lambda: [call(t(3)), call(t(3)), call(t(3)), call(t(3))])
class CounterOfThirdCall(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * 2 if self.calls > 2 else x


@case(lambda: [call(t(3)), call(t(3)), call(t(3)), call(t(3))])
class RateThatDecays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rate = 1.0

    def forward(self, x: Tensor) -> Tensor:
        self.rate *= 0.5
        return x * min(max(self.rate, 0.2), 0.25)


@case(lambda: [call(t(3)), call(t(4)), call(t(3)), call(t(5))])
class SizesSeenBefore(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(x.shape[0])
        return x * len(self.seen)


@case(lambda: [call(t(3)), call(t(3)), call(t(3, seed=1)), call(t(3))])
class LargestSoFar(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.largest = torch.tensor(-1e9)

    def forward(self, x: Tensor) -> Tensor:
        self.largest = torch.maximum(self.largest, x.detach().max())
        return x / self.largest


@case(lambda: [call(t(3)), call(t(3, seed=1)), call(t(3)), call(t(4))])
class CacheByShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[torch.Size, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if x.shape not in self.cache:
            self.cache[x.shape] = torch.linspace(0, 1, x.shape[0])
        return x * self.cache[x.shape]


@case(lambda: [call(t(3)), call(t(3, seed=1)), call(t(3)), call(t(4))])
class CacheOfValueByShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        return x - self.cache.setdefault(x.shape[0], x.detach().mean())


@case(lambda: [call(t(4)), call(t(4, seed=1)), call(t(4, dtype=torch.float64)), call(t(4))])
class BufferThatWidens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean * 0.9 + x.detach().mean() * 0.1
        return x - self.mean
