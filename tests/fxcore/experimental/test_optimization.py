from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.experimental.optimization as theirs
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.errors import FxError
from fxcore.experimental import optimization as ours
from fxcore.experimental.optimization import fuse, matches_module_pattern, replace_node_module

needs_mkldnn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="built without oneDNN")


def test_dropout_layers_go_as_in_torch():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Sequential(nn.Dropout(0.3), nn.ReLU()))

    without = ours.remove_dropout(model)

    assert str(without.graph) == str(theirs.remove_dropout(model).graph)
    assert "Dropout" not in str(without)


class Functional(nn.Module):
    def forward(self, x):
        return F.dropout2d(F.dropout(x, 0.5, training=self.training), 0.5, self.training)


def test_functional_dropout_baked_in_by_training_goes_where_torch_leaves_it():
    model, x = Functional().train(), torch.ones(1, 50, 2, 2)
    left = theirs.remove_dropout(model).eval()
    assert not torch.equal(left(x), x)

    without = ours.remove_dropout(model)

    assert torch.equal(without(x), x)


def test_functional_dropout_that_does_nothing_stays_as_in_torch():
    model = Functional().eval()

    assert str(ours.remove_dropout(model).graph) == str(theirs.remove_dropout(model).graph)


def test_a_subgraph_is_taken_out():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    placeholder, linear, relu, _, _ = gm.graph.nodes
    x = torch.randn(4, 2)

    part = ours.extract_subgraph(gm, [linear, relu], [placeholder], [relu, linear])

    hidden = getattr(gm, "0")(x)
    torch.testing.assert_close(part(x), [hidden.relu(), hidden])


def test_sets_are_joined_and_named():
    sets = ours.UnionFind(4)
    for number in range(3):
        sets.make_set(number)

    assert sets.join(0, 1) is None
    assert sets.join(1, 0) == sets.find(0) == sets.find(1)
    assert sets.find(2) == 2
    with pytest.raises(AssertionError, match="Parent is None: 3 is in no set"):
        sets.find(3)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.pool = nn.MaxPool2d(2)
        self.again = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)))
        y = self.pool((y + x) * 2)
        return self.again(y).flatten(1)


@needs_mkldnn
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"mkldnn_layout_optimize": False},
        {"mkldnn_layout_optimize": {"heuristic": lambda graph: False}},
        {"conv_bn_fuse": False, "mkldnn_layout_optimize": {"heuristic": lambda graph: True}},
    ],
    ids=["default", "no layout", "never", "always"],
)
def test_a_model_is_optimized_as_in_torch(config):
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)

    fast = ours.optimize_for_inference(model, config)
    expected = theirs.optimize_for_inference(model, config)

    assert str(fast.graph) == str(expected.graph)
    assert str(fast) == str(expected)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


@needs_mkldnn
def test_adding_a_number_stays_outside_where_torch_fails():
    class Adding(Residual):
        def forward(self, x):
            return self.again(1 + self.conv(x) + 3)

    model, x = Adding().eval(), torch.randn(2, 3, 8, 8)
    with pytest.raises(Exception, match=r"tensor input|has no attribute"):
        theirs.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": lambda graph: True}})(x)

    fast = ours.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": lambda graph: True}})

    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


@needs_mkldnn
def test_the_autotuner_times_both_where_torch_fails():
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)
    with pytest.raises(RuntimeError, match="ShapeProp error"):
        theirs.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": theirs.gen_mkl_autotuner([x])}})
    asked = []
    tune = ours.gen_mkl_autotuner([x], iters=1)

    def heuristic(graph):
        asked.append(len(graph.nodes))
        return tune(graph)

    fast = ours.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": heuristic}})

    assert asked
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


@needs_mkldnn
def test_the_model_itself_is_never_changed():
    model = Residual().eval()

    ours.optimize_for_inference(model, {"conv_bn_fuse": False, "remove_dropout": False})

    assert type(model.conv) is nn.Conv2d


