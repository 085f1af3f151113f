"""Models that take objects, numbers and containers of many kinds as arguments."""

from __future__ import annotations

import collections
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.guided_cases.case import call, case, ints, t


class Features(dict[str, Any]):
    """A dict whose keys are attributes, as libraries of language models have it."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)


@case(
    lambda: [
        call(Features(x=t(2))),
        call(Features(x=t(2), mask=t(2))),
        call(Features(x=t(3))),
        call(Features(x=t(2), mask=None)),
    ]
)
class AttributesOfDict(nn.Module):
    def forward(self, batch: Features) -> Any:
        mask = getattr(batch, "mask", None)
        return Features(out=batch.x if mask is None else batch.x * mask)


@dataclass(frozen=True)
class Options:
    width: int = 2
    name: str = "relu"
    rates: tuple[float, ...] = (0.5,)


@case(
    lambda: [
        call(t(4), Options()),
        call(t(4), Options(3)),
        call(t(4), Options(name="tanh")),
        call(t(4), Options(rates=(0.5, 2.0))),
    ]
)
class FrozenOptions(nn.Module):
    def forward(self, x: Tensor, options: Options) -> Tensor:
        x = getattr(torch, options.name)(x)[: options.width]
        for rate in options.rates:
            x = x * rate
        return x


@case(
    lambda: [
        call(types.SimpleNamespace(x=t(2), scale=2)),
        call(types.SimpleNamespace(x=t(2), scale=3)),
        call(types.SimpleNamespace(x=t(2))),
    ]
)
class Namespace(nn.Module):
    def forward(self, args: Any) -> Tensor:
        return args.x * args.scale if hasattr(args, "scale") else args.x


@case(
    lambda: [
        call(collections.defaultdict(list, a=[t(2)])),
        call(collections.defaultdict(list, a=[t(2)], b=[t(2)])),
        call(collections.defaultdict(list)),
        call({"a": [t(2)]}),
    ]
)
class DefaultDict(nn.Module):
    def forward(self, groups: dict[str, list[Tensor]]) -> Tensor:
        return torch.stack([*groups["a"], torch.ones(2)]).sum(0) + len(groups["b"])


@case(lambda: [call(t(2), Fraction(1, 2)), call(t(2), Fraction(3, 2)), call(t(2), Fraction(1, 3))])
class FractionArgument(nn.Module):
    def forward(self, x: Tensor, ratio: Fraction) -> Tensor:
        return x * ratio.numerator / ratio.denominator if ratio < 1 else x


@case(lambda: [call(t(2), 1 + 2j), call(t(2), 2j), call(t(2), 1 - 2j), call(t(3), 1 + 2j)])
class ComplexArgument(nn.Module):
    def forward(self, x: Tensor, z: complex) -> Tensor:
        return x * z if z.imag > 0 else x * z.real


@case(
    lambda: [
        call(t(3, 4), torch.Size([4, 3])),
        call(t(3, 4), torch.Size([2, 6])),
        call(t(3, 4), (12,)),
        call(t(3, 4), [6, -1]),
    ]
)
class ShapeArgument(nn.Module):
    def forward(self, x: Tensor, shape: Any) -> Tensor:
        return x.reshape(shape) * len(shape)


@case(lambda: [call(t(3, 4), 3), call(t(3, 4), 4), call(t(4, 4), 3), call(t(4, 4), 4)])
class SizeAgainstNumber(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x[:n] * 2 if x.shape[0] == n else x[:n]


@case(lambda: [call(t(6), 2), call(t(6), 3), call(t(6), 1), call(t(12), 2), call(t(6), 4)])
class NumberAsSize(nn.Module):
    def forward(self, x: Tensor, groups: int) -> Tensor:
        return (x.view(groups, x.shape[0] // groups) + torch.arange(groups)[:, None]).flatten()


@case(lambda: [call(t(2), 3), call(t(2), 2), call(t(2), 0), call(t(2), -1)])
class NumberOfSteps(nn.Module):
    def forward(self, x: Tensor, steps: int) -> Tensor:
        for i in range(steps):
            x = x.tanh() + i
        return x


@case(lambda: [call(t(2), 2), call(t(2), 3), call(t(2), True), call(t(2), 2.0), call(t(2), "2")])
class KindOfNumber(nn.Module):
    def forward(self, x: Tensor, n: Any) -> Tensor:
        if isinstance(n, bool):
            return -x
        if type(n) is int and n % 2 == 0:
            return x + n
        return x * float(n)


@case(lambda: [call(t(2), 1), call(t(2), 2), call(t(2), 5), call(t(2), 1.0)])
class NumberAsKey(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"1": nn.Linear(2, 2), "2": nn.Linear(2, 2)})
        self.scales = {1: 3.0, 2: 4.0}

    def forward(self, x: Tensor, n: int) -> Tensor:
        return self.layers[str(n)](x) * self.scales.get(n, 1.0) if n in self.scales else x


@case(
    lambda: [call(t(2), ["a", "b"]), call(t(2), ["b"]), call(t(2), []), call(t(2), ("a", "b")), call(t(2), ["a", "c"])]
)
class ListOfNames(nn.Module):
    def forward(self, x: Tensor, names: list[str]) -> dict[str, Tensor]:
        out = {name: x * (i + 1) for i, name in enumerate(names)}
        if "b" in names:
            out["extra"] = x
        return out


@case(lambda: [call(t(2), "layer.0"), call(t(2), "layer.1"), call(t(2), "other.0"), call(t(2), "")])
class StringMethods(nn.Module):
    def forward(self, x: Tensor, path: str) -> Tensor:
        name, _, index = path.partition(".")
        if not path.startswith("layer"):
            return x
        return x * (int(index) + len(name))


@case(lambda: [call(t(2), b"ab"), call(t(2), b"abc"), call(t(2), b"")])
class BytesArgument(nn.Module):
    def forward(self, x: Tensor, data: bytes) -> Tensor:
        return x * len(data) if data else x


@case(lambda: [call(t(2), range(3)), call(t(2), range(2)), call(t(2), range(0, 6, 2)), call(t(2), [0, 1, 2])])
class RangeArgument(nn.Module):
    def forward(self, x: Tensor, steps: Any) -> Tensor:
        return x + sum(steps) * len(steps)


@case(lambda: [call([t(2), t(3)]), call([t(3), t(2)]), call([t(3), t(3)]), call([t(2), t(3), t(4)])])
class LongestOfParts(nn.Module):
    def forward(self, parts: list[Tensor]) -> Tensor:
        longest = max(len(part) for part in parts)
        return torch.stack([F.pad(part, (0, longest - len(part))) for part in parts])


@case(lambda: [call([t(2), None]), call([t(2), t(2)]), call([None, t(2)]), call([None, None])])
class AnyIsNone(nn.Module):
    def forward(self, parts: list[Tensor | None]) -> Tensor:
        if all(part is None for part in parts):
            return torch.zeros(2)
        found = next(part for part in parts if part is not None)
        return found * 2 if any(part is None for part in parts) else found


@case(lambda: [call([(t(2), 1), (t(2), 2)]), call([(t(2), 2), (t(2), 1)]), call([(t(2), 1)]), call([])])
class UnzippedPairs(nn.Module):
    def forward(self, pairs: list[tuple[Tensor, int]]) -> Tensor:
        if not pairs:
            return torch.zeros(2)
        tensors, weights = zip(*pairs, strict=True)
        return sum(tensor * weight for tensor, weight in zip(tensors, weights, strict=True)) / sum(weights)  # type: ignore[no-any-return]


@case(lambda: [call(b=t(2), a=t(2, seed=1)), call(a=t(2), b=t(2, seed=1)), call(a=t(2)), call(c=t(2), a=t(2, seed=1))])
class SortedKeywords(nn.Module):
    def forward(self, **parts: Tensor) -> Tensor:
        total = torch.zeros(2)
        for i, name in enumerate(sorted(parts)):
            total = total + parts[name] * (i + 1)
        return total - next(iter(parts.values()))


@case(lambda: [call(t(2), a={"b": {"c": 1}}), call(t(2), a={"b": {"c": 2}}), call(t(2), a={"b": {}}), call(t(2), a={})])
class NestedLookups(nn.Module):
    def forward(self, x: Tensor, a: dict[str, Any]) -> Tensor:
        return x * a.get("b", {}).get("c", 7)


class Registry(Mapping[str, Tensor]):
    """A mapping of a user's own class."""

    def __init__(self, parts: dict[str, Tensor]) -> None:
        self.parts = parts

    def __getitem__(self, name: str) -> Tensor:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


