"""Updates of a step's state in words."""

from __future__ import annotations

import pytest
import torch

from fixtures.step_passes import done, nodes_of, update_of
from fixtures.train_steps import net_inputs, net_step
from pytest_fxgraph import capture, diff_graphs


@pytest.fixture
def graphs():
    return [capture(net_step(), net_inputs(), frontend="make_fx").graphs[0] for _ in range(2)]


def texts(expected, obtained):
    return [edit.text for edit in diff_graphs(expected, obtained).edits]


def test_a_lost_and_a_new_update_are_named_by_their_state(graphs):
    full, partial = graphs
    partial.graph.erase_node(update_of(partial, "down.bias"))
    done(partial)

    assert "down.bias is no longer updated" in texts(full, partial)
    assert "down.bias is updated now" in texts(partial, full)


def test_an_update_by_another_value_names_both_values(graphs):
    expected, obtained = graphs
    node, before = update_of(obtained, "norm.bias"), update_of(expected, "norm.bias").args[1]
    node.args = (node.args[0], update_of(obtained, "norm.weight").args[1])
    obtained.recompile()

    (text,) = texts(expected, obtained)[:1]
    assert text == f"norm.bias is updated by %{node.args[1].name} in place of %{before.name}"


def test_a_copy_elsewhere_is_an_operator(graphs):
    expected, obtained = graphs
    buffer = next(node for node in obtained.graph.nodes if node.target == "norm.running_mean")
    with obtained.graph.inserting_before(nodes_of(obtained, torch.ops.aten.copy_.default)[0]):
        node = obtained.graph.call_function(torch.ops.aten.copy_.default, (buffer, buffer))
    node.meta["nn_module_stack"] = {"forward": ("forward", "")}
    obtained.recompile()

    assert not [text for text in texts(expected, obtained) if "updated" in text]
