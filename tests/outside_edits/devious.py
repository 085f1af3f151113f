"""Harmful edits that are easy to miss."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, export

import fxcore
from tests.outside_edits.edit import changes, functions, layers, models, t


def mask(size: int, hole: int | None = None) -> Tensor:
    bits = torch.ones(size, dtype=torch.bool)
    if hole is not None:
        bits[hole] = False
    return bits


functions(
    "devious",
    {
        "OneBitOfALargeMask": (lambda x: x * mask(100), lambda x: x * mask(100, 7)),
        "OneOfManyIntegers": (
            lambda x: x[torch.arange(80)],
            lambda x: x[torch.arange(80).index_fill(0, torch.tensor([3]), 4)],
        ),
        "MinusZeroInAConstant": (
            lambda x: x * torch.tensor([0.0, 1.0]),
            lambda x: x * torch.tensor([-0.0, 1.0]),
        ),
        "ConjugateConstant": (lambda x: x * 1j, lambda x: x * -1j),
        "TensorForNumber": (lambda x: x * 2.0, lambda x: x * torch.tensor(2.0)),
        "DeviceOfAnArgument": (
            lambda x: torch.zeros_like(x, device="cpu"),
            lambda x: torch.zeros_like(x, device="meta"),
        ),
        "MemoryFormat": (
            lambda x: x.contiguous(),
            lambda x: x.contiguous(memory_format=torch.channels_last),
        ),
        "DtypeOfASum": (lambda x: x.sum(), lambda x: x.sum(dtype=torch.float64)),
        "EllipsisForSlice": (lambda x: x[:, None], lambda x: x[..., None]),
        "ListForTupleInIndex": (lambda x: x[(0, 1)], lambda x: x[[0, 1]]),
        "OrderOfKeys": (
            lambda x: {"a": x.exp(), "b": x.sin()},
            lambda x: dict(reversed({"a": x.exp(), "b": x.sin()}.items())),
        ),
        "RoundingMode": (
            lambda x: torch.div(x, 2, rounding_mode="floor"),
            lambda x: torch.div(x, 2, rounding_mode="trunc"),
        ),
        "SideOfSearch": (
            lambda x, y: torch.searchsorted(x, y),
            lambda x, y: torch.searchsorted(x, y, right=True),
        ),
        "ReductionOfScatter": (
            lambda x, i: x.scatter_reduce(0, i, x, "sum"),
            lambda x, i: x.scatter_reduce(0, i, x, "mean"),
        ),
        "PartialApplied": (
            lambda x: functools.partial(F.gelu, approximate="tanh")(x),
            lambda x: functools.partial(F.gelu)(x),
        ),
        "OutGiven": (lambda x, y: torch.add(x, 1), lambda x, y: torch.add(x, 1, out=y)),
        "InPlaceOnOneReader": (
            lambda x: (lambda y: (y.relu(), y))(x + 1),
            lambda x: (lambda y: (y.relu_(), y))(x + 1),
        ),
        "WriteThroughAView": (
            lambda x: (x[0].add_(1), x.sum())[1],
            lambda x: (x[1].add_(1), x.sum())[1],
        ),
        "WidthOfAnInteger": (lambda x: x.to(torch.int64), lambda x: x.to(torch.int32)),
        "AutogradDisabled": (lambda x: x.exp().requires_grad_(True), lambda x: x.exp().requires_grad_(False)),
    },
)

layers(
    "devious",
    {
        "InPlaceActivation": (lambda: nn.ReLU(), lambda: nn.ReLU(inplace=True)),
        "InPlaceDropout": (lambda: nn.Dropout(0.1), lambda: nn.Dropout(0.1, inplace=True)),
        "SparseGradients": (lambda: nn.Embedding(8, 4), lambda: nn.Embedding(8, 4, sparse=True)),
        "GradientsByFrequency": (
            lambda: nn.Embedding(8, 4),
            lambda: nn.Embedding(8, 4, scale_grad_by_freq=True),
        ),
        "SynchronisedNorm": (lambda: nn.BatchNorm2d(4), lambda: nn.SyncBatchNorm(4)),
        "ProjectedLstm": (lambda: nn.LSTM(4, 4), lambda: nn.LSTM(4, 4, proj_size=2)),
        "DropoutBetweenLayers": (lambda: nn.LSTM(4, 4, 2), lambda: nn.LSTM(4, 4, 2, dropout=0.3)),
        "DistanceOfAnotherOrder": (lambda: nn.Softshrink(), lambda: nn.Softshrink(0.7)),
        "AxisOfUnflatten": (lambda: nn.Unflatten(1, (2, 2)), lambda: nn.Unflatten(1, (4, 1))),
        "ActivationWithinALayer": (
            lambda: nn.TransformerEncoderLayer(8, 2, 16, activation=F.silu),
            lambda: nn.TransformerEncoderLayer(8, 2, 16, activation=F.mish),
        ),
    },
)


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)
        self.blocks = nn.ParameterList([torch.ones(4, 1, 1), torch.ones(4, 1, 1)])

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)) * self.blocks[0] + self.blocks[1]


def share_a_view(model: Convolutional) -> None:
    memory = torch.zeros(8, 1, 1)
    model.blocks[0], model.blocks[1] = nn.Parameter(memory[:4]), nn.Parameter(memory[2:6])


def patch_forward(model: Convolutional) -> None:
    model.norm.forward = lambda x: x * 2  # type: ignore[method-assign]


changes(
    "devious",
    Convolutional,
    {
        "PreHookAdded": lambda model: model.norm.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        "PreHookWithKeywords": lambda model: model.norm.register_forward_pre_hook(
            lambda module, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True
        ),
        "ParametersOverlap": share_a_view,
        "WeightsInChannelsLast": lambda model: model.conv.to(memory_format=torch.channels_last),
        "NormalisedBySpectrum": lambda model: nn.utils.parametrizations.spectral_norm(model.conv),
        "ForwardPatched": patch_forward,
        "OneOfTheListFrozen": lambda model: model.blocks[1].requires_grad_(False),
    },
)


def exported(function: Any, *inputs: Tensor, **options: Any) -> Any:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return function(x)

    return lambda: export(Model(), inputs, **options)


ROWS, FEW_ROWS = {"x": {0: Dim("rows", max=64)}}, {"x": {0: Dim("rows", max=32)}}

models(
    "devious",
    {
        "BoundOfADimension": (
            exported(torch.exp, t(3, 4), dynamic_shapes=ROWS),
            exported(torch.exp, t(3, 4), dynamic_shapes=FEW_ROWS),
        ),
        "DimensionFixed": (
            exported(torch.exp, t(3, 4), dynamic_shapes=ROWS),
            exported(torch.exp, t(3, 4)),
        ),
        "ExampleOfAnotherSize": (exported(torch.exp, t(3, 4)), exported(torch.exp, t(3, 5))),
        "ExampleInHalf": (exported(torch.exp, t(3, 4)), exported(torch.exp, t(3, 4).half())),
        "NestedGraphEdited": (lambda: nested(torch.sin), lambda: nested(torch.cos)),
    },
)


def nested(function: Any) -> fxcore.GraphModule:
    """Return a graph that calls another graph."""
    inner = fxcore.symbolic_trace(lambda x: function(x) + 1)
    graph = fxcore.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    return fxcore.GraphModule({"inner": inner}, graph)