@needs_mkldnn
def test_modules_of_other_types_are_refused():
    with pytest.raises(AssertionError, match=r"only for torch.float modules; 0 is torch.float64"):
        ours.optimize_for_inference(nn.Sequential(nn.Linear(2, 2)).double().eval())


@pytest.mark.parametrize(
    ("layout", "words"), [(True, "config is not a dict: True"), ({}, "Heuristic not found in mkldnn_layout_optimize")]
)
def test_a_config_of_another_form_is_refused(layout, words):
    with pytest.raises(RuntimeError, match=words):
        ours.optimize_for_inference(nn.ReLU(), {"mkldnn_layout_optimize": layout})


def test_every_public_name_of_torch_is_there():
    assert set(theirs.__all__) <= set(ours.__all__)


def settled(norm):
    """Give a normalisation statistics and weights that change values."""
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(3, 4, 3), settled(nn.BatchNorm2d(4)), nn.ReLU())
        self.line = nn.Conv1d(4, 4, 1)
        self.line_norm = settled(nn.BatchNorm1d(4))
        self.cube = nn.Conv3d(1, 2, 1, bias=False)
        self.cube_norm = settled(nn.BatchNorm3d(2))
        self.linear = nn.Linear(2, 2)
        self.linear_norm = settled(nn.BatchNorm1d(2))
        self.without_statistics = nn.BatchNorm2d(4, track_running_stats=False)

    def forward(self, x):
        y = self.without_statistics(self.block(x))
        z = self.line_norm(self.line(y.flatten(2)))
        cube = self.cube_norm(self.cube(z[:, None, None]))
        return self.linear_norm(self.linear(cube.mean((2, 3, 4))))


@pytest.mark.parametrize("no_trace", [False, True])
def test_layers_are_fused_as_in_torch(no_trace):
    model, x = Net().eval(), torch.randn(2, 3, 6, 6)
    ours, expected = (fxcore.symbolic_trace(model), torch.fx.symbolic_trace(model)) if no_trace else (model, model)

    fused, expected = fuse(ours, no_trace=no_trace), theirs.fuse(expected, no_trace=no_trace)

    assert str(fused.graph) == str(expected.graph)
    assert str(fused) == str(expected)
    torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-4)
    assert not fused.training


def test_the_model_stays_as_it_is():
    model = Net().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}

    fuse(model)

    assert type(model.block[1]) is nn.BatchNorm2d
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("options", "is_changed"), [({}, False), ({"inplace": False}, False), ({"inplace": True}, True)]
)
def test_a_graph_module_is_changed_only_if_asked_for(options, is_changed):
    traced = {fx: fx.symbolic_trace(Net().eval()) for fx in (fxcore, torch.fx)}
    layers = {fx: traced[fx].get_submodule("block.0") for fx in traced}

    fuse(traced[fxcore], no_trace=True, **options)
    theirs.fuse(traced[torch.fx], no_trace=True, **options)

    for fx in traced:
        assert (traced[fx].get_submodule("block.0") is not layers[fx]) == is_changed


class Shared(nn.Module):
    """A convolution that is called twice, by one of several rules."""

    def __init__(self, rule):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.first = settled(nn.BatchNorm2d(3))
        self.second = settled(nn.BatchNorm2d(3))
        self.rule = rule

    def forward(self, x):
        if self.rule == "two norms":
            return self.first(self.conv(x)), self.second(self.conv(x))
        if self.rule == "one call without norm":
            return self.first(self.conv(x)), self.conv(x)
        if self.rule == "weight is read":
            return self.first(self.conv(x)), self.conv.weight * 2
        return self.first(self.conv(x)), self.first(self.conv(x * 2))


@pytest.mark.parametrize(
    ("rule", "norms_left"),
    [("two norms", 2), ("one call without norm", 1), ("weight is read", 1), ("one norm", 0)],
)
def test_a_shared_convolution_is_right_where_torch_is_wrong(rule, norms_left):
    model, x = Shared(rule).eval(), torch.randn(2, 3, 4, 4)
    right = model(x)
    wrong = theirs.fuse(model)(x)
    assert not all(torch.allclose(a, b, atol=1e-4) for a, b in zip(wrong, right, strict=True))

    fused = fuse(model)

    for obtained, expected in zip(fused(x), right, strict=True):
        torch.testing.assert_close(obtained, expected, rtol=1e-4, atol=1e-4)
    assert fused.code.count("self.first") + fused.code.count("self.second") == norms_left


