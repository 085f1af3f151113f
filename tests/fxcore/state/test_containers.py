"""Containers remember their contents by identity, name each change and restore it, without code of the user."""

from __future__ import annotations

import functools
import math
from collections import OrderedDict, deque

import pytest
import torch
from torch import nn

import fxcore
from fxcore.state.changes import MISSING, Change
from fxcore.state.containers import (
    Container,
    Containers,
    attributes_of,
    functions_of,
    is_graph_module,
    is_plain,
    names_of,
    shown,
)


class Refusing:
    """Raises on everything that a walk through containers must not call."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        raise AssertionError("compared")

    def __repr__(self):
        raise RuntimeError("shown")


class Unprintable:
    def __repr__(self):
        raise ValueError("too long")


class RefusingList(list):
    def __iter__(self):
        raise AssertionError("iterated")

    __len__ = __iter__


class Slotted:
    __slots__ = ("__dict__", "filled", "unset")

    def __init__(self):
        self.filled, self.plain = 1, 2


class Guarded:
    """Has a `__getattribute__` and a `__setattr__` that refuse."""

    def __init__(self):
        names_of(self)["held"] = 1

    def __getattribute__(self, name):
        if name == "__class__":  # asked by isinstance()
            return Guarded
        raise AssertionError(name)

    def __setattr__(self, name, value):
        raise AssertionError(name)

    __delattr__ = __getattribute__


# Values.


@pytest.mark.parametrize(
    ("value", "is_without_parts"),
    [
        (1, True),
        (None, True),
        ("text", True),
        (len, True),
        (torch.float32, True),
        (int, True),
        ((1, "a"), True),
        ((), True),
        ((1, []), False),
        (((1,),), False),
        ([], False),
        ({}, False),
        (Refusing(), False),
        (type("Number", (int,), {})(1), False),
    ],
)
def test_plain_values_have_no_parts_that_could_change(value, is_without_parts):
    assert is_plain(value) is is_without_parts


def test_a_value_is_shown_by_its_repr_cut_to_a_width():
    assert shown("abcdef", 8) == "'abcdef'"
    assert shown("abcdefg", 8) == "'abcd..."
    assert len(shown("a" * 100)) == 60
    assert shown(Refusing()) == "<Refusing>"


def test_a_value_without_repr_is_shown_by_its_size_or_type():
    assert shown(Unprintable()) == "<Unprintable>"
    assert shown(1 << 20_000) == "<int of 20001 bits>"


# One container.

OBJECTS = [Refusing() for _ in range(4)]
FIRST, SECOND, THIRD, FOURTH = OBJECTS


def found(container):
    return [(change.path, change.what, change.before, change.after) for change in container.changes()]


def identities(values):
    return [id(value) for value in values]


@pytest.mark.parametrize("kind", [list, deque, RefusingList])
def test_a_sequence_is_named_and_restored_by_position(kind):
    value = kind([FIRST, SECOND])
    container = Container("sizes", value)
    assert container.is_unchanged()
    assert [(path, id(part)) for path, part in container.parts()] == [("sizes[0]", id(FIRST)), ("sizes[1]", id(SECOND))]

    value[1] = THIRD
    value.append(FOURTH)

    assert not container.is_unchanged()
    first, second = container.changes()
    assert (first.path, first.what, first.before is SECOND, first.after is THIRD) == ("sizes[1]", "held", True, True)
    assert (second.path, second.before is MISSING, second.after is FOURTH) == ("sizes[2]", True, True)
    container.restore()
    assert container.is_unchanged()
    assert not found(container)


def test_a_removed_part_is_missing():
    value = [FIRST, SECOND]
    container = Container("sizes", value)

    del value[1]

    (change,) = container.changes()
    assert (change.path, change.before is SECOND, change.after is MISSING) == ("sizes[1]", True, True)
    assert not container.is_unchanged()


def test_a_set_is_one_value():
    value = {FIRST, SECOND}
    container = Container("names", value)
    assert not found(container)

    value.remove(SECOND)
    value.add(THIRD)

    (change,) = container.changes()
    assert (change.path, change.what) == ("names", "held")
    assert {*identities(change.before)} == {id(FIRST), id(SECOND)}
    assert {*identities(change.after)} == {id(FIRST), id(THIRD)}
    assert not container.is_unchanged()
    container.restore()
    assert container.is_unchanged()


def test_a_set_in_another_order_is_unchanged():
    """Numbers with equal hashes in a set of eight places: the first to enter comes first."""
    value = {0, 8}
    container = Container("sizes", value)
    assert list(value) == [0, 8]

    value.clear()
    value.update((8, 0))

    assert list(value) == [8, 0]
    assert container.is_unchanged()
    assert not found(container)


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_a_dict_is_named_and_restored_by_key_and_in_its_order(kind):
    value = kind(a=FIRST, b=SECOND)
    container = Container("cache", value)

    value["a"] = THIRD
    value["c"] = FOURTH
    changes = list(container.changes())

    assert [(change.path, change.what) for change in changes] == [("cache['a']", "held"), ("cache['c']", "held")]
    assert (changes[0].after is THIRD, changes[1].before is MISSING) == (True, True)
    container.restore()
    assert container.is_unchanged()
    value["a"] = value.pop("a")
    assert not container.is_unchanged()
    assert list(container.changes()) == [Change("cache", "order", ["a", "b"], ["b", "a"])]
    container.restore()
    assert list(value) == ["a", "b"]


def test_keys_of_the_user_are_never_compared():
    value = {FIRST: 1, SECOND: 2}
    container = Container("cache", value)
    assert container.is_unchanged()
    assert not found(container)

    value[THIRD] = value.pop(FIRST)

    assert not container.is_unchanged()
    removed, added = container.changes()
    assert (removed.path, removed.before, removed.after) == ("cache[<Refusing>]", 1, MISSING)
    assert (added.before, added.after) == (MISSING, 1)


def test_equal_keys_of_texts_and_numbers_are_the_same_though_other_objects():
    before, after = {1000: 1, "key": 2}, {10**3: 1, "".join("key"): 2}
    container = Container("cache", before)
    for key in list(before):
        del before[key]
    before.update(after)

    assert container.is_unchanged()
    before[1000.0] = before.pop(1000)
    assert not container.is_unchanged()


@pytest.mark.parametrize(("kind", "name"), [(Slotted, "plain"), (Slotted, "filled"), (Guarded, "held")])
def test_attributes_of_an_object_are_named_and_restored_past_its_class(kind, name):
    value = kind()
    container = Container("config", value)
    before = attributes_of(value)
    object.__setattr__(value, name, FIRST)
    object.__setattr__(value, "added", 1) if kind is Slotted else None

    changes = {change.path: change for change in container.changes()}

    assert changes.pop(f"config.{name}").after is FIRST
    assert [*changes] == (["config.added"] if kind is Slotted else [])
    container.restore()
    assert attributes_of(value) == before
    assert container.is_unchanged()


def test_the_outermost_object_has_an_empty_path():
    value = Slotted()
    container = Container("", value)
    value.plain = 3

    assert found(container) == [("plain", "held", 2, 3)]


def test_a_deleted_attribute_is_set_again():
    value = Slotted()
    container = Container("", value)
    del value.filled

    container.restore()

    assert value.filled == 1


class Cached:
    def __init__(self):
        self.number = 1

    @functools.cached_property
    def double(self):
        return 2 * self.number


def test_a_cached_property_that_was_read_is_no_change_but_one_that_was_replaced_is():
    value = Cached()
    container = Container("", value)
    assert value.double == 2
    assert not found(container)

    container = Container("", value)
    value.__dict__["double"] = 3

    assert found(container) == [("double", "held", 2, 3)]


def test_a_key_named_like_a_cached_property_is_a_change_in_a_dict():
    class CachedDict(dict):
        double = functools.cached_property(len)

    value = CachedDict()
    container = Container("cache", value)
    value["double"] = 1

    assert found(container) == [("cache['double']", "held", MISSING, 1)]


def test_functions_of_a_class_are_named_and_restored():
    class Kind:
        number, inner = 1, int

        def method(self):
            """Do nothing."""

        fixed, shared, prop = staticmethod(len), classmethod(len), property(len)

    method = Kind.method
    container = Container("Kind", Kind, "class")
    assert {"method", "fixed", "shared", "prop"} == functions_of(Kind).keys()

    Kind.method = print
    Kind.added = print
    Kind.number = 2

    assert found(container) == [
        ("Kind.method", "function", method, print),
        ("Kind.added", "function", MISSING, print),
    ]
    container.restore()
    assert (Kind.method, hasattr(Kind, "added"), Kind.number) == (method, False, 2)


def test_attributes_are_those_of_the_dict_and_the_slots_that_are_set():
    class Odd:
        __slots__ = ()

        @property
        def __dict__(self):
            raise RuntimeError

    class Empty:
        __slots__ = ("unset",)

    assert attributes_of(Slotted()) == {"filled": 1, "plain": 2}
    assert attributes_of(Empty()) == attributes_of(1) == attributes_of(Odd()) == {}


# Modules.


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("count", torch.zeros(1))
        self.sizes = [1, 2]


def saved(module):
    containers = Containers()
    containers.add_modules(module.named_modules())
    assert containers.are_unchanged()
    assert not list(containers.changes())
    return containers


def hook(*_):
    return None


class OtherLayer(Layer):
    pass


def rename_class(module):
    module.__class__ = OtherLayer


def reorder(module):
    module._modules["act"] = module._modules.pop("fc")


EDITS = {
    "attribute": (lambda it: setattr(it, "sizes", []), [("sizes", "held", "attribute")]),
    "new attribute": (lambda it: setattr(it, "more", 1), [("more", "held", "attribute")]),
    "parameter": (
        lambda it: setattr(it.fc, "weight", nn.Parameter(torch.ones(2, 2))),
        [("fc.weight", "held", "parameter")],
    ),
    "first parameter": (
        lambda it: it.register_parameter("own", nn.Parameter(torch.ones(1))),
        [("own", "held", "parameter")],
    ),
    "buffer": (lambda it: setattr(it, "count", torch.ones(1)), [("count", "held", "buffer")]),
    "module": (lambda it: setattr(it, "fc", nn.ReLU()), [("fc", "held", "module")]),
    "hook": (lambda it: it.register_forward_hook(hook), [("_forward_hooks", "held", "")]),
    "inner hook": (lambda it: it.fc.register_forward_hook(hook), [("fc._forward_hooks", "held", "")]),
    "class": (rename_class, [("", "class", "")]),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_change_of_a_module_is_named_and_restored(name):
    edit, expected = EDITS[name]
    module = Layer()
    state = {path: id(tensor) for path, tensor in module.state_dict(keep_vars=True).items()}
    containers = saved(module)

    edit(module)

    assert not containers.are_unchanged()
    assert [(change.path, change.what, change.role) for change in containers.changes()] == expected
    containers.restore()
    assert containers.are_unchanged()
    assert {path: id(tensor) for path, tensor in module.state_dict(keep_vars=True).items()} == state
    assert (type(module), module.sizes) == (Layer, [1, 2])


def test_another_order_of_layers_is_a_change():
    module = nn.Sequential(nn.ReLU(), nn.Tanh())
    containers = saved(module)

    module._modules["0"] = module._modules.pop("0")

    assert not containers.are_unchanged()
    assert list(containers.changes()) == [Change("", "order", ["0", "1"], ["1", "0"], "module")]
    containers.restore()
    assert [*module._modules] == ["0", "1"]


def test_another_order_of_attributes_is_no_change_to_name():
    module = Layer()
    containers = saved(module)

    module.training = module.__dict__.pop("training")

    assert not list(containers.changes())


def test_hooks_in_another_order_are_a_change():
    module = nn.ReLU()
    handles = [module.register_forward_hook(hook), module.register_forward_hook(nn.Module.eval)]
    containers = saved(module)

    module._forward_hooks[handles[0].id] = module._forward_hooks.pop(handles[0].id)

    (change,) = containers.changes()
    assert (change.path, list(change.before.values())) == ("_forward_hooks", [hook, nn.Module.eval])
    assert list(change.after.values()) == [nn.Module.eval, hook]


def test_code_of_a_graph_module_is_no_state_but_its_layers_and_attributes_are():
    module = fxcore.symbolic_trace(Layer().fc)
    containers = Containers()
    containers.add_modules([("gm", module)])
    module._new_code = 1
    module.recompile()
    assert containers.are_unchanged() is False  # the quick answer counts all names
    assert not list(containers.changes())

    module.number = 1
    weight = module.weight
    module.weight = nn.Parameter(torch.ones(2, 2))
    changes = {change.path for change in containers.changes()}
    containers.restore()

    assert changes == {"gm.number", "gm.weight"}
    assert not hasattr(module, "number")
    assert (module.weight is weight, module._new_code) == (True, 1)


def test_known_modules_and_containers_keep_their_first_contents():
    module, value = Layer(), [1]
    containers = saved(module)
    containers.add([Container("value", value)])
    assert containers.are_unchanged()
    module.sizes = []
    value.append(2)

    containers.add_modules(module.named_modules())
    containers.add([Container("again", value), Container("dict", module.__dict__)])

    assert not containers.are_unchanged()
    assert [container.path for container in containers.others_changed()] == ["value"]
    assert [change.path for change in containers.changes()] == ["sizes", "value[1]"]
    containers.restore()
    assert (module.sizes, value, containers.others_changed()) == ([1, 2], [1], [])


def test_modules_that_are_added_later_are_compared_too():
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    containers = saved(first)
    containers.add_modules([("first", first), ("second", second)])
    assert containers.are_unchanged()

    second.bias = None

    assert not containers.are_unchanged()
    assert [change.path for change in containers.changes()] == ["second.bias"]


def test_graph_modules_and_scripted_modules_keep_code_in_attributes():
    class Named(nn.Module):
        pass

    graph_like = type("GraphModule", (nn.Module,), {})

    assert is_graph_module(fxcore.symbolic_trace(nn.ReLU()))
    assert is_graph_module(graph_like())
    assert is_graph_module(torch.jit.script(nn.ReLU()))
    assert not is_graph_module(nn.ReLU())
    assert not is_graph_module(Named())


def test_a_number_that_is_not_itself_is_unchanged_as_long_as_it_is_one_object():
    value = [math.nan]

    assert Container("nan", value).is_unchanged()
