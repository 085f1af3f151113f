from __future__ import annotations

import collections
import dataclasses
import enum
from typing import NamedTuple

import pytest
import torch

import fxcore
from fixtures.oracle import assert_same, assert_same_success
from fxcore import Graph, Proxy, Tracer
from fxcore.errors import FxError
from fxcore.proxy import GraphAppendingTracer


@dataclasses.dataclass
class Options:
    size: object
    names: list


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: object
    y: object


class Pair(tuple):
    __slots__ = ()


class Creates:
    def __init__(self, value):
        self.value = value

    def __fx_create_arg__(self, tracer):
        return tracer.create_node("call_function", Creates, (tracer.create_arg(self.value),), {})


ARGUMENTS = {
    "containers": lambda x: ([x, (x, {"k": [x]})], slice(x, None, 2), range(3), {1: x, None: x, (1, 2): x}),
    "constants": lambda x: (
        x,
        1,
        1.5,
        None,
        ...,
        "text",
        torch.float32,
        torch.device("cpu"),
        torch.strided,
        Colour.RED,
    ),
    "sizes": lambda x: (x.view(torch.Size([1, 2])), collections.OrderedDict(a=x)),
    "its own way": lambda x: torch.add(Creates(x).value, Creates(2).value),
    "operators": lambda x: (x, torch.ops.aten.add.Tensor, torch.ops.higher_order.cond),
    "named tuples": lambda x: (Point(x, [x]), Pair((x, 1))),
}


