"""A module is put back to what it was, whatever a call did to it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy
import pytest
import torch
from torch import nn

import fxcore
from fxcore.state.containers import Containers
from fxcore.state.held_state import HeldState
from fxcore.state.snapshot import Snapshot, globals_kept, state_kept


class Holder(nn.Module):
    """Has state of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("kept", torch.zeros(2))
        self.register_buffer("fleeting", torch.zeros(2), persistent=False)
        self.plain = torch.zeros(2)
        self.history = [1]
        self.inner = nn.BatchNorm1d(2)


def _write_data(holder: Holder) -> None:
    holder.weight.data.mul_(3)


def _write_buffer(holder: Holder) -> None:
    holder.fleeting += 1


def _write_nan(holder: Holder) -> None:
    holder.kept.fill_(float("nan"))


def _write_plain(holder: Holder) -> None:
    holder.plain.add_(1)


def _write_inner(holder: Holder) -> None:
    holder.inner(torch.rand(4, 2))


def _resize(holder: Holder) -> None:
    holder.kept.resize_(5)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_write_data, "weight"),
        (_write_buffer, "fleeting"),
        (_write_nan, "kept"),
        (_write_plain, "plain"),
        (_write_inner, "inner.running_mean"),
        (_resize, "kept"),
    ],
)
def test_a_value_written_in_place_is_noticed_and_put_back(change, name):
    holder = Holder()
    tensors = {state.name: state.tensor for state in HeldState(holder).tensors}
    values = {key: tensor.detach().clone() for key, tensor in tensors.items()}
    snapshot = Snapshot(holder)

    change(holder)
    noticed = snapshot.compare().changed
    snapshot.restore()

    assert id(tensors[name]) in noticed
    assert all(torch.equal(tensors[key], value) for key, value in values.items())
    assert {state.name: state.tensor for state in HeldState(holder).tensors} == tensors
    assert snapshot.compare().changed == set()


def test_what_was_bound_added_deleted_or_switched_is_put_back():
    holder = Holder()
    kept, weight = holder.kept, holder.weight
    snapshot = Snapshot(holder)

    holder.kept = torch.ones(7)
    holder.weight = nn.Parameter(torch.zeros(1))
    holder.extra = 3
    holder.history.append(2)
    holder.inner.eval()
    del holder.plain
    holder.register_buffer("more", torch.zeros(1))
    weight.grad = torch.ones(3)
    weight.requires_grad_(False)
    snapshot.restore()

    assert holder.kept is kept
    assert holder.weight is weight
    assert not hasattr(holder, "extra")
    assert not hasattr(holder, "more")
    assert holder.history == [1]
    assert holder.inner.training
    assert torch.equal(holder.plain, torch.zeros(2))
    assert weight.grad is None
    assert weight.requires_grad
    assert holder.state_dict().keys() == Holder().state_dict().keys()


def test_one_restore_after_another_knows_the_first_state():
    holder = Holder()
    snapshot = Snapshot(holder)

    for _ in range(2):
        _write_buffer(holder)
        snapshot.restore()

    assert torch.equal(holder.fleeting, torch.zeros(2))


def test_a_buffer_that_a_forward_made_part_of_autograds_graph_is_a_leaf_again():
    holder = Holder()
    snapshot = Snapshot(holder)

    holder.kept.add_(holder.weight[:2])
    snapshot.restore()

    assert holder.kept.is_leaf
    assert not holder.kept.requires_grad


def test_gradients_that_were_there_before_keep_their_values():
    holder = Holder()
    holder.weight.sum().backward()
    gradient = holder.weight.grad
    snapshot = Snapshot(holder)

    (holder.weight * 5).sum().backward()
    snapshot.restore()

    assert holder.weight.grad is gradient
    assert torch.equal(gradient, torch.ones(3))


def test_looking_at_versions_alone_misses_a_write_that_reading_finds():
    holder = Holder()
    snapshot = Snapshot(holder)
    _write_data(holder)

    assert snapshot.compare(trust_versions=True).changed == set()
    thorough = snapshot.compare()
    assert thorough.changed == {id(holder.weight)}
    assert thorough.has_uncounted_writes
    with torch.no_grad():
        holder.weight.add_(1)
    assert snapshot.compare(trust_versions=True).changed == {id(holder.weight)}
    assert not snapshot.compare().has_uncounted_writes


