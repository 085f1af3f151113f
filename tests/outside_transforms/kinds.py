"""Wrong transforms of dtype, device, layout, containers and signatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

import fxcore
from tests.outside_transforms.case import GRADS, SEARCH, Model, integers, t, wrong


@wrong(lambda: t(3, 4).double())
class DoubleLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x.float() * 2


@wrong(lambda: t(3, 4))
class IndicesOfThirtyTwoBits(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.argmax(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.argmax(-1).int()


@wrong(lambda: t(3, 4))
class MaskOfBytes(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x > 0

    def rewritten(self, x: Tensor) -> Tensor:
        return (x > 0).to(torch.uint8)


@wrong(lambda: torch.randn(3, 4, dtype=torch.complex64))
class ImaginaryPartLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return torch.complex(x.real * 2, torch.zeros_like(x.real))


@wrong(lambda: torch.randn(3, 4, dtype=torch.complex64))
class ConjugateForgotten(Model):
    def forward(self, x: Tensor) -> Tensor:
        return (x * x.conj()).real

    def rewritten(self, x: Tensor) -> Tensor:
        return (x * x).real


@wrong(lambda: integers(3, 4))
class PromotedByScalar(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 2.0


@wrong(lambda: t(3, 4).half())
class AddedInHalf(Model):
    """The sum of the norm is taken in half precision; its square overflows."""

    def forward(self, x: Tensor) -> Tensor:
        return ((x * 200).float().pow(2).sum(-1) / 100).half()

    def rewritten(self, x: Tensor) -> Tensor:
        return (x * 200).pow(2).sum(-1) / 100


@wrong(lambda: t(4, 4))
class NumberForTensor(Model):
    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        return x + 1, x.shape[0]

    def rewritten(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, torch.tensor(4)


@wrong(lambda: t(4, 4))
class VectorForNumber(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sum().view(1)


@wrong(lambda: t(4, 4).to_sparse())
class SparseBecomesDense(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x.to_dense() * 2


@wrong(lambda: t(3, 4).to("meta"))
class ConstantOnTheProcessor(Model):
    """The result of the model is on the device of the input."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, torch.arange(4, device=x.device)

    def rewritten(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, torch.arange(4, device="cpu")


@wrong(lambda: t(3, 4).to("meta"))
class ShapeOnMeta(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(-1)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sum(-1, keepdim=True)


@wrong(lambda: t(3, 4))
class BfloatForHalf(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.half().float()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.bfloat16().float()


@wrong(lambda: t(3, 4))
class ListBecomesTuple(Model):
    def forward(self, x: Tensor) -> Any:
        return [x + 1, (x * 2,)]

    def rewritten(self, x: Tensor) -> Any:
        return [x + 1, [x * 2]]


class Out(NamedTuple):
    logits: Any
    loss: Any


@wrong(lambda: t(3, 4))
class NamesOfTheTupleLost(Model):
    def forward(self, x: Tensor) -> Any:
        return Out(x + 1, x.sum())

    def rewritten(self, x: Tensor) -> Any:
        return (x + 1, x.sum())


class Marked(dict):  # type: ignore[type-arg]
    scale: float


@fxcore.wrap
def marked(x: Tensor, scale: float) -> Marked:
    made = Marked(pred=x)
    made.scale = scale
    return made


@wrong(lambda: t(3, 4))
class AttributeOfTheContainerChanged(Model):
    def forward(self, x: Tensor) -> Any:
        return marked(x, 2.0)

    def rewritten(self, x: Tensor) -> Any:
        return marked(x, 3.0)


@dataclass
class Boxes:
    corners: Any


@fxcore.wrap
def boxes(x: Tensor, image_size: int) -> Boxes:
    made = Boxes(x)
    made.image_size = image_size  # type: ignore[attr-defined]
    return made


@wrong(lambda: t(3, 4))
class AttributeBesideTheFieldsChanged(Model):
    def forward(self, x: Tensor) -> Any:
        return boxes(x, 224)

    def rewritten(self, x: Tensor) -> Any:
        return boxes(x, 256)


@wrong(lambda: t(3, 4))
class KeyRenamed(Model):
    def forward(self, x: Tensor) -> Any:
        return {"pred": x + 1, "hidden": x}

    def rewritten(self, x: Tensor) -> Any:
        return {"pred": x + 1, "hiddens": x}


@wrong(lambda: t(3, 4))
class NumberedKeysBecomeText(Model):
    def forward(self, x: Tensor) -> Any:
        return {0: x + 1, 1: x - 1}

    def rewritten(self, x: Tensor) -> Any:
        return {"0": x + 1, "1": x - 1}


@wrong(lambda: t(3, 4))
class NoneLeftOut(Model):
    def forward(self, x: Tensor) -> Any:
        return x + 1, None

    def rewritten(self, x: Tensor) -> Any:
        return (x + 1,)


@wrong(lambda: t(3, 4))
class TupleOfOneUnpacked(Model):
    def forward(self, x: Tensor) -> Any:
        return (x + 1,)

    def rewritten(self, x: Tensor) -> Any:
        return x + 1


@wrong(lambda: t(3, 4))
class FlattenedForTheBackend(Model):
    def forward(self, x: Tensor) -> Any:
        return x + 1, (x * 2, x.exp())

    def rewritten(self, x: Tensor) -> Any:
        return x + 1, x * 2, x.exp()


@wrong(lambda: t(3, 3))
class OutputsExchanged(Model):
    def forward(self, x: Tensor) -> Any:
        return {"mean": x.mean(0), "std": x.std(0)}

    def rewritten(self, x: Tensor) -> Any:
        return {"mean": x.std(0), "std": x.mean(0)}


@wrong(lambda: t(3, 4))
class ExtraOutput(Model):
    def forward(self, x: Tensor) -> Any:
        return [x + 1]

    def rewritten(self, x: Tensor) -> Any:
        return [x + 1, x]


@wrong(lambda: (t(3, 4), t(3, 4, seed=1)))
class InputsExchanged(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x - y

    def rewritten(self, y: Tensor, x: Tensor) -> Tensor:
        return x - y


@wrong(lambda: t(3, 4))
class DefaultChanged(Model):
    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return x * scale

    def rewritten(self, x: Tensor, scale: float = 2.0) -> Tensor:
        return x * scale


@wrong(lambda: t(3, 4))
class DefaultOfAnUnpassedKeywordLost(Model):
    def forward(self, x: Tensor, bias: Any = 0.5) -> Tensor:
        return x + bias

    def rewritten(self, x: Tensor, bias: Any) -> Tensor:
        return x + bias


@wrong(lambda: t(3, 4))
class OptionalInputRemoved(Model):
    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return x * scale

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 1.0


@wrong(lambda: t(3, 4))
class InputRenamed(Model):
    def forward(self, input_ids: Tensor) -> Tensor:
        return input_ids * 2

    def rewritten(self, arg0_1: Tensor) -> Tensor:
        return arg0_1 * 2


@wrong(lambda: t(3, 4), SEARCH)
class KeywordThatTheTestLeavesOut(Model):
    """Right for the default, and wrong for any other value."""

    def forward(self, x: Tensor, scale: float = 2.0) -> Tensor:
        return x * scale

    def rewritten(self, x: Tensor, scale: float = 2.0) -> Tensor:
        return x * 2.0 + (scale - scale)


@wrong(lambda: (t(3, 4), {"mask": t(3, 4, seed=1), "bias": t(4, seed=2)}))
class WrongKeyRead(Model):
    def forward(self, x: Tensor, extra: dict[str, Tensor]) -> Tensor:
        return x + extra["bias"]

    def rewritten(self, x: Tensor, extra: dict[str, Tensor]) -> Tensor:
        return x + extra["mask"]


@wrong(lambda: t(3, 4), GRADS)
class OutputThatNeedsNoGradient(Model):
    def forward(self, x: Tensor) -> Any:
        return x * 2, x.detach() + 1

    def rewritten(self, x: Tensor) -> Any:
        return x * 2, x + 1
