from __future__ import annotations

import os
from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch

from fxcore.node_data.module_stack import nested_call
from pytest_fxgraph.document.origins import Origins


def node_with(op="call_function", target="t", **meta):
    return SimpleNamespace(op=op, target=target, meta=meta, stack_trace=None)


def test_the_scope_is_the_innermost_module():
    stack = OrderedDict(block=("block", object), conv=("block.conv", object))

    assert Origins(True).scope(node_with(nn_module_stack=stack)) == "block.conv"
    assert Origins(True).scope(node_with(nn_module_stack=OrderedDict())) is None
    assert Origins(True).scope(node_with()) is None


def test_a_called_module_belongs_to_its_caller():
    stack = OrderedDict(block=("block", object), conv=("block.conv", object))
    alone = OrderedDict(conv=("conv", object))

    assert Origins(True).scope(node_with("call_module", "block.conv", nn_module_stack=stack)) == "block"
    assert Origins(True).scope(node_with("call_module", "conv", nn_module_stack=alone)) is None


def test_the_root_of_dynamo_is_no_part_of_the_path():
    stack = OrderedDict(a=("L['self']", object), b=("L['self'].block", object))

    assert Origins(True).scope(node_with(nn_module_stack=stack)) == "block"


def test_a_module_of_a_list_has_its_path_in_every_release_of_dynamo():
    stack = OrderedDict(a=("L['self']", object), b=("L['self']._modules['blocks']._modules['0'].norm", object))

    assert Origins(True).scope(node_with(nn_module_stack=stack)) == "blocks.0.norm"


def test_the_source_is_the_users_innermost_line_relative_to_the_current_folder():
    inside_torch = torch.nn.functional.__file__
    trace = (
        f'  File "{os.getcwd()}/models/net.py", line 7, in forward\n    return self.block(x)\n'
        f'  File "{os.getcwd()}/models/net.py", line 12, in block\n    x = F.relu(x)\n'
        f'  File "{inside_torch}", line 1, in relu\n    torch.relu(x)\n'
        '  File "<eval_with_key>.1", line 3, in forward\n'
    )

    assert Origins(True).source(node_with(stack_trace=trace)) == "models/net.py:12: x = F.relu(x)"
    assert Origins(False).source(node_with(stack_trace=trace)) is None


def test_a_line_whose_text_is_gone_is_named_by_its_number():
    assert Origins(True).source(node_with(stack_trace='File "/elsewhere/net.py", line 3, in forward')) == (
        "/elsewhere/net.py:3"
    )


def test_a_node_without_a_trace_has_no_source():
    assert Origins(True).source(node_with()) is None


OUTER = nested_call(None, "a", ("a", "A"))
INNER = nested_call(OUTER, "a.fc", ("a.fc", "Linear"))
ROOT = nested_call(None, "", ("", "Net"))


@pytest.mark.parametrize(
    ("frame", "op", "target", "scope"),
    [
        (INNER, "call_module", "a.fc", "a"),
        (INNER, "call_module", "a.other", "a.fc"),
        (INNER, "call_function", "a.fc", "a.fc"),
        (OUTER, "call_module", "a", None),
        (OUTER, "call_module", "a.fc", "a"),
        (ROOT, "call_function", "f", None),
    ],
)
def test_a_call_of_a_module_and_its_metadata_tell_the_same_scope(frame, op, target, scope):
    node = node_with(op, target, nn_module_stack=frame.meta()["nn_module_stack"])

    assert Origins(False).scope_of_frame(frame, op, target) == scope
    assert Origins(False).scope(node) == scope


@pytest.mark.parametrize("entry", ["block", (), (torch.nn.ReLU, "block"), None])
def test_a_module_whose_entry_has_no_path_is_named_by_its_key(entry):
    assert Origins(False).scope(node_with(nn_module_stack=OrderedDict(key=entry))) == "key"


def test_the_source_that_our_tracer_noted_is_the_users_line_or_none():
    place = os.path.join(os.getcwd(), "nowhere", "net.py")

    assert Origins(True).source(node_with(source=(place, 7))) == f"{os.path.join('nowhere', 'net.py')}:7"
    assert Origins(True).source(node_with(source=(torch.nn.functional.__file__, 7))) is None
