"""Wrong transforms that are right for the size of the example."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.outside_transforms.case import SEARCH, Model, t, wrong


@wrong(lambda: t(2, 6), SEARCH)
class BatchBakedIn(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], 2, -1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.reshape(2, 2, -1)


@wrong(lambda: t(2, 6), SEARCH)
class CountBakedIn(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(0)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sum(0) / 2


@wrong(lambda: t(2, 3, 4), SEARCH)
class SqueezedEverywhere(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(-1, keepdim=True).squeeze(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.mean(-1, keepdim=True).squeeze()


@wrong(lambda: t(1, 3, 8, 8), SEARCH)
class AdaptivePoolByKernel(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, 1)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 8)


@wrong(lambda: t(2, 5, 4), SEARCH)
class PositionsBakedIn(Model):
    def build(self) -> None:
        self.table = nn.Parameter(t(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]

    def rewritten(self, x: Tensor) -> Tensor:
        return x + self.table[:5]


@wrong(lambda: t(2, 5), SEARCH)
class LastByNumber(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]

    def rewritten(self, x: Tensor) -> Tensor:
        return x[:, 4]


@wrong(lambda: t(1, 1, 8, 8), SEARCH)
class RoundedDownForUp(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, 2, ceil_mode=True)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, 2)


@wrong(lambda: (t(4, 4), t(4, seed=1)), SEARCH)
class BroadcastAlongTheOtherAxis(Model):
    """One number is one number along both axes; of a square, both are as long."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y.mean()

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return x * (y.sum() / x.shape[0])


@wrong(lambda: t(4, 1), SEARCH)
class SoftmaxOfOneClass(Model):
    """Every softmax over one class is 1."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * 2).softmax(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return (x * 3 + 1).softmax(-1)


@wrong(lambda: t(2, 4, 6), SEARCH)
class WindowsCoverTheExample(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.unfold(-1, 3, 3).amax(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.max_pool1d(x, 3, 3, ceil_mode=True)


@wrong(lambda: t(2, 4, 4), SEARCH)
class TransposedForSymmetricSizes(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum((0, 1)) / x.shape[1]

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sum((0, 1)) / x.shape[2]


@wrong(lambda: t(2, 8), SEARCH)
class HeadsOfAFixedWidth(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], 4, -1).sum(1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], -1, 2).sum(1)


@wrong(lambda: t(1, 6), SEARCH)
class NormOverTheBatchOfOne(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.norm(dim=-1, keepdim=True)

    def rewritten(self, x: Tensor) -> Tensor:
        return x / x.norm()


@wrong(lambda: t(1, 6), SEARCH)
class GroupedByTheBatchOfOne(Model):
    """Normalise over the whole batch; with one row it is the row."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)

    def rewritten(self, x: Tensor) -> Tensor:
        return x - x.mean()


@wrong(lambda: t(3, 7), SEARCH)
class TailOfTheTileLost(Model):
    """Work in tiles of seven columns."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x[:, :7].sum(-1) + x[:, 14:].sum(-1)


@wrong(lambda: t(2, 6), SEARCH)
class MaskOfAFixedSize(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.arange(x.shape[1])

    def rewritten(self, x: Tensor) -> Tensor:
        return x * torch.arange(6)


@wrong(lambda: (t(3, 4), t(3, 4, seed=1)), SEARCH)
class BroadcastTheOtherWay(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y.expand_as(x)
