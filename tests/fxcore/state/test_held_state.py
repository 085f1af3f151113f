"""Every tensor of a module is known by its name and by its storage."""

from __future__ import annotations

import torch
from torch import nn

import fxcore
from fxcore.state.held_state import HeldState, modules_by_path
from fxcore.state.storage import storage_of


class Holder(nn.Module):
    """Has state of every kind, and one module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("part", self.weight.detach()[1:], persistent=False)
        self.plain = torch.zeros(2)
        self.inner = nn.BatchNorm1d(2)
        self.same = self.inner


def test_parameters_buffers_and_plain_tensors_are_all_known():
    known = {state.name: state.kind for state in HeldState(Holder()).tensors}

    assert known["weight"] == "parameter"
    assert known["part"] == known["inner.running_mean"] == known["same.running_mean"] == "buffer"
    assert known["plain"] == "attribute"


def test_tensors_of_one_storage_stand_together():
    holder = Holder()

    together = HeldState(holder).in_storages_of([holder.weight])[storage_of(holder.weight)]

    assert [state.name for state in together] == ["weight", "part"]


def test_paths_are_those_of_torch():
    model = nn.Sequential(Holder(), nn.Sequential(nn.ReLU()))

    assert modules_by_path(model) == list(model.named_modules(remove_duplicate=False))
    assert modules_by_path(torch.jit.script(nn.Sequential(nn.ReLU())))[1][0] == "0"
    assert modules_by_path(len) == []


class Hides(nn.Module):
    """Holds a module in a list, which torch does not register."""

    def __init__(self) -> None:
        super().__init__()
        self.registered = nn.Linear(2, 2)
        self.hidden = [nn.Linear(2, 2)]


def test_state_of_modules_in_lists_is_told_from_registered_state():
    nested = {state.name: state.is_nested for state in HeldState(Hides()).tensors}

    assert nested == {
        "registered.weight": False,
        "registered.bias": False,
        "hidden[0].weight": True,
        "hidden[0].bias": True,
    }


def test_parameters_without_shapes_are_listed_apart():
    lazy = nn.LazyLinear(2)

    state = HeldState(nn.Sequential(lazy))

    assert state.tensors == []
    assert state.lazy == [("weight", lazy), ("bias", lazy)]


def test_the_generator_that_a_node_draws_from_is_held():
    generator = torch.Generator()
    graph = fxcore.Graph()
    graph.output(graph.call_function(torch.rand, (2,), {"generator": generator}))

    (reading,) = HeldState(fxcore.GraphModule({}, graph)).readings

    assert reading.path == "of node rand"
