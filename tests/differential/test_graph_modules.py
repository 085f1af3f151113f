"""GraphModules made, changed, copied, pickled and written to a folder by both libraries."""

from __future__ import annotations

import copy
import operator
import pickle
from collections import OrderedDict

import torch
from torch import nn

from fixtures.catalog import CATALOG
from fixtures.oracle import assert_same, assert_same_success
from fixtures.run_results import results_of_run
from fixtures.sight import AsIs

NESTED = CATALOG["nested_modules"]


def test_submodules_are_added_replaced_and_deleted():
    def program(fx):
        traced = fx.symbolic_trace(NESTED.build())
        given = [
            traced.add_submodule("new.path.relu", nn.ReLU()),
            traced.add_submodule("stage_0.blocks.0.gain.x", nn.ReLU()),
        ]
        with traced.graph.inserting_before(traced.graph.output_node()):
            called = traced.graph.call_module("new.path.relu", (traced.graph.output_node().args[0],))
        traced.graph.output_node().args = (called,)
        given += [traced.delete_submodule("add"), traced.delete_submodule("nowhere.at.all")]
        traced.delete_all_unused_submodules()
        traced.recompile()
        return [given, traced]

    assert_same(program)


def test_a_graph_module_takes_a_dict_of_attributes_as_root():
    def program(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        weighted = graph.call_function(operator.mul, (x, graph.get_attr("inner.weight")))
        graph.output(graph.call_module("inner.act", (weighted,)))
        module = fx.GraphModule({"inner.weight": torch.ones(2), "inner.act": nn.ReLU()}, graph, class_name="Made")
        return [module, module(torch.tensor([-1.0, 2.0]))]

    assert_same_success(program)


def test_only_what_the_graph_uses_is_copied_from_the_root():
    def program(fx):
        root = NESTED.build()
        graph = fx.Graph()
        graph.output(graph.call_module("stage_1.blocks.0.inner.fc1", (graph.placeholder("x"),)))
        return fx.GraphModule(root, graph)

    assert_same_success(program)


def test_assigning_a_graph_recompiles_and_editing_waits_for_recompile():
    def program(fx):
        first, second = fx.symbolic_trace(lambda x: x + 1), fx.symbolic_trace(lambda x: x * 5)
        results = [first(torch.ones(2))]
        first.graph = second.graph
        results.append(first(torch.ones(2)))
        next(iter(first.graph.find_nodes(op="call_function", target=operator.mul))).target = operator.sub
        results.append(first(torch.ones(2)))
        first.recompile()
        return [*results, first(torch.ones(2)), first, second.graph is first.graph]

    assert_same_success(program)


def test_copies_keep_meta_buffers_and_the_training_flag():
    def program(fx):
        traced = fx.symbolic_trace(CATALOG["conv_bn_relu"].build())
        traced.meta["mark"] = [1, 2]
        traced.register_buffer("extra", torch.ones(1))
        twin = copy.deepcopy(traced.eval())
        other = copy.copy(traced)
        results = twin(*CATALOG["conv_bn_relu"].example_inputs())
        return [twin.graph, twin.training, twin.meta, twin.extra, twin.state_dict(), results, other, other.meta]

    assert_same_success(program)


def test_a_copied_graph_belongs_to_nobody_and_keeps_meta():
    def program(fx):
        graph = fx.symbolic_trace(NESTED.build()).graph
        for index, node in enumerate(graph.nodes):
            node.meta["index"] = index
        twin = copy.deepcopy(graph)
        return [
            twin,
            [node.meta["index"] for node in twin.nodes],
            twin.owning_module is None,
            graph.owning_module is None,
        ]

    assert_same_success(program)


def test_a_graph_module_inside_another_is_called_or_looked_into():
    def program(fx):
        inner = fx.symbolic_trace(NESTED.build())
        outer = nn.Sequential(OrderedDict(first=inner, second=nn.Tanh()))

        class KeepsGraphs(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return isinstance(m, fx.GraphModule) or super().is_leaf_module(m, module_qualified_name)

        kept = fx.GraphModule(outer, KeepsGraphs().trace(outer))
        return [fx.symbolic_trace(outer), kept, kept(*NESTED.example_inputs())]

    assert_same_success(program)


def test_generated_modules_can_be_pickled_between_processes():
    def program(fx):
        loaded = pickle.loads(pickle.dumps(fx.symbolic_trace(NESTED.build())))
        return [AsIs(loaded.code), loaded.state_dict(), results_of_run(loaded, NESTED.example_inputs(), {})]

    assert_same_success(program)


def test_a_folder_holds_the_module_as_source(tmp_path):
    def program(fx):
        folder = tmp_path / fx.__name__
        fx.symbolic_trace(NESTED.build()).to_folder(folder, "Saved")
        written = {path.name: path.read_text().splitlines() for path in sorted(folder.glob("*.py"))}
        # The one import of a private module of the library, and blanks in empty lines, are their own business.
        return {name: [line.rstrip() for line in lines if "fx_pytree" not in line] for name, lines in written.items()}

    assert_same_success(program)


def test_types_and_defaults_are_written_into_the_code():
    def program(fx):
        def function(
            x: torch.Tensor, pair: tuple[int, list[float]] = (1, [2.0]), flag: bool = True
        ) -> dict[str, torch.Tensor]:
            return {"result": x * pair[0]}

        function.__annotations__ = {
            "x": torch.Tensor,
            "pair": tuple[int, list[float]],
            "flag": bool,
            "return": dict[str, torch.Tensor],
        }
        return fx.symbolic_trace(function)

    assert_same(program)


def test_concrete_arguments_are_baked_in():
    def program(fx):
        def function(x, scale=2, negate=False):
            return -x * scale if negate else x * scale

        traced = fx.symbolic_trace(function, concrete_args={"negate": True, "scale": 3})
        return [traced, traced(torch.ones(2), 3, True)]

    assert_same(program)


def test_nested_concrete_arguments_are_flattened():
    def program(fx):
        # Three inputs: torch.fx takes two of which the second is a dict for the positional and keyword arguments.
        def function(x, pair, named):
            return x + pair[0] + named["a"] * pair[1]["b"]

        concrete = {"pair": (fx.PH, {"b": fx.PH}), "named": {"a": fx.PH}}
        traced = fx.symbolic_trace(function, concrete_args=concrete)
        return [traced, traced(torch.ones(2), (torch.ones(2), {"b": torch.ones(2)}), {"a": torch.ones(2)})]

    assert_same_success(program)


def test_a_tracer_may_choose_its_leaves_and_watch_what_it_makes():
    def program(fx):
        made = []

        class Watching(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return module_qualified_name.endswith("blocks")

            def create_node(self, *args, **kwargs):
                node = super().create_node(*args, **kwargs)
                made.append(node.name)
                return node

        root = NESTED.build()
        return [fx.GraphModule(root, Watching().trace(root)), made]

    assert_same_success(program)
