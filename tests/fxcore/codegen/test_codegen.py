from __future__ import annotations

import operator
import sys

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same, assert_same_success
from fxcore import CodeGen
from fxcore.codegen.codegen import KeywordCodeGen


def outside(x):
    return x


def code_of(graph):
    written = graph.python_code("self")
    return written.src, sorted(written.globals), written._lineno_map


def name_of_outside(fx):
    """Find out how code calls a function of this file."""
    graph = fx.Graph()
    graph.output(graph.call_function(outside, (graph.placeholder("x"),)))
    return next(name for name in graph.python_code("self").globals if name.endswith("outside"))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_value_named_like_a_function_that_the_code_mentions(is_first):
    def sights(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        if is_first:
            x = graph.create_node("call_function", torch.relu, (x,), name=name_of_outside(fx))
        y = graph.call_function(outside, (x,))
        z = graph.create_node("call_function", operator.neg, (y,), name=name_of_outside(fx))
        graph.output(z)
        return code_of(graph)

    assert "outside_1" in str(assert_same_success(sights))


@pytest.mark.parametrize("name", ["has space", "1st", "ünlich", "for", "print", "relu", "x"])
def test_values_that_have_a_name_that_no_code_can_have(name):
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.relu, (x,))
    second = graph.call_function(torch.tanh, (first,))
    graph.output((first, second))

    second._name = name  # as no setter would
    names = {}
    exec(graph.python_code("self").src, {"torch": torch}, names)

    one = torch.ones(1)
    assert names["forward"](None, one) == (one, one.tanh())


def test_a_statement_of_several_lines_counts_with_its_node_on_each():
    class Two:
        def __repr__(self):
            return "(1,\n2)"

    def sights(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        y = graph.call_function(torch.relu, (x, Two()))
        graph.output(graph.call_function(torch.neg, (y,)))
        return code_of(graph)

    assert_same_success(sights)


def test_graphs_without_statements_are_functions_all_the_same():
    empty, inputs, unread = fxcore.Graph(), fxcore.Graph(), fxcore.Graph()
    inputs.placeholder("x")
    unread.call_function(torch.rand, (1,))

    assert empty.python_code("self").src == "\n\n\ndef forward(self):\n    pass\n    "
    assert inputs.python_code("self").src == "\n\n\ndef forward(self, x):\n    pass\n    "
    assert unread.python_code("self").src.endswith("\n    rand = torch.rand(1);  rand = None\n    ")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor, *rest, factor: float = 2.0, **named) -> torch.Tensor:
        y = self.linear(x) * self.scale
        y.unused_method()
        return torch.cat([y, y], dim=factor).view(2, -1, (1.5, "text"))


def test_code_globals_and_line_map_are_torch_fx_s():
    def sights(fx):
        code = fx.symbolic_trace(Model()).graph.python_code("self")
        return code.src, sorted(code.globals), code._lineno_map, code._prologue_start

    assert_same(sights)


def test_every_option_of_verbose_code_is_torch_fx_s(monkeypatch):
    def sights(fx):
        module = fx.symbolic_trace(Model())
        for number, node in enumerate(module.graph.nodes):
            node.meta.update(val=torch.ones(2, 3), desc=f"value {number}", seq=number)
            node.stack_trace = 'File "model.py", line 3, in forward\n    return x'
        module.graph.output_node().meta["desc"] = "out"
        options = [
            {},
            {"include_stride": True, "include_device": True},
            {"colored": True},
            {"expanded_def": True},
            {"additional_meta": ["seq"]},
        ]
        codes = [module.graph.python_code("self", verbose=True, **chosen) for chosen in options]
        codes = [(code.src, code._lineno_map, code._prologue_start) for code in codes]
        recording = module.graph.python_code("self", record_func=True)
        return codes, recording.src, recording._lineno_map

    assert_same(sights)


def test_the_environment_can_ask_for_strides_devices_and_metadata(monkeypatch):
    for name in ("STRIDE", "DEVICE", "META"):
        monkeypatch.setenv(f"FX_GRAPH_SHOW_{name}", "1")

    def code(fx):
        graph = fx.symbolic_trace(lambda x: torch.relu(x)).graph
        for node in graph.nodes:
            node.meta["val"] = torch.ones(2, 3)
        return graph.python_code("self", verbose=True).src, graph.python_code("self").src

    assert_same(code)


