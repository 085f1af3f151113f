"""Wrong transforms of training mode and of random numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxcore
from tests.outside_transforms.case import BOTH, TRAIN, Model, t, wrong


@wrong(lambda: t(8, 8), BOTH)
class DropoutRateChanged(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.1, self.training)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.2, self.training)


@wrong(lambda: t(8, 8), BOTH)
class DropoutTakenForIdentity(Model):
    def build(self) -> None:
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x) * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 2


@wrong(lambda: t(8, 8), BOTH)
class SurvivorsNotScaled(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, True) * 0.5 if self.training else F.dropout(x, 0.5, False)


@wrong(lambda: t(8, 8))
class DropoutInEvalToo(Model):
    """The functional form has training=True by default."""

    def build(self) -> None:
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.dropout(x)


@wrong(lambda: t(4, 3, 5, 5), BOTH)
class DropoutOfElementsForChannels(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout2d(x, 0.5, self.training)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)


@wrong(lambda: t(4, 3, 5, 5), BOTH)
class StatisticsOfEvalInTraining(Model):
    def build(self) -> None:
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        norm = self.norm
        return F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)


@wrong(lambda: t(4, 3, 5, 5))
class StatisticsOfTheBatchInEval(Model):
    def build(self) -> None:
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, None, None, self.norm.weight, self.norm.bias, training=True)


@wrong(lambda: t(4, 3, 5, 5), BOTH)
class StatisticsNotWritten(Model):
    def build(self) -> None:
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        norm = self.norm
        if self.training:
            return F.batch_norm(x, None, None, norm.weight, norm.bias, training=True)
        return norm(x)


@wrong(lambda: t(4, 3, 5, 5), BOTH)
class VarianceWrittenBiased(Model):
    def build(self) -> None:
        self.register_buffer("variance", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.variance.lerp_(x.var((0, 2, 3)), 0.1)
        return x / self.variance.view(3, 1, 1)

    def rewritten(self, x: Tensor) -> Tensor:
        if self.training:
            self.variance.lerp_(x.var((0, 2, 3), unbiased=False), 0.1)
        return x / self.variance.view(3, 1, 1)


@wrong(lambda: t(8, 8), BOTH)
class NoiseOfTrainingDropped(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x) if self.training else x + 0

    def rewritten(self, x: Tensor) -> Tensor:
        return x + 0


@wrong(lambda: t(8, 8), BOTH)
class SlopeFixedInTraining(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.rrelu(x, training=self.training)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, (1 / 8 + 1 / 3) / 2)


@wrong(lambda: t(8, 3, 2), BOTH)
class DepthDroppedByTheBatch(Model):
    """Draw one number for the batch in place of one for each sample."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand_like(x[:, :1, :1]).lt(0.5) if self.training else x * 1

    def rewritten(self, x: Tensor) -> Tensor:
        return x * torch.rand_like(x[:1, :1, :1]).lt(0.5) if self.training else x * 1


@wrong(lambda: t(8, 8), BOTH)
class BranchOfTrainingLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.training else x

    def rewritten(self, x: Tensor) -> Tensor:
        return x


@wrong(lambda: t(8, 8), TRAIN)
class SpectralNormFrozen(Model):
    """In training, a step of the power iteration changes a buffer."""

    def build(self) -> None:
        self.register_buffer("u", F.normalize(t(8), dim=0))
        self.weight = nn.Parameter(t(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.u.copy_(F.normalize(self.weight.detach() @ self.u, dim=0))
        return x @ self.weight + self.u

    def rewritten(self, x: Tensor) -> Tensor:
        u = F.normalize(self.weight.detach() @ self.u, dim=0) if self.training else self.u
        return x @ self.weight + u


@wrong(lambda: t(4, 4))
class NoiseOfTheExample(Model):
    """Constant folding takes a random tensor for a constant."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x[0])

    def rewritten(self, x: Tensor) -> Tensor:
        return x + self.noise

    def build(self) -> None:
        self.noise = torch.rand(4)


@wrong(lambda: t(4, 4))
class NormalForUniform(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x[0])

    def rewritten(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x[0])


@wrong(lambda: t(4, 4))
class DrawnForEachRow(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x[0])

    def rewritten(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


@wrong(lambda: t(4, 4))
class OneDrawForTwo(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand_like(x[0]) + torch.rand_like(x[0])

    def rewritten(self, x: Tensor) -> Tensor:
        noise = torch.rand_like(x[0])
        return x * noise + noise


@wrong(lambda: t(4, 4))
class DeadDrawRemoved(Model):
    """The next random operator of the program gets another number."""

    def forward(self, x: Tensor) -> Tensor:
        torch.rand_like(x[0])
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 2


@wrong(lambda: t(4, 4))
class SeededInTheGraph(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x[0])

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        return fxcore.symbolic_trace(lambda x: x + seeded(x[0]))


@fxcore.wrap
def seeded(row: Tensor) -> Tensor:
    torch.manual_seed(1)
    return torch.rand_like(row)


@wrong(lambda: t(4, 4).sigmoid())
class ThresholdForBernoulli(Model):
    def forward(self, x: Tensor) -> Tensor:
        return torch.bernoulli(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.gt(0.5).float()


@wrong(lambda: t(4, 4))
class PermutationDropped(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x[torch.randperm(x.shape[0])].sum(0)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sum(0)


@wrong(lambda: t(4, 6).softmax(-1))
class MostProbableForSampled(Model):
    def forward(self, x: Tensor) -> Tensor:
        return torch.multinomial(x, 1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.argmax(-1, keepdim=True)


@wrong(lambda: t(4, 4))
class GeneratorForgotten(Model):
    def build(self) -> None:
        self.source = torch.Generator().manual_seed(7)

    def forward(self, x: Tensor) -> Tensor:
        return torch.normal(x, 1.0, generator=self.source)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.normal(x, 1.0)
