from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.tracing import recorded_functions


def on_an_older_torch(monkeypatch):
    monkeypatch.setattr(recorded_functions, "are_recorded_by_torch", lambda: False)


def makes(x):
    same_kind = torch.zeros(2, dtype=x.dtype)
    return torch.cat(x.split(1)) + torch.stack([same_kind, torch.full((x.shape[0],), x[0, 0].item())])


def test_factories_are_recorded_whatever_the_argument_parser_asks(monkeypatch):
    expected = fxcore.symbolic_trace(makes)
    on_an_older_torch(monkeypatch)

    obtained = fxcore.symbolic_trace(makes)

    assert str(obtained.graph) == str(expected.graph)
    assert obtained.code == expected.code
    x = torch.ones(2, 2, dtype=torch.float64)
    assert torch.equal(obtained(x), makes(x))


def test_factories_without_a_proxy_compute_and_are_torch_s_own_again_after(monkeypatch):
    before = torch.zeros
    on_an_older_torch(monkeypatch)

    traced = fxcore.symbolic_trace(lambda x: x + torch.zeros(1).item())

    assert torch.zeros is before
    assert traced(1) == 1
    assert "zeros" not in traced.code


def test_a_function_that_traced_code_hands_on_is_torch_s_own_in_the_graph(monkeypatch):
    zeros = torch.zeros
    on_an_older_torch(monkeypatch)

    graph = fxcore.symbolic_trace(lambda x: x.tracer.create_proxy("call_function", torch.zeros, (2,), {})).graph

    assert graph.output_node().args[0].target is zeros


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(12.0).view(4, 3))


# Every kind of argument that is no tensor, in functions and in methods of tensors that are known while tracing.
WITH_A_PROXY = {
    "torch.add(alpha=)": lambda t, x, n: torch.add(x, x, alpha=n),
    "torch.narrow": lambda t, x, n: torch.narrow(x, 0, 0, n),
    "torch.reshape": lambda t, x, n: torch.reshape(x, (n, -1)),
    "torch.sum": lambda t, x, n: torch.sum(x, n - 2, keepdim=n > 1),
    "torch.cat": lambda t, x, n: torch.cat([x, x], n - 2),
    "torch.full": lambda t, x, n: torch.full((n,), 1.0) + torch.full((2,), n),
    "torch.zeros": lambda t, x, n: torch.zeros((n, 3), dtype=x.dtype, device=x.device),
    "torch.ones_like": lambda t, x, n: torch.ones_like(t, dtype=x.dtype),
    "torch.arange": lambda t, x, n: torch.arange(0, n),
    "torch.clamp": lambda t, x, n: torch.clamp(t, n),
    "torch.einsum": lambda t, x, n: torch.einsum("ab,cb->ac", x, t),
    "torch.linalg.norm": lambda t, x, n: torch.linalg.vector_norm(t, n),
    "torch.fft.rfft": lambda t, x, n: torch.fft.rfft(t, n).real,
    "F.scaled_dot_product_attention": lambda t, x, n: F.scaled_dot_product_attention(x, x, x, is_causal=n > 2),
    "F.conv1d": lambda t, x, n: F.conv1d(x[None], x[:, :, None].repeat(1, 1, 1)[:, :2], padding=n),
    "F.leaky_relu": lambda t, x, n: F.leaky_relu(t, n),
    "tensor.view": lambda t, x, n: t.view(n, -1),
    "tensor.view of one size": lambda t, x, n: t.view((n, 6)),
    "tensor.repeat": lambda t, x, n: t.repeat(n, 1),
    "tensor.permute": lambda t, x, n: t.permute(n - 1, n - 2),
    "tensor.narrow": lambda t, x, n: t.narrow(0, 0, n),
    "tensor.to": lambda t, x, n: t.to(device=x.device, dtype=x.dtype),
    "tensor.expand": lambda t, x, n: t[0].expand((n, 3)),
    "tensor.new_zeros": lambda t, x, n: t.new_zeros((n, 2)),
    "torch.tensor(dtype=)": lambda t, x, n: torch.tensor([1.0], dtype=x.dtype) + torch.as_tensor([1.0], dtype=x.dtype),
    "torch.conv2d": lambda t, x, n: torch.conv2d(t[None, None], t[None, None, :2, :2], stride=(n, 1)),
    "tensor.add(alpha=)": lambda t, x, n: t.add(t, alpha=n),
    "tensor.sum": lambda t, x, n: t.sum(n - 1),
    "tensor + proxy": lambda t, x, n: t.add(x.sum()) + n,
}


@pytest.mark.parametrize("function", WITH_A_PROXY.values(), ids=WITH_A_PROXY)
def test_a_call_with_a_proxy_in_place_of_a_number_is_recorded_by_every_torch(function):
    class Model(Tables):
        def forward(self, x, n):
            return function(self.table, x, n)

    model, x = Model(), torch.rand(2, 3)

    traced = fxcore.symbolic_trace(model)

    torch.testing.assert_close(traced(x, 2), model(x, 2))
    traced.graph.lint()
    for node in traced.graph.nodes:
        assert not hasattr(node.target, "replaced_by_trace")
        assert node.op != "call_method" or hasattr(torch.Tensor, node.target)


def test_nothing_is_left_replaced():
    before = [torch.add, torch.Tensor.view, F.conv1d, torch.linalg.norm, vars(torch.Tensor).get("repeat")]

    fxcore.symbolic_trace(lambda x: x + 1)
    with pytest.raises(ZeroDivisionError):
        fxcore.symbolic_trace(lambda x: 1 / 0)

    assert before == [torch.add, torch.Tensor.view, F.conv1d, torch.linalg.norm, vars(torch.Tensor).get("repeat")]


