from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxcore.node_data import attribute_paths
from fxcore.node_data.attribute_paths import (
    attribute_of,
    copy_attribute,
    copy_attributes,
    delete_attribute,
    get_attribute,
    has_attribute,
    set_attribute,
)


def test_a_missing_part_is_named():
    root = nn.Sequential(nn.Linear(1, 1))

    assert get_attribute(root, "0.weight") is root[0].weight
    with pytest.raises(AttributeError, match=r"'0' has no attribute 'gain' \(looking for '0.gain.x'\)"):
        get_attribute(root, "0.gain.x")
    assert not has_attribute(root, "0.gain.x")


def test_setting_makes_modules_on_the_way_and_buffers_of_tensors():
    root = nn.Module()

    set_attribute(root, "a.b.weight", nn.Parameter(torch.ones(1)))
    set_attribute(root, "a.shift", torch.zeros(1))
    set_attribute(root, "a.size", 3)

    assert list(root.state_dict()) == ["a.shift", "a.b.weight"]
    assert root.a.size == 3


def test_copying_shares_the_object_and_keeps_a_buffer_out_of_the_state_dict():
    source, destination = nn.Module(), nn.Module()
    source.inner = nn.Module()
    source.inner.register_buffer("scratch", torch.ones(1), persistent=False)

    copy_attribute(source, destination, "inner.scratch")

    assert destination.inner.scratch is source.inner.scratch
    assert destination.inner is not source.inner
    assert list(destination.state_dict()) == []


BUFFER = torch.ones(1)


class WithClassAttribute(nn.Module):
    inner = SimpleNamespace(weight=torch.ones(1))


class WithComputedAttribute(nn.Module):
    def __getattr__(self, name):
        return WithClassAttribute.inner if name == "inner" else super().__getattr__(name)


class WithBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inner", BUFFER)


@pytest.mark.parametrize(
    ("kind", "inner", "path"),
    [
        (nn.Module, nn.Linear(1, 1), "inner.weight"),
        (nn.Module, SimpleNamespace(weight=torch.ones(1)), "inner.weight"),
        (nn.Module, nn.Parameter(torch.ones(1)), "inner.data"),
        (WithBuffer, None, "inner.data"),
        (WithClassAttribute, None, "inner.weight"),
        (WithComputedAttribute, None, "inner.weight"),
    ],
    ids=["module", "attribute", "parameter", "buffer", "class attribute", "computed attribute"],
)
def test_copying_into_what_is_the_source_s_own_changes_nothing(kind, inner, path):
    source, destination = kind(), kind()
    if inner is not None:
        source.inner = destination.inner = inner
    children = list(destination.children())

    copy_attribute(source, destination, path)

    assert destination.inner is source.inner
    assert list(destination.children()) == children


def test_deleting_takes_only_the_last_part():
    root = nn.Sequential(nn.Linear(1, 1))

    delete_attribute(root, "0.bias")

    assert list(root.state_dict()) == ["0.weight"]


@pytest.fixture
def no_replaced_init(monkeypatch):
    """Let the `nn.Module.__init__` of now count as torch's own: Dynamo replaces it at its first compilation."""
    monkeypatch.setattr(attribute_paths, "_MODULE_INIT", nn.Module.__init__)
    attribute_paths._empty_attributes.cache_clear()
    yield
    attribute_paths._empty_attributes.cache_clear()


def copy_of_inner_relu():
    source, destination = nn.Module(), nn.Module()
    source.inner = nn.Sequential(nn.ReLU())
    copy_attribute(source, destination, "inner.0")
    return destination.inner


def test_a_module_made_on_the_way_has_all_that_an_empty_module_has_for_itself(no_replaced_init):
    made, other = copy_of_inner_relu(), copy_of_inner_relu()
    made._modules.clear()

    assert type(made) is nn.Module
    assert vars(made) == vars(nn.Module())
    assert [type(value) for value in vars(made).values()] == [type(value) for value in vars(nn.Module()).values()]
    assert not any(value is vars(other)[name] for name, value in vars(made).items() if hasattr(value, "clear"))


