"""Harmful edits of the statements of a forward, and of its signature."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F

from tests.outside_edits.edit import functions, t


class Pair(NamedTuple):
    mean: object
    scale: object


class Pair2(NamedTuple):
    mean: object
    deviation: object


def attend(x, mask):
    return x.masked_fill(mask == 0, float("-inf")).softmax(-1)


functions(
    "statements",
    {
        "ResidualDropped": (lambda x, y: x + y.relu(), lambda x, y: y.relu()),
        "ResidualOfAnotherValue": (lambda x, y: x + y.relu(), lambda x, y: y + y.relu()),
        "AddedBeforeTheActivation": (lambda x, y: x + y.relu(), lambda x, y: (x + y).relu()),
        "Subtracted": (lambda x, y: x + y, lambda x, y: x - y),
        "OperandsExchanged": (lambda x, y: x / y, lambda x, y: y / x),
        "MatrixOperandsExchanged": (lambda x, y: x @ y, lambda x, y: y @ x),
        "FloorDivision": (lambda x: x / 2, lambda x: x // 2),
        "ElementwiseForMatrix": (lambda x, y: x @ y, lambda x, y: x * y),
        "Constant": (lambda x: x * 0.125, lambda x: x * 0.25),
        "LastDigit": (lambda x: x + 1e-5, lambda x: x + 1.0000001e-5),
        "IntegerForFloat": (lambda x: x * 2, lambda x: x * 2.0),
        "TrueForOne": (lambda x: x + 1, lambda x: x + True),
        "SignOfZero": (lambda x: x + 0.0, lambda x: x + -0.0),
        "MaskValue": (attend, lambda x, mask: x.masked_fill(mask == 0, -1e4).softmax(-1)),
        "MaskInverted": (attend, lambda x, mask: x.masked_fill(mask == 1, float("-inf")).softmax(-1)),
        "MaskNotApplied": (attend, lambda x, mask: x.softmax(-1)),
        "SoftmaxAxisOfAFunction": (lambda x: F.softmax(x, dim=-1), lambda x: F.softmax(x, dim=1)),
        "SoftmaxInSingle": (
            lambda x: F.softmax(x, -1),
            lambda x: F.softmax(x, -1, dtype=torch.float32),
        ),
        "MeanOverOtherAxes": (lambda x: x.mean((2, 3)), lambda x: x.mean((1, 2))),
        "KeepdimLost": (lambda x: x.mean(1, keepdim=True), lambda x: x.mean(1)),
        "MaximumForMean": (lambda x: x.mean(1), lambda x: x.amax(1)),
        "VarianceUnbiased": (lambda x: x.var(1, unbiased=False), lambda x: x.var(1)),
        "SliceLonger": (lambda x: x[:, 1:], lambda x: x[:, 0:]),
        "SliceStep": (lambda x: x[:, ::2], lambda x: x[:, ::3]),
        "LastTokenForFirst": (lambda x: x[:, 0], lambda x: x[:, -1]),
        "HalvesExchanged": (
            lambda x: torch.cat((-x[..., 2:], x[..., :2]), -1),
            lambda x: torch.cat((x[..., :2], -x[..., 2:]), -1),
        ),
        "ConcatenatedAlongAnotherAxis": (
            lambda x, y: torch.cat((x, y), 1),
            lambda x, y: torch.cat((x, y), 2),
        ),
        "StackedForConcatenated": (lambda x, y: torch.cat((x, y)), lambda x, y: torch.stack((x, y))),
        "Transposed": (lambda x: x.transpose(1, 2), lambda x: x.transpose(0, 1)),
        "ReshapedForTransposed": (lambda x: x.transpose(0, 1), lambda x: x.reshape(4, 3)),
        "ViewOfOtherSizes": (lambda x: x.view(2, 4, -1), lambda x: x.view(4, 2, -1)),
        "Upcast": (lambda x: x.float().softmax(-1), lambda x: x.softmax(-1)),
        "CastToAnotherType": (lambda x: x.to(torch.float16), lambda x: x.to(torch.bfloat16)),
        "Detached": (lambda x: x.detach() * 2, lambda x: x * 2),
        "CheckOfGradientAdded": (lambda x: x * 2, lambda x: (x * 2).detach()),
        "InPlace": (lambda x: x.add(1), lambda x: x.add_(1)),
        "WriteOrder": (
            lambda x: (x.exp(), x.add_(1)),
            lambda x: tuple(reversed((x.add_(1), x.exp()))),
        ),
        "CloneDropped": (lambda x: x.clone().add_(1), lambda x: x.add_(1)),
        "DropoutOfAFunction": (lambda x: F.dropout(x, 0.1), lambda x: F.dropout(x, 0.2)),
        "DropoutAlwaysTraining": (
            lambda x: F.dropout(x, 0.1, training=False),
            lambda x: F.dropout(x, 0.1),
        ),
        "DropoutAfterTheSum": (
            lambda x, y: x + F.dropout(y, 0.1),
            lambda x, y: F.dropout(x + y, 0.1),
        ),
        "CausalFlag": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        ),
        "AttentionScale": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.1),
        ),
        "KeysForValues": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
            lambda q, k, v: F.scaled_dot_product_attention(q, v, k),
        ),
        "PaddingModeOfAFunction": (
            lambda x: F.pad(x, (1, 1), mode="reflect"),
            lambda x: F.pad(x, (1, 1), mode="circular"),
        ),
        "PaddedBefore": (lambda x: F.pad(x, (2, 0)), lambda x: F.pad(x, (0, 2))),
        "ModeOfInterpolation": (
            lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
            lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"),
        ),
        "SizeForScale": (
            lambda x: F.interpolate(x, size=(8, 8)),
            lambda x: F.interpolate(x, scale_factor=8),
        ),
        "Reduction": (
            lambda x, y: F.cross_entropy(x, y),
            lambda x, y: F.cross_entropy(x, y, reduction="sum"),
        ),
        "LabelSmoothing": (
            lambda x, y: F.cross_entropy(x, y),
            lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        ),
        "IgnoredIndex": (
            lambda x, y: F.cross_entropy(x, y, ignore_index=0),
            lambda x, y: F.cross_entropy(x, y),
        ),
        "EpsOfNormalize": (lambda x: F.normalize(x, dim=-1), lambda x: F.normalize(x, dim=-1, eps=1e-6)),
        "OrderOfNorm": (lambda x: F.normalize(x, dim=-1), lambda x: F.normalize(x, p=1.0, dim=-1)),
        "BoundOfClamp": (lambda x: x.clamp(min=1e-6), lambda x: x.clamp(min=1e-12)),
        "LowerForUpper": (lambda x: x.clamp(min=0.5), lambda x: x.clamp(max=0.5)),
        "Exponent": (lambda x: x**2, lambda x: x**3),
        "EinsumEquation": (
            lambda x, y: torch.einsum("bid,bjd->bij", x, y),
            lambda x, y: torch.einsum("bid,bjd->bji", x, y),
        ),
        "TrianglesDiagonal": (lambda x: x.tril(), lambda x: x.tril(-1)),
        "LargestForSmallest": (lambda x: x.topk(2), lambda x: x.topk(2, largest=False)),
        "ConstantTensor": (
            lambda x: x * torch.tensor([0.229, 0.224, 0.225]),
            lambda x: x * torch.tensor([0.229, 0.224, 0.226]),
        ),
        "DtypeOfAConstant": (
            lambda x: x * torch.tensor([1.0, 2.0]),
            lambda x: x * torch.tensor([1.0, 2.0], dtype=torch.float64),
        ),
        "LargeConstantTensor": (lambda x: x * t(200), lambda x: x * t(200, seed=1)),
        "LargeConstantTensorPermuted": (lambda x: x * t(200), lambda x: x * t(200).flip(0)),
        "RandomOrder": (
            lambda x: (torch.rand_like(x), torch.randn_like(x)),
            lambda x: tuple(reversed((torch.randn_like(x), torch.rand_like(x)))),
        ),
        "RandomDistribution": (lambda x: torch.rand_like(x), lambda x: torch.randn_like(x)),
        "DrawnOnce": (
            lambda x: torch.rand_like(x) - torch.rand_like(x),
            lambda x: (lambda r: r - r)(torch.rand_like(x)),
        ),
        "ComputedOnceForTwice": (
            lambda x: x.exp() + x.exp(),
            lambda x: (lambda e: e + e)(x.exp()),
        ),
        "AddedAlpha": (lambda x, y: torch.add(x, y), lambda x, y: torch.add(x, y, alpha=2)),
        "UnusedResultKept": (lambda x: x.exp(), lambda x: (x.sum(), x.exp())[1]),
    },
)

functions(
    "signatures",
    {
        "OutputsExchanged": (lambda x: (x.mean(), x.std()), lambda x: (x.std(), x.mean())),
        "OutputAdded": (lambda x: x.exp(), lambda x: (x.exp(), x)),
        "OutputDropped": (lambda x: (x.exp(), x.mean()), lambda x: (x.exp(),)),
        "KeyRenamed": (lambda x: {"logits": x.exp()}, lambda x: {"logit": x.exp()}),
        "KeysExchanged": (
            lambda x: {"a": x.exp(), "b": x.sin()},
            lambda x: {"a": x.sin(), "b": x.exp()},
        ),
        "ListForTuple": (lambda x: (x.exp(), x), lambda x: [x.exp(), x]),
        "NestedOutput": (lambda x: (x.exp(), x), lambda x: (x.exp(), (x,))),
        "NamesOfAnotherTuple": (
            lambda x: Pair(x.mean(), x.std()),
            lambda x: Pair2(x.mean(), x.std()),
        ),
        "NoneForAValue": (lambda x: (x.exp(), x), lambda x: (x.exp(), None)),
        "InputRenamed": (lambda x: x.exp(), lambda inputs: inputs.exp()),
        "InputsExchanged": (lambda x, y: x - y, lambda y, x: x - y),
        "InputAdded": (lambda x: x.exp(), lambda x, mask: x.exp()),
        "InputRemoved": (lambda x, mask: x.exp(), lambda x: x.exp()),
        "DefaultChanged": (lambda x, scale=1.0: x * scale, lambda x, scale=2.0: x * scale),
        "DefaultRemoved": (lambda x, scale=1.0: x * scale, lambda x, scale: x * scale),
        "DefaultOfAnotherType": (lambda x, scale=1.0: x * scale, lambda x, scale=1: x * scale),
        "DefaultNoneForNumber": (lambda x, eps=None: (x, eps), lambda x, eps=0.0: (x, eps)),
    },
    level="structure",
)
