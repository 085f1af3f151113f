from __future__ import annotations

import copy
import operator

import pytest
import torch
import torch.fx
import torch.fx.experimental.const_fold as theirs
from torch import nn

import fxcore
from fxcore.experimental import const_fold
from fxcore.experimental.const_fold import (
    FoldedGraphModule,
    _inline_module,
    get_unique_attr_name_in_module,
    split_const_subgraphs,
)


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(3))
        self.b = nn.Parameter(torch.randn(3))
        self.register_buffer("c", torch.randn(3))
        self.linear = nn.Linear(3, 3)


class One(Constants):
    def forward(self, x):
        return x + (self.a + self.b).relu()


class Several(Constants):
    def forward(self, x, y):
        total = self.a + self.b
        parts = torch.split(total * self.c, [1, 2])
        return self.linear(x) * total - y, parts[0] + x


class WithModule(Constants):
    def forward(self, x):
        return self.linear(self.linear(self.a) + x)


class All(Constants):
    def forward(self, x):
        return self.a + self.b


class Nothing(Constants):
    def forward(self, x):
        return self.linear(x) + self.a


def inputs_of(model):
    return (torch.randn(3), torch.randn(3)) if isinstance(model, Several) else (torch.randn(3),)


@pytest.mark.parametrize("kind", [One, Several, WithModule, All, Nothing])
def test_constants_are_folded_as_in_torch(kind):
    model = kind()
    inputs = inputs_of(model)

    ours, expected = split_const_subgraphs(model), theirs.split_const_subgraphs(model)

    assert str(ours.graph) == str(expected.graph)
    assert ours.code == expected.code
    assert (ours.const_subgraph_module is None) == (expected.const_subgraph_module is None)
    if ours.const_subgraph_module is not None:
        assert ours.const_subgraph_module.code == expected.const_subgraph_module.code
    torch.testing.assert_close(ours(*inputs), model(*inputs))
    torch.testing.assert_close(ours(*inputs), expected(*inputs))


def test_what_is_constant_is_computed_once():
    runs = []

    def note(value):
        runs.append(1)
        return value * 2

    graph = fxcore.Graph()
    x, a = graph.placeholder("x"), graph.get_attr("a")
    graph.output(graph.call_function(operator.add, (graph.call_function(note, (a,)), x)))
    folded = split_const_subgraphs(fxcore.GraphModule(One(), graph))

    folded(torch.ones(3))
    folded(torch.ones(3))

    assert len(runs) == 1
    assert folded.has_folding_been_run


def test_nodes_may_be_left_out():
    model = One()

    folded = split_const_subgraphs(model, lambda node: node.target is operator.add)
    expected = theirs.split_const_subgraphs(model, lambda node: node.target is operator.add)

    assert folded.code == expected.code
    assert folded.const_subgraph_module is None


def test_random_nodes_are_not_folded():
    class Random(Constants):
        def forward(self, x):
            return x + torch.ops.aten.rand_like.default(self.a)

    assert split_const_subgraphs(Random()).const_subgraph_module is None


def test_arguments_by_keyword_reach_the_graph_where_torch_loses_them():
    model, x, y = Several(), torch.randn(3), torch.randn(3)
    with pytest.raises(TypeError):
        theirs.split_const_subgraphs(model)(x, y=y)

    folded = split_const_subgraphs(model)

    torch.testing.assert_close(folded(x, y=y), model(x, y))


def test_numbers_become_parameters():
    class Size(Constants):
        def forward(self, x):
            return x * self.a.size(0)

    folded = split_const_subgraphs(Size())

    torch.testing.assert_close(folded(torch.ones(3)), torch.full((3,), 3.0))


def test_folding_runs_once_only():
    folded = split_const_subgraphs(One())
    folded.run_folding()

    with pytest.raises(AssertionError, match="Folding has already been run"):
        folded.run_folding()


def test_a_folded_module_can_be_copied():
    model, x = One(), torch.randn(3)

    copied = copy.deepcopy(split_const_subgraphs(model))

    assert isinstance(copied, FoldedGraphModule)
    torch.testing.assert_close(copied(x), model(x))


