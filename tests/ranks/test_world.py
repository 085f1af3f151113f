"""The ranks of a program, and their texts."""

from __future__ import annotations

import re

import pytest

from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.ranks.world import World, ranks_text


def test_ranks_are_written_in_spans():
    assert ranks_text([0, 1, 2, 3, 6, 8, 9]) == "0-3, 6, 8-9"
    assert ranks_text([]) == ""


def test_dimensions_without_names_are_numbered():
    assert World.of(6, (2, 3)).text == "6 ranks, mesh dim0=2, dim1=3"
    assert World.of(6, None).text == "6 ranks"


def test_a_mesh_of_another_number_of_ranks_is_refused():
    with pytest.raises(ChoiceError, match=re.escape("a mesh of 2 x 3 has 6 ranks, and the program has 4; change one")):
        World.of(4, {"dp": 2, "tp": 3})


def test_a_world_without_ranks_is_refused():
    assert World.of(None, (2, 2)).size == 4
    with pytest.raises(ChoiceError, match="world_size=None is no number of ranks; give a whole number from 1 on"):
        World.of(None, None)


def test_a_builder_of_one_argument_gets_no_mesh(monkeypatch):
    pytest.importorskip("torch.distributed.device_mesh")
    monkeypatch.setattr("torch.distributed.device_mesh.init_device_mesh", lambda device, sizes, mesh_dim_names: sizes)

    world = World.of(4, {"dp": 2, "tp": 2})

    assert world.model(lambda rank: rank, 3) == 3
    assert world.model(lambda rank, mesh: (rank, mesh), 3) == (3, (2, 2))
    assert world.model(lambda rank, seed=0, *, mesh=None: seed, 3) == (2, 2)
    assert World.of(4, None).model(lambda rank, seed=0: seed, 3) == 0


def test_a_world_may_have_one_rank():
    assert World.of(1, None).size == 1
    assert World.of(None, (1,)).size == 1
