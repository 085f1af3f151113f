from __future__ import annotations

import torch
import torch.fx
import torch.fx.traceback as theirs

import fxcore
from fxcore.node_source import NodeSource, NodeSourceAction


def node_of(fx):
    return next(node for node in fx.symbolic_trace(lambda x: torch.relu(x)).graph.nodes if node.op == "call_function")


def history(fx, source_class, action):
    node = node_of(fx)
    node.meta["from_node"] = [source_class(node, "first", action.CREATE)]
    return source_class(node, "second", [action.REPLACE, action.CREATE])


def without_ids(data):
    return {
        **data,
        "graph_id": 0,
        "from_node": [without_ids(each) for each in data["from_node"]],
    }


def test_a_history_reads_as_torchs():
    ours = history(fxcore, NodeSource, NodeSourceAction)
    expected = history(torch.fx, theirs.NodeSource, theirs.NodeSourceAction)

    assert without_ids(ours.to_dict()) == without_ids(expected.to_dict())
    text, expected_text = str(ours), str(expected)
    assert text.replace(str(ours.graph_id), "0") == expected_text.replace(str(expected.graph_id), "0")


def test_a_history_comes_back_from_plain_data():
    source = history(fxcore, NodeSource, NodeSourceAction)

    again = NodeSource._from_dict(source.to_dict())

    assert again == source
    assert hash(again) == hash(source)
    assert again.from_node[0].action == [NodeSourceAction.CREATE]
    assert NodeSource._from_dict(None) is None


def test_a_node_made_of_none_has_no_name():
    source = NodeSource(None, "pass")

    assert (source.name, source.target, source.graph_id) == ("", "", -1)
    assert source != "pass"


def test_what_a_node_notes_later_does_not_change_the_history():
    node = node_of(fxcore)
    node.meta["from_node"] = [NodeSource(None, "first")]
    source = NodeSource(node, "second")

    node.meta["from_node"][0].pass_name = "changed"

    assert source.from_node[0].pass_name == "first"