@pytest.mark.parametrize("name", ["free", "linear", "0.a-b", "weight_3"])
def test_names_are_made_unique_as_in_torch(name):
    model = nn.Module()
    model.linear = model.linear_1 = 1
    model.weight_3 = 2

    assert get_unique_attr_name_in_module(model, name) == theirs.get_unique_attr_name_in_module(model, name)


def outer(fx):
    inner = fx.symbolic_trace(lambda a, b: (a + b, [a - b, a.relu()]))
    graph = fx.Graph()
    x = graph.placeholder("x")
    call = graph.call_module("inner", (x,), {"b": graph.call_function(torch.neg, (x,))})
    graph.output((graph.call_function(operator.getitem, (call, 0)), graph.call_function(operator.getitem, (call, 1))))
    return fx.GraphModule({"inner": inner}, graph)


def test_a_graph_module_is_inlined_as_in_torch():
    ours, expected = outer(fxcore), outer(torch.fx)

    mapping = _inline_module(ours, "inner")
    theirs._inline_module(expected, "inner")
    ours.recompile()

    assert str(ours.graph) == str(expected.graph)
    x = torch.randn(3)
    torch.testing.assert_close(ours(x), outer(fxcore)(x))
    assert all(node.graph is ours.graph for node in mapping.values() if isinstance(node, fxcore.Node))


def test_only_graph_modules_can_be_inlined():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.ReLU()))

    with pytest.raises(AssertionError, match=r"Expected GraphModule, got .*ReLU"):
        _inline_module(gm, "0")


@pytest.mark.parametrize("kind", [One, Several])
def test_what_is_folded_keeps_its_metadata_as_in_torch(kind):
    def notes(fx, split):
        module = fx.symbolic_trace(kind())
        for node in module.graph.nodes:
            node.meta["note"] = node.name
        return {node.name: node.meta.get("note") for node in split(module).graph.nodes}

    ours = notes(fxcore, split_const_subgraphs)

    assert ours == notes(torch.fx, theirs.split_const_subgraphs)
    assert "add" in ours.values() or "relu" in ours.values()


def nested(fx, target):
    """Return a module whose graph calls a graph module on a parameter."""
    inner, graph = fx.Graph(), fx.Graph()
    inner.output(inner.call_function(target, (inner.placeholder("value"),)))
    x, a = graph.placeholder("x"), graph.get_attr("a")
    graph.output(graph.call_function(operator.add, (graph.call_module("inner", (a,)), x)))
    return fx.GraphModule({"a": nn.Parameter(torch.ones(3)), "inner": fx.GraphModule({}, inner)}, graph)


def test_a_call_of_a_graph_module_stays_if_a_node_inside_is_to_be_left_out():
    seen = []

    def is_skipped(node):
        seen.append(node.op)
        return node.target is torch.sin

    assert split_const_subgraphs(nested(fxcore, torch.sin), is_skipped).const_subgraph_module is None
    assert split_const_subgraphs(nested(fxcore, torch.cos), is_skipped).const_subgraph_module is not None
    assert not {"placeholder", "output"} & set(seen)


def test_a_random_number_deep_inside_is_not_folded():
    deep = fxcore.Graph()
    deep.output(deep.call_module("inner", (deep.placeholder("value"),)))
    module = nested(fxcore, torch.sin)
    module.inner = fxcore.GraphModule({"inner": fxcore.symbolic_trace(lambda value: torch.rand_like(value))}, deep)

    assert split_const_subgraphs(module).const_subgraph_module is None


def test_a_module_that_a_graph_reads_is_no_constant():
    def calling(branch, x, a):
        return branch(a) + x

    graph = fxcore.Graph()
    x, a, branch = graph.placeholder("x"), graph.get_attr("a"), graph.get_attr("branch")
    constant = graph.call_function(torch.neg, (a,))
    graph.output(graph.call_function(calling, (branch, x, constant)))
    module = fxcore.GraphModule({"a": nn.Parameter(torch.ones(3)), "branch": nn.Linear(3, 3)}, graph)
    x = torch.randn(3)

    folded = split_const_subgraphs(module)

    assert "neg" in folded.const_subgraph_module.code
    assert "branch" not in folded.const_subgraph_module.code
    torch.testing.assert_close(folded(x), module(x))


