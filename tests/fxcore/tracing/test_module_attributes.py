from __future__ import annotations

import pytest
import torch
import torch.fx
from torch import nn

import fxcore
from fixtures.oracle import assert_same_success
from fixtures.process_groups import fake_group, needs_fake_group
from fxcore.tracing import module_attributes
from fxcore.tracing.module_attributes import (
    AttributePaths,
    constant_prefix,
    is_kept_as_attribute,
    module_paths_and_constants,
)


def test_constants_that_a_module_has_are_read_from_there_and_others_are_kept():
    shared = torch.ones(2)

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.own, self.shared = torch.ones(3, 2), shared

        def forward(self, x):
            return x + self.own + self.shared + torch.tensor(2.0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self._tensor_constant0 = "taken"
            self.listed = [torch.ones(1)]

        def forward(self, x):
            return self.inner(x) + shared + self.listed[0] + self.listed[0]

    def sights(fx):
        module = fx.symbolic_trace(Model())
        return module.graph, list(module.state_dict())

    assert_same_success(sights)


def test_a_module_inside_its_own_child_is_traced_and_has_one_path():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = nn.Sequential(nn.ReLU())
            self.child.parent = self
            self.again = self.child
            self.after = nn.Tanh()
            self.scale = torch.ones(2)

        def forward(self, x):
            return self.again[0](x) * self.scale

    model = Model()
    paths, constants, _ = module_paths_and_constants(model)

    assert list(paths.values()) == ["", "child", "child.0", "after"]
    assert constants == {model.scale: "scale"}
    assert [node.target for node in fxcore.symbolic_trace(model).graph.nodes][1:3] == ["child.0", "scale"]


def test_the_names_of_constants_do_not_depend_on_earlier_traces():
    class Model(nn.Module):
        _tensor_constant0 = "taken"

        def forward(self, x):
            return x + torch.ones(2)

    graphs = [fxcore.symbolic_trace(Model()).graph for _ in range(2)]
    assert [next(iter(graph.find_nodes(op="get_attr"))).target for graph in graphs] == ["_tensor_constant1"] * 2


def test_buffers_that_forward_registers_or_assigns_are_buffers_of_the_graph():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            before = self.count
            self.count = self.count + 1
            self.register_buffer("late", torch.ones(2))
            return x + self.count + self.late + before

    def sights(fx):
        module = fx.symbolic_trace(Model())
        return module.graph, module(torch.zeros(2))

    assert_same_success(sights)


def test_a_generator_is_kept_on_the_module():
    generator = torch.Generator()

    assert_same_success(lambda fx: fx.symbolic_trace(lambda x: torch.bernoulli(x, generator=generator)).graph)
    assert is_kept_as_attribute(generator)
    assert constant_prefix(generator) == "_opaque_obj"


def test_paths_are_told_by_identity():
    root = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    paths = AttributePaths(root)

    assert paths.parameter(root[0].weight) == "0.weight"
    assert paths.buffer(root[1].running_mean) == "1.running_mean"
    assert paths.buffer(torch.zeros(1)) is None
    root.register_buffer("registered", torch.ones(1))
    paths.note_buffer(root.registered)
    assert paths.buffer(root.registered) == "registered"
    root.register_parameter("late", nn.Parameter(torch.ones(1)))
    assert paths.parameter(root.late) == "late"
    assert paths.parameter(nn.Parameter(torch.ones(1))) is None


def test_paths_of_a_module_that_is_registered_later_are_found():
    root = nn.Sequential(nn.Linear(1, 1))
    paths = AttributePaths(root, dict.fromkeys(root, "0"))
    assert paths.parameter(root[0].bias) == "0.bias"
    root.late = nn.BatchNorm1d(1)

    assert paths.parameter(root.late.weight) == "late.weight"
    assert paths.buffer(root.late.running_var) == "late.running_var"


def test_tensors_that_were_written_since_the_first_read_have_paths():
    root = nn.Sequential(nn.BatchNorm1d(1), nn.BatchNorm1d(1))
    paths, table, other = AttributePaths(root), torch.ones(1), torch.ones(1)
    with torch.inference_mode():
        unwritable = torch.ones(1)

    for read in (root[0].running_mean, root[1].running_mean, other, unwritable):
        paths.note_buffer(read)
    paths.note_constants({table: "table", unwritable: "unwritable", "no tensor": "text"})
    assert paths.written() == []
    for written in (table, other, root[1].running_mean, root[0].running_var):
        written.add_(1)
    paths.note_buffer(root[1].running_mean)

    assert paths.written() == ["1.running_mean", "table"]


def test_a_root_chooses_the_paths_of_its_parameters_and_modules_itself():
    class Renaming(nn.Sequential):
        def named_parameters(self, *args, **kwargs):
            return [("weight of 0", self[0].weight)]

        def named_modules(self, *args, **kwargs):
            return [("", self), ("renamed", self[0])]

    root = Renaming(nn.BatchNorm1d(1))
    paths = AttributePaths(root)

    assert paths.parameter(root[0].weight) == "weight of 0"
    assert paths.buffer(root[0].running_mean) == "renamed.running_mean"
    assert module_paths_and_constants(root)[0] == {root: "", root[0]: "renamed"}


def test_a_tensor_that_is_no_buffer_any_more_has_no_path():
    root = nn.Sequential(nn.BatchNorm1d(1))
    paths, mean = AttributePaths(root), root[0].running_mean
    assert paths.buffer(mean) == "0.running_mean"

    root[0].running_mean = torch.ones(1)

    assert paths.buffer(mean) is None


@needs_fake_group
def test_a_group_of_processes_is_kept_on_the_module():
    with fake_group():
        assert is_kept_as_attribute(torch.distributed.group.WORLD)
    assert not is_kept_as_attribute("text")


@pytest.mark.parametrize(("is_opaque", "is_group"), [(True, False), (False, True), (False, False)])
def test_opaque_objects_and_groups_of_processes_are_kept_on_the_module(monkeypatch, is_opaque, is_group):
    monkeypatch.setattr(module_attributes, "is_opaque_symbolic_type", lambda kind: is_opaque)
    monkeypatch.setattr(module_attributes, "is_process_group", lambda value: is_group)

    assert is_kept_as_attribute(object()) is (is_opaque or is_group)


def test_plain_tensors_are_found_below_the_root():
    root = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Tanh())
    root[0].table, root[2].table = torch.ones(1), torch.ones(2)

    assert module_paths_and_constants(root)[1] == {root[0].table: "0.table", root[2].table: "2.table"}
    assert "_tensor_constant0" in str(fxcore.symbolic_trace(lambda x: x + torch.ones(1)).graph)


