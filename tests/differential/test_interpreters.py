"""Interpreters and transformers that people write, subclassed from either library."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fixtures.catalog import CATALOG
from fixtures.oracle import assert_same, assert_same_refusal, assert_same_success


def model() -> nn.Module:
    """Return a model with a module, a parameter, a method and functions in it."""
    return CATALOG["nested_modules"].build().eval()


def inputs() -> tuple[torch.Tensor, ...]:
    return CATALOG["nested_modules"].example_inputs()


def test_an_interpreter_sees_each_node_in_order_with_its_arguments():
    def program(fx):
        seen = []

        class Watching(fx.Interpreter):
            def run_node(self, n):
                args, kwargs = self.fetch_args_kwargs_from_env(n)
                seen.append([n.name, n.op, args, kwargs, sorted(each.name for each in self.env)])
                return super().run_node(n)

        result = Watching(fx.symbolic_trace(model())).run(*inputs())
        return [result, seen]

    assert_same_success(program)


def test_an_interpreter_keeps_everything_unless_told_to_collect_garbage():
    def program(fx):
        interpreter = fx.Interpreter(fx.symbolic_trace(model()), garbage_collect_values=False)
        result = interpreter.run(*inputs())
        return [result, {node.name: value for node, value in interpreter.env.items()}]

    assert_same_success(program)


@pytest.mark.parametrize("method", ["call_function", "call_method", "call_module", "get_attr", "placeholder", "output"])
def test_an_interpreter_hands_each_opcode_to_its_method(method):
    def program(fx):
        calls = []

        def watch(self, target, args, kwargs):
            calls.append([target, args, kwargs])
            return getattr(fx.Interpreter, method)(self, target, args, kwargs)

        watching = type("Watching", (fx.Interpreter,), {method: watch})
        entry = CATALOG["attention"]
        return [watching(fx.symbolic_trace(entry.build().eval())).run(*entry.example_inputs()), calls]

    assert_same_success(program)


def test_an_interpreter_starts_from_given_values():
    def program(fx):
        traced = fx.symbolic_trace(lambda x, y: (torch.relu(x) + y) * 2)
        relu = next(node for node in traced.graph.nodes if node.op == "call_function")
        return fx.Interpreter(traced).run(torch.ones(2), torch.ones(2), initial_env={relu: torch.full((2,), 5.0)})

    assert_same_success(program)


def test_an_interpreter_takes_defaults_and_refuses_missing_inputs():
    def program(fx):
        def function(x, scale=2.0):
            return x * scale

        interpreter = fx.Interpreter(fx.symbolic_trace(function))
        return [interpreter.run(torch.ones(2)), interpreter.run(torch.ones(2), 3.0)]

    assert_same_success(program)
    assert_same_refusal(lambda fx: fx.Interpreter(fx.symbolic_trace(lambda x, y: x + y)).run(torch.ones(2)))


def test_boxed_run_empties_the_list_of_inputs():
    def program(fx):
        boxed = [torch.ones(2), torch.full((2,), 3.0)]
        result = fx.Interpreter(fx.symbolic_trace(lambda x, y: x - y)).boxed_run(boxed)
        return [result, boxed]

    assert_same_success(program)


def test_an_interpreter_over_a_graph_of_its_own():
    def program(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        graph.output((graph.call_function(operator.add, (x, graph.get_attr("stage_0.blocks.0.gain"))),))
        return fx.Interpreter(model(), graph=graph).run(torch.zeros(4))

    assert_same_success(program)


def test_an_interpreter_that_records_shapes():
    def program(fx):
        class Shapes(fx.Interpreter):
            def run_node(self, n):
                result = super().run_node(n)
                n.meta["shape"] = tuple(result.shape) if isinstance(result, torch.Tensor) else None
                return result

        traced = fx.symbolic_trace(CATALOG["resnet10"].build().eval())
        Shapes(traced).run(*CATALOG["resnet10"].example_inputs())
        return [[node.name, node.meta["shape"]] for node in traced.graph.nodes]

    pytest.importorskip("pytorchcv")
    assert_same_success(program)


def test_a_transformer_replaces_operations_and_inlines_modules():
    def program(fx):
        class Inlining(fx.Transformer):
            def call_module(self, target, args, kwargs):
                module = self.fetch_attr(target)
                if isinstance(module, nn.Linear):
                    weight = self.get_attr(f"{target}.weight", (), {})
                    return F.linear(*args, weight, self.get_attr(f"{target}.bias", (), {}), **kwargs)
                return super().call_module(target, args, kwargs)

            def call_function(self, target, args, kwargs):
                if target is torch.tanh:
                    return (args[0] * 2).sigmoid() * 2 - 1
                return super().call_function(target, args, kwargs)

        transformed = Inlining(fx.symbolic_trace(model())).transform()
        return [transformed, transformed(*inputs())]

    assert_same_success(program)


def test_a_transformer_adds_outputs_and_renames_inputs():
    def program(fx):
        class Tagged(fx.Transformer):
            def placeholder(self, target, args, kwargs):
                return super().placeholder(f"given_{target}", args, kwargs)

            def output(self, target, args, kwargs):
                return super().output(target, ({"result": args[0], "count": 1},), kwargs)

        return Tagged(fx.symbolic_trace(model())).transform()

    assert_same(program)


def test_retracing_with_proxies_over_a_graph():
    def program(fx):
        rules = {F.relu: lambda x: (x > 0) * x, operator.add: lambda x, y: torch.add(y, x)}
        traced = fx.symbolic_trace(lambda x, y: F.relu(x + y) + 1)
        graph, env = fx.Graph(), {}
        tracer = fx.proxy.GraphAppendingTracer(graph)
        for node in traced.graph.nodes:
            if node.target in rules:
                given = [fx.Proxy(env[each], tracer) if isinstance(each, fx.Node) else each for each in node.args]
                env[node] = rules[node.target](*given).node
            else:
                env[node] = graph.node_copy(node, env.__getitem__)
        return fx.GraphModule(traced, graph)

    assert_same_success(program)