def test_the_caller_says_what_is_impure():
    def kept(x):
        return x

    def graph_of(**options):
        graph = fxcore.Graph()
        x, a = graph.placeholder("x"), graph.get_attr("a")
        graph.call_function(kept, (x,))
        graph.output(graph.call_function(operator.add, (graph.call_function(torch.neg, (a,)), x)))
        module = fxcore.GraphModule({"a": nn.Parameter(torch.ones(3))}, graph)
        return split_const_subgraphs(module, **options).graph

    assert not graph_of().find_nodes(op="call_function", target=kept)
    assert graph_of(is_impure_node=lambda node: node.target is kept).find_nodes(op="call_function", target=kept)


def test_a_filled_tensor_of_a_symbol_is_no_constant():
    class Symbol(int):
        free_symbols = frozenset("s")

    def graph_of(fill_value):
        graph = fxcore.Graph()
        filled = graph.call_function(torch.full, ((3,),), {"fill_value": fill_value})
        graph.output(graph.call_function(operator.add, (graph.placeholder("x"), filled)))
        return split_const_subgraphs(fxcore.GraphModule({}, graph))

    assert graph_of(2).const_subgraph_module is not None
    assert graph_of(Symbol(2)).const_subgraph_module is None


def test_an_attribute_that_is_gone_is_no_constant():
    traced = fxcore.symbolic_trace(One())
    before = traced.code
    for name in {node.target for node in traced.graph.nodes if node.op == "get_attr"}:
        delattr(traced, name)

    nodes = const_fold._constant_nodes(traced, None)

    assert nodes == set()
    assert traced.code == before


def test_constants_after_a_random_number_are_found():
    graph = fxcore.Graph()
    a = graph.get_attr("a")
    drawn = graph.call_function(torch.rand, (2,))
    reads = graph.call_function(torch.add, (drawn, a))
    b = graph.get_attr("b")
    total = graph.call_function(torch.add, (a, b))
    graph.output((reads, total, graph.get_attr("linear")))

    assert const_fold._constant_nodes(fxcore.GraphModule(Constants(), graph), None) == {a, b, total}


def test_without_a_name_for_the_results_nothing_is_folded():
    graph, constant = fxcore.Graph(), fxcore.Graph()
    graph.output(graph.placeholder("x"))
    constant.output(constant.get_attr("a"))

    folded = FoldedGraphModule(Constants(), graph, constant, None)
    plain = FoldedGraphModule(Constants(), graph, None, "folded")

    assert (folded(3), plain(4)) == (3, 4)
    assert not folded.has_folding_been_run
    assert not hasattr(plain, "folded")


def test_folded_numbers_take_no_gradient_and_tensors_keep_their_flag():
    graph, constant = fxcore.Graph(), fxcore.Graph()
    graph.output(graph.placeholder("x"))
    reads = constant.get_attr("a"), constant.get_attr("c")
    constant.output((*reads, constant.call_method("size", (reads[0], 0))))

    folded = FoldedGraphModule(Constants(), graph, constant, "folded", "cpu")
    folded.run_folding()

    assert [parameter.requires_grad for parameter in folded.folded] == [True, False, False]
    assert folded.folded[2].tolist() == [3.0]


@pytest.mark.parametrize(("run_dce", "left"), [(True, []), (False, ["neg"])])
def test_dead_nodes_go_after_inlining_if_that_is_asked_for(run_dce, left):
    inner = fxcore.symbolic_trace(lambda x: torch.relu(x))
    root = nn.Module()
    root.inner = inner
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.neg, (x,))
    graph.output(graph.call_module("inner", (x,)))
    module = fxcore.GraphModule(root, graph)

    _inline_module(module, "inner", run_dce)

    assert [node.name for node in module.graph.nodes if node.op == "call_function"] == [*left, "relu"]
