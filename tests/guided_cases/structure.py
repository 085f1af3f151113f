"""Models whose answer depends on the structure of the inputs."""

from __future__ import annotations

import collections
import enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.guided_cases.case import call, case, ints, t


@case(lambda: [call(t(3, 4)), call(t(3, 4), t(3, 4)), call(t(5, 4), None), call(t(3, 4), mask=t(3, 4, seed=1))])
class OptionalMask(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x * 2 if mask is None else x * mask


@case(lambda: [call({"x": t(2, 3), "mask": None}), call({"x": t(2, 3), "mask": t(2, 3)}), call({"x": t(2, 3)})])
class MaskInDict(nn.Module):
    def forward(self, batch: dict[str, Any]) -> Tensor:
        if batch["mask"] is None:
            return batch["x"] + 1
        return batch["x"] * batch["mask"]


@case(lambda: [call({"x": t(2, 3)}), call({"x": t(2, 3), "bias": t(3)}), call({"bias": t(3), "x": t(2, 3)})])
class KeyInDict(nn.Module):
    def forward(self, batch: dict[str, Any]) -> Tensor:
        out = batch["x"]
        if "bias" in batch:
            out = out + batch["bias"]
        return out


@case(lambda: [call({"x": t(2, 3), "scale": 2.0}), call({"x": t(2, 3)}), call({"x": t(2, 3), "scale": 3.0})])
class DictGetWithDefault(nn.Module):
    def forward(self, batch: dict[str, Any]) -> Tensor:
        return batch["x"] * batch.get("scale", 1.0)


@case(
    lambda: [
        call({"b": t(2), "a": t(2, seed=1)}),
        call({"a": t(2), "b": t(2, seed=1)}),
        call({"a": t(2), "c": t(2, seed=1)}),
        call({"b": t(2), "a": t(2, seed=1), "c": t(2, seed=2)}),
    ]
)
class OrderOfKeys(nn.Module):
    def forward(self, parts: dict[str, Tensor]) -> Tensor:
        return torch.stack(list(parts.values()))


@case(lambda: [call({"a": t(2), "b": t(2)}), call({"a": t(2)}), call({"x": t(2), "b": t(2)})])
class RenamedKeys(nn.Module):
    def forward(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        return {f"{key}_out": value + i for i, (key, value) in enumerate(parts.items())}


@case(lambda: [call([t(2), t(2)]), call([t(2), t(2), t(2)]), call([t(2)]), call([t(3), t(3)]), call((t(2), t(2)))])
class SumOfList(nn.Module):
    def forward(self, parts: list[Tensor]) -> Tensor:
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


@case(lambda: [call([t(2, 3), t(2, 3)]), call([t(2, 3)] * 3), call([t(4, 3), t(1, 3)])])
class CatOfList(nn.Module):
    def forward(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts)


@case(lambda: [call(t(2), t(2)), call(t(2)), call(t(2), t(2), t(2)), call(t(5), t(5))])
class VariadicSum(nn.Module):
    def forward(self, *parts: Tensor) -> Tensor:
        return sum(parts) / len(parts)  # type: ignore[return-value]


@case(lambda: [call(t(2), scale=t(2)), call(t(2)), call(t(2), scale=t(2), shift=t(2)), call(t(2), shift=t(2))])
class KeywordOptions(nn.Module):
    def forward(self, x: Tensor, **options: Tensor) -> Tensor:
        for name, value in options.items():
            x = x * value if name == "scale" else x + value
        return x


@case(lambda: [call(t(2), a=1), call(t(2), a=2), call(t(2), a=1, b=1), call(t(2))])
class CountOfKeywords(nn.Module):
    def forward(self, x: Tensor, **options: int) -> Tensor:
        return x * len(options) + options.get("a", 0)


@dataclass
class Batch:
    x: Tensor
    mask: Tensor | None = None
    names: list[str] = field(default_factory=list)


@case(
    lambda: [
        call(Batch(t(2, 3))),
        call(Batch(t(2, 3), t(2, 3))),
        call(Batch(t(4, 3))),
        call(Batch(t(2, 3), None, ["a"])),
    ]
)
class DataclassInput(nn.Module):
    def forward(self, batch: Batch) -> Tensor:
        out = batch.x if batch.mask is None else batch.x * batch.mask
        return out + len(batch.names)


@case(lambda: [call(Batch(t(2, 3), t(2, 3))), call(Batch(t(2, 3))), call(Batch(t(5, 3), t(5, 3)))])
class DataclassOutput(nn.Module):
    def forward(self, batch: Batch) -> Batch:
        return Batch(batch.x + 1, batch.mask, ["done"])


class Pair(NamedTuple):
    first: Tensor
    second: Tensor | None


@case(lambda: [call(Pair(t(2), None)), call(Pair(t(2), t(2))), call(Pair(t(5), None)), call((t(2), None))])
class NamedTupleInput(nn.Module):
    def forward(self, pair: Pair) -> Pair:
        first, second = pair
        if second is not None:
            first = first + second
        return Pair(first, None)


@case(lambda: [call(t(2), Pair(t(2), t(2))), call(t(2), (t(2), t(2))), call(t(2), [t(2), t(2)])])
class KindOfSequence(nn.Module):
    def forward(self, x: Tensor, rest: Any) -> Tensor:
        if isinstance(rest, list):
            return x * 0
        if hasattr(rest, "first"):
            return x + rest.first
        return x - rest[0]


@case(lambda: [call((t(2), None, t(2))), call((t(2), t(2), t(2))), call((None, t(2), t(2))), call((t(2), None))])
class NoneInsideTuple(nn.Module):
    def forward(self, parts: tuple[Tensor | None, ...]) -> Tensor:
        return torch.cat([part for part in parts if part is not None])


@case(lambda: [call(t(2, 2), "relu"), call(t(2, 2), "tanh"), call(t(3, 2), "relu"), call(t(2, 2), "RELU")])
class ActivationByString(nn.Module):
    def forward(self, x: Tensor, kind: str) -> Tensor:
        return torch.relu(x) if kind == "relu" else getattr(torch, kind.lower())(x) * 3


class Mode(enum.Enum):
    A = "a"
    B = "b"


class Bits(enum.IntFlag):
    NEGATE = 1
    DOUBLE = 2


@case(lambda: [call(t(2), Mode.A), call(t(2), Mode.B), call(t(3), Mode.A)])
class EnumByIdentity(nn.Module):
    def forward(self, x: Tensor, mode: Mode) -> Tensor:
        if mode is Mode.A:
            return x + 1
        return x - 1


@case(
    lambda: [
        call(t(2), Bits.NEGATE),
        call(t(2), Bits.DOUBLE),
        call(t(2), Bits.NEGATE | Bits.DOUBLE),
        call(t(2), Bits(0)),
    ]
)
class FlagBits(nn.Module):
    def forward(self, x: Tensor, bits: Bits) -> Tensor:
        if bits & Bits.NEGATE:
            x = -x
        return x * 2 if Bits.DOUBLE in bits else x


@case(lambda: [call(t(2), True), call(t(2), False), call(t(3), 1), call(t(3), 0)])
class BoolArgument(nn.Module):
    def forward(self, x: Tensor, double: bool) -> Tensor:
        return x * 2 if double else x


@case(lambda: [call(t(2), 3), call(t(2), 4), call(t(5), 3), call(t(2), 3.0), call(t(2), True)])
class IntegerArgument(nn.Module):
    def forward(self, x: Tensor, power: int) -> tuple[Tensor, int]:
        return x**power, power + 1


@case(lambda: [call(ints(3), 2), call(ints(3), 2.0), call(ints(3), 2.5), call(ints(3), True)])
class NumberPromotes(nn.Module):
    def forward(self, x: Tensor, factor: float) -> Tensor:
        return x * factor


@case(lambda: [call(t(2), 0.5), call(t(2), 0.0), call(t(2), -0.5), call(t(2), float("nan"))])
class FloatDecides(nn.Module):
    def forward(self, x: Tensor, rate: float) -> Tensor:
        if rate > 0:
            return x * rate
        return x - 1


@case(lambda: [call(t(4, 4), dim=0), call(t(4, 4), dim=1), call(t(4, 6), dim=-1), call(t(4, 4), dim=None)])
class DimArgument(nn.Module):
    def forward(self, x: Tensor, dim: int | None = None) -> Tensor:
        return x.sum() if dim is None else x.softmax(dim)


@case(lambda: [call(t(2, 3), [0, 1]), call(t(2, 3), [1]), call(t(2, 3), [0]), call(t(2, 3), (0, 1))])
class ListOfDims(nn.Module):
    def forward(self, x: Tensor, dims: list[int]) -> Tensor:
        return x.mean(dims) * len(dims)


@case(lambda: [call(t(2, 3), torch.float64), call(t(2, 3), torch.float32), call(t(2, 3), torch.int64)])
class DtypeArgument(nn.Module):
    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return x.to(dtype) + (1 if dtype.is_floating_point else 2)


@case(
    lambda: [
        call(t(6), slice(0, 2)),
        call(t(6), slice(1, 4)),
        call(t(6), slice(None, None, 2)),
        call(t(8), slice(0, 2)),
    ]
)
class SliceArgument(nn.Module):
    def forward(self, x: Tensor, part: slice) -> Tensor:
        return x[part] * 2


@case(lambda: [call(t(2), lambda v: v + 1), call(t(2), torch.relu), call(t(2), lambda v: v + 2)])
class FunctionArgument(nn.Module):
    def forward(self, x: Tensor, function: Any) -> Tensor:
        return function(x) * 2


@case(
    lambda: [
        call({"a": [t(2), {"b": None}], "c": (1, "k")}),
        call({"a": [t(2), {"b": t(2)}], "c": (1, "k")}),
        call({"a": [t(2), {}], "c": (1, "k")}),
        call({"a": [t(2), {"b": None}], "c": (2, "k")}),
        call({"a": [t(2), {"b": None}], "c": (1, "z")}),
    ]
)
class DeepNest(nn.Module):
    def forward(self, tree: dict[str, Any]) -> Tensor:
        x, options = tree["a"]
        number, key = tree["c"]
        if options.get("b") is not None:
            x = x + options["b"]
        return x * number if key == "k" else x


@case(lambda: [call([[t(2)], [t(2), t(2)]]), call([[t(2), t(2)], [t(2)]]), call([[], [t(2)]]), call([[t(2)]])])
class RaggedLists(nn.Module):
    def forward(self, rows: list[list[Tensor]]) -> Tensor:
        return torch.stack([sum(row, torch.zeros(2)) * len(row) for row in rows])


@case(lambda: [call(t(3), t(3)), call(t(3), t(1)), call(t(3), 2.0), call(t(3), None), call(t(3), "no")])
class UnionInput(nn.Module):
    def forward(self, x: Tensor, other: Any) -> Tensor:
        if isinstance(other, Tensor):
            return x + other
        if isinstance(other, (int, float)):
            return x * other
        return x


@case(
    lambda: [
        call({0: t(2), 1: t(2)}),
        call({1: t(2), 0: t(2, seed=1)}),
        call({0: t(2), 2: t(2)}),
    ]
)
class IntegerKeys(nn.Module):
    def forward(self, parts: dict[int, Tensor]) -> Tensor:
        return parts[min(parts)] - parts[max(parts)] * 2


@case(
    lambda: [
        call(collections.OrderedDict(a=t(2), b=t(2, seed=1))),
        call(collections.OrderedDict(b=t(2), a=t(2, seed=1))),
        call({"a": t(2), "b": t(2, seed=1)}),
    ]
)
class OrderedOutput(nn.Module):
    def forward(self, features: dict[str, Tensor]) -> Any:
        out = type(features)()
        for name, value in features.items():
            out[name] = value.relu()
        return out


@case(lambda: [call(t(2, 3), return_all=False), call(t(2, 3), return_all=True), call(t(4, 3), return_all=False)])
class StructureOfOutput(nn.Module):
    def forward(self, x: Tensor, return_all: bool = False) -> Any:
        hidden = x.tanh()
        return {"last": hidden, "all": [x, hidden]} if return_all else hidden


@case(lambda: [call(t(2), ()), call(t(2), (t(2),)), call(t(3), ())])
class EmptyTupleIsFalse(nn.Module):
    def forward(self, x: Tensor, extra: tuple[Tensor, ...] = ()) -> Tensor:
        if not extra:
            return x
        return x + extra[-1]


@case(lambda: [call(t(3)), call(t(3), out_scale=t(1)), call(x=t(3)), call(t(4), out_scale=None)])
class KeywordOnly(nn.Module):
    def forward(self, x: Tensor, *, out_scale: Tensor | None = None) -> Tensor:
        return x if out_scale is None else x * out_scale


@case(lambda: [call([t(2), t(2, seed=1)], 0), call([t(2), t(2, seed=1)], 1), call([t(2), t(2, seed=1)], -1)])
class IndexOfList(nn.Module):
    def forward(self, parts: list[Tensor], index: int) -> Tensor:
        return parts[index] * 2


@case(lambda: [call({"a", "b"}, t(2)), call({"a"}, t(2)), call(set(), t(2))])
class SetOfStrings(nn.Module):
    def forward(self, names: set[str], x: Tensor) -> Tensor:
        return x + 1 if "b" in names else x * len(names)
