"""Models that use the whole of Python."""

from __future__ import annotations

import functools
import itertools
import operator
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.guided_cases.case import after, call, case, t

SCALE = 2.0
HISTORY: list[int] = []
OPTIONS: dict[str, Any] = {"power": 2}


def forget() -> None:
    global SCALE
    SCALE = 2.0
    HISTORY.clear()
    OPTIONS.update(power=2)


def rescale(model: object) -> None:
    global SCALE
    SCALE = 5.0


@case(lambda: [call(t(3)), after(rescale, t(3)), call(t(4))], leave=forget)
class GlobalNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * SCALE


@case(lambda: [call(t(3)), call(t(3)), call(t(4))], leave=forget, watch=lambda: list(HISTORY))
class GlobalListThatGrows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        HISTORY.append(x.shape[0])
        return x + 1


@case(lambda: [call(t(3)), call(t(4, 3)), call(t(2, 3, 4)), call(t(5))])
class MatchOnShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        match x.shape:
            case (n,):
                return x * n
            case (1, _):
                return x - 1
            case (n, m):
                return x + n - m
            case _:
                return x.flatten()


@case(
    lambda: [
        call({"kind": "scale", "by": 2.0}, t(3)),
        call({"kind": "shift", "by": 2.0}, t(3)),
        call({"by": 1.0}, t(3)),
    ]
)
class MatchOnDict(nn.Module):
    def forward(self, command: dict[str, Any], x: Tensor) -> Tensor:
        match command:
            case {"kind": "scale", "by": by}:
                return x * by
            case {"kind": "shift", "by": by}:
                return x + by
            case _:
                return x


@case(lambda: [call(t(3)), call(2.0), call([t(3), t(3)]), call(None)])
class MatchOnType(nn.Module):
    def forward(self, value: Any) -> Any:
        match value:
            case Tensor():
                return value * 2
            case [first, *rest]:
                return first + len(rest)
            case None:
                return torch.zeros(1)
            case _:
                return torch.tensor(value)