def test_what_holds_the_same_objects_is_told_without_another_walk():
    holder = Holder()
    snapshot = Snapshot(holder)

    assert snapshot.state_now(holder, snapshot.compare()) is snapshot.state_of(holder)
    holder.kept = torch.ones(2)
    assert snapshot.state_now(holder, snapshot.compare()) is not snapshot.state_of(holder)


def test_a_parameter_without_a_shape_is_listed_and_not_copied():
    model = nn.Sequential(nn.LazyLinear(3))
    snapshot = Snapshot(model)

    assert snapshot.state_of(model).lazy == [("weight", model[0]), ("bias", model[0])]
    assert snapshot.changes() == []
    snapshot.restore()


def test_what_is_no_module_has_no_state():
    snapshot = Snapshot(lambda x: x)

    assert snapshot.compare().changed == set()
    snapshot.restore()


def model() -> Any:
    made: Any = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    made.history, made.names, made.table, made.none = [1], {"a"}, {"k": 1}, {}
    made.total = torch.ones(1)
    return made


def saved(root: nn.Module) -> Containers:
    kept = Containers()
    state = HeldState(root)
    kept.add_modules(state.modules)
    kept.add(state.containers)
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
    assert kept.are_unchanged()
    assert list(kept.changes()) == []

    change(made)
    assert not kept.are_unchanged()
    assert any(name in change.path for change in kept.changes())
    kept.restore()

    assert kept.are_unchanged()
    assert list(vars(made)) == list(before)
    assert (made.history, made.names, made.table, made.none) == ([1], {"a"}, {"k": 1}, {})


def test_the_compiled_code_of_a_graph_module_is_left_alone():
    graph_module = fxcore.symbolic_trace(model())
    kept = saved(graph_module)

    graph_module._code_of_now, graph_module.note = 1, 1
    graph_module.eval()
    kept.restore()

    assert graph_module._code_of_now == 1
    assert not hasattr(graph_module, "note")
    assert graph_module.training


@pytest.mark.parametrize(
    ("options", "restored"), [({}, True), ({"settings": True}, True), ({"settings": False}, False)]
)
def test_settings_of_the_process_are_put_back_unless_told_not_to(options, restored):
    before = torch.get_default_dtype()
    snapshot = Snapshot.of_globals(**options)
    torch.set_default_dtype(torch.float64)
    try:
        snapshot.restore()
        assert (torch.get_default_dtype() is before) is restored
    finally:
        torch.set_default_dtype(before)


class Config:
    def __init__(self, size):
        self.size = size


class Furnished(nn.Module):
    """Has state of every kind beside tensors."""

    shared: ClassVar = {"a": 1}

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.ones(2))
        self.plain, self.nested = torch.ones(2), [torch.ones(1)]
        self.history, self.config = [1], Config(1)
        self.generator, self.array, self.numbers = torch.Generator(), numpy.zeros(2), numpy.random.default_rng(0)

    def forward(self, x):
        return x


def changed_furniture(model):
    model.plain, model.nested[0], model.extra = torch.zeros(2), torch.zeros(1), torch.ones(1)
    model.count.add_(1)
    model.weight.grad = torch.ones(2)
    model.history.append(2)
    model.config.size = 2
    model.array[0] = 1
    model.numbers.random()
    torch.rand(1, generator=model.generator)
    torch.rand(1)


@pytest.fixture
def furnished():
    """Return a module, whose class is as before afterwards."""
    before = dict(vars(Furnished))
    yield Furnished()
    for name in vars(Furnished).keys() - before.keys():
        delattr(Furnished, name)
    Furnished.shared, Furnished.forward = before["shared"], before["forward"]


def test_each_change_is_named_once_tensors_first(furnished):
    before = Snapshot(furnished)
    changed_furniture(furnished)

    assert [(change.path, change.what, change.role) for change in before.changes()] == [
        ("weight", "grad", "parameter"),
        ("count", "values", "buffer"),
        ("plain", "held", "attribute"),
        ("nested[0]", "held", "attribute"),
        ("extra", "held", "attribute"),
        ("history[1]", "held", ""),
        ("config.size", "held", ""),
        ("generator", "values", "generator"),
        ("array", "values", "array"),
        ("numbers", "values", "generator"),
    ]
    before.restore()
    assert list(before.changes()) == []


