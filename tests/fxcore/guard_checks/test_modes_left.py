from __future__ import annotations

import inspect

import pytest
import torch

import fxcore
from fxcore.guard_checks.modes_left import run_source
from fxcore.state.settings import SETTINGS

X = torch.ones(3, 3, requires_grad=True)


def added_under_modes(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ x
        with torch.no_grad():
            z = z + y
    return z * 2


def present_modes():
    return {each.path: each.read() for each in SETTINGS if "autocast" in each.path or each.path == "grad mode"}


@pytest.mark.parametrize("enforce_guards", [True, False])
@pytest.mark.parametrize("way", [lambda g: g, lambda g: g.forward, lambda g: fxcore.Interpreter(g).run])
def test_an_error_between_the_nodes_that_switch_modes_ends_the_modes(way, enforce_guards):
    before = present_modes()
    graph_module = fxcore.symbolic_trace(
        added_under_modes, example_inputs=(X, torch.ones(3)), enforce_guards=enforce_guards
    )
    call = way(graph_module)

    with pytest.raises(RuntimeError, match="size of tensor"):
        call(X, torch.ones(4))

    assert present_modes() == before
    assert torch.equal(call(X, torch.ones(3)), added_under_modes(X, torch.ones(3)))
    assert present_modes() == before


def test_a_refused_call_leaves_the_depth_of_autocast():
    def decided(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            return y + 1 if y.dtype == torch.bfloat16 else y

    graph_module = fxcore.symbolic_trace(decided, example_inputs=X.detach())
    before = present_modes()

    with pytest.raises(fxcore.FxError):
        graph_module(X.detach().double())

    assert present_modes() == before


def test_tracebacks_and_readers_of_the_source_see_the_printed_lines():
    graph_module = fxcore.symbolic_trace(added_under_modes, example_inputs=(X, torch.ones(3)))

    with pytest.raises(RuntimeError) as caught:
        graph_module(X, torch.ones(4))

    assert str(caught.traceback[-1].statement).strip() == "add = matmul + y;  matmul = y = None"
    assert inspect.getsource(graph_module.forward).strip() == graph_module.code.strip()


def test_a_compiled_module_switches_the_modes_of_its_operations():
    def stopped(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    graph_module = fxcore.symbolic_trace(stopped, example_inputs=X)
    compiled = torch.compile(graph_module, backend="eager", fullgraph=True)

    assert "_set_grad_enabled" in graph_module.code
    (gradient,) = torch.autograd.grad(compiled(X).sum(), X)
    assert torch.equal(gradient, torch.ones(3, 3))


@pytest.mark.parametrize(
    ("head", "is_watched"),
    [
        ("", False),
        ("\n", False),
        ("\n\n", True),
        ("import math\n\n\n", True),
        ("import math\n\n", False),
        ("\nimport math\n", False),
    ],
)
def test_an_error_is_seen_where_two_empty_lines_give_room_for_it(head, is_watched):
    failures, names = [], {}
    source = f"{head}def forward(self, x):\n    y = x + 1\n    raise ValueError(y)\n"

    run_source(source, names, on_error=lambda module, error, variables: failures.append((error.args, variables["y"])))
    with pytest.raises(ValueError, match="3"):
        names["forward"]("a module", 2)

    assert failures == ([((3,), 3)] if is_watched else [])
    assert names["forward"].__code__.co_firstlineno == head.count("\n") + 1 - 2 * is_watched


def test_the_modes_of_a_failed_run_are_put_back():
    names = {"torch": torch}
    switches = "torch._C._set_grad_enabled(False)", "torch.amp.autocast_mode._enter_autocast('cpu', None, True, False)"
    run_source("\n\ndef forward(self):\n    " + "; ".join(switches) + "; raise ValueError(1)\n", names)

    with pytest.raises(ValueError, match="1"):
        names["forward"](None)

    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
