from __future__ import annotations

import pytest
import torch
import torch.fx
from torch import nn

import fxcore
from fxcore.interpreter import Transformer


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor, y: float = 1.0) -> torch.Tensor:
        return torch.relu(self.linear(x)).mul(self.scale) + y


def test_a_transformer_that_changes_nothing_makes_an_equal_module():
    traced, x = fxcore.symbolic_trace(Block()), torch.randn(2, 3)

    transformed = Transformer(traced).transform()

    assert torch.equal(transformed(x), traced(x))
    assert transformed.linear is traced.linear
    assert [node.name for node in transformed.graph.nodes] == [node.name for node in traced.graph.nodes]


def test_operators_are_swapped_as_in_torch():
    def swapped(fx):
        class Swap(fx.Transformer):
            def call_function(self, target, args, kwargs):
                if target is torch.sigmoid:
                    return torch.neg(*args, **kwargs)
                return super().call_function(target, args, kwargs)

            def call_method(self, target, args, kwargs):
                if target == "neg":
                    value, *rest = args
                    return value.sigmoid(*rest, **kwargs)
                return super().call_method(target, args, kwargs)

        return Swap(fx.symbolic_trace(lambda x: torch.sigmoid(x).neg())).transform()

    ours, theirs = swapped(fxcore), swapped(torch.fx)

    assert str(ours.graph) == str(theirs.graph)
    assert ours.code == theirs.code


def test_the_graph_printed_is_torchs_without_annotations():
    def transformed(fx):
        return fx.Transformer(fx.symbolic_trace(Block())).transform()

    assert transformed(fxcore).code == transformed(torch.fx).code
    assert "def forward(self, x, y = 1.0):" in transformed(fxcore).code


def test_annotations_are_kept_on_request():
    traced = fxcore.symbolic_trace(Block())

    transformed = Transformer(traced).transform(keep_types=True)

    assert transformed.code == traced.code
    assert [node.type for node in transformed.graph.nodes] == [node.type for node in traced.graph.nodes]
    assert transformed.graph.output_node().type is not None


def test_metadata_is_kept_where_torch_drops_it():
    """The graph's nodes come out with what passes noted on them (pytorch#95314)."""

    def noted(fx):
        traced = fx.symbolic_trace(Block())
        for node in traced.graph.nodes:
            node.meta["note"] = node.name
        return [node.meta.get("note") for node in fx.Transformer(traced).transform().graph.nodes]

    assert noted(torch.fx) == [None, None, None, None, None, None, None, "output"]
    assert noted(fxcore) == ["x", "y", "linear", "relu", "scale", "mul", "add", "output"]


def test_a_node_of_another_kind_gets_no_notes_that_are_not_about_it():
    class Swap(Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.neg if target is torch.relu else target, args, kwargs)

    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    for node in traced.graph.nodes:
        node.meta.update(note=node.name, custom={"kept": True})

    neg = next(node for node in Swap(traced).transform().graph.nodes if node.op == "call_function")

    assert "note" not in neg.meta
    assert neg.meta["custom"] == {"kept": True}


def test_a_value_returned_in_place_of_a_node_keeps_its_own_notes():
    class WithoutRelu(Transformer):
        def call_function(self, target, args, kwargs):
            return args[0] if target is torch.relu else super().call_function(target, args, kwargs)

    traced = fxcore.symbolic_trace(lambda x: torch.relu(torch.relu(torch.neg(x))))
    for node in traced.graph.nodes:
        node.meta["note"] = node.name

    transformed = WithoutRelu(traced).transform()

    assert [node.meta["note"] for node in transformed.graph.nodes] == ["x", "neg", "output"]


def test_transformed_modules_can_be_transformed_again():
    traced, x = fxcore.symbolic_trace(Block()), torch.randn(2, 3)

    twice = Transformer(Transformer(traced).transform()).transform()

    assert torch.equal(twice(x), traced(x))


def test_a_transform_within_a_transform_does_not_disturb_it():
    class Nested(Transformer):
        def call_module(self, target, args, kwargs):
            child = self.fetch_attr(target)
            if isinstance(child, fxcore.GraphModule):
                setattr(self.module, target, Transformer(child).transform())
            return super().call_module(target, args, kwargs)

    inner = fxcore.symbolic_trace(Block())

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return torch.neg(self.inner(torch.relu(x)))

    class Leafy(fxcore.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    outer, x = Outer(), torch.randn(2, 3)
    traced = fxcore.GraphModule(outer, Leafy().trace(outer))
    expected = traced(x)

    transformed = Nested(traced).transform()

    assert torch.equal(transformed(x), expected)
    assert transformed.inner is not inner


def test_the_class_of_the_tracer_is_kept():
    class Mine(fxcore.Tracer):
        pass

    model = Block()
    traced = fxcore.GraphModule(model, Mine().trace(model))

    assert Transformer(traced).transform().graph._tracer_cls is Mine


def test_nested_inputs_and_outputs_stay_nested():
    def swap(pair):
        return {"sum": pair["x"] + pair["y"]}

    traced = fxcore.symbolic_trace(swap, concrete_args={"pair": {"x": fxcore.PH, "y": fxcore.PH}})

    assert Transformer(traced).transform()({"x": 1, "y": 2}) == {"sum": 3}


def test_a_tracer_of_ones_own_decides_what_is_a_leaf():
    class Inlined(fxcore.Tracer):
        def __init__(self, graph, root):
            super().__init__()
            self.graph, self.root = graph, root

        def is_leaf_module(self, m, module_qualified_name):
            return False

    class Inlining(Transformer):
        def __init__(self, module):
            super().__init__(module)
            self.tracer = Inlined(self.new_graph, module)

    class Doubled(nn.Module):
        def forward(self, x):
            return x + x

    traced = fxcore.GraphModule(nn.Sequential(Doubled()), fxcore.Graph())
    traced.add_submodule("twice", Doubled())
    traced.graph.output(traced.graph.call_module("twice", (traced.graph.placeholder("x"),)))
    traced.recompile()

    transformed = Inlining(traced).transform()

    assert [node.op for node in transformed.graph.nodes] == ["placeholder", "call_function", "output"]


def test_modules_installed_while_transforming_are_found():
    class Installing(Transformer):
        def call_function(self, target, args, kwargs):
            self.module.add_submodule("late", nn.ReLU())
            return self.call_module("late", args, kwargs)

    transformed = Installing(fxcore.symbolic_trace(lambda x: torch.relu(x))).transform()

    assert isinstance(transformed.late, nn.ReLU)
    assert transformed(torch.tensor(-1.0)) == 0


def test_constants_used_while_transforming_become_attributes():
    class Shifting(Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(target, args, kwargs) + torch.tensor([5.0])

    transformed = Shifting(fxcore.symbolic_trace(lambda x: torch.relu(x))).transform()

    assert transformed(torch.tensor([1.0])).tolist() == [6.0]


@pytest.mark.parametrize("method", ["placeholder", "get_attr", "call_module"])
def test_targets_that_are_no_paths_are_refused(method):
    transformer = Transformer(fxcore.symbolic_trace(Block()))

    with pytest.raises(AssertionError, match="Expected target to be str, got <class 'int'>: 3 is no name and no path"):
        getattr(transformer, method)(3, (), {})