def test_a_convolution_that_others_read_is_left_alone():
    class Branching(Shared):
        def forward(self, x):
            y = self.conv(x)
            return self.first(y) + y

    model, x = Branching("").eval(), torch.randn(2, 3, 4, 4)

    fused = fuse(model)

    assert "self.first" in fused.code
    torch.testing.assert_close(fused(x), model(x))


def test_a_model_in_training_is_refused():
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        fuse(Net())


def test_a_pattern_of_two_modules_is_found_and_replaced():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    modules = dict(gm.named_modules())
    placeholder, linear, relu, _ = gm.graph.nodes

    assert matches_module_pattern((nn.Linear, nn.ReLU), relu, modules)
    assert not matches_module_pattern((nn.ReLU, nn.Linear), relu, modules)
    assert not matches_module_pattern((nn.Linear, nn.ReLU), linear, modules)
    assert not matches_module_pattern((nn.Linear, nn.ReLU), placeholder, modules)
    replace_node_module(relu, modules, new := nn.Sigmoid())
    assert getattr(gm, "1") is new is modules["1"]


def test_a_node_that_calls_no_module_has_none_to_replace():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x))
    _, relu, _ = gm.graph.nodes

    with pytest.raises(AssertionError, match=r"Expected str target, got .*: relu calls no module"):
        replace_node_module(relu, {}, nn.ReLU())


def test_dropout_of_another_form_is_refused():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout()

        def forward(self, x):
            return self.drop(input=x)

    with pytest.raises(FxError, match=r"^Expected 1 arg for Dropout, got 0: drop is called otherwise"):
        ours.remove_dropout(Twice())


def test_the_larger_set_keeps_its_name():
    sets = ours.UnionFind(4)
    for number in range(4):
        sets.make_set(number)
    sets.join(0, 1)
    name = sets.find(0)

    assert sets.join(2, 0) is None
    assert [sets.find(number) for number in range(4)] == [name, name, name, 3]
    assert sets.size[name] == 3


@pytest.mark.parametrize("joined", [(0, 1), (1, 0)])
def test_of_two_sets_of_one_size_the_first_gives_the_name_as_in_torch(joined):
    def sets(module):
        found = module.UnionFind(3)
        sizes = list(found.size)
        for number in range(2):
            found.make_set(number)
        found.join(*joined)
        return found.parent, sizes, found.size

    assert sets(ours) == sets(theirs) == ([joined[0]] * 2 + [None], [0, 0, 0], [2 - joined[0], 1 + joined[0], 0])


def test_only_modules_on_the_cpu_and_of_single_precision_are_optimized():
    graph = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2))).graph
    (node,) = graph.find_nodes(op="call_module", target="0")

    with pytest.raises(FxError, match=r"^this pass is only for CPU modules; 0 is on meta$"):
        ours._is_supported(node, {"0": nn.Linear(2, 2, device="meta")})
    with pytest.raises(FxError, match=r"^this pass is only for torch.float modules; 0 is torch.float64$"):
        ours._is_supported(node, {"0": nn.Linear(2, 2, dtype=torch.float64)})
    assert not ours._is_supported(node, {"0": nn.Bilinear(2, 2, 2)})
    assert ours._is_supported(node, {"0": nn.ReLU()})


def test_a_graph_without_a_module_cannot_be_timed():
    graph = fxcore.symbolic_trace(nn.ReLU()).graph
    lonely = fxcore.Graph()
    lonely.output(lonely.graph_copy(graph, {}))
    is_faster = ours.gen_mkl_autotuner(torch.ones(2))

    with pytest.raises(FxError, match="put the graph into a GraphModule first"):
        is_faster(ours.MklSubgraph(lonely))


