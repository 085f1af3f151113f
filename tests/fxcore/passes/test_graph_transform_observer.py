from __future__ import annotations

import copy

import pytest
import torch
import torch.fx
from torch.fx.passes.graph_transform_observer import GraphTransformObserver as TorchObserver

import fxcore
from fxcore.passes.graph_transform_observer import GraphTransformObserver
from fxcore.traceback import NodeSourceAction

pytest.importorskip("pydot")


def replace_neg(gm):
    node = next(node for node in gm.graph.nodes if node.target is torch.neg)
    with gm.graph.inserting_before(node):
        new = gm.graph.call_function(torch.relu, (node.args[0],))
        node.replace_all_uses_with(new)
        gm.graph.erase_node(node)
    return gm


def function(x):
    return torch.neg(x) + 1


def test_new_nodes_say_which_node_they_replace(tmp_path):
    gm = fxcore.symbolic_trace(function)

    with GraphTransformObserver(gm, "replace_neg", log_url=str(tmp_path)) as observer:
        replace_neg(gm)

    relu = next(node for node in gm.graph.nodes if node.name == "relu")
    (source,) = relu.meta["from_node"]
    assert (source.name, source.pass_name) == ("neg", "replace_neg")
    assert source.action == [NodeSourceAction.REPLACE, NodeSourceAction.CREATE]
    assert observer.created_nodes == {"relu"}
    assert observer.erased_nodes == {"neg"}


def test_the_graph_before_and_after_is_drawn_as_torch_draws_it(tmp_path):
    def drawn(fx, observer, folder):
        folder.mkdir()
        gm = fx.symbolic_trace(function)
        result = observer(gm, "replace_neg", log_url=str(folder)).apply_gm_pass(replace_neg)
        assert result is gm
        count = observer.get_current_pass_count()
        return [(folder / f"pass_{count}_replace_neg_{end}_graph.dot").read_text() for end in ("input", "output")]

    ours = drawn(fxcore, GraphTransformObserver, tmp_path / "ours")

    assert "fillcolor=yellow" in ours[0]
    assert ours == drawn(torch.fx, TorchObserver, tmp_path / "theirs")


def test_nothing_is_watched_unless_asked_for():
    gm = fxcore.symbolic_trace(function)

    GraphTransformObserver(gm, "replace_neg").apply_graph_pass(lambda graph: replace_neg(gm))

    relu = next(node for node in gm.graph.nodes if node.name == "relu")
    assert "from_node" not in relu.meta


def test_settings_of_inductor_turn_watching_on_and_passes_off():
    from torch._inductor import config

    gm = fxcore.symbolic_trace(function)

    with config.patch({"trace.provenance_tracking_level": 1, "disabled_passes": "skip_me"}):
        assert GraphTransformObserver(gm, "skip_me").apply_gm_pass(replace_neg) is None
        GraphTransformObserver(gm, "replace_neg").apply_gm_pass(replace_neg)

    relu = next(node for node in gm.graph.nodes if node.name == "relu")
    assert [source.name for source in relu.meta["from_node"]] == ["neg"]


def test_copies_made_while_watching_are_not_watched_afterwards(tmp_path):
    gm = fxcore.symbolic_trace(function)

    with GraphTransformObserver(gm, "copying", log_url=str(tmp_path)):
        copied = copy.deepcopy(gm)
    replace_neg(copied)

    assert "from_node" not in next(node for node in copied.graph.nodes if node.name == "relu").meta


def test_a_replacement_of_many_readers_has_one_note_and_one_from_elsewhere_none(tmp_path):
    def reads_much(gm):
        neg, inner = gm.graph.find_nodes(op="call_function", target=torch.neg)
        with gm.graph.inserting_before(neg):
            neg.replace_all_uses_with(gm.graph.call_function(torch.relu, neg.args))
        gm._replace_hooks[-1](old=inner, new="of another graph", user=inner)

    def function(x):
        y = torch.neg(x)
        return y + y, y * torch.neg(x)

    gm = fxcore.symbolic_trace(function)

    with GraphTransformObserver(gm, "reads_much", log_url=str(tmp_path)):
        reads_much(gm)

    (source,) = gm.graph.find_nodes(op="call_function", target=torch.relu)[0].meta["from_node"]
    assert source.name == "neg"


class Weighted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.linear(x) * self.weight


def erase_dead(gm):
    gm.graph.eliminate_dead_code()


def add_dead(gm):
    with gm.graph.inserting_before(gm.graph.output_node()):
        gm.graph.call_function(torch.neg, (next(iter(gm.graph.nodes)),))


def test_each_pass_that_only_makes_or_erases_nodes_is_drawn_under_its_own_number(tmp_path):
    def drawn(fx, observer, folder):
        folder.mkdir()
        gm = fx.symbolic_trace(Weighted())
        before = observer.get_current_pass_count()
        for change in (add_dead, erase_dead, erase_dead):
            observer(gm, change.__name__, log_url=str(folder)).apply_gm_pass(change)
        assert observer.get_current_pass_count() == before + 3
        return sorted(each.read_text() for each in folder.iterdir())

    ours = drawn(fxcore, GraphTransformObserver, tmp_path / "ours")

    assert len(ours) == 4
    assert not any("weight" in text for text in ours), "parameters are not drawn"
    assert ours == drawn(torch.fx, TorchObserver, tmp_path / "theirs")