@case(lambda: [call(Registry({"a": t(2)})), call(Registry({"a": t(2), "b": t(2)})), call(Registry({"b": t(2)}))])
class OwnMapping(nn.Module):
    def forward(self, parts: Registry) -> Tensor:
        return sum(parts[name] for name in parts) * len(parts)  # type: ignore[return-value]


@case(lambda: [call(t(2), torch.device("cpu")), call(t(2), "cpu"), call(t(2), torch.device("meta")), call(t(2), None)])
class DeviceArgument(nn.Module):
    def forward(self, x: Tensor, device: Any = None) -> Tensor:
        return x + torch.ones(2, device=device) if device is not None else x


@case(lambda: [call(t(2), numpy.bool_(True)), call(t(2), numpy.bool_(False)), call(t(2), True)])
class NumpyFlag(nn.Module):
    def forward(self, x: Tensor, flag: Any) -> Tensor:
        return x * 2 if flag else x


@case(lambda: [call(t(2), 0.1), call(t(2), 0.2), call(t(2), 1), call(t(3), 0.1)])
class RateArgument(nn.Module):
    def forward(self, x: Tensor, rate: float) -> tuple[Tensor, float]:
        return x * (1 - rate) + rate**2, round(rate * 3, 2)


@case(lambda: [call(t(2, 3), None), call(t(2, 3), (1,)), call(t(2, 3), (0, 1)), call(t(4, 3), None)])
class DimsOrNone(nn.Module):
    def forward(self, x: Tensor, dims: tuple[int, ...] | None) -> Tensor:
        kept = [d for d in range(x.dim()) if dims is None or d not in dims]
        return x.sum(kept) if kept else x


