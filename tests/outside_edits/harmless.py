"""Harmless edits, which every comparison has to let pass."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxcore
from tests.outside_edits.edit import changes, functions, layers, models, t
from tests.outside_edits.weights import Net


def plain(x, y):
    a = x.relu()
    b = y.sigmoid()
    return a * b + 1


def renamed(x, y):
    activated = x.relu()
    gate = y.sigmoid()
    return activated * gate + 1


def reordered(x, y):
    b = y.sigmoid()
    a = x.relu()
    return a * b + 1


def reformatted(x, y):
    return x.relu() * y.sigmoid() + 1


def gate(value: Tensor) -> Tensor:
    return value.sigmoid()


def with_helper(x, y):
    return x.relu() * gate(y) + 1


def annotated(x: Tensor, y: Tensor) -> Tensor:
    """Return the gated activation."""
    a: Tensor = x.relu()  # the activation
    b: Tensor = y.sigmoid()
    return a * b + 1


def by_nested_function(x, y):
    def activation(value):
        return value.relu()

    return activation(x) * gate(y) + 1


def with_early_constants(x, y):
    bias = 1
    return x.relu() * y.sigmoid() + bias


def by_loop(x, y):
    functions = (lambda value: value.relu(), lambda value: value.sigmoid())
    parts = [function(value) for function, value in zip(functions, (x, y), strict=True)]
    return parts[0] * parts[1] + 1


def by_dict(x, y):
    parts = {"y": y.sigmoid(), "x": x.relu()}
    return parts["x"] * parts["y"] + 1


def by_reassigning(x, y):
    x = x.relu()
    y = y.sigmoid()
    x = x * y
    return x + 1


def with_assertion(x, y):
    assert len("xy") == 2, "two inputs"
    return x.relu() * y.sigmoid() + 1


def by_class(x, y):
    class Gate:
        def __call__(self, value):
            return value.sigmoid()

    return x.relu() * Gate()(y) + 1


def by_walrus(x, y):
    if (activated := x.relu()) is not None:
        return activated * y.sigmoid() + 1
    return None


OPTIONS: dict[str, Any] = {"training": True, "p": 0.1}


functions(
    "refactored",
    {
        "LocalsRenamed": (plain, renamed),
        "IndependentStatementsReordered": (plain, reordered),
        "OneLine": (plain, reformatted),
        "MovedIntoAHelper": (plain, with_helper),
        "AnnotatedAndCommented": (plain, annotated),
        "NestedFunction": (plain, by_nested_function),
        "NamedConstant": (plain, with_early_constants),
        "ListOfFunctions": (plain, by_loop),
        "DictOfParts": (plain, by_dict),
        "NamesReused": (plain, by_reassigning),
        "AssertionAdded": (plain, with_assertion),
        "CallableObject": (plain, by_class),
        "Walrus": (plain, by_walrus),
        "Lambda": (plain, lambda x, y: x.relu() * y.sigmoid() + 1),
        "ArithmeticOfConstants": (lambda x: x * 0.5, lambda x: x * (1 / 2)),
        "ConstantFromText": (lambda x: x * 3.0, lambda x: x * float("3")),
        "KeywordsReordered": (
            lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
            lambda x: F.interpolate(x, mode="nearest", scale_factor=2),
        ),
        "TupleWithBrackets": (lambda x: (x.exp(), x.sin()), lambda x: tuple(f() for f in (x.exp, x.sin))),
        "OutputsComputedInAnotherOrder": (
            lambda x: (x.exp(), x.sin()),
            lambda x: tuple(reversed((x.sin(), x.exp()))),
        ),
        "RandomBeforeAnIndependentOne": (
            lambda x: (torch.rand_like(x), x.exp()),
            lambda x: tuple(reversed((x.exp(), torch.rand_like(x)))),
        ),
        "IndexByTuple": (lambda x: x[0, 1], lambda x: x[(0, 1)]),
        "SliceObject": (lambda x: x[1:3], lambda x: x[slice(1, 3)]),
        "OperatorFunction": (lambda x, y: x + y, lambda x, y: operator.add(x, y)),
        "AttributeByGetattr": (lambda x: x.shape[0], lambda x: operator.attrgetter("shape")(x)[0]),
        "BranchOnAConstant": (lambda x: x.exp(), lambda x: x.exp() if 1 < 2 else x.sin()),
        "LoopUnrolled": (
            lambda x: x.exp().exp().exp(),
            lambda x: [x := x.exp() for _ in range(3)][-1],
        ),
        "ConstantTensorInAnotherPlace": (
            lambda x: x * torch.tensor([1.0, 2.0]),
            lambda x: (lambda scale: x * scale)(torch.tensor([1.0]).repeat(2) + torch.tensor([0.0, 1.0])),
        ),
        "OtherImport": (lambda x: torch.nn.functional.relu(x), lambda x: F.relu(x)),
        "DictByCall": (lambda x: {"a": x.exp()}, lambda x: {name: x.exp() for name in "a"}),
        "SuperfluousClosure": (lambda x: x * 2, (lambda factor: lambda x: x * factor)(2)),
        "StarredCall": (lambda x: x.view(2, -1), lambda x: x.view(*(2, -1))),
        "KeywordsFromADict": (
            lambda x: F.dropout(x, p=0.1, training=True),
            lambda x: F.dropout(x, **OPTIONS),
        ),
    },
    harmful=False,
)

functions(
    "spellings",
    {
        "MethodForFunction": (lambda x: torch.relu(x), lambda x: x.relu()),
        "FunctionalForMethod": (lambda x: F.relu(x), lambda x: x.relu()),
        "OperatorForMethod": (lambda x, y: x + y, lambda x, y: x.add(y)),
        "OperatorForFunction": (lambda x, y: x + y, lambda x, y: torch.add(x, y)),
        "ProductByMethod": (lambda x, y: x * y, lambda x, y: x.mul(y)),
        "MatrixByMethod": (lambda x, y: x @ y, lambda x, y: torch.matmul(x, y)),
        "NegationByFunction": (lambda x: -x, lambda x: torch.neg(x)),
        "PowerByMethod": (lambda x: x**2, lambda x: x.pow(2)),
        "SoftmaxByMethod": (lambda x: F.softmax(x, dim=-1), lambda x: x.softmax(-1)),
        "PositionForKeyword": (lambda x: torch.sum(x, dim=1), lambda x: torch.sum(x, 1)),
        "KeepdimWritten": (lambda x: x.sum(1), lambda x: x.sum(1, keepdim=False)),
        "DefaultWritten": (lambda x: F.gelu(x), lambda x: F.gelu(x, approximate="none")),
        "DefaultOfDropout": (lambda x: F.dropout(x), lambda x: F.dropout(x, 0.5, True, False)),
        "AlphaWritten": (lambda x, y: torch.add(x, y), lambda x, y: torch.add(x, y, alpha=1)),
        "CatByKeyword": (lambda x, y: torch.cat((x, y), 1), lambda x, y: torch.cat((x, y), dim=1)),
        "EpsWritten": (
            lambda x: F.layer_norm(x, (4,)),
            lambda x: F.layer_norm(x, (4,), None, None, 1e-05),
        ),
        "ComparisonByMethod": (lambda x, y: x > y, lambda x, y: x.gt(y)),
        "DivisionByFunction": (lambda x, y: x / y, lambda x, y: torch.div(x, y)),
        "SigmoidOfFunctional": (lambda x: F.sigmoid(x), lambda x: torch.sigmoid(x)),
        "TanhOfMethod": (lambda x: torch.tanh(x), lambda x: x.tanh()),
    },
    harmful=False,
    normalize=True,
)

layers(
    "spellings",
    {
        "ReluNotInPlace": (lambda: nn.ReLU(), lambda: nn.ReLU(False)),
        "StrideWritten": (lambda: nn.Conv2d(3, 4, 3), lambda: nn.Conv2d(3, 4, (3, 3), stride=1)),
        "PaddingAsTuple": (lambda: nn.Conv2d(3, 4, 3, padding=1), lambda: nn.Conv2d(3, 4, 3, padding=(1, 1))),
        "MomentumWritten": (lambda: nn.BatchNorm2d(4), lambda: nn.BatchNorm2d(4, momentum=0.1)),
        "ShapeOfNormAsTuple": (lambda: nn.LayerNorm(4), lambda: nn.LayerNorm((4,))),
        "RateByKeyword": (lambda: nn.Dropout(0.1), lambda: nn.Dropout(p=0.1)),
        "ListForStarredSequential": (
            lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
            lambda: nn.Sequential(*[nn.Linear(4, 4), nn.ReLU()]),
        ),
        "DeviceWritten": (lambda: nn.Linear(4, 4), lambda: nn.Linear(4, 4, device="cpu", dtype=torch.float32)),
    },
    harmful=False,
)

functions(
    "operands",
    {
        "SumExchanged": (lambda x, y: x + y, lambda x, y: y + x),
        "ProductExchanged": (lambda x, y: x * y, lambda x, y: y * x),
        "EqualityExchanged": (lambda x, y: x == y, lambda x, y: y == x),
        "FunctionExchanged": (lambda x, y: torch.add(x, y), lambda x, y: torch.add(y, x)),
        "MaximumExchanged": (lambda x, y: torch.maximum(x, y), lambda x, y: torch.maximum(y, x)),
    },
    harmful=False,
    commutative=True,
)

functions(
    "close",
    {
        "RoundedConstant": (lambda x: x * 0.1, lambda x: x * (0.3 - 0.2)),
        "RoundedConstantTensor": (
            lambda x: x * torch.tensor([0.1, 0.2]),
            lambda x: x * torch.tensor([0.10000001, 0.2]),
        ),
        "RoundedLargeConstant": (lambda x: x * t(100), lambda x: x * (t(100) * 3 / 3)),
    },
    harmful=False,
    constants="close",
)


class RenamedNet(Net):
    """The same model under another name of its class."""


class WithUnused(Net):
    def __init__(self) -> None:
        super().__init__()
        self.projection, self.note = nn.Linear(4, 4), "not called"
        self.register_buffer("unused", torch.zeros(3))


class InAnotherOrder(nn.Module):
    """The attributes are assigned in another order."""

    def __init__(self) -> None:
        super().__init__()
        model = Net()
        self.register_buffer("steps", model.steps, persistent=False)
        self.register_buffer("positions", model.positions)
        self.scale, self.head, self.inner, self.table = model.scale, model.head, model.inner, model.table

    forward = Net.forward


class WithHelperMethods(Net):
    def embed(self, x: Tensor) -> Tensor:
        return self.table(x) + self.positions

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.embed(x)) + self.steps

    def project(self, y: Tensor) -> Tensor:
        return self.head(self.inner(y) * self.scale)


class WithLoop(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = self.table(x) + self.positions
        for layer in self.inner:
            y = layer(y)
        return self.head(y * self.scale) + self.steps


class WithProperty(Net):
    @property
    def factor(self) -> Any:
        return self.scale

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(self.table(x) + self.positions)
        return self.head(y * self.factor) + self.steps


class Stack(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())


class WithListOfLayers(Net):
    def __init__(self) -> None:
        super().__init__()
        inner = self.inner
        self.inner = nn.ModuleList(inner)  # type: ignore[assignment]

    forward = WithLoop.forward


models(
    "modules",
    {
        "ClassRenamed": (Net, RenamedNet),
        "UnusedLayerAndBuffer": (Net, WithUnused),
        "AttributesReordered": (Net, InAnotherOrder),
        "HelperMethods": (Net, WithHelperMethods),
        "LoopOverTheLayers": (Net, WithLoop),
        "PropertyForAnAttribute": (Net, WithProperty),
        "ModuleListForSequential": (Net, WithListOfLayers),
        "TracedBefore": (Net, lambda: fxcore.symbolic_trace(Net())),
        "TracedByTorch": (Stack, lambda: torch.fx.symbolic_trace(Stack())),
        "TracedTwice": (Net, lambda: fxcore.symbolic_trace(fxcore.symbolic_trace(Net()))),
    },
    harmful=False,
)

changes(
    "modules",
    Net,
    {
        "WeightsTrained": lambda model: [p.data.normal_() for p in model.parameters()],
        "CheckpointLoaded": lambda model: model.load_state_dict(Net().state_dict()),
        "GradientsThere": lambda model: model(torch.zeros(4, 4, dtype=torch.long)).sum().backward(),
        "BufferWritten": lambda model: model.positions.zero_(),
        "NoteOnAModule": lambda model: setattr(model, "comment", "reviewed"),
        "FlagOfALinearLayer": lambda model: model.inner[0].eval(),
        "ParameterReplaced": lambda model: setattr(model, "scale", nn.Parameter(torch.zeros(4))),
        "HookOnParameter": lambda model: model.scale.register_hook(lambda gradient: gradient),
    },
    harmful=False,
)

functions(
    "exports",
    {
        "ExportedLocalsRenamed": (plain, renamed),
        "ExportedReordered": (plain, reordered),
        "ExportedHelper": (plain, with_helper),
    },
    harmful=False,
    frontend="export",
    example_inputs=(t(3, 4), t(3, 4, seed=1)),
)
