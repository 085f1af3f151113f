"""Every tensor of a module is known by its name and by its storage."""

from __future__ import annotations

import argparse
import collections
import enum
import types

import numpy
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import fxcore
from fxcore.state import held_state
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


def tensors_of(root=None, **values):
    """Return name, kind and nesting of each tensor that a module and some values hold."""
    return [(state.name, state.kind, state.is_nested) for state in HeldState(root, values.items()).tensors]


def test_a_module_in_a_list_is_listed_once_with_what_it_alone_holds():
    hidden = nn.Sequential(nn.Linear(1, 1, bias=False))
    model = nn.Module()
    model.shared = nn.Linear(1, 1, bias=False)
    hidden.shared = model.shared
    model.first, model.second = [hidden], {"again": hidden}

    assert tensors_of(model) == [("shared.weight", "parameter", False), ("first[0].0.weight", "parameter", True)]
    assert [path for path, _ in HeldState(model).modules] == ["", "shared", "first[0]", "first[0].0"]


def test_a_tensor_in_a_list_is_listed_unless_it_is_listed_already():
    model = nn.Module()
    model.weight = nn.Parameter(torch.ones(1))
    model.kept = [model.weight, torch.ones(1), nn.LazyLinear(2).weight]

    assert tensors_of(model) == [("weight", "parameter", False), ("kept[1]", "attribute", True)]
    assert tensors_of(inputs=[torch.ones(1), {"k": torch.ones(1)}]) == [
        ("inputs[0]", "", True),
        ("inputs[1]['k']", "", True),
    ]


class WithoutAnswers(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_):
        raise NotImplementedError


class OfAnotherClass(torch.Tensor):
    pass


def test_tensors_that_raise_at_every_question_are_left_out():
    odd, usual = torch.ones(2).as_subclass(WithoutAnswers), torch.ones(2).as_subclass(OfAnotherClass)
    model = nn.Module()
    model.register_buffer("good", usual)
    model.register_buffer("bad", odd)
    model.register_buffer("none", None)
    model.__dict__.update(plain_good=usual, plain_bad=odd, kept=(odd, usual.clone()))

    assert tensors_of(model) == [
        ("good", "buffer", False),
        ("plain_good", "attribute", False),
        ("kept[1]", "attribute", True),
    ]


def test_parameters_without_shapes_of_a_module_in_a_list_are_not_listed():
    model = nn.Module()
    model.hidden = [nn.LazyLinear(2)]

    state = HeldState(model)

    assert state.lazy == state.tensors == []


def test_a_module_that_a_transform_emptied_holds_what_is_left():
    model = nn.Linear(1, 1)
    del model.__dict__["_buffers"]
    model.sizes, model.extra = (1, 2), torch.ones(1)

    assert [name for name, _, _ in tensors_of(model)] == ["weight", "bias", "extra"]


class Color(enum.Enum):
    RED = [1]  # noqa: RUF012 - a value that could be followed


class Config:
    def __init__(self, **attributes):
        vars(self).update(attributes)


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ([1, [2]], ["v", "v[1]"]),
        ((1, [2]), ["v[1]"]),
        ({"a": {}}, ["v", "v['a']"]),
        (collections.deque([set()]), ["v", "v[0]"]),
        (types.SimpleNamespace(a=[]), ["v", "v.a"]),
        (types.SimpleNamespace(), ["v"]),
        (Config(a=[]), ["v", "v.a"]),
        (Config(), []),
        (Color.RED, []),
        (Config, []),
        (ValueError([1]), []),
        (collections.Counter, []),
        (torch.nn.functional, []),
        (argparse.Namespace(a=[]), []),
        (torch.utils.data.TensorDataset(torch.ones(1)), []),
        (1, []),
        (((1,), (2,)), []),
    ],
)
def test_containers_and_objects_of_users_are_followed(value, paths):
    assert [container.path for container in HeldState(values=[("v", value)]).containers] == paths


def test_each_object_is_followed_once_in_reading_order_under_its_first_path():
    shared = [torch.ones(1)]

    assert [name for name, _, _ in tensors_of(a=[shared, torch.ones(1)], b=shared)] == ["a[0][0]", "a[1]"]