def test_of_a_shared_module_the_first_path_counts_and_of_its_constants_the_last():
    shared = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    shared[1].scale = torch.ones(1)
    models = {
        "shared": nn.ModuleDict({"a": shared, "b": nn.Sequential(shared, nn.ReLU())}),
        "plain": nn.ModuleDict({"b": shared, "a": nn.Sequential(nn.Tanh(), nn.ModuleList([nn.ReLU()]))}),
    }

    for name, model in models.items():
        paths, constants, _ = module_paths_and_constants(model)

        assert list(paths.items()) == [(module, path) for path, module in model.named_modules()]
        assert list(constants.values()) == [{"shared": "b.0.1.scale", "plain": "b.1.scale"}[name]]


def test_a_tensor_in_the_place_of_a_number_of_a_layer_is_found_at_its_first_use():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.LeakyReLU(), nn.LeakyReLU(), nn.LeakyReLU()
            self.second.negative_slope, self.third.negative_slope = torch.ones(1), torch.ones(2)

        def forward(self, x):
            return x * self.second.negative_slope + self.third.negative_slope + torch.ones(2)

    assert_same_success(lambda fx: str(fx.symbolic_trace(Model()).graph))

    assert module_paths_and_constants(Model())[1] == {}
    reads = fxcore.symbolic_trace(Model()).graph.find_nodes(op="get_attr")
    assert [node.target for node in reads] == ["second.negative_slope", "third.negative_slope", "_tensor_constant0"]


def test_a_tensor_that_the_forward_puts_on_a_layer_is_no_constant_of_the_layer():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.ReLU(), nn.ReLU()

        def forward(self, x):
            self.second.table = torch.ones(2)
            return x + self.second.table

    assert "_tensor_constant0" in str(fxcore.symbolic_trace(Model()).graph)
    assert "_tensor_constant0" in str(torch.fx.symbolic_trace(Model()).graph)
