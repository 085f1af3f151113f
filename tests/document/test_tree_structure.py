from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch.utils import _pytree as pytree

from pytest_fxgraph.document.tree_structure import structure_notes


def graph_with(inputs, outputs):
    _, in_spec = pytree.tree_flatten(inputs)
    _, out_spec = pytree.tree_flatten(outputs)
    info = SimpleNamespace(orig_args=["x", "options"], in_spec=in_spec, out_spec=out_spec)
    return SimpleNamespace(_codegen=SimpleNamespace(pytree_info=info))


def test_nested_inputs_and_outputs_are_noted():
    notes = structure_notes(graph_with(((1, {"k": 2}), {}), {"logits": 1, "hidden": [1, (2,), None]}), repr)

    assert notes == (
        "inputs: x, options",
        "input structure: ((*, {'k': *}), {})",
        f"output structure: {{'logits': *, 'hidden': [*, (*,), {'*' if _none_is_leaf() else 'builtins.NoneType()'}]}}",
    )


def test_a_graph_that_takes_its_values_as_they_are_has_no_notes():
    assert structure_notes(SimpleNamespace(_codegen=SimpleNamespace()), repr) == ()


class Moments(NamedTuple):
    mean: int
    variance: int


@dataclasses.dataclass
class Scores:
    logits: object
    loss: object = None


torch.export.register_dataclass(Scores)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Moments(1, 2), "test_tree_structure.Moments(mean=*, variance=*)"),
        (Scores(1, 2), "test_tree_structure.Scores(logits=*, loss=*)"),
        (Scores(1), "test_tree_structure.Scores(logits=*, loss=None)"),
        (OrderedDict(a=1), "collections.OrderedDict({'a': *})"),
        (defaultdict(list, {"a": 1}), "collections.defaultdict(builtins.list, {'a': *})"),
        (deque([1], maxlen=3), "collections.deque(*, maxlen=3)"),
        (deque([1]), "collections.deque(*)"),
        (torch.Size([1]), "torch.Size(*)"),
        ({}, "{}"),
    ],
    ids=str,
)
def test_every_container_that_torch_knows_is_told_by_its_class_and_its_names(output, words):
    (*_, note) = structure_notes(graph_with((1,), output), repr)

    assert note.removeprefix("output structure: ").endswith(words)


def _none_is_leaf():
    return pytree.tree_flatten(None)[1].type is None