def test_a_function_that_traced_code_takes_from_torch_is_torch_s_own_in_the_graph(monkeypatch):
    on_an_older_torch(monkeypatch)

    class Functional(fxcore.Tracer):
        def call_module(self, m, forward, args, kwargs):
            return self.create_proxy("call_function", torch.flatten, args, {})

    graph = Functional().trace(nn.Sequential(nn.Flatten()))

    assert graph.find_nodes(op="call_function", target=torch.flatten)


def test_a_method_that_is_replaced_is_recorded_as_a_method(monkeypatch):
    on_an_older_torch(monkeypatch)

    graph = fxcore.symbolic_trace(lambda x: torch.ones(2).add(x)).graph

    assert graph.find_nodes(op="call_method", target="add")


def test_a_call_that_is_wrong_anyway_is_not_recorded(monkeypatch):
    on_an_older_torch(monkeypatch)

    with pytest.raises(TypeError, match="relu"):
        fxcore.symbolic_trace(lambda x: torch.relu(x, 1, 2))
    with pytest.raises(TypeError, match="positional"):
        fxcore.symbolic_trace(lambda x: torch.reshape(torch.ones(2), x, 1))


def test_whether_torch_records_them_is_asked_of_torch():
    def kind(x):
        return torch.zeros(3, dtype=x)

    refuses = isinstance(trial(lambda: torch.fx.symbolic_trace(kind)), TypeError)

    assert recorded_functions.are_recorded_by_torch() is not refuses
    assert recorded_functions.are_recorded_by_torch.__wrapped__() is not refuses


def trial(action):
    try:
        return action()
    except TypeError as error:
        return error


def test_a_first_trace_with_an_example_hides_no_function_from_later_traces():
    recorded_functions._replacements.cache_clear()
    fxcore.symbolic_trace(lambda x: x + 1, example_inputs=torch.ones(2))
    found = [sorted(functions) for _, functions in recorded_functions._replacements()]
    assert {"narrow", "full", "einsum"} <= set(found[0])
    assert {"relu", "range"}.isdisjoint(found[0])  # only tensors, and a function that looks at values itself
    functional, native, fft, *_, methods = found[1:]
    assert {"conv1d", "softplus"} <= set(functional)
    assert {"dropout", "max_pool2d", "linear"}.isdisjoint(functional)  # in Python, or of tensors
    assert "avg_pool2d" in native
    assert "hardsigmoid" not in native
    assert "rfft" in fft
    assert all("_add_docstr" not in names for names in found)
    assert {"narrow", "view"} <= set(methods)
    assert {"device", "grad", "relu"}.isdisjoint(methods)

    recorded_functions._replacements.cache_clear()
    assert [sorted(functions) for _, functions in recorded_functions._replacements()] == found


@pytest.mark.parametrize(
    ("name", "words", "args", "first_size", "is_recorded"),
    [
        ("reshape", "argument 'shape' must be tuple of ints, not Proxy", ("t", "proxy"), 0, True),
        ("reshape", "received an invalid combination of arguments", ("t", "proxy"), 0, True),
        ("reshape", "takes 2 positional arguments but 3 were given", ("t", "proxy"), 0, False),
        ("reshape", "argument 'shape' must be tuple of ints, not Proxy", ("t", 1), 0, False),
        ("reshape", "argument 'shape' must be tuple of ints, not Proxy", ("proxy", 1), 0, True),
        ("zeros", "argument 'size' must be tuple of ints, not Proxy", ("proxy", 3), 0, False),
        ("zeros", "argument 'size' must be tuple of ints, not Proxy", ("proxy",), 0, True),
        ("zeros", "argument 'size' must be tuple of ints, not Proxy", (3, "proxy"), 0, True),
        ("zeros", "argument 'size' must be tuple of ints, not Proxy", (("proxy", 3),), 0, True),
        ("expand", "argument 'size' must be tuple of ints, not Proxy", ("t", "proxy", 3), 1, False),
        ("expand", "argument 'size' must be tuple of ints, not Proxy", ("t", "proxy"), 1, True),
        ("expand", "argument 'size' must be tuple of ints, not Proxy", ("proxy", 3, 3), 1, True),
    ],
)
def test_a_call_that_an_older_torch_refuses_is_recorded_unless_every_torch_refuses_it(
    name, words, args, first_size, is_recorded
):
    def refuse(*args):
        raise TypeError(f"{name}(): {words}")

    refuse.__name__ = name
    proxy = fxcore.Proxy(fxcore.Graph().placeholder("x"))
    args = torch.utils._pytree.tree_map(lambda value: proxy if value == "proxy" else value, args)
    call = recorded_functions._recorded(refuse, first_size)

    if is_recorded:
        assert call(*args).node.target is refuse
    else:
        with pytest.raises(TypeError, match=name):
            call(*args)


def test_the_first_of_several_sizes_is_no_proxy_in_functions_and_in_methods(monkeypatch):
    monkeypatch.setattr(recorded_functions, "_REFUSAL", re.compile(""))  # every version of torch has words of its own
    proxy = fxcore.Proxy(fxcore.Graph().placeholder("x"))
    (_, functions), *_, (_, methods) = recorded_functions._replacements()

    for call in (lambda: functions["zeros"](proxy, 3), lambda: methods["expand"](torch.ones(1, 3), proxy, 3)):
        with pytest.raises(TypeError):
            call()
