from __future__ import annotations

import threading
from collections import OrderedDict

import pytest
import torch
import torch.fx
import torch.fx.traceback as theirs

import fxcore
import fxcore.traceback as ours
from fxcore.traceback import NodeSource, NodeSourceAction


def names(gm):
    return {node.name: node for node in gm.graph.nodes}


def test_every_public_name_of_torch_is_there():
    assert set(theirs.__all__) <= set(ours.__all__)


def test_nodes_made_again_keep_their_metadata_and_say_what_they_were_made_of():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x))
    names(gm)["relu"].meta["custom"] = {"tag": 1}
    names(gm)["relu"].stack_trace = "the line"

    with ours.preserve_node_meta():
        again = fxcore.Transformer(gm).transform()

    relu = names(again)["relu"]
    assert relu.meta["custom"] == {"tag": 1}
    assert relu.stack_trace == "the line"
    (source,) = relu.meta["from_node"]
    assert source.name == "relu"
    assert source.action == [ours.NodeSourceAction.CREATE]


def test_preserving_can_be_turned_off_inside():
    with ours.preserve_node_meta():
        assert ours.has_preserved_node_meta()
        with ours.preserve_node_meta(False):
            assert not ours.has_preserved_node_meta()
        assert ours.has_preserved_node_meta()

    assert not ours.has_preserved_node_meta()


def test_annotations_go_to_the_nodes_of_their_block_and_nest():
    @ours.annotate_fn({"stage": 1})
    def staged(x):
        with ours.annotate({"inner": True}):
            y = torch.relu(x)
        return torch.neg(y)

    with ours.preserve_node_meta():
        nodes = names(fxcore.symbolic_trace(lambda x: torch.sin(staged(x))))

    assert nodes["relu"].meta["custom"] == {"stage": 1, "inner": True}
    assert nodes["neg"].meta["custom"] == {"stage": 1}
    assert "custom" not in nodes["sin"].meta


def test_a_stack_is_set_and_cleared_while_preserving_only():
    ours.set_stack_trace(["ignored"])
    with ours.preserve_node_meta():
        ours.set_stack_trace(["first\n", "second\n"])
        assert ours.format_stack() == ["first\nsecond\n"]
        ours.set_stack_trace([])
        assert ours.format_stack() == [""]

    assert any("test_traceback.py" in line for line in ours.format_stack())


def test_numbers_of_autograd_nest():
    with ours.preserve_node_meta():
        ours.set_grad_fn_seq_nr(4)
        ours.set_grad_fn_seq_nr(7)
        assert ours.get_current_meta()["grad_fn_seq_nr"] == [4, 7]
        ours.reset_grad_fn_seq_nr()
        assert ours.get_current_meta()["grad_fn_seq_nr"] == [4]
        ours.reset_grad_fn_seq_nr()
        assert "grad_fn_seq_nr" not in ours.get_current_meta()
        with pytest.raises(AssertionError, match="Expected current_level > 0, got 0"):
            ours.reset_grad_fn_seq_nr()


def test_the_node_that_is_made_again_is_known_in_its_block():
    node = names(fxcore.symbolic_trace(lambda x: torch.relu(x)))["relu"]

    with ours.set_current_replay_node(node):
        assert ours.get_current_replay_node() is node

    assert ours.get_current_replay_node() is None


def test_where_the_nodes_of_a_graph_come_from_is_plain_data():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x) + 1)
    names(gm)["relu"].meta["from_node"] = [ours.NodeSource(names(gm)["add"], "pass", ours.NodeSourceAction.REPLACE)]

    provenance = ours.get_graph_provenance_json(gm.graph)

    assert provenance["add"] == []
    assert provenance["relu"][0]["name"] == "add"
    assert provenance["relu"][0]["action"] == "replace"


def test_what_one_thread_preserves_another_does_not():
    seen = []

    with ours.preserve_node_meta(), ours.annotate({"mine": 1}):
        thread = threading.Thread(target=lambda: seen.append((ours.has_preserved_node_meta(), ours.get_current_meta())))
        thread.start()
        thread.join()

    assert seen == [(False, {})]


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


@pytest.mark.parametrize("steps", [9, 10, 12])
def test_a_history_shows_its_latest_ten_steps(steps):
    node = node_of(fxcore)
    for step in range(steps):
        node.meta["from_node"] = [NodeSource(node, f"pass {step}", NodeSourceAction.CREATE)]

    lines = str(node.meta["from_node"][0]).splitlines()

    assert len(lines) == min(steps, 10)
    assert [line.index("(") // 4 for line in lines] == [*range(len(lines))]
    assert f"pass_name=pass {steps - 1}" in lines[0]


def test_outside_of_a_block_that_keeps_metadata_nothing_is_set():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    x.meta["note"] = 1

    with ours.set_current_meta(x):
        made = graph.call_function(torch.relu, (x,))
    ours.reset_grad_fn_seq_nr()

    assert "note" not in made.meta


@pytest.mark.parametrize("missing", ["name", "target", "graph_id", None])
def test_a_history_without_all_facts_of_a_node_knows_no_node(missing):
    facts = {"name": "a", "target": "t", "graph_id": 1, "pass_name": "p", "action": "create+unknown+replace"}
    facts.pop(missing, None)

    source = NodeSource._from_dict(facts)

    assert (source.node_info is None) == (missing is not None)
    assert source.action == [NodeSourceAction.CREATE, NodeSourceAction.REPLACE]
    assert source.pass_name == "p"
    assert NodeSource._from_dict(None) is None


def test_a_variable_of_torch_s_file_is_the_thread_s_and_any_other_is_missing():
    assert ours.should_preserve_node_meta is False
    with ours.preserve_node_meta():
        assert ours.should_preserve_node_meta is True
        ours.current_meta["stack_trace"] = "here"
        assert ours.current_meta == {"stack_trace": "here"}
        ours.current_meta.clear()
    with pytest.raises(AttributeError, match=r"module 'fxcore.traceback' has no attribute 'nothing'"):
        _ = ours.nothing


@pytest.mark.parametrize("value", [[1], {"a": [1]}, OrderedDict(a=1), {1}, (1,), 3])
def test_metadata_that_is_taken_over_is_a_copy(value):
    taken = ours.meta_taken_over({"custom": value, "other": 1, "stack_trace": ""})

    assert taken == {"custom": value}
    assert type(taken["custom"]) is type(value)
    assert (taken["custom"] is value) == isinstance(value, (tuple, int))
    assert ours.meta_taken_over({"stack_trace": "here"}) == {"stack_trace": "here"}
