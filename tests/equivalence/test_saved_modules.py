"""What modules hold is noticed by identity, and given back in its order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.equivalence.saved_modules import SavedModules


def model() -> Any:
    made: Any = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    made.history, made.names, made.table, made.none = [1], {"a"}, {"k": 1}, {}
    made.total = torch.ones(1)
    return made


def saved(root: nn.Module) -> SavedModules:
    kept = SavedModules()
    kept.include(root.modules())
    return kept


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda made: made.history.append(2), "history"),
        (lambda made: made.names.add("b"), "names"),
        (lambda made: made.table.update(k=2), "table"),
        (lambda made: made.none.update(k=2), "none"),
        (lambda made: setattr(made, "total", torch.ones(1)), "total"),  # equal, and yet another
        (lambda made: setattr(made, "more", 1), "more"),
        (lambda made: delattr(made, "table"), "table"),
        (lambda made: made.eval(), "training"),
        (lambda made: made[1].register_forward_hook(print), "_forward_hooks"),
    ],
)
def test_each_change_is_noticed_named_and_undone(change, name):
    made = model()
    before = {key: vars(made)[key] for key in vars(made)}
    kept = saved(made)
    assert kept.are_intact()
    assert kept.differing() == []

    change(made)
    assert not kept.are_intact()
    assert name in [attribute for _, attribute in kept.differing()]
    kept.restore()

    assert kept.are_intact()
    assert list(vars(made)) == list(before)
    assert (made.history, made.names, made.table, made.none) == ([1], {"a"}, {"k": 1}, {})


def test_the_compiled_code_of_a_graph_module_is_left_alone():
    graph_module = fxcore.symbolic_trace(model())
    kept = saved(graph_module)

    graph_module.note = 1
    graph_module.eval()
    kept.restore()

    assert graph_module.note == 1
    assert graph_module.training
