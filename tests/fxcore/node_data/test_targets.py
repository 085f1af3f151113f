from __future__ import annotations

import functools
import math
import operator

import pytest
import torch
import torch.nn.functional as F

from fixtures.oracle import assert_same
from fxcore.errors import FxError
from fxcore.node_data.targets import qualified_name, type_repr

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