def test_of_the_changes_beside_modules_those_that_a_trace_makes_itself_are_left_out(furnished):
    size, other = 1, [1]

    def function():
        return size, other

    before = Snapshot(furnished)
    before.include_code(furnished, [function])
    changed_furniture(furnished)
    size = 2
    other.append(2)
    Furnished.shared, Furnished.added = {"a": 2}, 3
    Furnished.forward = lambda self, x: x

    found = [(change.path, change.what) for change in before.changes_beside_modules()]

    assert sorted(found) == [
        ("Furnished.added", "held"),
        ("Furnished.shared", "held"),
        ("function.other[1]", "held"),
        ("function.size", "held"),
        ("self.array", "values"),
        ("self.config.size", "held"),
        ("self.history[1]", "held"),
        ("self.nested[0]", "held"),
        ("self.numbers", "values"),
    ]
    before.restore()
    assert (size, other, Furnished.shared) == (1, [1], {"a": 1})


def test_settings_and_global_generators_are_no_changes_that_a_trace_has_to_name():
    with globals_kept() as before:
        torch.rand(1)
        torch.overrides.BaseTorchFunctionMode().__enter__()
        torch.set_default_dtype(torch.float64)
        found = [change.path for change in before.changes_beside_modules()]

    assert found == ["the default dtype"]


@pytest.mark.parametrize("parameters", [True, False])
def test_a_kept_model_is_as_before_but_for_added_attributes(furnished, parameters):
    added = ["constant", "number", "missing"]
    before = Snapshot(furnished)

    with state_kept(furnished, added, parameters=parameters):
        changed_furniture(furnished)
        furnished.register_buffer("constant", torch.ones(1))
        furnished.number, furnished.other = 3, 4
        with torch.no_grad():
            furnished.weight.add_(1)

    assert (furnished.number, furnished.constant.tolist()) == (3, [1.0])
    assert not hasattr(furnished, "other")
    assert furnished.weight.tolist() == ([1.0, 1.0] if parameters else [2.0, 2.0])
    written = [] if parameters else ["weight"]
    assert [change.path for change in before.changes() if change.path not in added] == written


def test_what_is_no_module_is_kept_by_its_functions_and_the_process():
    with state_kept(len, ["number"]):
        torch.set_default_dtype(torch.float64)

    assert torch.get_default_dtype() is torch.float32


def test_the_functions_of_the_classes_of_modules_are_saved_but_not_those_of_graph_modules(furnished):
    graph = fxcore.Graph()
    graph.output(None)
    furnished.inner = fxcore.GraphModule({}, graph)
    before = Snapshot(furnished)
    before.include_classes(furnished)

    Furnished.forward = lambda self, x: x
    furnished.inner.recompile()

    assert [(change.path, change.what) for change in before.changes()] == [("Furnished.forward", "function")]


def test_parameters_of_modules_that_functions_enclose_are_not_copied():
    enclosed = nn.Linear(1, 1)
    nn.init.ones_(enclosed.weight)

    with state_kept(nn.ReLU(), functions=[lambda x: enclosed(x)]), torch.no_grad():
        enclosed.weight.add_(1)
        enclosed.note = 1

    assert enclosed.weight.item() == 2
    assert not hasattr(enclosed, "note")


def test_a_kept_model_keeps_what_is_written_to_its_parameters_unless_asked():
    layer = nn.Linear(1, 1, bias=False)
    before = layer.weight.item()

    with state_kept(layer), torch.no_grad():
        layer.weight.add_(1)

    assert layer.weight.item() == pytest.approx(before + 1)


def test_parameters_among_values_are_copied():
    value = nn.Parameter(torch.ones(2))
    before = Snapshot.of_values([("value", value)])
    with torch.no_grad():
        value.add_(1)

    before.restore()

    assert value.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda weight: setattr(weight, "data", torch.zeros(3, 2).t()), "strides"),
        (lambda weight: weight.grad.add_(1), "grad"),
        (lambda weight: weight.requires_grad_(False), "requires_grad"),
    ],
)
def test_a_fact_of_a_tensor_is_told_if_it_alone_changed(change, what):
    layer = nn.Linear(3, 2, bias=False)
    layer.weight.grad = torch.ones(2, 3)
    nn.init.zeros_(layer.weight)
    before = Snapshot(layer)

    change(layer.weight)

    assert [(each.path, each.what) for each in before.changes() if each.what != "values"] == [("weight", what)]


def test_gradients_of_values_are_put_back():
    value = torch.ones(2, requires_grad=True)
    value.grad = torch.ones(2)
    before = Snapshot.of_values([("value", value)])

    value.grad.add_(1)
    before.restore()

    assert value.grad.tolist() == [1.0, 1.0]
