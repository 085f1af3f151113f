"""Entry points of torch.fx on graphs of fxcore: the result of torch's own graph, or a refusal that names to_torch."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes import (
    fake_tensor_prop,
    graph_drawer,
    graph_manipulation,
    net_min_base,
    operator_support,
    reinplace,
    shape_prop,
    split_utils,
    splitter_base,
    tools_common,
)
from torch.fx.passes import pass_manager as older_pass_manager
from torch.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from torch.fx.passes.backends import cudagraphs
from torch.fx.passes.dialect.common.cse_pass import CSEPass
from torch.fx.passes.graph_transform_observer import GraphTransformObserver
from torch.fx.passes.infra import pass_manager
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.param_fetch import lift_lowering_attrs_to_nodes
from torch.fx.passes.runtime_assert import insert_deferred_runtime_asserts
from torch.fx.passes.split_module import split_module
from torch.fx.passes.utils import common, fuser_utils, source_matcher_utils
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher
from torch.utils import _pytree as pytree

import fxcore
from fixtures.torch_versions import TORCH
from fxcore.errors import InteropError
from fxcore.interop import to_torch

X = torch.linspace(-1, 1, 8).reshape(2, 4)
REFUSED = r"cannot run {} of torch\.fx on a graph of fxcore: .* give it fxcore\.interop\.to_torch\(graph_module\)"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.relu = nn.ReLU()
        for parameter in self.parameters():
            nn.init.constant_(parameter, 0.25)

    def forward(self, x):
        y = self.relu(self.linear(x))
        return torch.sigmoid(y) + torch.sigmoid(y).neg()


class Supported(operator_support.OperatorSupport):
    def is_node_supported(self, submodules, node):
        return node.op.startswith("call")


class Minimizer(net_min_base._MinimizerBase):
    def run_a(self, module, inputs, report_idx=-1):
        return module(*inputs)

    run_b = run_a


def calls(gm):
    return [node for node in gm.graph.nodes if node.op.startswith("call")]


def sigmoids(gm):
    return [node for node in gm.graph.nodes if node.target is torch.sigmoid]


def relu_for_sigmoid(rewrite, gm):
    return gm, len(rewrite(gm, lambda x: torch.sigmoid(x), lambda x: torch.relu(x)))


def sigmoid_graph():
    return torch.fx.symbolic_trace(lambda x: torch.sigmoid(x)).graph


def observed(gm):
    with GraphTransformObserver(gm, "a pass"):
        sigmoids(gm)[0].target = torch.tanh
    gm.recompile()
    return gm


def tagged(gm):
    for place, node in enumerate(calls(gm)):
        node.tag = "first" if place < 2 else "second"
    return gm


def supported(gm):
    return CapabilityBasedPartitioner(gm, Supported(), allows_single_node_partition=True)


def split(gm):
    return splitter_base._SplitterBase(gm, (X,), Supported(), splitter_base._SplitterSettingBase())()


def minimized(gm):
    return Minimizer(gm, (X,), lambda *_: (0.0, True), net_min_base._MinimizerSettingBase()).minimize()


def inserted(gm):
    made, inputs, outputs = fuser_utils.fuse_as_graphmodule(gm, sigmoids(gm), "fused")
    fuser_utils.insert_subgm(gm, made, inputs, outputs)
    fuser_utils.erase_nodes(gm, sigmoids(gm))
    return gm


def replaced(gm):
    graph_manipulation.replace_target_nodes_with(gm, "call_function", torch.sigmoid, "call_function", torch.tanh)
    return gm


def sizes(gm):
    graph_manipulation.get_size_of_all_nodes(gm, [X])
    return [node.size_bytes for node in calls(gm)]


def copied(gm):
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return graph


def annotated(gm):
    annotate_getitem_nodes(gm.graph)
    return gm


def lifted(gm):
    lift_lowering_attrs_to_nodes(gm)
    return [node.name for node in gm.graph.nodes]


def with_asserts(gm):
    insert_deferred_runtime_asserts(gm, ShapeEnv(), "net")
    return gm


def run_managed(gm):
    def tanh_for_sigmoid(given):
        sigmoids(given)[0].target = torch.tanh
        given.recompile()
        return given

    return pass_manager.PassManager([pass_manager.pass_result_wrapper(tanh_for_sigmoid)])(gm).graph_module


SAME, TORCHS_WORDS = "same", "in torch's words"
# An entry point, and the name in the refusal; SAME where fxcore's graph serves as well as torch's own.
ENTRY_POINTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "Interpreter": (lambda gm: torch.fx.Interpreter(gm).run(X), "Interpreter"),
    "Interpreter of a graph": (lambda gm: torch.fx.Interpreter(gm, graph=gm.graph).run(X), "Interpreter"),
    "Interpreter that keeps values": (lambda gm: torch.fx.Interpreter(gm, False).run(X), "Interpreter.run"),
    "Transformer": (lambda gm: torch.fx.Transformer(gm).transform(), "Transformer"),
    "Graph.graph_copy": (copied, "Graph.graph_copy"),
    "Graph.lint": (lambda gm: torch.fx.Graph.lint(gm.graph), "Graph.lint"),
    "GraphModule": (lambda gm: torch.fx.GraphModule(Net(), gm.graph), "GraphModule"),
    "GraphModule of its modules": (
        lambda gm: torch.fx.GraphModule({**dict(gm.named_modules())}, gm.graph),
        TORCHS_WORDS,
    ),
    "GraphModule.graph": (lambda gm: setattr(torch.fx.symbolic_trace(Net()), "graph", gm.graph), TORCHS_WORDS),
    "symbolic_trace": (torch.fx.symbolic_trace, SAME),
    "replace_pattern": (lambda gm: relu_for_sigmoid(torch.fx.replace_pattern, gm), "replace_pattern"),
    "replace_pattern_with_filters": (
        lambda gm: relu_for_sigmoid(torch.fx.subgraph_rewriter.replace_pattern_with_filters, gm),
        "replace_pattern_with_filters",
    ),
    "ShapeProp": (lambda gm: shape_prop.ShapeProp(gm).propagate(X), "ShapeProp"),
    "FakeTensorProp": (lambda gm: fake_tensor_prop.FakeTensorProp(gm).propagate(X), "FakeTensorProp"),
    "reinplace": (lambda gm: reinplace.reinplace(gm, X), "reinplace"),
    "partition_cudagraphs": (lambda gm: cudagraphs.partition_cudagraphs(gm, (X,)), "partition_cudagraphs"),
    "CSEPass": (lambda gm: CSEPass()(gm).graph_module, "CSEPass"),
    "split_module": (lambda gm: split_module(gm, Net(), lambda node: 0), "split_module"),
    "split_by_tags": (lambda gm: split_utils.split_by_tags(tagged(gm), ["first", "second"]), "split_by_tags"),
    "_SplitterBase": (split, TORCHS_WORDS),
    "_MinimizerBase": (minimized, TORCHS_WORDS),
    "lift_subgraph_as_module": (lambda gm: common.lift_subgraph_as_module(gm, gm.graph), "lift_subgraph_as_module"),
    "compare_graphs": (lambda gm: common.compare_graphs(gm.graph, gm.graph), "compare_graphs"),
    "SubgraphMatcher": (lambda gm: SubgraphMatcher(gm.graph), "SubgraphMatcher"),
    "SubgraphMatcher.match": (lambda gm: SubgraphMatcher(sigmoid_graph()).match(gm.graph), "SubgraphMatcher.match"),
    "get_source_partitions": (
        lambda gm: len(source_matcher_utils.get_source_partitions(gm.graph, [nn.Linear])),
        SAME,
    ),
    "fuse_as_graphmodule": (lambda gm: fuser_utils.fuse_as_graphmodule(gm, calls(gm), "all"), "fuse_as_graphmodule"),
    "fuse_by_partitions": (
        lambda gm: fuser_utils.fuse_by_partitions(gm, [dict.fromkeys(sigmoids(gm))]),
        "fuse_by_partitions",
    ),
    "insert_subgm": (inserted, "fuse_as_graphmodule"),
    "topo_sort": (lambda gm: [node.name for node in fuser_utils.topo_sort(calls(gm))], SAME),
    "validate_partition": (lambda gm: fuser_utils.validate_partition(calls(gm)), SAME),
    "propose_partitions": (lambda gm: [len(each.nodes) for each in supported(gm).propose_partitions()], SAME),
    "partition_and_fuse": (
        lambda gm: supported(gm).partition_and_fuse(),
        r"CapabilityBasedPartitioner\.partition_and_fuse",
    ),
    "get_size_of_all_nodes": (sizes, "get_size_of_all_nodes"),
    "replace_target_nodes_with": (replaced, TORCHS_WORDS),
    "legalize_graph": (tools_common.legalize_graph, TORCHS_WORDS),
    "FxNetAccFusionsFinder": (
        lambda gm: [len(found) for found in tools_common.FxNetAccFusionsFinder(gm, {*calls(gm)})().values()],
        SAME,
    ),
    "annotate_getitem_nodes": (annotated, SAME),
    "lift_lowering_attrs_to_nodes": (lifted, SAME),
    "insert_deferred_runtime_asserts": (with_asserts, SAME),
    "GraphTransformObserver": (observed, SAME),
    "FxGraphDrawer": (lambda gm: len(graph_drawer.FxGraphDrawer(gm, "net").get_dot_graph().get_nodes()), SAME),
    "PassManager": (run_managed, SAME),
    "pass_manager.PassManager": (lambda gm: older_pass_manager.PassManager([lambda each: each])(gm), SAME),
    "generate_inputs_for_submodules": (
        lambda gm: splitter_base.generate_inputs_for_submodules(gm, (X,), ["linear"]),
        SAME,
    ),
    "HolderModule": (lambda gm: list(common.HolderModule(dict(gm.named_children()))._modules), SAME),
}
# Public names of torch.fx.passes that take no graph, belong to an entry point above, or are no part of torch 2.6.
FURTHER = """
    CapabilityBasedPartitioner Component CudaGraphsSupport FxNetAccNodesFinder FxNetMinimizerBadModuleError
    FxNetMinimizerResultMismatchError FxNetMinimizerRunFuncError FxNetSplitterInternalError InternalMatch
    NodeEvent NodeEventTracker OpSupports OperatorSupport OperatorSupportBase Partition PassBase PassResult
    SourcePartition SplitResult Subgraph SubgraphMatcherWithNameNodeMap TensorMetadata any_chain chain
    check_subgraphs_connected create_op_support default_matching erase_nodes extract_attrs_for_lowering
    get_CSE_banned_ops get_acc_ops_name get_node_target get_size_of_node get_tensor_meta getattr_recursive
    inplace_wrapper is_node_output_tensor log_hook loop_pass move_non_tensor_nodes_on_boundary
    pass_result_wrapper regional_inductor regional_inductor_invoke_subgraph setattr_recursive size_bytes
    split_module_simple stable_topological_sort tensorify_python_scalars these_before_those_pass_constraint
    this_before_that_pass_constraint
