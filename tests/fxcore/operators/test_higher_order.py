from __future__ import annotations

import contextlib
import importlib

import pytest
import torch

import fxcore
from fxcore.errors import GraphError, TraceError
from fxcore.operators.higher_order import FIRST_RELEASE, missing_operator
from fxcore.serialization.pickling import _torch_function

FILES = """_invoke_quant associative_scan flat_apply flex_attention flex_gemm foreach_map hints_wrap
inline_asm_elementwise invoke_leaf_function invoke_subgraph local_map map out_dtype print register_hook
run_const_graph scan strict_mode switch while_loop wrap"""
for file in FILES.split():
    with contextlib.suppress(ImportError):  # this torch lacks it
        importlib.import_module(f"torch._higher_order_ops.{file}")

RELEASES = ("2.6", "2.13", "2.14")
THIS = ".".join(torch.__version__.split(".")[:2])


@pytest.mark.skipif(THIS not in RELEASES, reason="the table was made of three releases")
@pytest.mark.parametrize("name", FIRST_RELEASE)
def test_this_torch_has_an_operator_from_its_first_release_on(name):
    is_there = RELEASES.index(FIRST_RELEASE[name]) <= RELEASES.index(THIS)

    assert hasattr(torch.ops.higher_order, name) is is_there
    assert bool(missing_operator(f"torch.ops.higher_order.{name}")) is not is_there


def test_a_missing_operator_is_named_with_the_release_that_has_it(monkeypatch):
    monkeypatch.setitem(FIRST_RELEASE, "from_the_future", "9.9")

    assert missing_operator("torch.ops.higher_order.from_the_future") == (
        f"torch {torch.__version__} does not have the operator 'from_the_future'; torch 9.9 has it"
    )
    assert missing_operator("torch.nothing") == ""
    monkeypatch.setitem(FIRST_RELEASE, "of_today", torch.__version__)
    assert missing_operator("torch.ops.higher_order.of_today") == ""


def test_a_model_that_imports_a_missing_operator_is_refused_with_the_release(monkeypatch):
    monkeypatch.setitem(FIRST_RELEASE, "from_the_future", "9.9")

    def model(x):
        import torch._higher_order_ops.from_the_future

        return torch._higher_order_ops.from_the_future.call(x)

    with pytest.raises(TraceError, match=r"torch 9.9 has it\nModuleNotFoundError.* at .*test_higher_order.py"):
        fxcore.symbolic_trace(model, example_inputs=torch.rand(3))


def test_a_pickle_with_a_missing_operator_is_refused_with_the_release(monkeypatch):
    monkeypatch.setitem(FIRST_RELEASE, "from_the_future", "9.9")

    with pytest.raises(GraphError, match=r"calls torch.ops.higher_order.from_the_future.*torch 9.9 has it"):
        _torch_function("torch.ops.higher_order.from_the_future")
