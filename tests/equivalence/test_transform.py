"""The tables of right and broken transforms: no right one refused, every wrong one caught by its check."""

from __future__ import annotations

import copy
import re

import pytest
import torch

from fixtures.broken_table import BROKEN, BrokenEntry
from fixtures.equivalence_page import kind_of
from fixtures.transforms import RIGHT, TransformEntry
from pytest_fxgraph.equivalence.transform import TransformCheck


def made(entry: TransformEntry | BrokenEntry) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return entry.model()


@pytest.mark.parametrize("entry", RIGHT, ids=lambda entry: entry.name)
def test_no_right_transform_is_refused(entry):
    model = made(entry)
    state = copy.deepcopy(model.state_dict())

    result = TransformCheck()(
        entry.transform, model, entry.inputs(), modes=entry.modes, grads=entry.grads, **entry.options
    )

    assert model.training
    assert all(torch.equal(model.state_dict()[name], value) for name, value in state.items())
    assert result.difference.is_empty != entry.changes_graph


@pytest.mark.parametrize("entry", BROKEN, ids=lambda entry: entry.name)
def test_every_broken_transform_is_caught_by_its_check(entry):
    model = made(entry)
    state = copy.deepcopy(model.state_dict())

    with pytest.raises(AssertionError) as caught:
        TransformCheck()(entry.transform, model, entry.inputs(), modes=entry.modes, **entry.options)

    assert re.search(entry.words, str(caught.value))
    assert entry.name in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 6
    assert kind_of(caught.value) == entry.caught_by
    assert all(torch.equal(model.state_dict()[name], value) for name, value in state.items())