"""


def described(result):
    """Describe a result by values: a module by its output."""
    if isinstance(result, nn.Module):
        return [each.tolist() for each in pytree.tree_leaves(result(X))]
    if isinstance(result, (tuple, list)):
        return [described(each) for each in result]
    if isinstance(result, torch.Tensor):
        return result.tolist()
    return type(result) if " object at 0x" in repr(result) else repr(result)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_an_entry_point_of_torch_serves_a_graph_of_fxcore_or_refuses_it(name):
    run, outcome = ENTRY_POINTS[name]
    if name == "FxGraphDrawer":
        pytest.importorskip("pydot")
    ours = fxcore.symbolic_trace(Net())

    if outcome == SAME:
        assert described(run(ours)) == described(run(torch.fx.symbolic_trace(Net())))
    elif outcome == TORCHS_WORDS:
        with pytest.raises(Exception, match=r"(?i)expected (a )?graph|cannot run|\A\Z") as caught:
            run(ours)
        # Torch 2.6 asserts the class of the graph without a word.
        assert str(caught.value) or isinstance(caught.value, AssertionError)
    else:
        with pytest.raises(InteropError, match=REFUSED.format(outcome)):
            run(ours)


@pytest.mark.parametrize("name", [name for name, (_, outcome) in ENTRY_POINTS.items() if outcome != SAME])
def test_a_refused_entry_point_takes_what_to_torch_returns(name):
    if name in NEEDS_MORE:
        pytest.skip(NEEDS_MORE[name])
    run = ENTRY_POINTS[name][0]

    assert described(run(to_torch(fxcore.symbolic_trace(Net())))) == described(run(torch.fx.symbolic_trace(Net())))


NEEDS_MORE = dict.fromkeys(
    ("FakeTensorProp", "reinplace", "partition_cudagraphs"), "torch runs it on graphs of fake tensors alone"
)


@pytest.mark.skipif(TORCH != (2, 13), reason="each release of torch has other names; these are of torch 2.13")
def test_every_public_name_of_torchs_passes_is_in_the_table():
    public = set()
    for found in pkgutil.walk_packages(importlib.import_module("torch.fx.passes").__path__, "torch.fx.passes."):
        if ".tests" not in found.name:
            file = importlib.import_module(found.name)
            public |= {
                name
                for name, value in vars(file).items()
                if not name.startswith("_")
                and (inspect.isclass(value) or inspect.isfunction(value))
                and value.__module__ == found.name
            }

    assert public - {*FURTHER.split()} - ENTRY_POINTS.keys() == set()
    assert {*FURTHER.split()} - public == set()


def test_a_node_of_fxcore_in_a_graph_of_torch_is_refused_where_torch_writes_the_code():
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.relu, (next(iter(fxcore.symbolic_trace(Net()).graph.nodes)),)))

    with pytest.raises(
        InteropError, match=r"cannot write code for a graph of torch\.fx: it reads 'x', a node of fxcore"
    ):
        torch.fx.GraphModule({}, graph)


def test_a_graph_of_torch_is_no_graph_of_a_module_of_fxcore():
    gm = fxcore.symbolic_trace(Net())

    with pytest.raises(
        AssertionError, match=r"got <class 'torch\.fx\.graph\.Graph'>; take it over with fxcore\.interop\."
    ):
        gm.graph = torch.fx.Graph()
