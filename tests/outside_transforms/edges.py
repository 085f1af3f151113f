"""Wrong transforms that only zeros, ties, negative numbers, infinities or NaN show."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.outside_transforms.case import SEARCH, STRICT, Model, integers, t, wrong


@wrong(lambda: t(3, 5), SEARCH)
class ReluByWhere(Model):
    """NaN becomes 0."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, 0.0)


@wrong(lambda: integers(3, 5, low=1), SEARCH)
class DivisionTruncates(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x // 2

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.div(x, 2, rounding_mode="trunc")


@wrong(lambda: integers(3, 5, low=1), SEARCH)
class RemainderOfAnotherLanguage(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x % 3

    def rewritten(self, x: Tensor) -> Tensor:
        return x.fmod(3)


@wrong(lambda: integers(3, 5, low=1), SEARCH)
class HalvedInSinglePrecision(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x // 2

    def rewritten(self, x: Tensor) -> Tensor:
        return (x.float() / 2).floor().long()


@wrong(lambda: t(3, 5), SEARCH)
class SignOfZero(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sign()

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.where(x >= 0, 1.0, -1.0)


@wrong(lambda: t(3, 5), SEARCH)
class SignOfMinusZero(Model):
    def forward(self, x: Tensor) -> Tensor:
        return torch.copysign(torch.ones_like(x), x)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.where(x < 0, -1.0, 1.0)


@wrong(lambda: (t(3, 5), t(3, 5, seed=1)), SEARCH)
class MaximumWithoutNan(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.maximum(x, y)

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.fmax(x, y)


@wrong(lambda: t(3, 5), SEARCH)
class DivisionByItselfFolded(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x / x + x

    def rewritten(self, x: Tensor) -> Tensor:
        return x + 1


@wrong(lambda: t(3, 5), SEARCH)
class ProductWithZeroFolded(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 0 + 1

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.ones_like(x)


@wrong(lambda: t(3, 5).abs(), SEARCH)
class RootOfSquare(Model):
    def forward(self, x: Tensor) -> Tensor:
        return (x * x).sqrt()

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 1


@wrong(lambda: (t(3, 5).abs(), t(3, 5, seed=1).abs()), SEARCH)
class LogOfProductSplit(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x * y).log()

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return x.log() + y.log()


@wrong(lambda: t(3, 5), SEARCH)
class StrictComparisonLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return (x < 0.5) * x

    def rewritten(self, x: Tensor) -> Tensor:
        return (x <= 0.5) * x


@wrong(lambda: t(3, 5), SEARCH)
class RoundedHalfUp(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.round()

    def rewritten(self, x: Tensor) -> Tensor:
        return (x + 0.5).floor()


@wrong(lambda: t(3, 5).abs() * 100, SEARCH)
class SaturatedAfterTheCast(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(0, 255).to(torch.uint8)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.to(torch.int32).to(torch.uint8)


@wrong(lambda: integers(3, 4, high=9).to(torch.int8))
class AccumulatedInEightBits(Model):
    def forward(self, x: Tensor) -> Tensor:
        return (x * x).sum(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return (x * x).sum(-1, dtype=torch.int8).long()


@wrong(lambda: integers(3, 4), SEARCH)
class ShiftForDivision(Model):
    def forward(self, x: Tensor) -> Tensor:
        return torch.div(x, 2, rounding_mode="trunc")

    def rewritten(self, x: Tensor) -> Tensor:
        return x >> 1


@wrong(lambda: t(3, 5), SEARCH)
class LastOfEqualMaxima(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.argmax(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.shape[-1] - 1 - x.flip(-1).argmax(-1)


@wrong(lambda: t(3, 5), SEARCH)
class NanNotReplaced(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.nan_to_num(0.0)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.clamp(torch.finfo(torch.float32).min, torch.finfo(torch.float32).max)


@wrong(lambda: t(3, 5), SEARCH)
class BucketOnTheOtherSide(Model):
    def forward(self, x: Tensor) -> Tensor:
        return torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True)


@wrong(lambda: (t(2, 4), torch.tensor([[0, 2], [1, 3]])), SEARCH)
class ScatterOverwrites(Model):
    """The indices of the test are distinct."""

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        return torch.zeros_like(x).scatter_add(1, index, x[:, :2])

    def rewritten(self, x: Tensor, index: Tensor) -> Tensor:
        return torch.zeros_like(x).scatter(1, index, x[:, :2])


@wrong(lambda: t(2, 5).abs() + 1, SEARCH)
class ReciprocalOfZeroGuarded(Model):
    def forward(self, x: Tensor) -> Tensor:
        return 1 / x

    def rewritten(self, x: Tensor) -> Tensor:
        return 1 / x.clamp(min=1e-12)


@wrong(lambda: torch.ones(2, 4, dtype=torch.bool), SEARCH)
class RowHiddenWhole(Model):
    """A row that is hidden whole is NaN in eager; the transform gives it equal weights."""

    def forward(self, mask: Tensor) -> Tensor:
        return torch.zeros(2, 4).masked_fill(~mask, float("-inf")).softmax(-1)

    def rewritten(self, mask: Tensor) -> Tensor:
        return torch.zeros(2, 4).masked_fill(~mask, -1e4).softmax(-1)


@wrong(lambda: t(4, 5).abs(), SEARCH)
class RootsMultiplied(Model):
    def forward(self, x: Tensor) -> Tensor:
        return (x * x[:1]).sqrt()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sqrt() * x[:1].sqrt()


@wrong(lambda: t(4, 5), SEARCH)
class NeverNegative(Model):
    """Drop a clamp that the example does not reach."""

    def forward(self, x: Tensor) -> Tensor:
        return (x + 20).clamp(min=0)

    def rewritten(self, x: Tensor) -> Tensor:
        return x + 20


@wrong(lambda: (t(3, 5), 2), SEARCH)
class PowerForEvenExponents(Model):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x**n

    def rewritten(self, x: Tensor, n: int) -> Tensor:
        return x.abs() ** n


@wrong(lambda: (t(3, 5), 1), STRICT)
class FactorOneRemoved(Model):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x * n

    def rewritten(self, x: Tensor, n: int) -> Tensor:
        return x * 1


@wrong(lambda: (t(3, 5), torch.ones(3, 5, dtype=torch.bool)), SEARCH)
class MaskOfOnesDropped(Model):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask

    def rewritten(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * 1


@wrong(lambda: t(3, 5), SEARCH)
class SoftplusWithoutThreshold(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.exp().log1p()


@wrong(lambda: t(4), SEARCH)
class SortedForTies(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sort(stable=True).indices

    def rewritten(self, x: Tensor) -> Tensor:
        return x.flip(0).sort(stable=True).indices.neg() + x.shape[0] - 1
