"""The cost of checked guards: calls of a graph with checks, in turns with calls of the same graph without.

`python -m benchmarks.guard_costs` prints for each model the number of guards and the ratio of both times: the median
of 30 alternations, and the interval that holds 95 % of the medians of resampled alternations.
"""

from __future__ import annotations

import importlib
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

import fxcore
from fixtures.models.gpt_like import GptLike

_ALTERNATIONS = 30
_RESAMPLES = 2000
_SHORTEST = 0.02  # seconds of one side of an alternation


class Cost(NamedTuple):
    """The time of a call with checks as a multiple of the time without."""

    name: str
    guards: int
    ratio: float
    low: float
    high: float
    microseconds: float  # of a call without checks

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.guards} guards, {self.ratio:.3f} ({self.low:.3f} to {self.high:.3f}) of a call of "
            f"{self.microseconds:.0f} us"
        )


class Asking(nn.Module):
    """A layer that checks the form of its input before it runs, as careful authors do."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.place = 1 if isinstance(layer, nn.Conv2d) else -1
        self.channels = layer.weight.shape[1]

    def forward(self, x: torch.Tensor) -> Any:
        """Return the result of the layer."""
        if x.dim() < 2 or x.shape[self.place] != self.channels:
            raise ValueError(f"a layer takes {self.channels} channels, and got {list(x.shape)}")
        return self.layer(x)


def asking(model: nn.Module) -> nn.Module:
    """Put an Asking around each convolution and linear layer of a model."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, (nn.Conv2d, nn.Linear)) and not isinstance(parent, Asking):
                setattr(parent, name, Asking(child))
    return model.eval()


def models() -> Iterator[tuple[str, nn.Module, tuple[torch.Tensor, ...]]]:
    """Yield name, model and example of each measured model."""
    torch.manual_seed(0)
    resnet18 = importlib.import_module("pytorchcv.models.resnet").resnet18()
    yield "resnet18", asking(resnet18), (torch.rand(1, 3, 224, 224),)
    tokens = torch.randint(0, 5000, (1, 128))
    yield "GPT of 12 layers", asking(GptLike(layers=12, width=384, heads=6, context=128, tokens=5000)), (tokens,)
    layers = [each for _ in range(12) for each in (nn.Linear(64, 64), nn.ReLU())]
    yield "12 layers of width 64", asking(nn.Sequential(*layers)), (torch.rand(1, 8, 64),)


def cost_of(name: str, model: nn.Module, example: tuple[torch.Tensor, ...]) -> Cost:
    """Measure one model."""
    checked = fxcore.symbolic_trace(model, example_inputs=example)
    plain = fxcore.symbolic_trace(model, example_inputs=example, enforce_guards=False)
    with torch.no_grad():
        calls = max(1, int(_SHORTEST / _seconds(plain, example, 3)))
        _seconds(checked, example, 3)
        pairs = []
        for turn in range(_ALTERNATIONS):
            first, second = (plain, checked) if turn % 2 else (checked, plain)
            times = {id(each): _seconds(each, example, calls) for each in (first, second)}
            pairs.append((times[id(checked)], times[id(plain)]))
    ratios = [with_checks / without for with_checks, without in pairs]
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLES))
    low, high = medians[int(0.025 * _RESAMPLES)], medians[int(0.975 * _RESAMPLES)]
    microseconds = 1e6 * min(without for _, without in pairs)
    return Cost(name, len(checked.graph.guards), statistics.median(ratios), low, high, microseconds)


def _seconds(call: Callable[..., Any], example: tuple[torch.Tensor, ...], count: int) -> float:
    """Return the processor time of one call, the mean of `count` calls."""
    start = time.process_time()
    for _ in range(count):
        call(*example)
    return (time.process_time() - start) / count


def main() -> None:
    """Run the command."""
    torch.set_num_threads(1)
    for each in models():
        print(cost_of(*each), flush=True)


if __name__ == "__main__":
    main()
