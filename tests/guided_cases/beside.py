"""Values that forward reads from beside its inputs: settings, classes, globals, closures, the process.

The last call of most cases follows a change; each case also has calls at unchanged state, which must be answered.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import functools
import math
import os
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.guided_cases.case import Call, after, call, case, t, under

BIAS = 0.25
UNREAD = 1.0
LIMITS = [1.0, 2.0]
TABLE = {"deep": {"scale": 2.0}, "shallow": {"scale": 3.0}}
CALLS = 0


class Kind(enum.Enum):
    PLUS = 1
    MINUS = 2


@dataclass
class Settings:
    scale: float = 2.0
    unread: float = 1.0
    sizes: list[int] = field(default_factory=lambda: [1, 2])

    def doubled(self) -> float:
        return self.scale * 2


@dataclass(frozen=True)
class Frozen:
    scale: float = 2.0


class Slots:
    __slots__ = ("scale", "unread")

    def __init__(self) -> None:
        self.scale, self.unread = 2.0, 1.0


class Nested:
    def __init__(self) -> None:
        self.inner = Settings()


class Pair(NamedTuple):
    low: float = 0.0
    high: float = 2.0


class Shared:
    default = 2.0
    table: ClassVar[dict[str, float]] = {"a": 2.0}

    @classmethod
    def scale(cls) -> float:
        return cls.default


class AttributeDict(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]


class ByName:
    """Settings that are looked up in a method."""

    def __init__(self) -> None:
        self.values = {"scale": 2.0}

    def __getitem__(self, name: str) -> float:
        return self.values[name]


NESTED = Nested()
SETTINGS = Settings()
NAMESPACE = types.SimpleNamespace(scale=2.0)
MODULE = types.ModuleType("guided_cases_settings")
vars(MODULE).update(SCALE=2.0, UNREAD=1.0)
_UNCHANGED = {name: value for name, value in globals().items() if name in ("BIAS", "UNREAD", "CALLS")}


def leave() -> None:
    globals().update(_UNCHANGED)
    LIMITS[:] = [1.0, 2.0]
    TABLE["deep"]["scale"] = 2.0
    NESTED.inner = Settings()
    vars(SETTINGS).update(vars(Settings()))
    NAMESPACE.scale = 2.0
    vars(MODULE).update(SCALE=2.0, UNREAD=1.0)
    Shared.default = 2.0
    Shared.table["a"] = 2.0
    ClassAttribute.scale = 2.0
    scaled_by_default.__defaults__ = (2.0,)
    os.environ.pop("GUIDED_CASES_SCALE", None)


def changed(path: str, value: Any) -> Callable[[Any], None]:
    """Return a change of one attribute of the model, or of an object that the model has."""

    def change(model: Any) -> None:
        *owners, name = path.split(".")
        object.__setattr__(functools.reduce(getattr, owners, model), name, value)

    return change


def globally(name: str, value: Any) -> Callable[[Any], None]:
    return lambda model: globals().__setitem__(name, value)


def then(change: Callable[[Any], object], seed: int = 0) -> Callable[[], list[Call]]:
    """Return calls at unchanged state and after a change."""
    return lambda: [call(t(3)), call(t(4)), after(change, t(3)), call(t(4, seed=seed))]


def set_item(name: str, key: Any, value: Any) -> Callable[[Any], None]:
    return lambda model: getattr(model, name).__setitem__(key, value)


class WithSettings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()


@case(then(changed("settings.scale", 5.0)))
class DataclassSettings(WithSettings):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.scale


@case(then(changed("settings.unread", 5.0)))
class UnreadSettings(WithSettings):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.scale


@case(then(changed("settings", Settings(scale=5.0))))
class SettingsReplaced(WithSettings):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.scale


@case(then(changed("settings", Settings(unread=5.0))))
class SettingsReplacedByEqual(WithSettings):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.scale


@case(then(changed("settings.scale", 5.0)))
class MethodOfSettings(WithSettings):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.doubled()


@case(then(lambda model: model.settings.sizes.append(3)))
class ListInSettings(WithSettings):
    def forward(self, x: Tensor) -> Tensor:
        return x * sum(self.settings.sizes)


@case(then(changed("settings", Frozen(5.0))))
class FrozenSettings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings = Frozen()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.scale


@case(then(changed("settings.scale", 5.0)))
class SettingsWithSlots(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings = Slots()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.scale


@case(then(changed("settings.inner.scale", 5.0)))
class NestedObjects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings = Nested()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.inner.scale


@case(then(changed("limits", Pair(0.0, 1.0))))
class NamedTupleOfLimits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.limits = Pair()

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(self.limits.low, self.limits.high)


@case(then(changed("space.scale", 5.0)))
class NamespaceAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.space = types.SimpleNamespace(scale=2.0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.space.scale


@case(then(changed("arguments.scale", 5.0)))
class ParsedArguments(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.arguments = argparse.Namespace(scale=2.0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.arguments.scale


@case(then(set_item("options", "scale", 5.0)))
class DictOfOptions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.options = OrderedDict(scale=2.0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.options["scale"]


@case(then(set_item("options", "scale", 5.0)))
class DictWithAttributes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.options = AttributeDict(scale=2.0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.options.scale


@case(then(lambda model: model.steps.append(torch.neg)))
class ListOfFunctions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = [torch.relu, torch.exp]

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x


@case(then(changed("activation", torch.tanh)))
class FunctionAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.activation = torch.relu

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x)


@case(then(changed("activation", functools.partial(F.leaky_relu, negative_slope=0.5))))
class PartialAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.activation = functools.partial(F.leaky_relu, negative_slope=0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x)


@case(then(lambda model: model.activation.keywords.update(negative_slope=0.5)))
class KeywordsOfPartial(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.activation = functools.partial(F.leaky_relu, negative_slope=0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x)


@case(then(changed("kind", Kind.MINUS)))
class EnumAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kind = Kind.PLUS

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if self.kind is Kind.PLUS else x - 1


@case(lambda: [call(t(3)), after(lambda model: setattr(ClassAttribute, "scale", 5.0), t(3)), call(t(3))], leave=leave)
class ClassAttribute(nn.Module):
    scale = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


@case(then(changed("scale", 5.0)))
class ClassAttributeHidden(nn.Module):
    scale = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


@case(then(lambda model: setattr(Shared, "default", 5.0)), leave=leave)
class AttributeOfOtherClass(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * Shared.scale()


@case(then(lambda model: Shared.table.update(a=5.0)), leave=leave)
class TableOfOtherClass(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * Shared.table["a"]


@case(then(globally("BIAS", 5.0)), leave=leave)
class GlobalInHelper(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return shifted(x)


def shifted(x: Tensor) -> Tensor:
    return x + BIAS


@case(then(globally("UNREAD", 5.0)), leave=leave)
class UnreadGlobal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + BIAS


@case(then(lambda model: LIMITS.__setitem__(1, 0.1)), leave=leave)
class GlobalList(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(-LIMITS[0], LIMITS[1])


@case(then(lambda model: TABLE["deep"].update(scale=5.0)), leave=leave)
class NestedGlobalDict(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * TABLE["deep"]["scale"]


@case(then(lambda model: setattr(NESTED.inner, "scale", 5.0)), leave=leave)
class GlobalObject(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * NESTED.inner.scale


@case(then(lambda model: setattr(SETTINGS, "unread", 5.0)), leave=leave)
class UnreadOfGlobalObject(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * SETTINGS.scale


@case(then(lambda model: setattr(NAMESPACE, "scale", 5.0)), leave=leave)
class GlobalNamespace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * NAMESPACE.scale


@case(then(lambda model: setattr(MODULE, "SCALE", 5.0)), leave=leave)
class ConstantOfModule(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * MODULE.SCALE


@case(lambda: [call(t(3)), call(t(3)), call(t(3))], leave=leave, watch=lambda: CALLS)
class GlobalCounter(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        global CALLS
        CALLS += 1
        return x + 1


def scaled_by(scale: float) -> tuple[Callable[[Tensor], Tensor], Callable[[float], None]]:
    def run(x: Tensor) -> Tensor:
        return x * scale

    def change(value: float) -> None:
        nonlocal scale
        scale = value

    return run, change


@case(then(lambda model: model.change(5.0)))
class ClosureCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.run, self.change = scaled_by(2.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x)

    def __deepcopy__(self, memo: Any) -> ClosureCell:
        return ClosureCell()  # functions are not copied


def scaled_by_default(x: Tensor, scale: float = 2.0) -> Tensor:
    return x * scale


@case(then(lambda model: setattr(scaled_by_default, "__defaults__", (5.0,))), leave=leave)
class DefaultOfHelper(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return scaled_by_default(x)


@case(then(changed("factor", 5.0)))
class PropertyOfProperty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0

    @property
    def scale(self) -> float:
        return self.factor * 2

    @property
    def shift(self) -> float:
        return self.scale + 1

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift


@case(then(changed("extra", 5.0)))
class MissingAttribute(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * getattr(self, "extra", 2.0) if hasattr(self, "extra") else x


@case(then(changed("drop.p", 0.0)))
class RateOfDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * (1 - self.drop.p)


@case(then(changed("inner.scale", 5.0)))
class AttributeOfChild(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = FrozenAttribute()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


class FrozenAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


@case(then(changed("other", 5.0)))
class UntakenBranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.other = 2.0, 3.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale if self.scale > 1 else x * self.other


@case(then(changed("scale", 2)))
class SameNumberOfOtherType(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale: Any = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return x.long() * self.scale


@case(then(changed("scale", float("nan"))))
class NotANumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = math.nan

    def forward(self, x: Tensor) -> Tensor:
        return x if self.scale != self.scale else x * self.scale


@case(lambda: [call(t(3)), call(t(3)), after(changed("scale", 5.0), t(3)), call(t(3))])
class WrittenAndPutBack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0

    def forward(self, x: Tensor) -> Tensor:
        before = self.scale
        self.scale = before * 2
        y = x * self.scale
        self.scale = before
        return y


@case(lambda: [call(t(3)), call(t(3)), call(t(3, seed=1))])
class CounterThatNobodyReads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.seen: deque[int] = deque(maxlen=4)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        return x + 1


@case(then(lambda model: os.environ.update(GUIDED_CASES_SCALE="5")), leave=leave)
class EnvironmentWithDefault(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * float(os.environ.get("GUIDED_CASES_SCALE", "2"))


@case(then(lambda model: os.environ.update(GUIDED_CASES_SCALE="5")), leave=leave)
class EnvironmentAsked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 5 if "GUIDED_CASES_SCALE" in os.environ or os.getenv("GUIDED_CASES_SCALE") else x


@case(then(set_item("by_name", None, None)))
class ItemOfObject(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by_name = _Settable()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by_name["scale"]


class _Settable(ByName):
    def __setitem__(self, name: Any, value: Any) -> None:
        self.values["scale"] = 5.0


@contextlib.contextmanager
def one_more_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def benchmark() -> Iterator[None]:
    with torch.backends.cudnn.flags(benchmark=not torch.backends.cudnn.benchmark):
        yield


@contextlib.contextmanager
def high_precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if before != "high" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@case(lambda: [call(t(3)), call(t(4)), under(one_more_thread, t(3)), call(t(3))])
class NumberOfThreads(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.get_num_threads()


@case(lambda: [call(t(3)), call(t(4)), under(benchmark, t(3)), call(t(3))])
class FlagOfBackend(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if torch.backends.cudnn.benchmark else x - 1


@case(lambda: [call(t(3)), call(t(4)), under(high_precision, t(3)), call(t(3))])
class PrecisionOfProducts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if torch.get_float32_matmul_precision() == "highest" else x - 1


@case(lambda: [call(t(3)), call(t(4)), under(lambda: torch.device("meta"), t(3)), call(t(3))])
class DefaultDevice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if torch.get_default_device().type == "cpu" else x - 1


@case(then(changed("device", torch.device("meta"))))
class DeviceAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.device = torch.device("cpu")

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.ones(1) if self.device.type == "cpu" else x


@case(lambda: [call(t(3)), after(lambda model: model.inner.inner.train(), t(3)), call(t(3))])
class TrainingOfGrandchild(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.inner = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.inner.inner.training else x
