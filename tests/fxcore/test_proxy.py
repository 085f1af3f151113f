from __future__ import annotations

import contextlib
import copy
import inspect
import operator

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fixtures.oracle import assert_same
from fxcore import Graph, Proxy, Tracer
from fxcore.errors import FxError
from fxcore.proxy import Attribute, GraphAppendingTracer, ParameterProxy, TraceFunctionError, tracer_of


def test_a_proxy_by_hand_records_onto_its_graph():
    def recorded(fx):
        graph = fx.Graph()
        x = fx.Proxy(graph.placeholder("x"))
        y = torch.relu(x) + 1
        z = y.sum(dim=1)[0].T
        with graph.inserting_before(y.node):
            z = z + fx.Proxy(next(iter(graph.nodes))) * 2
        graph.output(z.node)
        return repr(y), graph, type(x.tracer).__name__

    assert_same(recorded)


def test_an_attribute_becomes_a_node_only_when_it_is_used_as_a_value():
    graph = Graph()
    x = Proxy(graph.placeholder("x"))

    method = x.view
    assert isinstance(method, Attribute)
    method(-1)
    shape = x.shape
    assert [node.name for node in graph.nodes] == ["x", "view"]
    torch.zeros(shape)

    assert [node.name for node in graph.nodes] == ["x", "view", "getattr_1", "zeros"]


REFUSED = {
    "branch": (lambda x: 1 if x else 2, ValueError, "cannot be used as inputs to control flow"),
    "loop": (lambda x: [item + 1 for item in x], ValueError, "Proxy object cannot be iterated"),
    "star": (lambda x: torch.add(*x), ValueError, "Proxy object cannot be iterated"),
    "len": (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing by default"),
    "int": (lambda x: int(x), TypeError, "int"),
    "index": (lambda x: [1, 2][x], TypeError, "indices must be integers"),
    "item assignment": (lambda x: operator.setitem(x, 0, 1), TypeError, "does not support item assignment"),
}


@pytest.mark.parametrize(("use", "kind", "words"), REFUSED.values(), ids=REFUSED)
def test_what_needs_the_value_is_refused_as_in_torch_fx(use, kind, words):
    with pytest.raises(kind, match=words):
        torch.fx.symbolic_trace(use)
    with pytest.raises(kind, match=words):
        fxcore.symbolic_trace(use)


@pytest.mark.parametrize("use", [REFUSED["branch"][0], REFUSED["loop"][0], REFUSED["len"][0]])
def test_a_refusal_names_the_value_the_module_and_the_line(use):
    class Inner(nn.Module):
        def forward(self, x):
            return use(torch.relu(x))

    with pytest.raises(FxError) as caught:
        fxcore.symbolic_trace(nn.Sequential(Inner()))

    assert "'relu'" in str(caught.value)
    assert f"{__file__}:{use.__code__.co_firstlineno}" in str(caught.value)
    assert "(in module '0')" in str(caught.value)


def test_an_assertion_is_recorded_if_asked_for():
    tracer = Tracer()
    tracer.trace_asserts = True
    names = {}
    exec("def checked(x):\n    assert x.sum() > 0, 'positive'\n    return x", names)

    traced = fxcore.GraphModule(nn.Module(), tracer.trace(names["checked"]))

    assert traced(torch.ones(1)) == 1
    with pytest.raises(AssertionError):
        traced(-torch.ones(1))


def test_proxies_of_two_graphs_do_not_mix():
    one, other = (Proxy(Graph().placeholder("x")) for _ in range(2))

    with pytest.raises(RuntimeError, match="Found multiple different tracers") as caught:
        torch.add(one, other)

    assert isinstance(caught.value, FxError)


def test_a_proxy_of_another_graph_is_refused_as_a_keyword():
    one, other = (Proxy(Graph().placeholder("x")) for _ in range(2))

    with pytest.raises(RuntimeError, match="Found multiple different tracers"):
        torch.add(one, other=other)


def test_tensors_of_other_classes_are_met_as_in_torch_fx():
    class Louder(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    class Answers:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return f"answered {func.__name__}"

    tensor = torch.ones(2).as_subclass(Louder)

    assert_same(lambda fx: fx.symbolic_trace(lambda x: (torch.add(x, tensor), tensor + x)).graph)
    assert_same(lambda fx: fx.symbolic_trace(lambda x: torch.add(Answers(), x)).graph)


def test_a_copy_of_a_proxy_stands_for_a_copy_of_the_node():
    graph = Graph()
    proxy = Proxy(graph.placeholder("x"), GraphAppendingTracer(graph))

    copied = copy.deepcopy(proxy)

    assert (type(copied), copied.node.name) == (Proxy, "x")
    assert copied.node is not proxy.node


def test_a_subclass_made_by_a_tracer_stands_in_everywhere():
    class Loud(Proxy):
        def __add__(self, other):
            return self.tracer.create_proxy("call_function", torch.sub, (self, other), {})

    class Makes(Tracer):
        def proxy(self, node):
            return Loud(node, self)

    graph = Makes().trace(lambda x: torch.relu(x) + 1)

    assert [str(node) for node in graph.nodes] == ["x", "relu", "sub", "output"]


def test_shapes_of_parameters_are_known_if_asked_for():
    def graph(fx):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(3, 2))

            def forward(self, x):
                known = self.weight.shape[0] + self.weight.dim() + self.weight.numel() + self.weight.size()[1]
                return x + known if self.weight.ndim == 2 else x * self.weight

        return fx.Tracer(param_shapes_constant=True).trace(Model())

    assert_same(graph)


def test_a_called_proxy_is_a_node_as_in_torch_fx():
    def recorded(fx):
        class Net(nn.Module):
            def forward(self, x, layer):
                return layer(x, 2, scale=3) + 1

        return fx.Tracer().trace(Net())

    assert_same(recorded)


def test_the_state_of_a_proxy_is_taken_over():
    graph = Graph()
    proxy = Proxy(graph.placeholder("x"))
    other = Proxy.__new__(Proxy)
    other.__setstate__(proxy.__getstate__())

    assert other.node is proxy.node
    assert other.tracer is proxy.tracer


def test_a_tracer_that_cannot_be_copied_is_shared_by_the_copy():
    class Handle:
        def __deepcopy__(self, memo):
            raise TypeError("a handle cannot be copied")

        def __copy__(self):
            return self

    proxy = Proxy(Graph().placeholder("x"))
    proxy.handle = Handle()
    copied = copy.deepcopy(proxy)

    assert copied.handle is proxy.handle
    assert copied.node is not proxy.node


def test_a_proxy_inside_a_container_of_a_users_class_is_found():
    class Box:
        def __init__(self, value):
            self.value = value

    pytree.register_pytree_node(Box, lambda box: ([box.value], None), lambda values, _: Box(*values))
    x = Proxy(Graph().placeholder("x"))

    assert tracer_of(torch.relu, (Box([x]),), {}) is x.tracer


def test_a_parameter_proxy_tells_what_it_stands_for():
    node = Graph().get_attr("weight")
    proxy = ParameterProxy(GraphAppendingTracer(node.graph), node, "weight", nn.Parameter(torch.ones(2, 3)))

    assert repr(proxy) == "ParameterProxy(weight)"
    assert proxy.nelement() == 6
    with pytest.raises(FxError, match=r"^Expected Parameter, got <class 'torch\.Tensor'>$"):
        ParameterProxy(proxy.tracer, node, "weight", torch.ones(2))


def test_a_higher_order_operator_refuses_a_function_that_tracing_cannot_see():
    x = Proxy(Graph().placeholder("x"))

    with pytest.raises(TraceFunctionError, match="the HigherOrderOperator cond because it received an arbitrary call"):
        Proxy.__torch_function__(torch.ops.higher_order.cond, (Proxy,), (x, torch.relu, torch.neg, (x,)))
    assert [node.name for node in x.node.graph.nodes] == ["x"]


def test_an_attribute_made_by_hand_is_read_or_called_late_as_in_torch_fx():
    def recorded(fx):
        graph = fx.Graph()
        x = fx.Proxy(graph.placeholder("x"))
        read, called, unused = (fx.proxy.Attribute(x, name) for name in ("shape", "neg", "T"))
        result = called(1, scale=2) + read
        graph.output(result.node)
        return graph, unused.root is x, unused.attr, read.tracer is x.tracer

    assert_same(recorded)


def test_parameters_of_known_shape_need_a_tracer_that_takes_the_proxy_s_class():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 3))

        def forward(self, x):
            return x + self.weight.dim()

    def graph(fx):
        class Plain(fx.Tracer):
            def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
                return super().create_proxy(kind, target, args, kwargs, name, type_expr)

        return Plain(param_shapes_constant=True).trace(Model())

    assert_same(graph)