def test_a_replaced_init_of_modules_is_called(monkeypatch):
    made = []
    plain = nn.Module.__init__

    def init(self, *args, **kwargs):
        plain(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(nn.Module, "__init__", init)

    assert any(module is inner for inner in [copy_of_inner_relu()] for module in made)


@pytest.mark.parametrize("own", [3, torch.ones(2)], ids=["plain", "buffer"])
def test_a_module_takes_the_place_of_a_tensor_or_number(own):
    source, made = nn.Module(), nn.Module()
    source.block = nn.Linear(1, 1)
    if isinstance(own, torch.Tensor):
        made.register_buffer("block", own)
    else:
        made.block = own

    copy_attribute(source, made, "block")

    assert made.block is source.block
    assert list(made.state_dict()) == ["block.weight", "block.bias"]
    assert "block" not in vars(made)


def test_modules_on_the_way_have_containers_of_their_own(no_replaced_init):
    source, one, other = nn.Sequential(nn.Sequential(nn.Linear(1, 1))), nn.Module(), nn.Module()
    copy_attribute(source, one, "0.0.weight")
    copy_attribute(source, other, "0.0.bias")
    one_parent, other_parent = one.get_submodule("0.0"), other.get_submodule("0.0")

    assert list(one_parent._parameters) == ["weight"]
    assert list(other_parent._parameters) == ["bias"]
    assert vars(one_parent).keys() == vars(nn.Module()).keys()
    assert [type(value) for value in vars(one_parent).values()] == [type(value) for value in vars(nn.Module()).values()]


def test_a_child_of_a_scripted_module_is_an_attribute():
    scripted = torch.jit.script(nn.Sequential(nn.ReLU()))

    assert attribute_of(scripted, "0").original_name == "ReLU"
    assert attribute_of(scripted, "training") is True


def test_attributes_below_a_shared_module_are_there_and_the_others_are_copied():
    source, destination = nn.Module(), nn.Module()
    source.shared = destination.shared = nn.Sequential(nn.Linear(1, 1))
    source.other = nn.Sequential(nn.Linear(1, 1), nn.ReLU())

    copy_attributes(source, destination, ["shared.0.weight", "shared.0.bias", "other.0.bias", "other.1", "other.0"])

    assert list(destination.state_dict()) == ["shared.0.weight", "shared.0.bias", "other.0.weight", "other.0.bias"]
    assert destination.other is not source.other
    assert (destination.other.get_submodule("0"), destination.other.get_submodule("1")) == tuple(source.other)


def test_a_child_of_a_scripted_module_is_copied():
    scripted, destination = torch.jit.script(nn.Sequential(nn.Sequential(nn.ReLU()))), nn.Module()

    copy_attributes(scripted, destination, ["0.0", "0"])

    assert destination.get_submodule("0.0").original_name == "ReLU"


def test_the_place_of_a_missing_part_is_the_class_of_the_root_or_a_path():
    root = nn.Sequential(nn.Sequential(nn.ReLU()))

    with pytest.raises(AttributeError, match=r"^'Sequential' has no attribute 'a' \(looking for 'a'\)$"):
        get_attribute(root, "a")
    with pytest.raises(AttributeError, match=r"^'0.0' has no attribute 'a' \(looking for '0.0.a.b'\)$"):
        get_attribute(root, "0.0.a.b")
    assert [has_attribute(root, path) for path in ("0", "0.0", "0.0.training", "a", "0.1")] == [True] * 3 + [False] * 2


def test_a_module_in_the_place_of_a_parameter_is_refused_as_by_torch():
    source, made = nn.Module(), nn.Module()
    source.block, made.block = nn.Linear(1, 1), nn.Parameter(torch.ones(1))

    with pytest.raises(TypeError, match="cannot assign"):
        copy_attribute(source, made, "block")
    assert not made._modules


def test_a_tensor_that_is_set_is_part_of_the_state_dict_unless_it_was_not_before():
    root = nn.Module()

    set_attribute(root, "shift", torch.ones(1))

    assert list(root.state_dict()) == ["shift"]