def test_arrays_and_generators_are_read():
    held = [numpy.zeros(2), torch.Generator(), numpy.random.default_rng(0), 3]

    assert [(reading.path, reading.role) for reading in HeldState(values=[("v", held)]).readings] == [
        ("v[0]", "array"),
        ("v[1]", "generator"),
        ("v[2]", "generator"),
    ]


def test_an_end_is_put_to_what_leads_to_very_many_objects(monkeypatch):
    monkeypatch.setattr(held_state, "_MOST_VALUES", 3)

    assert [name for name, _, _ in tensors_of(v=[torch.ones(1), torch.ones(1), torch.ones(1)])] == ["v[0]", "v[1]"]


def test_private_attributes_of_a_graph_module_are_its_code_except_for_generators():
    graph = fxcore.Graph()
    graph.output(None)
    module = fxcore.GraphModule({}, graph)
    module._private, module.public, module._generator = [torch.ones(1)], [torch.ones(1)], torch.Generator()
    usual = nn.Module()
    usual._private = [torch.ones(1)]

    assert [name for name, _, _ in tensors_of(module)] == ["public[0]"]
    assert [reading.path for reading in HeldState(module).readings] == ["_generator"]
    assert [name for name, _, _ in tensors_of(usual)] == ["_private[0]"]


def test_only_graphs_have_nodes_that_draw():
    graph = fxcore.Graph()
    graph.call_function(torch.rand, (2,), {"generator": None})
    graph.call_function(torch.rand, (2,), {"generator": torch.Generator()})

    assert [reading.path for reading in HeldState(types.SimpleNamespace(graph=graph)).readings] == ["of node rand_1"]
    assert HeldState(torch.jit.script(nn.ReLU())).readings == []
    usual = nn.Module()
    usual.graph = types.SimpleNamespace(nodes=[None])
    assert HeldState(usual).readings == []


def test_tensors_that_share_a_storage_are_found_whatever_their_class_and_layout():
    base = torch.arange(6.0)
    others = torch.ones(2)
    held = {
        "other": others,
        "first": base[:1],
        "last": base[5:],
        "subclass": base[1:3].as_subclass(OfAnotherClass),
        "empty": base[6:],
        "sparse": torch.eye(2).to_sparse(),
    }
    state = HeldState(values=held.items())

    def names(*tensors):
        return {key: [each.name for each in found] for key, found in state.in_storages_of(tensors).items()}

    assert names(base) == {storage_of(base): ["first", "last", "subclass"]}
    assert names(base, others, base[2:]) == {
        storage_of(base): ["first", "last", "subclass"],
        storage_of(others): ["other"],
    }
    assert names(held["subclass"]) == names(base)
    assert names() == names(held["sparse"]) == names(held["empty"]) == {}


def test_the_storage_of_a_meta_tensor_is_known_though_it_has_no_address():
    base = torch.ones(4, device="meta")
    state = HeldState(values=[("part", base[1:]), ("other", torch.ones(4, device="meta")), ("real", torch.ones(1))])

    found = state.in_storages_of([base])

    assert {key: [each.name for each in group] for key, group in found.items()} == {storage_of(base): ["part"]}


def test_a_fake_tensor_is_not_asked_for_an_address(recwarn):
    with FakeTensorMode():
        fake = torch.ones(2)
    base = torch.ones(2)
    state = HeldState(values=[("fake", fake), ("part", base[1:])])

    assert [[each.name for each in group] for group in state.in_storages_of([base]).values()] == [["part"]]
    assert [[each.name for each in group] for group in state.in_storages_of([fake, base]).values()] == (
        [["fake"], ["part"]]
    )
    assert not recwarn.list


def test_a_module_that_holds_itself_is_listed_once_and_one_that_two_hold_twice():
    shared, model = nn.Sequential(nn.ReLU()), nn.Module()
    model.itself, model.first, model.none, model.second = model, shared, None, shared

    assert [path for path, _ in modules_by_path(model)] == ["", "first", "first.0", "second", "second.0"]


def test_the_label_of_a_tensor_names_its_kind():
    labels = [state.label for state in HeldState(nn.Linear(1, 1), [("input", torch.ones(1))]).tensors]

    assert labels == ["parameter weight", "parameter bias", "attribute input"]
    assert HeldState(values=[("input", torch.ones(1))]).tensors[0].label == "input"