@pytest.mark.parametrize("name", ["__both__", "__left", "right__", "mixedCase", "a__b"])
def test_a_node_is_named_after_the_function_that_hands_over_its_call_as_in_torch_fx(name):
    def function(x):
        return torch.overrides.handle_torch_function(function, (x,), x)

    function.__name__ = name

    assert_same(lambda fx: fx.symbolic_trace(lambda x: function(x)).graph)


def test_the_tracer_of_a_call_is_found_in_every_place():
    one, other = (Proxy(graph.placeholder("x"), GraphAppendingTracer(graph)) for graph in (Graph(), Graph()))

    for args, kwargs in [
        ((one,), {}),
        ((1, one, 2), {"alpha": 1}),
        (([1, one],), {}),
        ((), {"x": one}),
        ((one, [one]), {"x": (one,)}),
    ]:
        assert tracer_of(torch.add, args, kwargs) is one.tracer
    for args, kwargs in [
        ((one, other), {}),
        ((one, 1, other), {}),
        ((one, [other]), {}),
        (([other], one), {}),
        ((one,), {"x": other}),
        ((1,), {}),
        ((), {"x": 1}),
    ]:
        with pytest.raises(FxError, match="Found multiple different tracers"):
            tracer_of(torch.add, args, kwargs)


def test_a_higher_order_operator_without_functions_is_recorded():
    x = Proxy(Graph().placeholder("x"))

    Proxy.__torch_function__(torch.ops.higher_order.cond, (Proxy,), (x, x, x, [1, x]))

    assert [node.name for node in x.node.graph.nodes] == ["x", "cond"]


def asserts(x):
    assert x
    return x


def branches(x):
    return x if x else -x


@pytest.mark.parametrize(
    ("function", "trace_asserts", "is_refused"),
    [(asserts, True, False), (asserts, False, True), (branches, True, True), (branches, False, True)],
)
def test_the_truth_of_a_value_is_recorded_for_assertions_alone_and_if_asked_for(function, trace_asserts, is_refused):
    tracer = Tracer()
    tracer.trace_asserts = trace_asserts
    names = {}
    exec(compile(inspect.getsource(function), function.__code__.co_filename, "exec"), names)  # pytest changes asserts

    with pytest.raises(FxError) if is_refused else contextlib.nullcontext():
        assert len(tracer.trace(names[function.__name__]).nodes) > 2
