"""A graph through its lowering: what each stage did, and where a node comes from."""

from __future__ import annotations

import operator
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import fxcore
from fixtures.process_groups import fake_group, needs_fake_group
from fxcore.transforms import Calls, Rule, RuleSet
from pytest_fxgraph import capture
from pytest_fxgraph.captures import stages as stages_module
from pytest_fxgraph.captures.stages import FxStages, Stage, StageNode, Stages, strip_of
from pytest_fxgraph.errors import CaptureError, ChoiceError, GateError

X = torch.ones(2, 4)
fx_stages = FxStages()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.norm(x)).relu()


def copies_results(graph_module):
    """A pass that copies what relu returns."""
    graph = graph_module.graph
    (relu,) = [node for node in graph.nodes if "relu" in str(node.target)]
    with graph.inserting_after(relu):
        made = graph.call_function(torch.ops.aten.clone.default, ())
    relu.replace_all_uses_with(made)
    made.args = (relu,)
    graph_module.recompile()


def test_each_stage_tells_what_it_did_and_the_pass_that_made_a_copy_is_found():
    stages = fx_stages(Model().eval(), X, ["symbolic", "export", "decompose", copies_results])

    assert [stage.name for stage in stages] == ["symbolic", "export", "decompose", "copies_results"]
    assert stages.made_by("aten.clone*") == {"clone_default": "copies_results"}
    assert [node.operator for node in stages["copies_results"].nodes_that_were("added")] == ["aten.clone.default"]
    assert {*stages.made_by("aten.native_layer_norm*").values()} == {"decompose"}
    assert stages["export"].removed == ()
    assert stages["copies_results"].removed == ()


def test_the_history_of_a_node_leads_to_the_line_of_the_model():
    stages = fx_stages(Model().eval(), X, ["symbolic", "export", "decompose"])
    (name,) = stages.made_by("aten.addmm*")

    history = stages.history(name)

    assert [line.partition(":")[0] for line in history] == ["decompose", "export", "symbolic"]
    assert "(aten.linear.default), rewritten; in linear" in history[1]
    assert "linear (Linear), traced" in history[2]


def test_the_text_lists_what_changed():
    text = fx_stages(Model().eval(), X, ["export", copies_results]).text()

    assert text.splitlines()[0] == "export: 3 nodes"
    assert text.splitlines()[1] == "copies_results: 1 added, 0 removed, 0 rewritten, 3 kept"
    assert text.splitlines()[2].startswith("  + clone_default (aten.clone.default)")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((), "follows nothing"),
        (["tvm"], "there is no stage 'tvm'; a stage is one of 'symbolic', 'export'"),
        (["symbolic", "decompose"], "put it after 'export'"),
        ([copies_results], "begin with a frontend"),
    ],
)
def test_what_is_no_stage_is_refused(steps, words):
    with pytest.raises(ChoiceError, match=words):
        fx_stages(Model(), X, steps)


def test_what_is_not_there_is_refused_with_what_is():
    stages = fx_stages(Model().eval(), X, ["symbolic"])

    with pytest.raises(GateError, match=r"no node of the last stage calls 'aten\.clone'; it calls LayerNorm"):
        stages.made_by("aten.clone")
    with pytest.raises(GateError, match="has no node 'x' that computes; it has norm, linear, relu"):
        stages.history("x")
    with pytest.raises(KeyError, match="there is no stage 'export'; there are symbolic"):
        stages["export"]


def test_nodes_name_what_they_were_made_from_by_its_place():
    fc, unused = (StageNode(name, "linear", (), "fc", "model.py:3") for name in ("fc", "unused"))
    transposed, product = (StageNode(name, f"aten.{name}", (fc,), "fc", None) for name in ("t", "mm"))
    clone = StageNode("clone", "aten.clone", (), None, None)
    stages = [
        Stage("export", None, (unused, fc), ()),
        Stage("decompose", None, (transposed, product, clone), (unused,)),
    ]

    strip = strip_of(stages, "in words", "test_net.py::test_net")

    first, second = strip.stages
    assert [(node.name, node.change, node.made_from) for node in first.nodes] == [
        ("unused", "traced", ()),
        ("fc", "traced", ()),
    ]
    assert [(node.name, node.change, node.made_from) for node in second.nodes] == [
        ("t", "rewritten", (1,)),
        ("mm", "rewritten", (1,)),
        ("clone", "added", ()),
    ]
    assert (first.nodes[0].module, first.nodes[0].source) == ("fc", "model.py:3")
    assert (second.nodes[2].module, second.nodes[2].source) == ("", "")
    assert second.removed == (0,)
    assert (strip.text, strip.nodeid) == ("in words", "test_net.py::test_net")


