from __future__ import annotations

import collections
import enum
import math

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same_success
from fxcore import Graph
from fxcore.codegen.globals import GeneratedGlobals
from fxcore.codegen.statements import StatementWriter
from fxcore.node_data.namespace import Namespace

Point = collections.namedtuple("Point", "x y")


class Pair(tuple):
    __slots__ = ()


class Colour(enum.Enum):
    RED = 1


def code_of(fx, *arguments, **named):
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.add, tuple(x if item == "x" else item for item in arguments), named)
    graph.output(node)
    return graph.python_code("self").src


CONSTANTS = {
    "numbers": (1, 1.5, -0.0, 1e300, True, None, ..., 3 + 4j),
    "infinities": (math.inf, -math.inf, math.nan, [math.inf, {"k": math.nan}]),
    "texts": ('a"b', "it's\n", b"bytes"),
    "containers": ((), (1,), [], {}, {"k": (1,), 2: [None]}, slice(1, None), range(3)),
    "torch": (torch.float32, torch.device("cuda", 1), torch.strided, torch.preserve_format, torch.Size([1, 2])),
    "operators": (torch.ops.aten.add.Tensor, torch.ops.aten.relu.default),
    "named tuple": (Point(1, "x"), [Point(1, 2)]),
    "tuple of a class": (Pair((1, 2)), [Pair(("x",))]),
    "enum": (Colour.RED,),
}


@pytest.mark.parametrize("constants", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_are_written_as_torch_fx_writes_them(constants):
    assert_same_success(lambda fx: code_of(fx, "x", *constants, named=constants[0]))


def every_operator(x, y):
    z = (x + y) * x // y % 2**x @ y
    z += x
    z @= y
    return z == x, z != x, x < y, ~x, -x, +x, abs(x), x << 1, 1 >> x, x & y | x ^ y, x[..., 0:1, None, [1]]


def test_operators_are_written_as_syntax():
    assert_same_success(lambda fx: fx.symbolic_trace(every_operator).code)


@pytest.mark.parametrize(
    "number", [-0j, -1j, complex(-0.0, 1), complex(1, -0.0), complex(-0.0, -0.0), complex(0.0, -1)]
)
def test_a_complex_number_keeps_the_signs_of_its_zeros(number):
    graph = Graph()
    graph.output(number)

    obtained = fxcore.GraphModule(nn.Module(), graph)()

    assert [math.copysign(1, part) for part in (obtained.real, obtained.imag)] == [
        math.copysign(1, part) for part in (number.real, number.imag)
    ]
    assert obtained == number


@pytest.mark.parametrize("number", [1j, 0j, 1 - 1j, complex(-1, 0.0), -2 + 3j])
def test_a_complex_number_that_is_its_own_source_is_written_as_python_writes_it(number):
    graph = Graph()
    graph.output(number)

    assert f"return {number!r}\n" in graph.python_code("self").src


def test_an_infinite_complex_number_is_written_as_a_call():
    graph = Graph()
    graph.output((complex(0, math.inf), complex(math.nan, 1)))

    infinite, undefined = fxcore.GraphModule(nn.Module(), graph)()

    assert infinite == complex(0, math.inf)
    assert math.isnan(undefined.real)
    assert undefined.imag == 1


def test_a_module_named_by_a_keyword_is_reached_by_getattr():
    class Gates(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = nn.ModuleDict({"in": nn.ReLU(), "odd name": nn.ReLU()})

        def forward(self, x):
            return self.gates["in"](self.gates["odd name"](x))

    traced = fxcore.symbolic_trace(Gates())

    assert 'getattr(self.gates, "in")(' in traced.code
    assert torch.equal(traced(-torch.ones(1)), torch.zeros(1))
    with pytest.raises(SyntaxError):
        torch.fx.symbolic_trace(Gates())


def test_a_class_among_the_arguments_is_written_by_its_name():
    def graph_of(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        graph.output(graph.call_function(isinstance, (x, (int, torch.Tensor))))
        return graph

    assert "<class 'int'>" in graph_of(torch.fx).python_code("self").src

    gm = fxcore.GraphModule({}, graph_of(fxcore))
    assert "isinstance(x, (int, torch.Tensor))" in gm.code
    assert gm(torch.ones(1)) is True
    assert gm("text") is False


def test_an_opcode_that_fx_does_not_have_cannot_be_written():
    module = fxcore.symbolic_trace(lambda x: torch.relu(x))
    list(module.graph.nodes)[1].op = "call"
    module.recompile()

    with pytest.raises(NotImplementedError, match=r"node: call .* the opcode of 'relu' is none of FX's six"):
        _ = module.code


def test_arguments_nested_in_dicts_keep_their_classes():
    assert "Point(1, 2)" in code_of(fxcore, "x", {"k": Point(1, 2)})
    assert "Colour.RED" in code_of(fxcore, "x", {"k": [Colour.RED]})


def test_wrapped_functions_are_declared_before_the_function():
    assert_same_success(lambda fx: fx.symbolic_trace(lambda x: math.sqrt(x.size(0))).code)


def test_a_tensor_among_the_arguments_is_described():
    graph = Graph()
    graph.call_function(torch.relu, (graph.placeholder("x"),), {"like": torch.ones(2, 3)})

    assert "like = torch.Tensor(size=[2, 3], dtype=float32)" in graph.python_code("self").src


def test_methods_of_constants_and_methods_with_odd_names_are_written():
    graph = Graph()
    x = graph.placeholder("x")
    joined = graph.call_method("join", (", ", ("a", "b")))
    odd = graph.call_method("in", (x, 1))
    graph.output((joined, odd, graph.call_function(torch.get_default_dtype)))

    assert graph.python_code("self").src.splitlines()[4:] == [
        "    join = ', '.join(('a', 'b'))",
        '    in_1 = getattr(x, "in")(1);  x = None',
        "    get_default_dtype = torch.get_default_dtype()",
        "    return (join, in_1, get_default_dtype)",
        "    ",
    ]


@pytest.mark.parametrize("arguments", [("T",), ("T", None), ("odd name",), ("odd name", 1)], ids=str)
def test_an_attribute_of_a_value_is_read_as_torch_fx_reads_it(arguments):
    def code(fx):
        graph = fx.Graph()
        graph.output(graph.call_function(getattr, (graph.placeholder("x"), *arguments)))
        return graph.python_code("self").src

    assert_same_success(code)


def test_tuples_of_a_class_without_names_are_written_as_tuples():
    writer = StatementWriter(Namespace(), "self", GeneratedGlobals(Namespace()))

    assert [writer.value(each) for each in (torch.Size([1, 2]), Pair((1,)), (), ("x", (2,)))] == [
        *("(1, 2)", "(1,)", "()", "('x', (2,))")
    ]