@pytest.mark.parametrize("function", ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_value_becomes_the_argument_that_torch_fx_makes_of_it(function):
    assert_same_success(lambda fx: fx.symbolic_trace(function).graph)


def test_a_dataclass_is_made_in_the_graph():
    traced = fxcore.symbolic_trace(lambda x: [Options(x, [x, 3])])

    assert traced(5) == [Options(5, [5, 3])]


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", int, print], ids=lambda value: type(value).__name__)
def test_a_value_that_a_graph_cannot_hold_is_refused(value):
    with pytest.raises(NotImplementedError, match="argument of type: <class '") as caught:
        fxcore.symbolic_trace(lambda x: x.method(value))

    assert isinstance(caught.value, FxError)
    assert f"{__file__}:" in str(caught.value)
    assert_same(lambda fx: fx.symbolic_trace(lambda x: x.method(value)))


def test_an_object_whose_text_cannot_be_made_is_refused_by_its_type():
    class Silent:
        def __repr__(self):
            raise ZeroDivisionError

    with pytest.raises(NotImplementedError, match="An object of type Silent cannot be an argument"):
        fxcore.symbolic_trace(lambda x: x.method(Silent()))


@pytest.mark.parametrize("key", [lambda x: x, lambda x: (1, x)])
def test_a_proxy_as_a_key_is_refused(key):
    with pytest.raises(RuntimeError, match=r"Keys for dictionaries .* cannot contain a Node\. Got key: x") as caught:
        fxcore.symbolic_trace(lambda x: {key(x): 1})

    assert isinstance(caught.value, FxError)


def test_a_tracer_can_answer_for_its_proxies():
    def graph(fx):
        class Answers(fx.Tracer):
            def to_bool(self, obj):
                return True

            def iter(self, obj):
                return iter([obj[0], obj[1]])

            def keys(self, obj):
                return ["p", "q"]

        def function(x):
            if x > 0:
                x = x + 1
            return [item + 1 for item in x], dict(**x), not x

        return Answers().trace(function)

    assert_same_success(graph)


def test_everything_goes_through_the_methods_that_a_user_overrides():
    def log(fx):
        calls = []

        class Logs(fx.Tracer):
            def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
                calls.append(("node", kind, str(target)))
                return super().create_node(kind, target, args, kwargs, name, type_expr)

            def create_arg(self, a):
                calls.append(("arg", type(a).__name__))
                return super().create_arg(a)

            def create_proxy(self, *args, **kwargs):
                calls.append(("proxy", args[0], len(args), sorted(kwargs)))
                return super().create_proxy(*args, **kwargs)

            def proxy(self, node):
                calls.append(("proxy", node.name))
                return super().proxy(node)

        Logs().trace(lambda x, y=2: (torch.cat([x, x.relu()], dim=y), {"k": x[0:1]}, x + 1.5))
        return calls

    assert_same_success(log)


def test_a_tracer_can_refuse_what_it_does_not_want():
    class Functional(Tracer):
        check_mutable_operations = True

    with pytest.raises(RuntimeError, match=r"Tried to trace mutable operation aten::sigmoid\.out"):
        Functional().trace(lambda x: torch.sigmoid(x, out=torch.zeros(1)))
    assert len(Functional().trace(lambda x: torch.add(x, 1)).nodes) == 3

    class InManySteps(Tracer):
        def create_arg(self, a):
            return super().create_arg(a)

    assert len(InManySteps().trace(lambda x: torch.sigmoid(x, out=x)).nodes) == 3


def test_recording_onto_a_graph_takes_no_containers_of_the_wrong_kind():
    graph = Graph()
    x = Proxy(graph.placeholder("x"))

    with pytest.raises(AssertionError, match="Expected args_ to be tuple"):
        GraphAppendingTracer(graph).create_proxy("call_function", torch.relu, [x], {})


def test_named_tuples_keep_their_class_on_a_graph_without_a_trace():
    graph = Graph()
    x = Proxy(graph.placeholder("x"))

    argument = GraphAppendingTracer(graph).create_arg((Point(x, [x, 1]), Pair((x, 2))))

    assert argument == (Point(x.node, [x.node, 1]), Pair((x.node, 2)))
    assert [type(each) for each in argument] == [Point, Pair]


def test_the_module_path_stands_beside_what_a_hook_noted_on_a_node():
    owner = fxcore.GraphModule(torch.nn.Module(), Graph())
    owner._register_create_node_hook(lambda node: node.meta.update(mark=1))

    class Hooked(Tracer):
        def call_module(self, m, forward, args, kwargs):
            self.graph.owning_module = owner
            return super().call_module(m, forward, args, kwargs)

    graph = Hooked().trace(torch.nn.Sequential(torch.nn.ReLU()))

    (relu,) = graph.find_nodes(op="call_module", target="0")
    assert relu.meta == {"mark": 1, "nn_module_stack": {"0": ("0", torch.nn.ReLU)}}


class ManySteps(Tracer):
    def create_arg(self, a):
        return super().create_arg(a)


@pytest.mark.parametrize("tracer", [Tracer, ManySteps])
def test_a_trace_records_nothing_beside_the_calls_unless_it_is_asked_to(tracer):
    graph = tracer().trace(lambda x: torch.relu(x))

    assert [node.meta for node in graph.nodes] == [{}] * 3
    with pytest.raises(FxError, match="inputs to control flow"):
        tracer().trace(asserts)


def asserts(x):
    # Run as text: pytest rewrites the asserts of a test module.
    exec("assert x", {"x": x})
    return x


def test_a_buffer_is_read_as_itself_unless_a_tracer_asks_for_proxies():
    class Reads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(2))

        def forward(self, x):
            kinds.append(type(self.table))
            return x + self.table

    class Asking(Tracer):
        proxy_buffer_attributes = True

    kinds = []
    for tracer in (Tracer, Asking):
        tracer().trace(Reads())

    assert kinds[0] is torch.Tensor
    assert issubclass(kinds[1], Proxy)


def test_a_stack_trace_has_all_functions_of_the_user():
    class Stacks(Tracer):
        record_stack_traces = True

    class Calls(torch.nn.Module):
        def forward(self, x):
            return helper(x)

    def helper(x):
        return torch.relu(x)

    (relu,) = Stacks().trace(Calls()).find_nodes(op="call_function", target=torch.relu)
    assert "in forward" in relu.stack_trace
    assert "in helper" in relu.stack_trace