@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize("fuses", [True, False])
def test_each_step_can_be_left_out(removes, fuses):
    model = nn.Sequential(nn.Conv2d(3, 3, 1), settled(nn.BatchNorm2d(3)), nn.Dropout()).eval()
    config = {"remove_dropout": removes, "conv_bn_fuse": fuses, "mkldnn_layout_optimize": False}

    made = ours.optimize_for_inference(model, config)

    kinds = [type(module) for module in made.modules()]
    reads = [str(node.target) for node in fxcore.symbolic_trace(made).graph.nodes if node.op == "call_module"]
    assert ("2" in reads) is not removes
    assert (nn.BatchNorm2d in kinds and "1" in reads) is not fuses


def test_a_module_that_is_no_graph_module_is_traced_also_where_no_trace_is_asked_for():
    model = nn.Sequential(nn.Linear(2, 2), settled(nn.BatchNorm1d(2))).eval()

    fused = fuse(model, no_trace=True)

    assert [node.target for node in fused.graph.find_nodes(op="call_module")] == ["0"]


def test_a_graph_module_is_traced_anew_unless_no_trace_is_asked_for():
    traced = fxcore.symbolic_trace(Net().eval())
    layer = traced.get_submodule("block.0")

    fuse(traced, True)

    assert traced.get_submodule("block.0") is layer


class OfFunctions(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 3, 1, 1))
        self.norm = settled(nn.BatchNorm2d(3))

    def forward(self, x):
        return self.norm(F.conv2d(x, self.weight))


def test_a_function_is_not_fused_as_in_torch():
    model = OfFunctions().eval()
    traced = fxcore.symbolic_trace(model)

    fused = fuse(traced, inplace=True, no_trace=True)

    assert str(fused.graph) == str(theirs.fuse(model).graph)
    assert fused.graph is not traced.graph
    assert traced.graph.owning_module is traced


@pytest.mark.parametrize(("nodes", "is_worth_it"), [(0, False), (2, False), (3, True), (4, True)])
def test_three_nodes_are_worth_the_conversions_as_in_torch(nodes, is_worth_it):
    subgraph = ours.MklSubgraph(fxcore.Graph())
    subgraph.nodes = [None] * nodes

    assert ours.use_mkl_length(subgraph) is theirs.use_mkl_length(subgraph) is is_worth_it


@pytest.mark.parametrize(
    ("args", "kwargs", "is_removed"),
    [
        ((0.5, True), {}, True),
        ((0.5, True, False), {}, True),
        ((0.5, False), {}, False),
        ((0.5,), {"training": True}, True),
        ((0.5,), {"training": False}, False),
        ((), {"p": 0.5, "training": True}, True),
        ((0.5,), {}, True),
    ],
)
def test_a_call_of_dropout_that_trains_goes_in_each_form(args, kwargs, is_removed):
    graph = fxcore.Graph()
    graph.output(graph.call_function(F.dropout, (graph.placeholder("x"), *args), kwargs))

    made = ours.remove_dropout(fxcore.GraphModule(nn.Module(), graph))

    assert (len(made.graph.nodes) == 2) is is_removed


def test_dropout_goes_without_a_config():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Softmax(-1)).eval()

    made = ours.optimize_for_inference(model)

    assert str(made.graph) == str(theirs.optimize_for_inference(model).graph)
    assert not made.graph.find_nodes(op="call_module", target="1")


@pytest.mark.parametrize(
    ("call", "is_removed"),
    [
        ("dropout(x, 0.5, True)", True),
        ("dropout(x, 0.5, True, False)", True),
        ("dropout(x, 0.5, False)", False),
        ("dropout(x, 0.5, training=True)", True),
        ("dropout(x, training=False)", False),
    ],
)
def test_a_wrapped_function_of_dropout_goes_where_the_code_says_that_it_trains(call, is_removed):
    names = {"fxcore": fxcore, "dropout": F.dropout}
    exec(f"fxcore.wrap('dropout')\ndef program(x):\n    return {call}", names)

    made = ours.remove_dropout(names["program"])

    assert (len(made.graph.nodes) == 2) is is_removed
