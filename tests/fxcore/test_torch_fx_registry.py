from __future__ import annotations

import contextlib
import sys
import threading

import pytest
import torch
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module

import fxcore
from fxcore import torch_fx_registry
from fxcore.errors import InteropError
from fxcore.interop import to_torch
from fxcore.torch_fx_registry import TRACING_FLAG, tracing

torch_tracer = torch.fx._symbolic_trace


def is_fx_symbolic_tracing():
    """Ask as torch does: torch 2.6 has only the older question."""
    return getattr(torch_tracer, "is_fx_symbolic_tracing", torch_tracer.is_fx_tracing)()


def flag_at_rest():
    """Return the flag that torch before 2.14 keeps for the process and later ones for each thread."""
    for_each_thread = getattr(torch_tracer, "_get_is_fx_tracing", None)
    return for_each_thread() if for_each_thread else torch_tracer._is_fx_tracing_flag


@pytest.fixture
def without_torch_fx(monkeypatch):
    for name in ("torch.fx.node", "torch.fx._symbolic_trace", "torch._library.utils"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_torch_hears_that_somebody_traces_and_no_longer_after():
    def answer(x):
        return bool(is_fx_symbolic_tracing())

    assert "return True" in fxcore.symbolic_trace(answer).code
    assert flag_at_rest() is False


def test_only_the_thread_that_traces_is_told_so():
    answers = []

    def ask_elsewhere(x):
        thread = threading.Thread(target=lambda: answers.append(bool(is_fx_symbolic_tracing())))
        thread.start()
        thread.join()
        answers.append(bool(is_fx_symbolic_tracing()))
        return x

    fxcore.symbolic_trace(ask_elsewhere)

    assert answers == [False, True]


def test_traces_that_overlap_in_two_threads_leave_no_flag_behind():
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def first(x):
        first_is_in.set()
        assert second_is_in.wait(10)
        return x

    def second(x):
        second_is_in.set()
        assert first_is_out.wait(10)
        return x + int(bool(is_fx_symbolic_tracing()))

    traced = []
    one = threading.Thread(target=lambda: fxcore.symbolic_trace(first))
    other = threading.Thread(target=lambda: traced.append(fxcore.symbolic_trace(second)))
    one.start()
    assert first_is_in.wait(10)
    other.start()
    one.join()
    first_is_out.set()
    other.join()

    assert traced[0](1) == 2
    assert flag_at_rest() is False


def test_a_trace_inside_a_trace_of_torch_fx_leaves_its_flag():
    def outer(x):
        fxcore.symbolic_trace(lambda y: y)
        return bool(is_fx_symbolic_tracing())

    assert "return True" in torch.fx.symbolic_trace(outer).code
    assert flag_at_rest() is False


def test_side_effects_registered_at_torch_fx_hold_and_ours_hold_there():
    def ours(x):
        return x

    assert torch_fx_registry.side_effectful_functions() is torch.fx.node._side_effectful_functions
    fxcore.has_side_effect(ours)

    assert ours in torch.fx.node._side_effectful_functions


def test_without_torch_fx_there_is_a_set_of_our_own(without_torch_fx):
    assert torch._assert in torch_fx_registry.side_effectful_functions()
    assert torch_fx_registry.wrapped_functions() == {}
    assert torch_fx_registry.wrapped_methods() == []
    assert {torch.rand, torch.rand_like, torch.multinomial} <= torch_fx_registry.random_functions()
    assert fxcore.symbolic_trace(lambda x: x + 1)(1) == 2


def test_a_graph_that_torch_copied_node_by_node_from_ours_is_refused_where_torch_writes_its_code():
    gm = fxcore.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    copied, copies = torch.fx.Graph(), {}
    for node in gm.graph.nodes:
        copies[node] = copied.node_copy(node, copies.__getitem__)

    with pytest.raises(
        InteropError, match=r"it reads 'input_1', a node of fxcore.* give the pass fxcore\.interop\.to_"
    ):
        torch.fx.GraphModule(gm, copied)


def test_the_refusal_of_a_pass_of_torch_names_the_function_that_was_called():
    gm = fxcore.symbolic_trace(torch.nn.Linear(2, 2))

    with pytest.raises(InteropError, match=r"cannot run split_module of torch\.fx .* fxcore\.interop\.to_torch"):
        split_module(gm, gm, lambda node: 0)
    with pytest.raises(TypeError, match=r"cannot run ShapeProp of torch\.fx on a graph of fxcore"):
        ShapeProp(gm)
    assert callable(split_module(to_torch(gm), None, lambda node: 0))


def test_the_flag_of_tracing_stands_for_a_truth():
    assert TRACING_FLAG == False  # noqa: E712 - torch.fx compares it
    assert hash(TRACING_FLAG) == hash(False)
    assert repr(TRACING_FLAG) == "False"
    with tracing():
        assert TRACING_FLAG == True  # noqa: E712
        assert hash(TRACING_FLAG) == hash(True)
        assert repr(TRACING_FLAG) == "True"
    assert not TRACING_FLAG


def test_a_torch_with_a_flag_for_each_thread_gets_its_flag_back(monkeypatch):
    flags = [False]
    monkeypatch.setattr(torch_tracer, "_get_is_fx_tracing", lambda: flags[-1], raising=False)
    monkeypatch.setattr(torch_tracer, "_set_is_fx_tracing", flags.append, raising=False)

    with tracing():
        with contextlib.suppress(KeyError), tracing():
            raise KeyError
        assert flags == [False, True, True, True]

    assert flags == [False, True, True, True, False]


def test_the_flag_of_the_process_is_as_true_as_this_thread_traces():
    values = []
    for _ in range(2):
        values.append((bool(TRACING_FLAG), TRACING_FLAG == True, TRACING_FLAG == False, repr(TRACING_FLAG)))  # noqa: E712 - torch may ask so
        values.append(hash(TRACING_FLAG))
        with tracing(), tracing():
            values.append((bool(TRACING_FLAG), TRACING_FLAG == True, TRACING_FLAG == False, repr(TRACING_FLAG)))  # noqa: E712
            values.append(hash(TRACING_FLAG))

    assert values == [(False, False, True, "False"), hash(False), (True, True, False, "True"), hash(True)] * 2


@pytest.mark.parametrize(("name", "home"), [("_get_repr", "elsewhere"), ("other", "torch.fx.graph")])
def test_only_the_function_of_torch_that_writes_arguments_is_refused(name, home):
    names = {"__name__": home, "write": lambda: torch_fx_registry.refuse_code_of_torch("x")}
    exec(f"def {name}():\n    return write()", names)

    assert names[name]() is None


def test_the_class_of_torchs_proxies_is_known_if_torch_fx_is_imported(monkeypatch):
    assert torch_fx_registry.proxy_class() is torch.fx.Proxy

    monkeypatch.setitem(sys.modules, "torch.fx.proxy", None)
    assert torch_fx_registry.proxy_class() is None