def test_a_subclass_adds_globals_and_changes_definition_and_return():
    class Doubling(CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return super().gen_fn_def(free_vars, maybe_return_annotation).replace("forward", self._func_name)

        def generate_output(self, output_args):
            return f"return double({output_args!r})"

        def additional_globals(self):
            return [("double", lambda value: value * 2)]

    module = fxcore.symbolic_trace(lambda x: x + 1)
    module.graph.set_codegen(Doubling())
    module.recompile()

    assert module(1) == 4


def test_an_empty_graph_is_a_function_that_does_nothing():
    module = fxcore.GraphModule(nn.Module(), fxcore.Graph())

    assert module() is None
    assert module.code.endswith("    pass\n    ")


def test_a_definition_stands_on_one_line_unless_asked_otherwise():
    def sights(fx):
        codegen = fx.graph.CodeGen()
        return codegen.gen_fn_def(["x", "y"], ""), codegen.gen_fn_def(["x"], " -> int", expanded_def=True)

    assert_same_success(sights)


def outside_2(x):
    return x


def test_a_function_s_number_is_told_from_a_value_s():
    def sights(fx):
        graph = fx.Graph()
        x = graph.call_function(outside, (graph.placeholder("x"),))
        y = graph.create_node("call_function", outside_2, (x,), name=f"{name_of_outside(fx)}_2")
        graph.output(graph.create_node("call_function", outside_2, (y,), name=f"{name_of_outside(fx)}_1"))
        return code_of(graph)

    assert_same_success(sights)


def test_values_from_behind_the_written_nodes_get_names_too():
    graph = fxcore.Graph()
    first = graph.call_function(operator.neg, (graph.placeholder("x"),))
    second = graph.call_function(operator.neg, (first,))
    first.args = (second,)
    namespace = fxcore.graph._Namespace()

    code = graph._codegen._gen_python_code([first], "self", namespace)

    assert code.src.splitlines()[-2:] == ["    neg = -neg_1;  neg_1 = None", "    "]


def test_descriptions_of_returned_items_are_comments_of_their_lines():
    codegen = CodeGen()

    assert codegen.generate_output("x") == "return 'x'"
    assert codegen.generate_output(["x", 2], descs=["the loss", "a size"]) == (
        "return [\n    'x',  # the loss\n    2,  # a size\n]"
    )
    assert codegen.generate_output(("x",), descs=["the loss"], repr_fn=str) == "return (\n    x,  # the loss\n)"
    assert codegen.generate_output("x", descs=["the loss"], repr_fn=str) == "return x"


class Varied(nn.Module):
    """Calls in every form that the code has a way of its own for."""

    def __init__(self):
        super().__init__()
        self.act, self.scale = nn.ReLU(), nn.Parameter(torch.ones(2))
        self.pairs, self.layers = nn.Bilinear(2, 2, 2), nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def forward(self, x, y=3):
        self.act(x)  # nobody reads the result
        kept = self.act(x)
        x = self.pairs(self.act(input=kept), self.act(kept))
        x.unused_method()
        x += self.layers(x) * self.scale
        torch.neg(x)
        return torch.cat([x, getattr(x, "T"), kept], dim=y)  # noqa: B009


class CallsModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x):
        for _ in range(100):
            x = self.act(x)
        return x


def calls_functions(x):
    for _ in range(50):
        x = torch.add(x, 1) * x
    return x


@pytest.mark.parametrize("root", [Varied(), CallsModules(), calls_functions], ids=["varied", "modules", "functions"])
@pytest.mark.parametrize("is_annotated", [False, True])
@pytest.mark.parametrize("options", [{}, {"colored": True}, {"verbose": True}, {"record_func": True}], ids=str)
def test_code_is_the_same_in_one_step_and_in_pieces(root, is_annotated, options):
    graph = fxcore.symbolic_trace(root).graph
    if is_annotated:
        for node in list(graph.nodes)[1::2]:
            node.type = torch.Tensor
    written = []
    for transform in (None, lambda pieces: pieces):
        graph._codegen._body_transformer = transform
        code = graph.python_code("self", **options)
        written.append((code.src, code.globals, code._prologue_start))

    assert written[0] == written[1]


@pytest.mark.parametrize("root", [CallsModules(), calls_functions], ids=["modules", "functions"])
def test_a_statement_takes_few_calls(root):
    graph = fxcore.symbolic_trace(root).graph
    graph.python_code("self")
    events = []

    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        graph.python_code("self")
    finally:
        sys.setprofile(None)

    assert events.count("call") < 3 * len(graph.nodes), "in pieces, it takes 10 calls"


@pytest.mark.parametrize(
    ("names", "has_output"),
    [(["print"], False), (["x", "print"], False), (["print", "x"], False), (["x", "print"], True), (["x"], True)],
)
def test_inputs_under_other_names_are_torch_fx_s(names, has_output):
    def sights(fx):
        graph = fx.Graph()
        inputs = [graph.placeholder(name) for name in names]
        if has_output:
            graph.output(tuple(inputs))
        return code_of(graph)

    assert_same_success(sights)


def test_descriptions_of_results_stand_in_an_expanded_definition_alone():
    def sights(fx):
        graph = fx.Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        graph.output([x, y])
        graph.output_node().meta["desc"] = ["first", "second"]
        return [graph.python_code("self", expanded_def=expanded).src for expanded in (False, True)]

    assert_same_success(sights)


def test_code_is_plain_unless_more_is_asked_for():
    graph = fxcore.Graph()
    graph.output(graph.call_function(operator.neg, (graph.placeholder("x"),)))
    for node in graph.nodes:
        node.meta["val"] = torch.ones(2, 3)
    written = [
        graph._codegen._gen_python_code(graph.nodes, "self", fxcore.graph._Namespace(), **options).src
        for options in ({}, {"verbose": True})
    ]

    assert written[0] == "\n\n\ndef forward(self, x):\n    neg = -x;  x = None\n    return neg\n    "
    assert 'def forward(self, x : "f32[2, 3]"):' in written[1].replace("x:", "x :")
    assert KeywordCodeGen(1).gen_fn_def(["x", "y"], "") == "def forward(self, x, *, y):"