def test_added_and_removed_nodes_are_told_with_their_place_and_without_an_earlier_stage():
    fc = StageNode("fc", "linear", (), "fc", "model.py:3")
    clone = StageNode("clone", "aten.clone", (), None, None)
    stages = Stages([Stage("export", None, (fc,), ()), Stage("decompose", None, (clone,), (fc,))])

    assert stages.text().splitlines() == [
        "export: 1 nodes",
        "decompose: 1 added, 1 removed, 0 rewritten, 0 kept",
        "  + clone (aten.clone)",
        "  - fc (linear); in fc; model.py:3",
    ]
    assert stages.history("clone") == ["decompose: clone (aten.clone), added"]
    with pytest.raises(GateError, match=r"no node of the last stage calls 'linear'; it calls aten\.clone$"):
        stages.made_by("linear")


def sine_and_cosine(x):
    return torch.cos(torch.sin(x))


def marking(**metas):
    """Return a pass that gives nodes other metadata, by their names."""

    def marks(graph_module):
        for node in graph_module.graph.nodes:
            node.meta = dict(metas.get(node.name, {}))

    return marks


def tangent(meta):
    """Return a pass that computes all by one new node with this metadata."""

    def makes(graph_module):
        graph = graph_module.graph
        (given,) = graph.find_nodes(op="placeholder")
        (output,) = graph.find_nodes(op="output")
        with graph.inserting_after(given):
            made = graph.call_function(torch.tan, (given,))
        made.meta = dict(meta)
        output.args = (made,)
        for node in reversed([*graph.nodes]):
            if node.op.startswith("call_") and node is not made:
                graph.erase_node(node)
        graph_module.recompile()

    return makes


def named(name, *sources):
    return SimpleNamespace(name=name, from_node=[*sources])


@pytest.mark.parametrize(
    ("sine", "cosine", "meta", "sources"),
    [
        ({}, {}, {}, []),
        ({}, {}, {"from_node": [("cos", None)]}, ["cos"]),
        ({}, {}, {"from_node": [("cos", None), ("sin", None)]}, ["cos"]),
        ({}, {}, {"from_node": [named("gone", named("cos"))]}, ["cos"]),
        ({}, {}, {"from_node": [named("", named("cos"))]}, ["cos"]),
        ({}, {"from_node": [("gone", None)]}, {"from_node": [("gone", None)]}, ["cos"]),
        ({"debug_handle": 7}, {"debug_handle": 7}, {"debug_handle": 7}, ["sin", "cos"]),
        ({"source": ("net.py", 3)}, {"source": ("net.py", 4)}, {"source": ("net.py", 4)}, ["cos"]),
        ({}, {"nn_module_stack": {"a": ("fc", "Net")}}, {"nn_module_stack": {"a": ("fc", "Net")}}, ["cos"]),
    ],
)
def test_a_node_comes_from_the_nodes_with_its_surest_mark(sine, cosine, meta, sources):
    stages = fx_stages(sine_and_cosine, X, ["symbolic", marking(sin=sine, cos=cosine), tangent(meta)])

    (node,) = stages[-1].nodes
    assert [each.name for each in node.made_from] == sources


def test_a_node_inside_a_module_comes_from_the_call_of_the_module():
    stages = fx_stages(Model(), X, ["symbolic", marking(), tangent({"nn_module_stack": {"a": ("linear", nn.Linear)}})])

    (node,) = stages[-1].nodes
    assert [each.name for each in node.made_from] == ["linear"]


def test_stages_are_counted_shown_and_found_by_name_or_place():
    graph = fxcore.symbolic_trace(nn.ReLU())
    node = StageNode("relu", "torch.relu", (), None, None)
    kept = StageNode("relu", "torch.relu", (node,), None, None)
    stages = Stages([Stage("traced", graph, (node,), ()), Stage("fused", graph, (kept,), ())])

    assert len(stages) == 2
    assert repr(stages) == "<stages: traced -> fused>"
    assert stages["fused"] is stages[1]
    assert stages.made_by("torch.relu") == {"relu": "traced"}


