from __future__ import annotations

import functools
import math
import operator

import pytest
import torch
import torch.nn.functional as F

from fixtures.oracle import assert_same
from fxcore.errors import FxError
from fxcore.node_data.targets import is_from_torch, qualified_name, readable_target, type_repr

identity = lambda x: x  # noqa: E731 - a lambda with a name in its source
FUNCTIONS = {
    "torch": torch.relu,
    "functional": F.gelu,
    "private C": torch._C._nn.gelu,
    "special": torch.special.expit,
    "builtin": len,
    "operator": operator.add,
    "math": math.sqrt,
    "Tensor method": torch.Tensor.add_,
    "Tensor method in Python": torch.Tensor.norm,
    "packet": torch.ops.aten.add,
    "overload": torch.ops.aten.add.Tensor,
    "module class": torch.nn.Linear,
    "renamed by torch": torch.segment_reduce,
    "lambda": identity,
    "no name": functools.partial(torch.add, 1),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_is_written_as_torch_fx_writes_it(function):
    def texts(fx):
        graph = fx.Graph()
        graph.output(graph.call_function(function, (graph.placeholder("x"),)))
        return str(graph), graph.python_code("self").src

    assert_same(texts)


def test_a_lambda_without_source_is_refused_with_advice():
    function = eval("lambda x: x")

    with pytest.raises(RuntimeError, match="Unable to represent lambda") as caught:
        qualified_name(function)

    assert isinstance(caught.value, FxError)
    assert "define a function with `def`" in str(caught.value)


def without_module(function):
    function.__module__ = None
    return function


def test_a_function_without_a_module_is_looked_for_in_torch(monkeypatch):
    found = without_module(lambda x: x)
    found.__name__ = "doubled"
    with pytest.raises(FxError, match=r"^cannot find module for .*: it says none, and neither torch nor torch\.nn\.f"):
        qualified_name(found)

    monkeypatch.setattr(F, "doubled", found, raising=False)

    assert qualified_name(found) == "torch.nn.functional.doubled"


def test_a_function_that_is_not_hashable_has_a_name():
    class Scale:
        __hash__ = None
        __name__ = "scale"
        __qualname__ = "scale"

    Scale.__module__ = __name__

    assert qualified_name(Scale()) == f"{__name__}.scale"


def test_annotations_are_written_by_their_own_names():
    assert type_repr(...) == "..."
    assert type_repr(without_module) == "without_module"
    assert type_repr(list[int]) == "list[int]"


class Named:
    """An object without a module that says its name."""

    __module__ = None  # type: ignore[assignment]

    def __init__(self, name):
        self.__name__ = name


class OwnFunction(torch.autograd.Function):
    pass


@pytest.mark.parametrize(
    ("target", "is_from"),
    [
        (torch.relu, True),
        (F.gelu, True),
        (torch.nn.Linear, True),
        (torch.autograd.Function.apply, True),
        (OwnFunction.apply, False),
        (torch.jit.script(F.relu), False),
        (len, False),
        (identity, False),
        (torch, False),
        (Named(None), False),
        (Named("relu"), False),
        (1, False),
    ],
)
def test_code_reaches_an_object_of_torch_by_its_full_name(target, is_from):
    assert is_from_torch(target) is is_from


def test_an_object_that_torch_exports_without_a_module_is_torch_s(monkeypatch):
    exported = Named("exported")
    monkeypatch.setattr(F, "exported", exported, raising=False)

    assert is_from_torch(exported)
    assert not is_from_torch(Named("exported"))


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("layer.0", "layer.0"),
        (getattr, "builtins.getattr"),
        (operator.add, "operator.add"),
        (torch.relu, "torch.relu"),
        (F.relu, "torch.nn.functional.relu"),
        (math.sqrt, "math.sqrt"),
    ],
)
def test_a_target_is_printed_with_its_module(target, text):
    assert readable_target(target) == text


def test_a_type_is_written_with_its_module_unless_it_is_a_builtin():
    assert [type_repr(kind) for kind in (int, torch.Tensor, Named, OwnFunction, None)] == [
        "int",
        "torch.Tensor",
        "None.Named",
        f"{__name__}.OwnFunction",
        "None",
    ]


@pytest.mark.parametrize(("module", "name"), [("torch.nn.functional", "ScalingType"), ("mine", "_ScalingType")])
def test_what_torch_exports_under_a_public_name_is_written_by_it(module, name):
    def kind():
        return None

    kind.__name__, kind.__module__ = "_ScalingType", module

    assert qualified_name(kind) == f"{module}.{name}"
