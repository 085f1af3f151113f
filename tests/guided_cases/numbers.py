"""Models that draw random numbers or compute with numpy."""

from __future__ import annotations

import math
import random

import numpy
import torch
from torch import Tensor, nn

from tests.guided_cases.case import call, case, ints, t, training


@case(lambda: [call(t(3)), call(t(3)), call(t(5))])
class NoiseLike(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x) + torch.rand(x.shape[0])


@case(lambda: [call(t(6)), call(t(6)), call(t(4))])
class Permutation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[torch.randperm(x.shape[0])]


@case(lambda: [training(t(6)), call(t(6)), training(t(4))])
class BernoulliMask(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        keep = torch.bernoulli(torch.full_like(x, 0.5))
        return x * keep + x.new_empty(x.shape).uniform_()


@case(lambda: [call(t(3)), call(t(3)), call(t(4))])
class OwnGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seed = 3

    def forward(self, x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        return x + torch.rand(x.shape[0], generator=generator)


@case(lambda: [call(t(3)), call(t(4)), call(t(3))])
class GeneratorSeededBySize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        generator = torch.Generator()
        generator.manual_seed(x.shape[0])
        return x + torch.rand(x.shape[0], generator=generator)


@case(
    lambda: [
        call(t(3), torch.Generator().manual_seed(1)),
        call(t(3), torch.Generator().manual_seed(2)),
        call(t(4), None),
    ]
)
class GeneratorArgument(nn.Module):
    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return x + torch.rand(x.shape[0], generator=generator)


@case(lambda: [training(t(3)), training(t(3)), training(t(3)), call(t(3))])
class LayerDrop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            if self.training and random.random() < 0.5:
                continue
            x = layer(x)
        return x


@case(lambda: [call(t(3)), call(t(3)), call(t(4))])
class PythonRandomScale(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * random.random() + numpy.random.rand()


@case(lambda: [call(t(3)), call(t(3)), call(t(4))])
class OwnPythonRandom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.random = random.Random(0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.random.random()


@case(lambda: [call(t(3)), call(t(3)), call(t(4))])
class SeedsInForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return x + torch.rand(x.shape[0])


@case(lambda: [call(t(3, 4)), call(t(3, 4)), call(t(5, 4))])
class ForkedRandom(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            noise = torch.rand(x.shape)
        return x + noise + torch.rand(())


@case(lambda: [call(t(8)), call(t(8)), call(t(6))])
class GumbelSample(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gumbel_softmax(x, tau=0.5, hard=True) + torch.multinomial(x.softmax(0), 2).sum()


@case(lambda: [call(t(4)), call(t(4, seed=1)), call(t(6))])
class ThroughNumpy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(numpy.sin(x.numpy())) + 1


@case(lambda: [call(t(4)), call(t(4, seed=1)), call(t(6))])
class NumpyFunctionOnTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(numpy.exp(x.detach().cpu().numpy())).sum() + x


@case(lambda: [call(t(4, 3)), call(t(6, 3)), call(t(4, 5))])
class NumpyOnSizes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scale = numpy.sqrt(x.shape[1])
        grid = numpy.linspace(0, 1, x.shape[0])
        return x / float(scale) + torch.from_numpy(grid).float()[:, None]


@case(lambda: [call(t(4), numpy.ones(4, dtype=numpy.float32)), call(t(4), numpy.zeros(4, dtype=numpy.float32))])
class ArrayInput(nn.Module):
    def forward(self, x: Tensor, weights: numpy.ndarray) -> Tensor:
        return x + torch.from_numpy(weights)


@case(lambda: [call(t(4), numpy.float32(2)), call(t(4), numpy.float32(3)), call(t(4), numpy.int64(2)), call(t(4), 2)])
class NumpyScalar(nn.Module):
    def forward(self, x: Tensor, factor: numpy.float32) -> Tensor:
        return x * factor


@case(lambda: [call(t(2, 6)), call(t(2, 9)), call(t(5, 6))])
class ProductOfSizes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * float(numpy.prod(x.shape)) / math.prod(x.shape) * math.log2(x.shape[1]) + math.gcd(*x.shape)


@case(lambda: [call(ints(4)), call(ints(4, seed=1)), call(ints(5))])
class ListOfValues(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(torch.tensor(ids.tolist())) + self.table.weight[0]


@case(lambda: [call(t(3)), call(t(3)), call(t(4))])
class NormalIntoEmpty(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        noise = torch.empty(x.shape[0], 2).normal_(std=0.5)
        weight = torch.empty(2)
        nn.init.uniform_(weight)
        return (noise @ weight) * x
