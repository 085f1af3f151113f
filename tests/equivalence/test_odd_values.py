"""Outputs, inputs and attributes whose methods raise or lie end in a result or in words, never in a crash."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import decimal
from typing import Any

import pytest
import torch
from torch import nn

from fixtures.transform_models import Residual, matrix
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.errors import GateError, MismatchError
from pytest_fxgraph.functions import assert_equivalent
from pytest_fxgraph.transform.fixture import FxTransform

X = matrix(4, 4)


class Odd(RuntimeError):
    """Raised by what no check can know."""


class EqRaises:
    def __eq__(self, other):
        raise Odd

    __hash__ = None


class BoolRaises:
    def __bool__(self):
        raise Odd


class EqWithoutTruth:
    def __eq__(self, other):
        return BoolRaises()

    __hash__ = None


class ReprRaises:
    def __init__(self, value=1):
        self.value = value

    def __repr__(self):
        raise Odd

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self.value == getattr(other, "value", None)


class LenLies(list):
    def __len__(self):
        return 7


class LenRaises(list):
    def __len__(self):
        raise Odd


class IterRaises(list):
    def __iter__(self):
        raise Odd


class DictRaises:
    __slots__ = ("part",)

    def __init__(self):
        self.part = X * 2

    @property
    def __dict__(self):
        raise Odd


class PropertyRaises:
    def __init__(self):
        self.part = X * 2

    @property
    def other(self):
        raise Odd


class CopyRaises:
    def __init__(self):
        self.part = X * 2

    def __deepcopy__(self, memo):
        raise Odd


class GetRaises:
    def __getattribute__(self, name):
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise Odd


class MappingRaises(collections.abc.Mapping):
    def __getitem__(self, key):
        raise Odd

    def __iter__(self):
        return iter("a")

    def __len__(self):
        return 1


class IteratorRaises:
    def __iter__(self):
        return self

    def __next__(self):
        raise Odd


class TensorRaises(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise Odd


@dataclasses.dataclass
class HalfMade:
    part: Any
    other: int = dataclasses.field(init=False)


def nested_in(depth, kind):
    value: Any = kind([X * 2])
    for _ in range(depth):
        value = kind([value])
    return value


def inside_itself():
    value: list[Any] = [X * 2]
    value.append(value)
    return value


def dict_inside_itself():
    value: dict[str, Any] = {"part": X * 2}
    value["self"] = value
    return value


def fake():
    from torch._subclasses import FakeTensorMode

    return FakeTensorMode().from_tensor(X)


VALUES = {
    **{kind.__name__: kind for kind in (EqRaises, BoolRaises, EqWithoutTruth, ReprRaises, DictRaises, PropertyRaises)},
    **{kind.__name__: kind for kind in (CopyRaises, GetRaises, MappingRaises, IteratorRaises)},
    "a key that cannot be printed": lambda: {ReprRaises(): X * 2},
    "a length that lies": lambda: LenLies([X * 2]),
    "a length that raises": lambda: LenRaises([X * 2]),
    "a list that cannot be read": lambda: IterRaises([X * 2]),
    "a subclass of tensor that raises": lambda: X.as_subclass(TensorRaises),
    "a dataclass without a field": lambda: HalfMade(X * 2),
    "a list inside itself": inside_itself,
    "a dict inside itself": dict_inside_itself,
    "a deep list": lambda: nested_in(5000, list),
    "a deep tuple": lambda: nested_in(3000, tuple),
    "a huge number": lambda: 10**5000,
    "a huge key": lambda: {10**5000: X * 2},
    "a number that signals": lambda: decimal.Decimal("sNaN"),
    "meta": lambda: torch.empty(3, device="meta"),
    "sparse": lambda: [X.to_sparse()],
    "nested": lambda: {"a": torch.nested.nested_tensor([X, X[:2]])},
    "quantised": lambda: [torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)],
    "fake": fake,
    "bits": lambda: X.to(torch.uint8).view(torch.bits8),
    "uint16": lambda: torch.zeros(3, dtype=torch.uint16),
}
odd_values = pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)


def ends_in_words(check) -> None:
    """Run a check; an error of it is one that a user is meant to read."""
    with contextlib.suppress(GateError, MismatchError):
        check()


@pytest.mark.sampled(every=2)
@odd_values
@pytest.mark.parametrize("grads", [False, True])
def test_odd_outputs(make, grads):
    ends_in_words(lambda: assert_equivalent(lambda x: (x * 2, make()), lambda x: (x * 2, make()), (X,), grads=grads))
    ends_in_words(lambda: assert_equivalent(lambda x: (x * 2, make()), lambda x: (x * 2, x), (X,), grads=grads))
    ends_in_words(lambda: assert_equivalent(lambda x: (x * 2, x * 1), lambda x: (x * 2, make()), (X,), grads=grads))


@pytest.mark.sampled(every=2)
@odd_values
@pytest.mark.parametrize("options", [{}, {"samples": 2}, {"strict_inputs": True}, {"grads": True}], ids=str)
def test_odd_inputs(make, options):
    def model(x, odd=None):
        return x * 2

    ends_in_words(lambda: assert_equivalent(model, model, (X, make()), **options))
    ends_in_words(lambda: assert_equivalent(model, model, (X,), kwargs={"odd": [make()]}, **options))


@odd_values
def test_odd_attributes(make):
    model = Residual()
    object.__setattr__(model, "odd", make())
    object.__setattr__(model.lin, "odds", [make(), {"a": make()}])

    def nothing(gm):
        return gm

    def another(gm):
        object.__setattr__(gm.lin, "odds", [make()])
        return gm

    FxEquivalence()(model, X)
    FxTransform()(nothing, model, X, allow_vacuous=True)
    with pytest.raises(AssertionError, match=r"another changed the model that it was given: .*lin\.odds"):
        FxTransform()(another, model, X)


def held_by_itself(gm):
    gm.lin._modules["again"] = gm.lin
    return gm


def without_parameters(gm):
    del vars(gm.lin)["_parameters"]
    return gm


def with_none_for_parameters(gm):
    gm.lin._parameters = None
    return gm


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (without_parameters, "parameter lin.weight is gone"),
        (with_none_for_parameters, "parameter lin.weight is gone"),
        (held_by_itself, "module lin.again was missing and is Linear"),
    ],
)
def test_a_module_that_a_transform_spoilt_is_told_and_mended(spoil, words):
    model = Residual()

    with pytest.raises(AssertionError, match=f"changed the model that it was given: {words}"):
        FxTransform()(spoil, model, X)
    assert model(X).shape == X.shape


@pytest.mark.parametrize("inplace", [False, True])
def test_a_class_that_a_transform_patched_is_put_back(inplace):
    forward = nn.Linear.forward

    def patched(gm):
        type(gm.lin).forward = lambda self, x: x
        return gm

    with pytest.raises(AssertionError, match=r"Linear.forward, of the class, is another function"):
        FxTransform()(patched, Residual(), X, inplace=inplace)
    assert nn.Linear.forward is forward
