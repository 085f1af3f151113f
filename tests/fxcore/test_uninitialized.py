"""All lazy modules of torch.nn, before their first call, wherever they may stand in a graph or a golden."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parameter import is_lazy

import fxcore
from fxcore.errors import InterpreterError, TraceError
from fxcore.passes.fake_tensor_prop import FakeTensorProp
from fxcore.passes.shape_prop import ShapeProp
from fxcore.uninitialized import find_uninitialized
from pytest_fxgraph import assert_graph_equal, assert_graph_matches_golden
from pytest_fxgraph.errors import GateError

LAZY = sorted(name for name in vars(nn) if name.startswith("Lazy"))


class Holder(nn.Module):
    """Calls a lazy module."""

    def __init__(self, kind):
        super().__init__()
        arguments = (3,) if kind == "LazyLinear" else (3, 1) if "Conv" in kind else ()
        self.inner = nn.Sequential(getattr(nn, kind)(*arguments))
        self.input = torch.rand(2, 4) if kind == "LazyLinear" else torch.rand(2, 4, *[5] * int(kind[-2]))

    def forward(self, x):
        return self.inner(x) + 1


@pytest.fixture(params=LAZY)
def model(request):
    return Holder(request.param)


def test_there_are_thirteen():
    assert len(LAZY) == 13


def test_a_lazy_module_is_a_leaf_that_is_initialized_by_the_first_run(model):
    traced = fxcore.symbolic_trace(model)
    assert "call_module" in [node.op for node in traced.graph.nodes]
    assert find_uninitialized(traced)[0] == "inner.0"

    obtained = fxcore.Interpreter(traced).run(model.input)

    assert find_uninitialized(traced) is None
    torch.testing.assert_close(obtained, model(model.input))


def test_shapes_are_found_by_running(model):
    traced = fxcore.symbolic_trace(model)

    ShapeProp(traced).propagate(model.input)

    assert traced.graph.find_nodes(op="call_module", target="inner.0")[0].meta["tensor_meta"].shape[0] == 2


def test_shapes_cannot_be_found_on_fake_tensors(model):
    traced = fxcore.symbolic_trace(model)
    words = rf"cannot find the shapes of a lazy module .*: {type(model.inner[0]).__name__} at 'inner\.0' has no shapes"

    with pytest.raises(InterpreterError, match=words):
        FakeTensorProp(traced).propagate(model.input)
    with pytest.raises(InterpreterError, match=r"on fake tensors, .* Call the model once, with inputs as it will get"):
        ShapeProp(traced, FakeTensorMode()).propagate(model.input)
    assert find_uninitialized(model) is not None
    assert all(is_lazy(each) for each in [*model.inner[0].parameters()])


def test_a_copy_is_lazy_too_and_shares_nothing(model):
    traced = fxcore.symbolic_trace(model)

    for copied in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert find_uninitialized(copied)[0] == "inner.0"
        copied(model.input)
        assert find_uninitialized(copied) is None
        assert find_uninitialized(traced)[0] == "inner.0"
    assert isinstance(copy.deepcopy(traced.graph), fxcore.Graph)


def test_a_lazy_module_that_is_no_leaf_is_to_be_called_first(model):
    class Inside(fxcore.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    with pytest.raises(TraceError, match=r"cannot look inside, at \S+\.py:\d+: return self\.inner\(x\) \+ 1") as caught:
        Inside().trace(model)
    assert f"{type(model.inner[0]).__name__} at 'inner.0' has no shapes before its first call" in str(caught.value)
    assert find_uninitialized(model) is not None

    model(model.input)
    if not isinstance(model.inner[0], (nn.modules.batchnorm._NormBase)):  # those branch on the rank of their input
        assert Inside().trace(model).find_nodes(op="call_module") == []


def test_a_golden_needs_shapes(model, tmp_path):
    with pytest.raises(GateError, match=r"is not initialized yet.*run the model once"):
        assert_graph_matches_golden(model, tmp_path / "lazy.yaml", update=True)
    with pytest.raises(GateError, match=r"is not initialized yet.*run the model once"):
        assert_graph_equal(model, fxcore.symbolic_trace(model))

    model(model.input)
    assert_graph_matches_golden(model, tmp_path / "lazy.yaml", update=True)
    assert_graph_matches_golden(model, tmp_path / "lazy.yaml")
