"""Models whose answer depends on sizes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.guided_cases.case import call, case, ints, t


@case(lambda: [call(t(3, 4)), call(t(4, 4)), call(t(3, 5)), call(t(1, 4))])
class MeanByLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(x.shape[1])
        for row in x:
            total = total + row
        return total / x.size(0)


@case(lambda: [call(t(2, 8)), call(t(2, 7)), call(t(5, 8)), call(t(2, 3))])
class PadToMultiple(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        missing = -x.shape[-1] % 4
        if missing:
            x = F.pad(x, (0, missing))
        return x.reshape(x.shape[0], -1, 4).sum(-1)


@case(lambda: [call(t(2, 7)), call(t(2, 8)), call(t(2, 3))])
class PadAlways(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, -x.shape[-1] % 4)).unflatten(-1, (-1, 4))


@case(lambda: [call(t(4, 6)), call(t(5, 6)), call(t(4, 9)), call(t(7, 2))])
class HalfOfRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[0] // 2
        return x[:half].sum() - x[half:].mean() * x.shape[1] / 3


@case(lambda: [call(t(6, 4)), call(t(7, 4)), call(t(3, 4)), call(t(1, 4))])
class ChunkIntoThree(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first, *rest = x.chunk(3)
        return first.sum() - sum(part.mean() * (i + 2) for i, part in enumerate(rest))


@case(lambda: [call(t(6, 4)), call(t(7, 4)), call(t(2, 4)), call(t(8, 4))])
class SplitByTwo(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        return [part * len(part) for part in x.split(2)]


@case(lambda: [call(t(6, 4)), call(t(5, 4)), call(t(12, 4))])
class SplitBySizes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        n = x.shape[0] // 3
        return x.split([n, x.shape[0] - n])


@case(lambda: [call(t(2, 3)), call(t(2, 1)), call(t(1, 3)), call(t(1, 1))])
class BroadcastWithItself(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x.t() if x.shape[0] == x.shape[1] else x + x[:, :1]


@case(lambda: [call(t(3, 1), t(3, 5)), call(t(3, 5), t(3, 5)), call(t(1, 5), t(3, 1)), call(t(3, 5), t(3, 4))])
class BroadcastTwo(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, torch.Size]:
        return a * b, torch.broadcast_shapes(a.shape, b.shape)


@case(lambda: [call(t(3, 4)), call(t(2, 4)), call(t(1, 4)), call(t(0, 4))])
class EmptyBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 0:
            return x.new_zeros(4)
        return x.max(0).values


@case(lambda: [call(t(1, 4)), call(t(3, 4)), call(t(1, 5))])
class BatchOfOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze().sum(0)


@case(lambda: [call(t(2, 5)), call(t(2, 12)), call(t(2, 10)), call(t(9, 5))])
class SizeThreshold(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 10:
            return x[:, :10] * 3
        return x * 2


@case(lambda: [call(t(4, 4)), call(t(9, 4)), call(t(16, 2)), call(t(7, 4))])
class SquareRootOfSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        side = int(math.sqrt(x.shape[0]))
        return x[: side * side].reshape(side, side, -1).sum(0) / math.sqrt(x.shape[-1])


@case(lambda: [call(t(3, 8)), call(t(3, 9)), call(t(3, 64)), call(t(5, 8))])
class BitsOfSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        levels = x.shape[1].bit_length() - 1
        return x * levels + (x.shape[1] & 1)


@case(lambda: [call(t(3, 4)), call(t(5, 4)), call(t(3, 7))])
class PositionsByArange(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n, d = x.shape
        return x + torch.arange(n).unsqueeze(1) / d


@case(lambda: [call(t(2, 4, 3)), call(t(2, 6, 3)), call(t(3, 4, 3)), call(t(2, 9, 3))])
class CausalMaskFromBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)))

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        scores = x @ x.transpose(1, 2)
        return scores.masked_fill(self.mask[:n, :n] == 0, -1e4).softmax(-1) @ x


@case(lambda: [call(t(2, 4)), call(t(2, 10)), call(t(3, 4)), call(t(2, 4))])
class GrowingTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(6.0))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.table.shape[0]:
            self.table = torch.arange(float(x.shape[1]))
        return x + self.table[: x.shape[1]]


@case(lambda: [call(t(2, 3, 4)), call(t(5, 3, 4)), call(t(2, 6, 4)), call(t(2, 3, 8))])
class HeadsByView(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        return x.view(b, n, 2, d // 2).transpose(1, 2).reshape(b * 2, n, -1).contiguous().view(b, 2, n, d // 2)


@case(lambda: [call(t(2, 3, 4)), call(t(4, 3, 4)), call(t(2, 5, 4))])
class EinsumFromRank(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        letters = "abcdef"[: x.dim()]
        return torch.einsum(f"{letters},{letters}->{letters[-1]}", x, x) / x.numel()


@case(lambda: [call(t(3, 4)), call(t(5, 4)), call(t(3, 2))])
class MessageWithShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch._assert(x.shape[0] > 2, f"too few rows: {x.shape}, {x.shape[1]} columns")
        return x * 2


@case(lambda: [call(t(3, 4)), call(t(5, 4)), call(t(3, 2))])
class StringFromShape(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, str]:
        return x * 2, f"{tuple(x.shape)} of {x.shape[1]:03d}"


@case(lambda: [call(t(3, 4)), call(t(5, 4)), call(t(3, 2)), call(t(0, 2))])
class SizesAsOutput(nn.Module):
    def forward(self, x: Tensor) -> tuple[int, torch.Size, int, float]:
        return x.shape[0], x.shape, x.numel(), x.size(1) / 2


@case(lambda: [call(t(3, 4)), call(t(4, 3)), call(t(3, 5))])
class ShapeCompared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.shape == (3, 4) else x - 1


@case(lambda: [call(t(3, 4), t(3, 4)), call(t(3, 4), t(4)), call(t(5, 4), t(5, 4)), call(t(3, 1), t(3, 4))])
class ShapesCompared(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        if a.shape != b.shape:
            a = a.expand_as(b) if a.dim() == b.dim() else a * 2
        return a + b


@case(lambda: [call(t(3, 4)), call(t(4, 4)), call(t(5, 4)), call(t(2, 4))])
class SizeAsKey(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = {3: 10.0, 4: 100.0}

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scales.get(x.shape[0], 1.0)


@case(lambda: [call(t(3, 4)), call(t(4, 4)), call(t(2, 4)), call(t(7, 4))])
class LayerPickedBySize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[x.shape[0] % 3](x)


@case(lambda: [call(t(3, 4)), call(t(5, 4)), call(t(1, 4))])
class LayerRepeatedBySize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(len(x)):
            x = self.layer(x).tanh()
        return x


@case(lambda: [call(t(1, 1, 8, 8)), call(t(1, 1, 9, 8)), call(t(2, 1, 5, 7)), call(t(1, 1, 1, 1))])
class PoolThenUpsample(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        small = F.avg_pool2d(x, 2, ceil_mode=True)
        return F.interpolate(small, size=x.shape[-2:], mode="nearest") + x


@case(lambda: [call(t(1, 4, 8)), call(t(1, 4, 9)), call(t(3, 4, 5)), call(t(1, 4, 2))])
class SameConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-1]
        total = max((math.ceil(size / 2) - 1) * 2 + 3 - size, 0)
        if total > 0:
            x = F.pad(x, [total // 2, total - total // 2])
        return self.conv(x)


@case(lambda: [call(t(6, 2)), call(t(5, 2)), call(t(1, 2)), call(t(2, 2))])
class FoldByHalves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while x.shape[0] > 1:
            if x.shape[0] % 2:
                x = torch.cat([x, x[-1:]])
            x = x[::2] + x[1::2] * 0.5
        return x


@case(lambda: [call(t(3, 4)), call(t(4, 3)), call(t(4, 4)), call(t(2, 9))])
class MinAndMaxOfSizes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = min(x.shape)
        return x[:n, :n] * max(x.shape[0], 3) + round(x.shape[1] / 2) + abs(x.shape[0] - x.shape[1])


@case(lambda: [call(t(4, 6)), call(t(5, 6)), call(t(6, 4)), call(t(3, 3))])
class ComparisonChain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n, m = x.shape
        if 3 < n < m or n == m == 3:
            return x * n
        return x * m


@case(lambda: [call(t(3, 2), ints(5)), call(t(4, 2), ints(5)), call(t(3, 2), ints(2)), call(t(8, 2), ints(1))])
class OneHotOfSize(nn.Module):
    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.one_hot(labels, num_classes=8).float()[:, : x.shape[0]] @ x


@case(lambda: [call(t(2, 6)), call(t(2, 5)), call(t(1, 6)), call(t(4, 12))])
class UnevenView(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, 3).sum(0) + x.numel()


@case(lambda: [call(t(5, 3)), call(t(2, 3)), call(t(9, 3))])
class NegativeIndexBySize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        last = x[len(x) - 1]
        return last - x[-2] + x[: -(len(x) // 2)].sum(0)


@case(lambda: [call(t(3, 4)), call(t(5, 4)), call(t(3, 2))])
class WeightsByListOfSizes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        weights = torch.tensor([1.0 / (i + 1) for i in range(x.shape[0])])
        factors = torch.tensor([x.shape[0], x.shape[1]], dtype=torch.float32)
        return (x * weights[:, None]).sum() + factors.sum()


@case(lambda: [call(t(2, 3)), call(t(4, 3)), call(t(2, 5))])
class MatrixOfItself(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        eye = torch.eye(*x.shape)
        return torch.full_like(x, x.shape[0]) + eye + x.new_ones(x.shape) * x.stride(0)


@case(lambda: [call(t(2, 6, 3)), call(t(2, 4, 3)), call(t(2, 5, 3)), call(t(3, 6, 3))])
class WindowsByUnfold(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        windows = x.unfold(1, 2, 2)
        count = windows.shape[1]
        return windows.mean(-1) * count + x.roll(x.shape[1] // 2, 1)[:, :count]
