"""Wrong transforms of values that one ordinary input shows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.outside_transforms.case import Model, integers, t, wrong


@wrong(lambda: t(4, 8))
class LeakyReluOfAnotherFramework(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, 0.3)


@wrong(lambda: t(4, 8))
class ExactGeluForTanh(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")

    def rewritten(self, x: Tensor) -> Tensor:
        return F.gelu(x)


@wrong(lambda: t(4, 8))
class HardswishForSilu(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.hardswish(x)


@wrong(lambda: t(8, 8))
class SoftmaxOverTheBatch(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(x, dim=-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.log_softmax(x, dim=0)


@wrong(lambda: t(2, 8))
class RmsNormForLayerNorm(Model):
    def build(self) -> None:
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return x * (x.pow(2).mean(-1, keepdim=True) + self.norm.eps).rsqrt() * self.norm.weight


@wrong(lambda: t(2, 4, 8))
class AttentionScaleForgotten(Model):
    def forward(self, q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q)

    def rewritten(self, q: Tensor) -> Tensor:
        return (q @ q.transpose(-2, -1)).softmax(-1) @ q


@wrong(lambda: t(2, 4, 8))
class AttentionScaledByTheWidth(Model):
    def forward(self, q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q)

    def rewritten(self, q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q, scale=1 / 8)


@wrong(lambda: t(2, 4, 8))
class CausalMaskHidesTheDiagonal(Model):
    def forward(self, q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    def rewritten(self, q: Tensor) -> Tensor:
        mask = torch.ones(4, 4, dtype=torch.bool).tril(-1)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


@wrong(lambda: t(2, 5, 5))
class MaskedByZero(Model):
    def forward(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf")).softmax(-1)

    def rewritten(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(torch.ones(5, 5).triu(1).bool(), 0.0).softmax(-1)


@wrong(lambda: (t(2, 4, 8), t(4, 8, seed=1)))
class RotaryInterleaved(Model):
    def forward(self, q: Tensor, angle: Tensor) -> Tensor:
        first, second = q.chunk(2, -1)
        return q * angle.cos() + torch.cat((-second, first), -1) * angle.sin()

    def rewritten(self, q: Tensor, angle: Tensor) -> Tensor:
        turned = torch.stack((-q[..., 1::2], q[..., ::2]), -1).flatten(-2)
        return q * angle.cos() + turned * angle.sin()


@wrong(lambda: t(1, 3, 8, 8))
class PaddingOnOneSide(Model):
    def build(self) -> None:
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.conv2d(F.pad(x, (0, 2, 0, 2)), self.conv.weight, self.conv.bias)


@wrong(lambda: t(1, 2, 6, 6))
class KernelNotFlipped(Model):
    """Write a transposed convolution as a convolution and forget to turn the kernel."""

    def build(self) -> None:
        self.weight = nn.Parameter(t(2, 2, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(x, self.weight, padding=1)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight.transpose(0, 1), padding=1)


@wrong(lambda: t(1, 2, 6, 6))
class PaddingNotCounted(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, stride=1, padding=1)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)


@wrong(lambda: t(1, 2, 4, 4))
class CornersAligned(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)


@wrong(lambda: t(1, 1, 5, 5))
class NearestOfAnotherLibrary(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, size=(3, 3), mode="nearest")

    def rewritten(self, x: Tensor) -> Tensor:
        return F.interpolate(x, size=(3, 3), mode="nearest-exact")


@wrong(lambda: t(2, 8, 4))
class GroupsOfAnotherSize(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, 2)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.group_norm(x, 4)


@wrong(lambda: t(2, 3, 4, 4))
class InstanceNormForBatchNorm(Model):
    def build(self) -> None:
        self.norm = nn.BatchNorm2d(3, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.instance_norm(x, weight=self.norm.weight, bias=self.norm.bias)


@wrong(lambda: t(3, 6))
class StandardDeviationBiased(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.std(-1, keepdim=True)

    def rewritten(self, x: Tensor) -> Tensor:
        return x / (x - x.mean(-1, keepdim=True)).pow(2).mean(-1, keepdim=True).sqrt()


@wrong(lambda: t(3, 6))
class SmallestForLargest(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.topk(2).indices

    def rewritten(self, x: Tensor) -> Tensor:
        return x.topk(2, largest=False).indices


@wrong(lambda: t(3, 6))
class ScanExclusive(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.cumsum(-1) - x


@wrong(lambda: (t(4, 5), integers(4, high=5)))
class SmoothingDropped(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(x, y, label_smoothing=0.1)

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return F.nll_loss(x.log_softmax(-1), y)


@wrong(lambda: (t(4, 5), t(4, 5, seed=1)))
class LossSummed(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(x, y)

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(x, y, reduction="sum")


@wrong(lambda: (t(4, 5).softmax(-1).log(), t(4, 5, seed=1).softmax(-1)))
class DivergenceByElements(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.kl_div(x, y, reduction="batchmean")

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return F.kl_div(x, y, reduction="mean")


@wrong(lambda: t(4, 5) * 4)
class UpperBoundLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu6(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.relu(x)


@wrong(lambda: (t(4, 5), t(4, 5, seed=1)))
class BranchesOfWhereExchanged(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.where(x > y, x.exp(), y)

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.where(x > y, y, x.exp())


@wrong(lambda: t(4, 6))
class SquareWeightNotTransposed(Model):
    def build(self) -> None:
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.addmm(self.linear.bias, x, self.linear.weight)


@wrong(lambda: t(4, 6))
class BiasAddedTwice(Model):
    def build(self) -> None:
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.linear.bias


@wrong(lambda: t(4, 6))
class ResidualAfterTheNorm(Model):
    def build(self) -> None:
        self.norm, self.linear = nn.LayerNorm(6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.norm(x))

    def rewritten(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        return normed + self.linear(normed)


@wrong(lambda: (t(4, 4), t(4, 4, seed=1)))
class EinsumIndicesExchanged(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum("ij,jk->ik", x, y)

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum("ij,kj->ik", x, y)


@wrong(lambda: (t(2, 4), t(2, 4, seed=1), t(2, 4, seed=2)))
class GatesExchanged(Model):
    """Take the order of the gates of another framework."""

    def build(self) -> None:
        self.cell = nn.Linear(8, 16)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        i, f, g, o = self.cell(torch.cat((x, h), 1)).chunk(4, 1)
        return o.sigmoid() * (f.sigmoid() * c + i.sigmoid() * g.tanh()).tanh()

    def rewritten(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        f, i, g, o = self.cell(torch.cat((x, h), 1)).chunk(4, 1)
        return o.sigmoid() * (f.sigmoid() * c + i.sigmoid() * g.tanh()).tanh()


@wrong(lambda: t(2, 8))
class GateOnTheOtherHalf(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.glu(x)

    def rewritten(self, x: Tensor) -> Tensor:
        gate, value = x.chunk(2, -1)
        return value * gate.sigmoid()


@wrong(lambda: t(2, 8))
class TanhBySigmoid(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()

    def rewritten(self, x: Tensor) -> Tensor:
        return 2 * x.sigmoid() - 1


@wrong(lambda: t(2, 4, 4))
class SummedOverTheOtherAxis(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sum(2)


@wrong(lambda: t(2, 6))
class RolledTheOtherWay(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.roll(1, -1)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.cat((x[:, 1:], x[:, :1]), -1)


@wrong(lambda: t(1, 4, 2, 2))
class DepthToSpaceOfAnotherFormat(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(x, 2)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.view(1, 1, 2, 2, 2, 2).permute(0, 1, 4, 3, 5, 2).reshape(1, 1, 4, 4)


@wrong(lambda: t(1, 4, 3))
class ChannelsNotShuffled(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(1, 2, 2, 3).transpose(1, 2).reshape(1, 4, 3)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.view(1, 2, 2, 3).reshape(1, 4, 3)


@wrong(lambda: t(2, 3, 4))
class FlattenedInTheOtherOrder(Model):
    """Leave out the way back from channels last, in front of the classifier."""

    def build(self) -> None:
        self.fc = nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.flatten(1))

    def rewritten(self, x: Tensor) -> Tensor:
        return self.fc(x.transpose(1, 2).flatten(1))


@wrong(lambda: t(2, 3, 4, 4))
class FoldedWithoutTheMean(Model):
    def build(self) -> None:
        self.norm = nn.BatchNorm2d(3)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return x * (self.norm.running_var + self.norm.eps).rsqrt().view(1, 3, 1, 1)


@wrong(lambda: t(2, 3, 4, 4))
class FoldedWithoutTheMeanOfAFreshModel(Model):
    def build(self) -> None:
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return x * (self.norm.running_var + self.norm.eps).rsqrt().view(1, 3, 1, 1)


@wrong(lambda: t(3, 4) * 1e-5)
class LogOfOnePlus(Model):
    """Write log1p as a logarithm, which has two digits left near zero."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.log1p(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.log(1 + x)


