"""Each call of a graph asks for the values beside its inputs that the trace read. See also guided_cases/beside."""

from __future__ import annotations

import contextvars
import copy
import enum
import functools
import gc
import itertools
import os
import pickle
import re
import sys
import threading
import types
import weakref
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy
import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError, TraceError

X = torch.ones(2, 3)
SHIFT = 1.0
CALLS = 0
IN_CONTEXT = contextvars.ContextVar("IN_CONTEXT", default=2)
IN_THREAD = threading.local()
IN_THREAD.scale = 2


@dataclass
class Settings:
    scale: float = 2.0
    unread: float = 1.0


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings = Settings()
        self.layer = nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.settings.scale


def traced(model, *inputs, **options):
    return fxcore.symbolic_trace(model, example_inputs=inputs or (X,), **options)


def message_of(graph_module, *inputs):
    with pytest.raises(GuardError) as caught:
        graph_module(*(inputs or (X,)))
    return str(caught.value)


def texts_of(graph_module):
    outer = graph_module.graph.guards.outer
    return [each.text for each in outer.values] if outer else []


WAYS = {
    "call": lambda g: g,
    "forward": lambda g: g.forward,
    "check_guards": lambda g: g.check_guards,
    "Interpreter": lambda g: fxcore.Interpreter(g).run,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "to_torch": fxcore.interop.to_torch,
    "from_torch": lambda g: fxcore.interop.from_torch(fxcore.interop.to_torch(g)),
    "traced again": fxcore.symbolic_trace,
    "compile": lambda g: torch.compile(g, backend="eager", fullgraph=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_run_a_graph_refuses_a_changed_attribute_and_takes_it_back(way):
    model = Scaled()
    graph_module = traced(model)
    call = WAYS[way](graph_module)
    call(X)

    model.settings.scale = 3.0
    assert graph_module.supports(X) is False
    with pytest.raises(GuardError):
        call(X)

    model.settings.scale = 2.0
    call(X)
    assert graph_module.supports(X) is True


def test_the_message_names_attribute_values_and_line():
    model = Scaled()
    graph_module = traced(model)

    model.settings = Settings(scale=3.0)

    message = message_of(graph_module)
    assert message.startswith(
        "the graph of Scaled does not hold any more, because a value beside its inputs has changed"
    )
    assert "self.settings: it is Settings(scale=3.0), and was Settings(scale=2.0); read at " in message
    assert "test_outer_reads.py:" in message
    assert ": return self.layer(x) * self.settings.scale\n" in message
    assert "Trace the model again, put the value back, or pass it as an input" in message


def test_prints_code_and_guards_do_not_show_outer_values():
    graph_module = traced(Scaled())

    assert texts_of(graph_module) == ["self.settings", "self.settings.scale"]
    assert list(graph_module.graph.guards) == []
    assert "settings" not in graph_module.print_readable(print_output=False)


def test_a_pickle_asks_for_nothing_beside_its_inputs():
    model = Scaled()
    loaded = pickle.loads(pickle.dumps(traced(model)))

    model.settings.scale = 3.0

    assert torch.equal(loaded(X), model.layer(X) * 2)


def test_a_graph_does_not_keep_its_model_alive():
    model = Scaled()
    graph_module = traced(model)
    kept = weakref.ref(model), weakref.ref(model.settings)

    del model
    gc.collect()

    assert [each() for each in kept] == [None, None]
    assert graph_module(X).shape == (2, 3)


def test_unread_and_written_attributes_change_freely():
    model = Scaled()
    graph_module = traced(model)

    model.settings.unread = 5.0
    model.calls = 7
    model.settings = Settings(unread=6.0)  # gives the same answers

    assert graph_module.supports(X) is True


def test_without_enforcement_nothing_is_asked():
    model = Scaled()
    graph_module = traced(model, enforce_guards=False)

    model.settings.scale = 3.0

    assert torch.equal(graph_module(X), model.layer(X) * 2)


@pytest.mark.parametrize("other", [2, True, 3.0, "2.0", None, [2.0]])
def test_a_number_of_another_type_is_another_number(other):
    model = Scaled()
    model.settings.scale = 1.0 if other is True else 2.0
    graph_module = traced(model)

    model.settings.scale = other

    assert graph_module.supports(X) is False


def test_equal_values_are_the_same_and_nan_is_the_same_as_nan():
    model = Scaled()
    for value, same in ((1e300, float("1e300")), (float("nan"), float("nan"))):
        model.settings.scale = value
        graph_module = traced(model)
        model.settings.scale = same
        assert graph_module.supports(X) is True


def test_a_refused_call_writes_nothing():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.rate = 0.5

        def forward(self, x):
            self.seen.add_(1)
            return torch.nn.functional.dropout(x, self.rate)

    model = Counting()
    graph_module = traced(model)
    model.rate = 0.25
    generator = torch.get_rng_state()

    message_of(graph_module)

    assert model.seen == 0
    assert torch.equal(torch.get_rng_state(), generator)


def shifted(x):
    return x + SHIFT


def counted(x):
    global CALLS
    CALLS += 1
    return x * 2


@pytest.fixture
def _other_shift():
    yield
    globals().update(SHIFT=1.0)


@pytest.mark.usefixtures("_other_shift")
def test_globals_of_a_function_are_asked_and_named_with_their_line():
    graph_module = traced(shifted)

    globals().update(SHIFT=4.0)

    message = message_of(graph_module)

    assert "SHIFT: it is 4.0, and was 1.0; read at " in message
    assert ": return x + SHIFT\n" in message


def test_a_trace_puts_back_a_global_that_the_code_assigns():
    graph_module = traced(counted)

    assert CALLS == 0
    assert graph_module.graph.guards.notes == ("forward assigns CALLS, which the graph does not",)


class OwnShift(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.SHIFT, self.shift = 2.0, shift

    def forward(self, x):
        return self.shift(x + self.SHIFT)  # another SHIFT than the global one


@pytest.mark.usefixtures("_other_shift")
@pytest.mark.parametrize(("shift", "is_supported"), [(torch.neg, True), (shifted, False)])
def test_an_attribute_is_no_global_of_the_same_name(shift, is_supported):
    graph_module = traced(OwnShift(shift))

    globals().update(SHIFT=4.0)

    assert graph_module.supports(X) is is_supported


def test_variables_of_the_environment_are_asked(monkeypatch):
    monkeypatch.delenv("FXCORE_TEST_SWITCH", raising=False)
    graph_module = traced(lambda x: x + 1 if os.environ.get("FXCORE_TEST_SWITCH") else x)

    monkeypatch.setenv("FXCORE_TEST_SWITCH", "on")

    assert "os.environ['FXCORE_TEST_SWITCH']: it is 'on', and was missing; read at " in message_of(graph_module)


@pytest.mark.skipif(not os.supports_bytes_environ, reason="the environment has no bytes here")
def test_variables_of_the_environment_are_asked_in_bytes(monkeypatch):
    monkeypatch.setenv("FXCORE_TEST_SWITCH", "on")
    graph_module = traced(lambda x: x + 1 if os.environb.get(b"FXCORE_TEST_SWITCH") else x)

    monkeypatch.delenv("FXCORE_TEST_SWITCH")

    assert "os.environ['FXCORE_TEST_SWITCH']: it is missing, and was 'on'; read at " in message_of(graph_module)


def test_a_dict_can_stand_in_for_the_environment(monkeypatch):
    monkeypatch.setattr(os, "environ", {"FXCORE_TEST_SWITCH": "on"})

    assert traced(lambda x: x + len(os.environ))(X).equal(X + 1)


def test_variables_are_written_and_deleted_by_a_model(monkeypatch):
    monkeypatch.setenv("FXCORE_TEST_SWITCH", "on")

    def switched(x):
        os.environ["FXCORE_TEST_SWITCH"] = "off"
        del os.environ["FXCORE_TEST_SWITCH"]
        return x + 1

    assert traced(switched)(X).equal(X + 1)


def test_the_class_of_the_environment_stays_as_it_is_in_a_trace():
    # Python 3.13 calls the old `[]` of a class whose methods were replaced 1000 times.
    before = vars(type(os.environ))["__getitem__"]

    graph_module = traced(lambda x: x + int(vars(type(os.environ))["__getitem__"] is before))

    assert graph_module(X).equal(X + 1)


def test_the_classes_are_as_they_were_after_a_trace():
    class Base(nn.Module):
        scale = 2.0

        def forward(self, x):
            type(self).scale = self.scale  # an assignment to the class
            return x * self.scale

    before = dict(vars(Base)), dict(vars(Settings)), dict(vars(Scaled))

    traced(Base()), traced(Scaled())

    assert before == (dict(vars(Base)), dict(vars(Settings)), dict(vars(Scaled)))


def test_objects_with_slots_and_without_weak_references_are_asked():
    class Slots:
        __slots__ = ("scale",)

    model = Scaled()
    model.settings = Slots()
    model.settings.scale = 2.0
    graph_module = traced(model)

    model.settings.scale = 3.0

    assert "self.settings.scale: it is 3.0, and was 2.0" in message_of(graph_module)


def test_a_leaf_module_reads_its_attributes_in_each_call():
    model = nn.Sequential(nn.LeakyReLU(0.5))
    graph_module = traced(model)

    model[0].negative_slope = 0.25

    assert torch.equal(graph_module(-X), model(-X))


CACHE: dict = {}


def cached(x):
    if x.dim() not in CACHE:
        CACHE[x.dim()] = 2.0
    return x * CACHE[x.dim()]


def test_a_cache_may_get_new_items_and_no_other_values():
    CACHE[2] = 2.0
    graph_module = traced(cached)

    CACHE[3] = 3.0
    assert graph_module.supports(X) is True
    CACHE[2] = 4.0
    assert graph_module.supports(X) is False
    CACHE.clear()


def test_an_object_whose_metaclass_refuses_attributes_is_compared_as_a_whole():
    class Refusing(type):
        def __setattr__(cls, name, value):
            raise RuntimeError("no")

    class Held(metaclass=Refusing):
        def __init__(self):
            self.scale = 2.0

    model = Scaled()
    model.settings = Held()
    graph_module = traced(model)

    assert torch.equal(graph_module(X), model.layer(X) * 2)
    model.settings.scale = 3.0
    assert graph_module.supports(X) is False


def test_a_name_that_a_class_keeps_itself_is_not_watched():
    class Named:
        size = 2

    named = Named()
    named.__name__ = "scale"

    graph_module = fxcore.symbolic_trace(
        lambda x: x * named.size if named.__name__ else x, example_inputs=(torch.ones(3),)
    )

    assert torch.equal(graph_module(torch.ones(3)), torch.full((3,), 2.0))
    assert Named.__name__ == "Named"


class AsksItself:
    """Reads an attribute of its own at each read, as configurations of transformers do."""

    names = MappingProxyType({"width": "size"})

    def __init__(self):
        self.size = 3

    def __getattribute__(self, name):
        names = super().__getattribute__("names")
        return super().__getattribute__(names.get(name, name))


def test_an_object_that_reads_itself_at_each_read_can_be_watched():
    class Configured(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = AsksItself()

        def forward(self, x):
            return x * self.config.width

    model = Configured()
    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.ones(2))

    assert torch.equal(graph_module(torch.ones(2)), torch.full((2,), 3.0))
    model.config.size = 4
    with pytest.raises(GuardError, match=r"size: it is 4, and was 3"):
        graph_module(torch.ones(2))


class Slotted:
    __slots__ = ("scale", "shift")


class Holder:
    pass


def steps(holder, x):
    """Write, delete and read attributes; each second deletion fails."""
    holder.shift = 4.0
    del holder.shift
    missing = [hasattr(holder, "shift")]
    try:
        del holder.shift
    except AttributeError as error:
        missing.append("shift" in str(error))
    holder.shift = 5.0
    return x * holder.scale + holder.shift + sum(missing)


@pytest.mark.parametrize("kind", [Slotted, Holder])
def test_an_attribute_that_the_code_writes_and_deletes_is_as_it_was_after_the_trace(kind):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.holder = kind()
            self.holder.scale, self.holder.shift = 2.0, 3.0

        def forward(self, x):
            return steps(self.holder, x)

    model = Model()

    graph_module = traced(model)

    assert (model.holder.scale, model.holder.shift) == (2.0, 3.0)
    assert torch.equal(graph_module(X), X * 2 + 6)
    model.holder.shift = 7.0
    assert torch.equal(graph_module(X), X * 2 + 6)
    model.holder.scale = 8.0
    assert "holder.scale: it is 8.0, and was 2.0" in message_of(graph_module)


@pytest.mark.parametrize(("depth", "is_asked"), [(7, True), (8, True), (9, False), (12, False)])
def test_values_are_asked_up_to_eight_objects_below_the_model(depth, is_asked):
    class Held: ...

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = place = Held()
            for _ in range(depth - 1):
                place.held = Held()
                place = place.held
            place.factor = 2.0

        def forward(self, x):
            place = self.held
            while not hasattr(place, "factor"):
                place = place.held
            return x * place.factor

    net = Net()
    graph_module = traced(net, torch.ones(2))
    place = net.held
    while not hasattr(place, "factor"):
        place = place.held
    place.factor = 3.0

    if is_asked:
        assert "factor" in message_of(graph_module, torch.ones(2))
    else:
        assert torch.equal(graph_module(torch.ones(2)), torch.full((2,), 2.0))


class Defaults:
    factor = 2


class Inherits(Defaults):
    pass


INHERITS = Inherits()


def scaled_by_a_default(x):
    return x * INHERITS.factor


def test_an_attribute_of_a_base_class_is_named_by_the_base_class(monkeypatch):
    graph_module = traced(scaled_by_a_default)

    monkeypatch.setattr(Defaults, "factor", 3)

    assert "Defaults.factor: it is 3, and was 2; read at " in message_of(graph_module)


class Based(nn.Module):
    factor = 2.0

    def forward(self, x):
        return x * getattr(self, "factor", 1.0)


@pytest.mark.parametrize(("kind", "was"), [("Based", "2.0"), ("Derived", "missing")])
def test_an_attribute_that_a_class_inherits_is_asked_of_each_class_up_to_the_one_that_has_it(kind, was, monkeypatch):
    derived = type("Derived", (Based,), {})
    model = derived()
    graph_module = fxcore.symbolic_trace(model, example_inputs=X)

    monkeypatch.setattr(Based if kind == "Based" else derived, "factor", 3.0, raising=False)

    assert f"{kind}.factor: it is 3.0, and was {was}; read at " in message_of(graph_module)


class OfItsOwnDtype(nn.Module):
    """A module with the property that libraries of models have."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(2))

    @property
    def dtype(self):
        return next(self.parameters()).dtype

    def forward(self, x):
        return self.layer(x.to(self.dtype)) * len([name for name, _ in self.named_buffers(prefix="of")])


def test_the_dtype_of_a_parameter_that_was_listed_is_asked():
    model = OfItsOwnDtype()
    graph_module = traced(model)
    assert torch.equal(graph_module(X), model(X))

    model.double()

    assert "self.layer.weight.dtype: it is torch.float64, and was torch.float32; read at " in message_of(graph_module)
    assert "return next(self.parameters()).dtype" in message_of(graph_module)
    model.float()
    assert torch.equal(graph_module(X), model(X))
    assert "self.seen.dtype" in texts_of(graph_module)
    assert nn.Module.named_parameters.__module__ == "torch.nn.modules.module"


def test_an_attribute_that_an_except_clause_expects_to_be_missing_is_asked():
    class Maybe(nn.Module):
        def forward(self, x):
            try:
                return x * self.factor
            except AttributeError:
                return x

    model = Maybe()
    graph_module = traced(model)
    assert torch.equal(graph_module(X), X)

    model.factor = 3

    assert "self.factor: it is 3, and was missing" in message_of(graph_module)


@pytest.mark.parametrize(
    ("held", "changed", "shown"),
    [
        (numpy.array([1.0, 2.0]), numpy.array([5.0, 2.0]), "it is '[5.0, 2.0] of float64'"),
        (numpy.float32(2), numpy.float32(5), "it is '5.0 of float32'"),
    ],
    ids=["array", "number"],
)
def test_numbers_of_numpy_in_attributes_are_asked(held, changed, shown):
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = held

        def forward(self, x):
            return x + float(self.shift.sum())

    model = Shifted()
    graph_module = traced(model)
    assert torch.equal(graph_module(X), model(X))

    model.shift = changed

    assert shown in message_of(graph_module)


def of_the_context(x):
    return x * IN_CONTEXT.get()


def of_the_thread(x):
    return x * IN_THREAD.scale


def of_itself(x):
    return x * of_itself.scale


def of_an_import(x):
    from settings_of_a_test import SCALE  # type: ignore[import-not-found]  # the test makes the module

    return x * SCALE


def set_scale(scale):
    IN_CONTEXT.set(scale)
    IN_THREAD.scale = of_itself.scale = sys.modules["settings_of_a_test"].SCALE = scale


@pytest.mark.parametrize("function", [of_the_context, of_the_thread, of_itself, of_an_import])
def test_a_value_that_a_function_finds_elsewhere_is_asked(function, monkeypatch):
    monkeypatch.setitem(sys.modules, "settings_of_a_test", types.ModuleType("settings_of_a_test"))
    set_scale(2)
    graph_module = traced(function)
    assert torch.equal(graph_module(X), 2 * X)

    set_scale(3)

    assert "since the trace" in message_of(graph_module)
    assert "3" in message_of(graph_module)
    set_scale(2)
    assert torch.equal(graph_module(X), 2 * X)


class Numbered(nn.Module):
    def __init__(self):
        super().__init__()
        self.numbers = itertools.count(1)

    def forward(self, x):
        return x * next(self.numbers)


def test_an_iterator_of_the_model_is_refused_before_it_moves():
    model = Numbered()

    with pytest.raises(TraceError, match=r"^the iterator self.numbers gives another item in each call.* at .*\nKeep"):
        fxcore.Tracer().trace(model, example_inputs=(X,))

    assert next(model.numbers) == 1


class Held:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Speed(enum.Enum):
    FAST = 2


class Model(nn.Module):
    shared = 4.0
    table: ClassVar = {"a": 1.0}
    negated = staticmethod(torch.neg)

    def __init__(self, **attributes):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("offset", torch.ones(3))
        for name, value in attributes.items():
            setattr(self, name, value)


def model_with(forward, **attributes):
    return type("Model", (Model,), {"forward": forward})(**attributes)


def nested(depth, value):
    for _ in range(depth):
        value = [value]
    return value


def innermost(value):
    while isinstance(value, list):
        value = value[0]
    return value


def defaulted(x, scale=2.0, *, shift=1.0):
    return x * scale + shift


def enclosing(scale, held):
    def inner(x):
        return x * scale * held.scale

    return inner


class Constants:
    scale, unread = 2.0, 3.0

    @property
    def through_a_property(self):
        return self.scale


CONSTANTS = Constants()
SETTINGS_MODULE = types.ModuleType("settings_of_this_test")
vars(SETTINGS_MODULE).update(SCALE=5.0, UNREAD=6.0)


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (model_with(lambda self, x: x * self.layer.in_features), ["self.layer.in_features"]),
        (model_with(lambda self, x: x * getattr(self, "scale", 2.0)), ["self.scale"]),
        (model_with(lambda self, x: x * 2 if hasattr(self, "scale") else x), ["self.scale"]),
        (model_with(lambda self, x: x * self.scale, scale=2.0, unread=3.0), ["self.scale"]),
        (
            model_with(lambda self, x: x * innermost(self.held).scale, held=nested(7, Held(scale=2.0))),
            ["Held.scale", "self.held"],
        ),
        (model_with(lambda self, x: x * innermost(self.held).scale, held=nested(8, Held(scale=2.0))), ["self.held"]),
        (
            model_with(lambda self, x: x * self.held["a"][0].scale, held={"a": (Held(scale=2.0),)}),
            ["Held.scale", "self.held"],
        ),
        (model_with(lambda self, x: x * self.shared), ["Model.shared", "Model.shared", "self.shared"]),
        (model_with(lambda self, x: x * self.table["a"]), ["Model.table", "Model.table", "self.table"]),
        (model_with(lambda self, x: x * self.negated(self.offset)), []),
        (model_with(lambda self, x: x * 2 if self.speed is Speed.FAST else x, speed=Speed.FAST), ["self.speed"]),
        (model_with(lambda self, x: x * self.speed.value, speed=Speed.FAST), ["self.speed"]),
        (model_with(lambda self, x: x * 2 if self.training else x), []),
        (
            model_with(lambda self, x: self.called(x), called=lambda x: x * CONSTANTS.scale),
            ["CONSTANTS", "CONSTANTS.scale", "Constants.scale", "self.called"],
        ),
        (lambda x: x * CONSTANTS.through_a_property, ["CONSTANTS", "CONSTANTS.scale", "Constants.scale"]),
        (lambda x: x * Constants.scale, ["Constants.scale"]),
        (defaulted, ["defaulted.__defaults__", "defaulted.__kwdefaults__"]),
        ((lambda operation, scale: lambda x: operation(x) * scale)(nn.functional.relu, 2.0), ["<lambda>: scale"]),
        (enclosing(2.0, Held(scale=3.0)), ["inner: held", "inner: held.scale", "inner: scale"]),
        (lambda x: x * SETTINGS_MODULE.SCALE, ["SETTINGS_MODULE.SCALE"]),
        (lambda x: x * torch.pi, []),
        (
            model_with(lambda self, x: self.inner(x) * 2, inner=Scaled()),
            ["self.inner.settings", "self.inner.settings.scale"],
        ),
    ],
)
def test_a_graph_asks_for_the_values_that_its_program_reads_and_for_no_others(function, texts):
    graph_module = traced(function)

    assert sorted(texts_of(graph_module)) == texts
    assert torch.equal(graph_module(X), function(X))


def test_a_graph_in_a_model_keeps_its_own_questions():
    inner = traced(model_with(lambda self, x: x * self.scale, scale=2.0))

    graph_module = traced(model_with(lambda self, x: self.inner(x) + 1, inner=inner))

    assert texts_of(graph_module) == ["self.scale"]


def test_an_attribute_that_the_program_writes_or_deletes_is_not_asked():
    def forward(self, x):
        self.count += 1
        x = x * self.count * self.factor
        del self.factor
        return x

    assert texts_of(traced(model_with(forward, count=1, factor=2))) == []


def test_an_attribute_that_the_program_writes_before_it_reads_it_is_not_asked():
    def forward(self, x):
        self.count = 5
        return x * self.count

    model = model_with(forward, count=1)
    graph_module = traced(model)

    assert texts_of(graph_module) == []
    assert torch.equal(graph_module(X), X * 5)


class WithTensors:
    weight = torch.full((3,), 2.0)
    scale = 3.0
    doubled = staticmethod(lambda x: x * 2)


def test_tensors_and_functions_of_a_class_are_not_asked_and_its_numbers_are():
    graph_module = traced(lambda x: WithTensors.doubled(x) * WithTensors.weight * WithTensors.scale)

    assert texts_of(graph_module) == ["WithTensors.scale"]
    assert torch.equal(graph_module(X), X * 12)


class Outside(nn.Module):
    """A model beside the traced one."""

    def __init__(self):
        super().__init__()
        self.factor, self.layer = 2.0, nn.Linear(3, 3)
        self.layer.factor = 3.0


def factor_of(model):
    def function(x):
        return x * model.factor * model.layer.factor

    return function


class HoldsAFunction(Outside):
    def __init__(self, hold):
        super().__init__()
        self.held = hold(self)

    def bound(self, x):
        return x * self.factor * self.layer.factor

    def forward(self, x):
        held = self.held
        while isinstance(held, (list, dict)):
            held = held[0]
        return held(x)


OUTSIDE = Outside()


@pytest.mark.parametrize(
    ("function", "model", "text"),
    [
        (lambda x: x * OUTSIDE.factor * OUTSIDE.layer.factor, OUTSIDE, "OUTSIDE"),
        (factor_of(OUTSIDE), OUTSIDE, "function: model"),
        (model_with(lambda self, x: self.called(x), called=factor_of(OUTSIDE)), OUTSIDE, "function: model"),
        *(
            (model, model, "self")
            for model in map(
                HoldsAFunction,
                (
                    factor_of,
                    lambda model: model.bound,
                    lambda model: [factor_of(model)],
                    lambda model: {0: model.bound},
                    lambda model: functools.partial(functools.partial(model.bound)),
                ),
            )
        ),
    ],
)
def test_attributes_of_models_that_a_held_function_reads_are_asked_again(function, model, text):
    graph_module = traced(function)
    own = [each for each in texts_of(graph_module) if "factor" in each]
    assert sorted(own) == [f"{text}.factor", f"{text}.layer.factor"]

    model.layer.factor = 5.0
    try:
        with pytest.raises(GuardError, match=r"layer\.factor: it is 5\.0, and was 3\.0"):
            graph_module(X)
    finally:
        model.layer.factor = 3.0
    assert torch.equal(graph_module(X), function(X))


class Calls(Held):
    def __call__(self, x):
        return self.run(x)

    def run(self, x):
        return x * self.model.layer.factor


def times(model, x):
    return x * model.layer.factor


class HoldsAModel(nn.Module):
    def __init__(self, place):
        super().__init__()
        self.held = Held(model=place) if place is not None else None

    def forward(self, x):
        return times(self.held.model, x)


MODELS, BY_NAME, HELD = [Outside()], {"one": Outside()}, Held(model=Outside())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda model: lambda x: times(model, x), "<lambda>: model"),
        (lambda model: functools.partial(times, model), "times: args[0]"),
        (lambda model: Calls(model=model), "Calls.model"),
        (lambda model: Calls(model=model).run, "Calls.model"),
        (HoldsAModel, "self.held.model"),
    ],
)
def test_models_in_other_places_are_asked_again(make, text):
    model = Outside()
    function = make(model)
    graph_module = traced(function)

    model.layer.factor = 5.0
    with pytest.raises(GuardError, match=rf"{re.escape(text)}\.layer\.factor: it is 5\.0, and was 3\.0"):
        graph_module(X)
    model.layer.factor = 3.0
    assert torch.equal(graph_module(X), function(X))


@pytest.mark.parametrize(
    ("function", "model", "text"),
    [
        (lambda x: x * MODELS[0].factor, MODELS[0], "MODELS[0].factor"),
        (lambda x: x * BY_NAME["one"].factor, BY_NAME["one"], "BY_NAME['one'].factor"),
        (lambda x: x * HELD.model.factor, HELD.model, "HELD.model.factor"),
    ],
)
def test_a_model_in_a_global_is_named_by_its_place(function, model, text):
    graph_module = traced(function)

    model.factor = 4.0
    try:
        with pytest.raises(GuardError, match=rf"{re.escape(text)}: it is 4\.0, and was 2\.0"):
            graph_module(X)
    finally:
        model.factor = 2.0


def test_the_mode_of_another_model_is_asked_again():
    model = Outside()
    graph_module = traced(lambda x: x * 2 if model.layer.training else x)
    assert torch.equal(graph_module(X), X * 2)

    model.eval()
    with pytest.raises(GuardError, match=r"model\.layer\.training: it is False, and was True"):
        graph_module(X)


class NoText:
    """A key whose text nobody may ask for."""

    def __repr__(self):
        raise AssertionError


def test_containers_in_themselves_and_keys_without_text_are_taken_as_they_are():
    inside, by_object = [2.0], {NoText(): Held(scale=2.0)}
    inside.append(inside)

    graph_module = traced(lambda x: x * inside[0] * next(iter(by_object.values())).scale)

    assert torch.equal(graph_module(X), X * 4)
    next(iter(by_object.values())).scale = 3.0
    with pytest.raises(GuardError, match=r"Held\.scale: it is 3\.0, and was 2\.0"):
        graph_module(X)