def test_a_model_with_several_graphs_has_no_stages():
    def broken(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    with pytest.raises(AssertionError, match="broken is not captured whole: 1 graph break, 2 graphs"):
        FxStages()(broken, (torch.ones(2),), ["dynamo"])


def test_a_whole_model_of_several_graphs_has_no_stages_either(monkeypatch):
    joined = capture(lambda x: x + 1, (torch.ones(2),), frontend="make_fx")
    joined.graphs *= 2
    monkeypatch.setattr(joined, "assert_whole", lambda: None)
    monkeypatch.setattr(stages_module, "captured", lambda request: joined)

    with pytest.raises(CaptureError, match=r"has several graphs, and stages follow one"):
        FxStages()(lambda x: x + 1, (torch.ones(2),), ["make_fx"])


RULES = RuleSet(
    [
        Rule(lambda x: torch.relu(torch.relu(x)), lambda x: torch.relu(x), name="relu once"),
        Rule(lambda x: torch.exp(torch.neg(x)), lambda x: torch.reciprocal(torch.exp(x)), name="no negation"),
        Rule(lambda x: torch.cat([x, x], 0), lambda x: torch.cat([x, x], -2), name="from the end"),
    ]
)


def doubled(x):
    y = torch.exp(torch.neg(torch.relu(torch.relu(x))))
    return torch.cat([y, y], 0)


def test_a_rule_set_gives_a_stage_for_each_rewrite_with_the_name_of_its_rule():
    stages = fx_stages(doubled, X, ["symbolic", RULES])

    assert [stage.name for stage in stages] == ["symbolic", "relu once", "no negation", "from the end"]
    assert [len(stage.nodes) for stage in stages] == [5, 4, 4, 4]
    assert stages.made_by("torch.*") == {
        "relu_2": "relu once",
        "exp_1": "no negation",
        "reciprocal": "no negation",
        "cat_1": "from the end",
    }
    assert [line.partition(";")[0] for line in stages.history("reciprocal")] == [
        "from the end: reciprocal (torch.reciprocal), kept",
        "no negation: reciprocal (torch.reciprocal), rewritten",
        "relu once: neg (torch.neg), exp (torch.exp), kept",
        "symbolic: neg (torch.neg), traced",
    ]
    assert "relu once: 0 added, 0 removed, 1 rewritten, 3 kept" in stages.text()


def test_a_rule_set_with_many_rewrites_gives_one_stage_for_the_rest():
    def many(x):
        for _ in range(50):
            x = torch.sin(x)
        return x

    rules = RuleSet([Rule(Calls(torch.sin), lambda x: torch.cos(x), name="turned")])
    stages = fx_stages(many, X, ["symbolic", rules])

    assert len(stages) == 42
    assert stages[-1].name == "10 more rewrites"
    assert {*stages.made_by("torch.cos").values()} == {"turned"}


def test_a_rule_set_without_a_match_is_a_stage_without_changes():
    stages = fx_stages(Model(), X, ["symbolic", RULES])

    assert [stage.name for stage in stages] == ["symbolic", "RuleSet"]
    assert stages["RuleSet"].nodes_that_were("kept") == stages["RuleSet"].nodes


GATHER_AND_WAIT = "all_gather_into_tensor", "wait_tensor"


def two_gathers(x):
    operators, name = torch.ops._c10d_functional, torch.distributed.group.WORLD.group_name
    first, second = (operators.all_gather_into_tensor(x * factor, 4, name) for factor in (2, 3))
    first, second = operators.wait_tensor(first), operators.wait_tensor(second)
    return first.relu() + second


def waits_late(graph_module):
    nodes = {node.name: node for node in graph_module.graph.nodes}
    nodes["add"].prepend(nodes["wait_tensor_1"])
    nodes["mul_1"].append(nodes["all_gather_into_tensor"])
    graph_module.recompile()


def one_gather(graph_module):
    """Gather both tensors in one bucket, in the group of the second."""
    graph, nodes = graph_module.graph, {node.name: node for node in graph_module.graph.nodes}
    gathers = [nodes["all_gather_into_tensor"], nodes["all_gather_into_tensor_1"]]
    with graph.inserting_before(gathers[1]):
        joined = graph.call_function(torch.ops.aten.cat.default, ([each.args[0] for each in gathers],))
        bucket = graph.call_function(gathers[1].target, (joined, *gathers[1].args[1:]))
        bucket.meta["val"] = torch.cat([each.meta["val"] for each in gathers])
        wait = graph.call_function(nodes["wait_tensor"].target, (bucket,))
        parts = graph.call_function(torch.ops.aten.chunk.default, (wait, 2))
        for place, each in enumerate(("wait_tensor", "wait_tensor_1")):
            part = graph.call_function(operator.getitem, (parts, place))
            nodes[each].replace_all_uses_with(part)
    for name in ("wait_tensor_1", "wait_tensor", "all_gather_into_tensor_1", "all_gather_into_tensor"):
        graph.erase_node(nodes[name])
    graph_module.recompile()


@needs_fake_group
def test_a_collective_that_moved_is_told_with_its_place():
    with fake_group():
        stages = fx_stages(two_gathers, X, ["make_fx", waits_late])

    text = stages.text()
    assert "  > all_gather_into_tensor (_c10d_functional.all_gather_into_tensor.default) later, behind mul_1" in text
    assert "  > wait_tensor_1 (_c10d_functional.wait_tensor.default) later, behind relu" in text
    assert text.count("  > ") == 2
    (told, _) = stages.history("wait_tensor_1")
    assert told == "waits_late: wait_tensor_1 (_c10d_functional.wait_tensor.default), kept, later, behind relu"


@needs_fake_group
def test_collectives_that_changed_places_name_the_last_node_before_and_the_next_behind():
    def swaps(graph_module):
        nodes = {node.name: node for node in graph_module.graph.nodes}
        nodes["all_gather_into_tensor_1"].append(nodes["all_gather_into_tensor"])
        graph_module.recompile()

    with fake_group():
        stages = fx_stages(two_gathers, X, ["make_fx", swaps])

    assert {node.name: node.moved for node in stages["swaps"].nodes if node.moved} == {
        "all_gather_into_tensor_1": "earlier, before all_gather_into_tensor",
        "all_gather_into_tensor": "later, behind all_gather_into_tensor_1",
    }


@needs_fake_group
def test_two_nodes_of_one_collective_did_not_pass_each_other():
    def doubles(graph_module):
        graph, nodes = graph_module.graph, {node.name: node for node in graph_module.graph.nodes}
        gather = nodes["all_gather_into_tensor"]
        with graph.inserting_before(gather):
            made = graph.call_function(gather.target, gather.args)
        made.meta["from_node"] = [("all_gather_into_tensor", None)]
        nodes["wait_tensor"].args = (made,)
        nodes["wait_tensor_1"].args = (gather,)
        graph_module.recompile()

    with fake_group():
        stages = fx_stages(two_gathers, X, ["make_fx", doubles])

    assert [node.moved for node in stages["doubles"].nodes] == [""] * 9


@needs_fake_group
def test_a_bucket_holds_collectives_of_its_own_group():
    with fake_group():
        groups = [torch.distributed.new_group([0, 1]).group_name for _ in range(2)]

        def gathers(x):
            gather, wait = (getattr(torch.ops._c10d_functional, name) for name in GATHER_AND_WAIT)
            first, second = (gather(x * factor, 2, group) for factor, group in zip((2, 3), groups, strict=True))
            return wait(first) + wait(second)

        stages = fx_stages(gathers, X, ["make_fx", one_gather])

    sources = {node.name: [each.name for each in node.made_from] for node in stages["one_gather"].nodes}
    assert sources["all_gather_into_tensor_default"] == ["all_gather_into_tensor_1"]
    assert sources["wait_tensor_default"] == ["wait_tensor_1"]
    assert [node.name for node in stages["one_gather"].removed] == ["all_gather_into_tensor", "wait_tensor"]


@needs_fake_group
def test_collectives_are_followed_into_their_bucket():
    with fake_group():
        stages = fx_stages(two_gathers, X, ["make_fx", one_gather])

    sources = {node.name: [each.name for each in node.made_from] for node in stages["one_gather"].nodes}
    assert sources["all_gather_into_tensor_default"] == ["all_gather_into_tensor", "all_gather_into_tensor_1"]
    assert sources["wait_tensor_default"] == ["wait_tensor", "wait_tensor_1"]
    assert stages["one_gather"].removed == ()


def test_free_sizes_are_those_of_the_stages_that_know_them():
    stages = fx_stages(nn.ReLU(), X, ["symbolic", "export"], dynamic_shapes=({0: torch.export.Dim("rows")},))

    (exported,) = stages["export"].graph.graph.find_nodes(op="placeholder")
    rows, columns = exported.meta["val"].shape
    assert isinstance(rows, torch.SymInt)
    assert columns == 4