@case(
    lambda: [
        call(ints(4), t(4, 2)),
        call(ints(4), t(4, 2), t(2)),
        call(ints(4), t(4, 2), bias=t(2)),
        call(ints(4), t(4, 2), None),
    ]
)
class OverloadsByCount(nn.Module):
    def forward(self, ids: Tensor, *rest: Tensor | None, bias: Tensor | None = None) -> Tensor:
        out = rest[0] * ids[:, None]
        if len(rest) > 1 and rest[1] is not None:
            out = out + rest[1]
        return out if bias is None else out - bias


@case(
    lambda: [
        call({"x": t(2), "config": {"drop": ["a"]}}),
        call({"x": t(2), "config": {"drop": []}}),
        call({"x": t(2), "config": {"drop": ["x"]}}),
    ]
)
class ReturnsItsArgument(nn.Module):
    def forward(self, batch: dict[str, Any]) -> Any:
        for name in batch["config"]["drop"]:
            batch.pop(name, None)
        return batch


@case(
    lambda: [call(nn.utils.rnn.pack_sequence([t(3, 2), t(2, 2)])), call(nn.utils.rnn.pack_sequence([t(4, 2), t(1, 2)]))]
)
class PackedInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(2, 2)

    def forward(self, packed: Any) -> Tensor:
        return self.rnn(packed)[1]
