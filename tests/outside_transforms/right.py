"""Right transforms, which no check may accuse."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._decomp import get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from tests.outside_transforms.case import Model, integers, right, t


def decomposed(*operators: Any) -> Any:
    """Return a pass that applies torch's own decompositions to the graph."""

    def rewrite(gm: fxcore.GraphModule) -> Any:
        after = make_fx(gm, get_decompositions(operators))(t(4, 6))
        after.graph.eliminate_dead_code()
        return _named(fxcore.interop.from_torch(after))

    return staticmethod(rewrite)


def _named(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    """Give the input its name again; make_fx numbers inputs."""
    (placeholder,) = gm.graph.find_nodes(op="placeholder")
    placeholder.name = placeholder.target = "x"
    gm.recompile()
    return gm


class OfRows(Model):
    """A function of one tensor of 4 rows and 6 columns."""


aten = torch.ops.aten


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesLayerNorm(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (6,))

    rewrite = decomposed(aten.native_layer_norm)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesGelu(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x)

    rewrite = decomposed(aten.gelu)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesSoftmax(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    rewrite = decomposed(aten._softmax)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesLogSoftmax(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return x.log_softmax(-1)

    rewrite = decomposed(aten._log_softmax)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesSilu(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x)

    rewrite = decomposed(aten.silu)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesHardswish(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(x)

    rewrite = decomposed(aten.hardswish)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesElu(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x)

    rewrite = decomposed(aten.elu)


@right(lambda: t(4, 6), modes=("eval",), grads=False)
class TorchDecomposesVariance(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return x.var(-1)

    rewrite = decomposed(aten.var)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesSoftplus(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    rewrite = decomposed(aten.softplus)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesGroupNorm(OfRows):
    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, 2)

    rewrite = decomposed(aten.native_group_norm)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesAddmm(Model):
    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(x, x @ x.t(), x, beta=2, alpha=0.5)

    rewrite = decomposed(aten.addmm)


@right(lambda: t(4, 6), modes=("eval",))
class TorchDecomposesLogit(Model):
    def forward(self, x: Tensor) -> Tensor:
        return torch.logit(x.sigmoid(), 1e-6) + F.leaky_relu(x) + F.hardtanh(x)

    rewrite = decomposed(aten.logit, aten.leaky_relu, aten.hardtanh)


@right(lambda: t(2, 3, 8))
class LayerNormByHand(Model):
    def build(self) -> None:
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.pow(2).mean(-1, keepdim=True)
        return centred * (variance + 1e-5).rsqrt() * self.norm.weight + self.norm.bias


@right(lambda: t(2, 3, 8))
class RmsNormByHand(Model):
    def build(self) -> None:
        self.norm = nn.RMSNorm(8, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * self.norm.weight


@right(lambda: t(4, 8))
class TanhGeluByHand(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")

    def rewritten(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@right(lambda: t(2, 5, 8), search="none")
class AttentionByHand(Model):
    def forward(self, q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    def rewritten(self, q: Tensor) -> Tensor:
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        return ((q @ q.mT) / math.sqrt(8)).masked_fill(hidden, float("-inf")).softmax(-1) @ q


@right(lambda: t(2, 4, 5, 8))
class AttentionFused(Model):
    def build(self) -> None:
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).tensor_split(3, -1)
        return (q @ k.transpose(-2, -1) * 8**-0.5).softmax(-1) @ v

    def rewritten(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).split(8, -1)
        return F.scaled_dot_product_attention(q, k, v)


@right(lambda: t(4, 8))
class ProjectionsJoined(Model):
    """Compute two linear layers of one input as one, and split its result."""

    def build(self) -> None:
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.q(x) * self.k(x)

    def rewritten(self, x: Tensor) -> Tensor:
        weight = torch.cat((self.q.weight, self.k.weight))
        q, k = F.linear(x, weight, torch.cat((self.q.bias, self.k.bias))).chunk(2, -1)
        return q * k


@right(lambda: t(4, 3, 8, 8), modes=("eval",), grads=False)
class ConvolutionWithNormFolded(Model):
    def build(self) -> None:
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))

    def rewritten(self, x: Tensor) -> Tensor:
        scale = self.norm.weight * (self.norm.running_var + self.norm.eps).rsqrt()
        bias = (self.conv.bias - self.norm.running_mean) * scale + self.norm.bias
        return F.conv2d(x, self.conv.weight * scale.view(-1, 1, 1, 1), bias)


@right(lambda: t(4, 3, 5, 5), modes=("eval",))
class BatchNormAsMultiplyAdd(Model):
    def build(self) -> None:
        self.norm = nn.BatchNorm2d(3)
        self.norm.running_mean.normal_()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        scale = self.norm.weight * (self.norm.running_var + self.norm.eps).rsqrt()
        return x * scale.view(3, 1, 1) + (self.norm.bias - self.norm.running_mean * scale).view(3, 1, 1)


@right(lambda: t(2, 3, 8, 8), search="none")
class PointwiseConvolutionAsProduct(Model):
    def build(self) -> None:
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)

    def rewritten(self, x: Tensor) -> Tensor:
        y = torch.einsum("oi,bihw->bohw", self.conv.weight.flatten(1), x)
        return (y + self.conv.bias.view(4, 1, 1)).contiguous()


@right(lambda: t(2, 3, 9))
class ConvolutionByUnfolding(Model):
    def build(self) -> None:
        self.conv = nn.Conv1d(3, 4, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.einsum("bilk,oik->bol", x.unfold(-1, 3, 1), self.conv.weight).contiguous()


@right(lambda: t(8, 16))
class SumsReassociated(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x + x.exp() + x.sin() + 3

    def rewritten(self, x: Tensor) -> Tensor:
        return (3 + x.sin()) + (x.exp() + x)


@right(lambda: (t(4, 16), t(16, 8, seed=1), t(8, 4, seed=2)), search="finite")
class ProductsReassociated(Model):
    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return x @ y @ z

    def rewritten(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return x @ (y @ z)


@right(lambda: t(4, 64))
class SumInTwoSteps(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sum(-1).sum()


@right(lambda: t(4, 6))
class DivisionByMultiplying(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x / 3

    def rewritten(self, x: Tensor) -> Tensor:
        return x * (1 / 3)


@right(lambda: t(4, 6))
class DistributedFactor(Model):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * (x + 1)

    def rewritten(self, x: Tensor) -> Tensor:
        return 2 * x + 2


@right(lambda: t(4, 6), search="finite")
class PolynomialByHorner(Model):
    def forward(self, x: Tensor) -> Tensor:
        return 1 + 2 * x + 3 * x**2 + 4 * x**3

    def rewritten(self, x: Tensor) -> Tensor:
        return 1 + x * (2 + x * (3 + x * 4))


@right(lambda: t(4, 6).abs() + 0.5, search="finite")
class PowerAsExponential(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.pow(1.5)

    def rewritten(self, x: Tensor) -> Tensor:
        return x * x.sqrt()


@right(lambda: t(4, 6))
class SigmoidByTanh(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()

    def rewritten(self, x: Tensor) -> Tensor:
        return 0.5 * (x * 0.5).tanh() + 0.5


@right(lambda: t(4, 6))
class SoftmaxByHand(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        e = (x - x.amax(-1, keepdim=True).detach()).exp()
        return e / e.sum(-1, keepdim=True)


@right(lambda: (t(4, 6), integers(4, high=6)))
class CrossEntropyByHand(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(x, y)

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return -x.log_softmax(-1).gather(1, y.unsqueeze(1)).mean()


@right(lambda: t(4, 6))
class ReluByMaximum(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu() + F.relu6(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.clamp(min=0) + x.clamp(0, 6)


@right(lambda: t(2, 3, 4, 4))
class InstanceNormByStatistics(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.instance_norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, (2, 3), unbiased=False, keepdim=True)
        return (x - mean) * (variance + 1e-5).rsqrt()


@right(lambda: t(2, 3, 8, 8))
class AdaptivePoolAsMean(Model):
    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, 1).flatten(1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


@right(lambda: t(2, 4, 8, 8), modes=("eval",), checks=("values", "dtype", "gradients"))
class ChannelsLastInside(Model):
    def build(self) -> None:
        self.conv = nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()

    def rewritten(self, x: Tensor) -> Tensor:
        return self.conv(x.contiguous(memory_format=torch.channels_last)).relu()


@right(lambda: t(2, 4, 8, 8))
class ChannelsLastAndBack(Model):
    def build(self) -> None:
        self.conv = nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()

    def rewritten(self, x: Tensor) -> Tensor:
        y = self.conv(x.contiguous(memory_format=torch.channels_last)).relu()
        return y.contiguous(memory_format=torch.contiguous_format)


@right(lambda: t(4, 6))
class InPlaceOnTemporaries(Model):
    def forward(self, x: Tensor) -> Tensor:
        return (x + 1).mul(2).add(3)

    def rewritten(self, x: Tensor) -> Tensor:
        return (x + 1).mul_(2).add_(3)


@right(lambda: t(4, 6), search="none")
class OutOfPlaceOnTemporaries(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        y[0] = 0
        y += 1
        return y

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.cat((torch.zeros(1, 6), x[1:] * 2)) + 1


@right(lambda: t(4, 6), grads=False)
class WriteToTheInputByCopy(Model):
    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        return x + 1

    def rewritten(self, x: Tensor) -> Tensor:
        doubled = x * 2
        x.copy_(doubled)
        return doubled + 1


@right(lambda: t(4, 6))
class ConstantsFolded(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.ones(6) * 2 + 1).sqrt()

    def rewritten(self, x: Tensor) -> Tensor:
        return x * self.folded

    def build(self) -> None:
        self.folded = (torch.ones(6) * 2 + 1).sqrt()


@right(lambda: t(4, 6))
class DeadCodeRemoved(Model):
    def forward(self, x: Tensor) -> Tensor:
        x.exp().sum()
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 2


@right(lambda: t(4, 6))
class EqualExpressionsMerged(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp() * 2 + x.exp().sum()

    def rewritten(self, x: Tensor) -> Tensor:
        e = x.exp()
        return e * 2 + e.sum()


@fxcore.wrap
def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x, weight, bias).relu_()


@right(lambda: t(4, 6))
class LinearAndReluFused(Model):
    def build(self) -> None:
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()

    def rewritten(self, x: Tensor) -> Tensor:
        return linear_relu(x, self.linear.weight, self.linear.bias)


@right(lambda: integers(4, high=8))
class TyingKept(Model):
    def build(self) -> None:
        self.table, self.head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.table(x))

    def rewritten(self, x: Tensor) -> Tensor:
        return self.table.weight[x] @ self.table.weight.t()


@right(lambda: t(4, 6))
class CastsThatCancel(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.double().float() + 1

    def rewritten(self, x: Tensor) -> Tensor:
        return x + 1


@right(lambda: t(4, 6))
class SumInDoublePrecision(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.double().sum(-1).float()


@right(lambda: t(4, 6))
class DropoutFunctional(Model):
    def build(self) -> None:
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x) + 1

    def rewritten(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training) + 1


@right(lambda: t(4, 6))
class DrawnInTheSameOrder(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x[0]) * torch.randn_like(x[1])

    def rewritten(self, x: Tensor) -> Tensor:
        uniform = torch.rand_like(x[0])
        normal = torch.randn_like(x[1])
        return uniform * normal + x


@right(lambda: t(4, 6), search="finite")
class MovingAverageByLerp(Model):
    def build(self) -> None:
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.copy_(0.9 * self.mean + 0.1 * x.detach().mean(0))
        return x - self.mean

    def rewritten(self, x: Tensor) -> Tensor:
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return x - self.mean


@right(lambda: t(4, 6))
class CountedByAnotherOperator(Model):
    def build(self) -> None:
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.steps.add_(x.new_ones((), dtype=torch.long))
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        self.steps.copy_(self.steps + x.new_ones((), dtype=torch.long))
        return x + x


@right(lambda: t(4, 3, 5, 5))
class BatchNormFunctional(Model):
    def build(self) -> None:
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def rewritten(self, x: Tensor) -> Tensor:
        n = self.norm
        if self.training:
            n.num_batches_tracked.add_(x.new_ones((), dtype=torch.long))
        return F.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, self.training, 0.1, 1e-5)


@right(lambda: t(4, 6))
class ViewByAnotherOperator(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, None].transpose(1, 2)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1)


@right(lambda: (t(4, 6), t(6, seed=1)))
class ExpandedBeforeTheSum(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y.unsqueeze(0)


@right(lambda: t(4, 6))
class ContainerByAnotherSpelling(Model):
    def forward(self, x: Tensor) -> Any:
        return {"a": x + 1, "b": [x * 2, None]}

    def rewritten(self, x: Tensor) -> Any:
        return {"a": 1 + x, "b": [2 * x, None]}


@right(lambda: t(4, 6))
class CopiedWhole(Model):
    def build(self) -> None:
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).tanh()

    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        return copy.deepcopy(gm)


@right(lambda: t(4, 6))
class HookKept(Model):
    def build(self) -> None:
        self.linear = nn.Linear(6, 3)
        self.linear.register_forward_hook(lambda module, inputs, output: output * 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + 1

    def rewritten(self, x: Tensor) -> Tensor:
        return 1 + self.linear(x)


@right(lambda: t(4, 6), search="none")
class SplitAndJoined(Model):
    """Work on two halves of the batch, as pipelines do."""

    def build(self) -> None:
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.cat((self.linear(x[:2]), self.linear(x[2:])))


@right(lambda: (t(2, 6), t(2, 6, seed=1)))
class StackedAndSummed(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + y) / 2

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.stack((x, y)).mean(0)


@right(lambda: t(2, 5, 4), search="none")
class RecurrenceUnrolled(Model):
    def build(self) -> None:
        self.rnn = nn.RNN(4, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]

    def rewritten(self, x: Tensor) -> Tensor:
        rnn, h, states = self.rnn, x.new_zeros(2, 3), []
        for step in range(5):
            h = (
                F.linear(x[:, step], rnn.weight_ih_l0, rnn.bias_ih_l0) + F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0)
            ).tanh()
            states.append(h)
        return torch.stack(states).transpose(0, 1)
