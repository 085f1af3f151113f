"""Wrong transforms with inputs for which every graph would be right: the check has to say so."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import fxcore
from tests.outside_transforms.case import GRADS, SEARCH, Model, t, wrong


class Affine(Model):
    """The same fault for all of these inputs."""

    def forward(self, x: Tensor) -> Any:
        return x * 2

    def rewritten(self, x: Tensor) -> Any:
        return x * 3 + 1


class Doubled(Affine):
    def rewritten(self, x: Tensor) -> Any:
        return x * 3


@wrong(lambda: torch.empty(3, 4, device="meta"))
class OnMeta(Affine): ...


@wrong(lambda: torch.empty(0, 4))
class EmptyBatch(Affine): ...


@wrong(lambda: torch.full((3, 4), float("nan")))
class AllNan(Affine): ...


@wrong(lambda: torch.full((3, 4), float("inf")))
class AllInfinite(Affine): ...


@wrong(lambda: torch.full((3, 4), float("-inf")))
class AllMinusInfinite(Affine): ...


@wrong(lambda: torch.tensor([[float("nan"), float("inf"), float("-inf")]]))
class NothingFinite(Affine): ...


@wrong(lambda: torch.zeros(3, 4))
class AllZeros(Doubled): ...


@wrong(lambda: torch.zeros(3, 4, dtype=torch.long))
class AllZerosOfIntegers(Doubled): ...


@wrong(lambda: torch.tensor([0.0, float("nan"), float("inf")]))
class ZerosAndNan(Doubled): ...


@wrong(lambda: torch.full((3, 4), complex("nan")))
class ComplexNan(Affine): ...


@wrong(lambda: torch.empty(0, 4), **GRADS)
class EmptyWithGradients(Affine): ...


@wrong(lambda: torch.full((3, 4), float("nan")), **GRADS)
class NanWithGradients(Affine): ...


@wrong(lambda: torch.full((3, 4), float("nan")), sqnr=30)
class NanWithThreshold(Affine): ...


@wrong(lambda: torch.empty(0, 4), cosine=0.99)
class EmptyWithThreshold(Affine): ...


@wrong(lambda: t(3, 4), checks=("dtype", "strides"))
class ShapeBesideTypes(Affine):
    def rewritten(self, x: Tensor) -> Any:
        return (x * 3 + 1).view(4, 3)


@wrong(lambda: t(3, 4), rtol=1e9)
class ToleranceOfEverything(Affine): ...


@wrong(lambda: t(3, 4), atol=float("inf"))
class ToleranceWithoutEnd(Affine): ...


@wrong(lambda: torch.empty(3, 0, 4))
class EmptyInEveryPart(Affine):
    def forward(self, x: Tensor) -> Any:
        return {"a": x * 2, "b": [x + 1]}

    def rewritten(self, x: Tensor) -> Any:
        return {"a": x * 3, "b": [x - 1]}


@wrong(lambda: torch.empty(0, 4))
class EmptyBesideNone(Affine):
    def forward(self, x: Tensor) -> Any:
        return x * 2, None

    def rewritten(self, x: Tensor) -> Any:
        return x * 3, None


@wrong(lambda: torch.empty(0, 4))
class SumOfNothing(Affine):
    """The sum over no row is 0, whatever is summed."""

    def forward(self, x: Tensor) -> Any:
        return (x * 2).sum(0)

    def rewritten(self, x: Tensor) -> Any:
        return (x * 3).sum(0)


@wrong(lambda: torch.empty(0, 4))
class MeanOfNothing(Affine):
    def forward(self, x: Tensor) -> Any:
        return (x * 2).mean(0)

    def rewritten(self, x: Tensor) -> Any:
        return (x * 3 + 1).mean(0)


@wrong(lambda: t(3, 4))
class ModelThatDividesByZero(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 * (torch.zeros(4) / torch.zeros(4))

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 3 * (torch.zeros(4) / torch.zeros(4))


@wrong(lambda: t(3, 4))
class WeightsOfZeros(Model):
    """A last layer that starts at zero hides all before it."""

    def build(self) -> None:
        self.head = nn.Linear(4, 2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.relu())

    def rewritten(self, x: Tensor) -> Tensor:
        return self.head(x.sigmoid())


@wrong(lambda: t(3, 4), SEARCH)
class ReluOfNegativeNumbers(Model):
    """All is below zero in the test, and its bias hides it."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 20).relu() + 1

    def rewritten(self, x: Tensor) -> Tensor:
        return (x * 2 - 20).relu() + 1


@wrong(lambda: t(3, 4), {**SEARCH, **GRADS})
class Saturated(Model):
    def forward(self, x: Tensor) -> Tensor:
        return (x + 200).sigmoid()

    def rewritten(self, x: Tensor) -> Tensor:
        return (x * 2 + 200).sigmoid()


@wrong(lambda: t(3, 4))
class NothingReturned(Model):
    """No tensor comes out: the state of the model is all there is, and no part of it is written."""

    def forward(self, x: Tensor) -> None:
        x * 2

    def rewritten(self, x: Tensor) -> None:
        x * 3


@wrong(lambda: torch.full((3, 4), float("nan")), SEARCH)
class NanInOneOfTwoOutputs(Model):
    """The number of rows could have been wrong; the values could not."""

    def forward(self, x: Tensor) -> Any:
        return x * 2, x.shape[0]

    def rewritten(self, x: Tensor) -> Any:
        return x * 3, x.shape[0]


@wrong(lambda: (torch.empty(0, 4), t(3, 4)), SEARCH)
class EmptyBesideFull(Model):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        return x * 2, y * 2

    def rewritten(self, x: Tensor, y: Tensor) -> Any:
        return x * 3, y * 2


@wrong(lambda: torch.full((3, 4), float("nan")), idempotent=True)
class NanInAPass(Affine):
    @staticmethod
    def rewrite(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        for node in gm.graph.nodes:
            if node.op == "call_function":
                node.args = (node.args[0], 3)
        gm.recompile()
        return gm