@case(lambda: [call(t(3)), call(t(5)), call(t(1))])
class RecursiveSum(nn.Module):
    def total(self, x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            return x[0]
        half = x.shape[0] // 2
        return self.total(x[:half]) * 0.5 + self.total(x[half:])

    def forward(self, x: Tensor) -> Tensor:
        return self.total(x)


@case(lambda: [call(t(3, 2)), call(t(5, 2)), call(t(1, 2))])
class Generator(nn.Module):
    def rows(self, x: Tensor) -> Iterator[Tensor]:
        state = x[0] * 0
        for row in x:
            state = state * 0.5 + row
            yield state

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack(list(self.rows(x)))


@functools.lru_cache(maxsize=8)
def positions(n: int, d: int) -> Tensor:
    return torch.arange(float(n * d)).view(n, d)


@case(lambda: [call(t(3, 2)), call(t(5, 2)), call(t(3, 2))], leave=lambda: positions.cache_clear())
class CachedPositions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + positions(*x.shape)


@functools.lru_cache(maxsize=8)
def squared(x: Tensor) -> Tensor:
    return x * x


@case(lambda: [call(t(3)), call(t(3, seed=1)), call(t(4))], leave=lambda: squared.cache_clear())
class CacheKeyedByTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return squared(x) + 1


@case(lambda: [call(t(3)), call(t(5)), call(t(3, seed=1))])
class ClosuresInLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps: list[Callable[[Tensor], Tensor]] = [lambda v, i=i: v * (i + 1) for i in range(3)]  # type: ignore[misc]
        return functools.reduce(lambda value, step: step(value) + len(steps), steps, x)


@case(lambda: [call(t(3, 4)), call(t(3, 5)), call(t(4, 4)), call(t(3))])
class TryThenExcept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        try:
            return x @ self.weight
        except RuntimeError:
            return x.sum()


@case(lambda: [call(t(3, 4)), call({"x": t(3, 4)}), call([t(3, 4)])])
class TryKey(nn.Module):
    def forward(self, batch: Any) -> Tensor:
        try:
            x = batch["x"]
        except (TypeError, IndexError, KeyError):
            x = batch[0]
        return x * 2


@case(lambda: [call(t(3)), after(lambda m: setattr(m, "factor", 4.0), t(3)), call(t(4))])
class PropertyOfModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0
        self.weight = nn.Parameter(torch.ones(()))

    @property
    def scale(self) -> Tensor:
        return self.weight * self.factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Angle:
    """A value of a user's own class that holds a tensor."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def __add__(self, other: Angle) -> Angle:
        return Angle((self.value + other.value) % 3.0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Angle) and self.value.shape == other.value.shape

    __hash__ = None  # type: ignore[assignment]


@case(lambda: [call(t(3), t(3)), call(t(3), t(1)), call(t(4), t(4))])
class OverloadedOperators(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        one, other = Angle(a), Angle(b)
        return (one + other).value if one == other else one.value - other.value


@case(lambda: [call(Angle(t(3))), call(Angle(t(4))), call(Angle(t(3, seed=1)))])
class ObjectInput(nn.Module):
    def forward(self, angle: Angle) -> Tensor:
        return angle.value * 2


@case(lambda: [call(t(2, 3)), call(t(4, 3)), call(t(2, 5))])
class ZipAndEnumerate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([torch.ones(()) * i for i in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        total = x.new_zeros(x.shape[1])
        for i, (row, weight) in enumerate(zip(x, self.weights)):  # noqa: B905
            total = total + row * weight * (i + 1)
        return total


@case(lambda: [call(t(3)), call(t(4)), call(t(2))])
class PairsOfRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pairs = [a * b for a, b in itertools.combinations(x.unbind(), 2)]
        return torch.stack(pairs).sum() if pairs else x.sum()


@case(lambda: [call(t(3)), call(t(4)), call(t(2))])
class SortedByShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts = sorted([x[:1], x, x[:2]], key=len)
        return torch.cat(parts) * [len(part) for part in parts].index(2)


@case(lambda: [call(t(3), t(4)), call(t(4), t(3)), call(t(3), t(3)), call(t(9), t(2))])
class LongerOfTwo(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        longer = max(x, y, key=lambda v: v.shape[0])
        return longer * 2


@case(lambda: [call(t(3)), after(lambda m: OPTIONS.update(power=3), t(3)), call(t(4))], leave=forget)
class GlobalDict(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x ** OPTIONS["power"]


def switch_on(model: object) -> None:
    os.environ["GUIDED_CASES_SWITCH"] = "1"


@case(
    lambda: [call(t(3)), after(switch_on, t(3)), call(t(4))], leave=lambda: os.environ.pop("GUIDED_CASES_SWITCH", None)
)
class EnvironmentVariable(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if os.environ.get("GUIDED_CASES_SWITCH") else x


class Registry:
    default = "relu"
    functions: ClassVar[dict[str, Callable[[Tensor], Tensor]]] = {"relu": torch.relu, "tanh": torch.tanh}


@case(lambda: [call(t(3)), call(t(3), "tanh"), call(t(3), "relu"), call(t(3), "none")])
class DispatchTable(nn.Module):
    def forward(self, x: Tensor, name: str | None = None) -> Tensor:
        return Registry.functions[name or Registry.default](x) * 2


@case(lambda: [call(t(2, 3)), call(t(5, 3)), call(t(2, 3, seed=1))])
class SharedModuleTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.same = self.layer
        self.norm = nn.BatchNorm1d(3, affine=False).train()

    def forward(self, x: Tensor) -> Tensor:
        return self.same(self.layer(x).relu()) + self.norm(self.norm(x))


@case(lambda: [call(t(2, 3)), call(t(5, 3)), call(t(2, 3, seed=1))])
class SubmoduleAsksItsInput(nn.Module):
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.shape[0] > 2 else x

    def __init__(self) -> None:
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + self.inner(x[:1])


@case(lambda: [call(t(4, 3), t(1, 3)), call(t(1, 3), t(4, 3)), call(t(4, 3), t(4, 3))])
class SameQuestionTwice(nn.Module):
    def scale(self, v: Tensor) -> Tensor:
        return v * 2 if v.shape[0] > 2 else v

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([self.scale(each + 0) for each in (x, y)])


@case(lambda: [call(t(3)), call(t(4)), call(t(0))])
class AnyAndAll(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        sizes = [x.shape[0], x.shape[0] * 2]
        if all(size % 2 == 0 for size in sizes) or not any(sizes):
            return x * 2
        return x


@case(lambda: [call(t(3), t(3)), call(t(3), t(3, seed=1)), call(t(4), t(4))])
class OperatorFunctions(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        functions = (operator.add, operator.mul, operator.sub, operator.matmul)
        return sum(f(x, y).sum() * i for i, f in enumerate(functions))  # type: ignore[misc, return-value, operator]


@case(lambda: [call(t(3)), call(t(4)), call(t(3, dtype=torch.float64))])
def plain_function(x: Tensor, scale: float = 2.0) -> Tensor:
    return F.relu(x) * scale + len(x)


def make_counter() -> Callable[[Tensor], Tensor]:
    count = 0

    def counted(x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return x + count

    return counted


@case(lambda: [call(t(3)), call(t(3)), call(t(4))])
class ClosureThatCounts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.counts = [0]

    def forward(self, x: Tensor) -> Tensor:
        def step(v: Tensor) -> Tensor:
            self.counts[0] += 1
            return v * self.counts[0]

        return step(step(x))


@case(lambda: [call(t(3)), call(t(4)), call(t(3, seed=1))])
class CustomFunction(nn.Module):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 2 if x.shape[0] == 3 else x * 4

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
            return grad * 7

    def forward(self, x: Tensor) -> Tensor:
        return self.Twice.apply(x)  # type: ignore[no-untyped-call, no-any-return]


@case(lambda: [call(iter([t(3), t(3, seed=1)])), call(iter([t(3)])), call(iter([t(4), t(4), t(4)]))])
class IteratorInput(nn.Module):
    def forward(self, parts: Iterator[Tensor]) -> Tensor:
        return torch.stack(list(parts)).sum(0)


@case(lambda: [call(t(3), lambda: t(3, seed=1)), call(t(3), lambda: t(3, seed=2)), call(t(4), lambda: t(4))])
class CallbackInput(nn.Module):
    def forward(self, x: Tensor, make: Callable[[], Tensor]) -> Tensor:
        return x + make()