@wrong(lambda: t(3, 4) * 100)
class LogSumExpOverflows(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.logsumexp(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.exp().sum(-1).log()


@wrong(lambda: t(3, 64) * 10 + 1e4)
class VarianceByDifferenceOfSquares(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.var(-1, unbiased=False)

    def rewritten(self, x: Tensor) -> Tensor:
        return (x * x).mean(-1) - x.mean(-1) ** 2


@wrong(lambda: t(3, 4) * 1e-4)
class EpsOutsideTheRoot(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x / (x.pow(2).sum(-1, keepdim=True) + 1e-8).sqrt()

    def rewritten(self, x: Tensor) -> Tensor:
        return x / (x.pow(2).sum(-1, keepdim=True).sqrt() + 1e-8)


@wrong(lambda: t(4, 6))
class QuantizedBySymmetricScale(Model):
    """Put weights on a grid of 8 bits and say it changes nothing."""

    def build(self) -> None:
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def rewritten(self, x: Tensor) -> Tensor:
        scale = self.linear.weight.abs().amax() / 127
        return F.linear(x, (self.linear.weight / scale).round() * scale, self.linear.bias)


@wrong(lambda: t(3, 5))
class PositiveTriangle(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.tril()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.triu().flip(1)


@wrong(lambda: t(3, 5))
class LogOfTheOtherBase(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.abs().log2()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.abs().log()


@wrong(lambda: t(2, 3, 5))
class UnfoldedWithoutDilation(Model):
    def build(self) -> None:
        self.weight = nn.Parameter(t(2, 3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv1d(x, self.weight, dilation=2)

    def rewritten(self, x: Tensor) -> Tensor:
        return F.conv1d(x[..., :-1], self.weight)


@wrong(lambda: t(3, 5))
class AlphaOfAddLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, x.exp(), alpha=2)

    def rewritten(self, x: Tensor) -> Tensor:
        return x + x.exp()
