"""Programs of torch.export and what is made of them; graphs of other kinds are in test_interop_higher_order.py."""

from __future__ import annotations

import dataclasses
import inspect
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.export import Dim

import fxcore
from fixtures.graph_identity import differences
from fxcore import interop
from fxcore.errors import GuardError


class Counting(nn.Module):
    """Has all that a program can have: shared parameters, buffers it writes, constants, nested inputs and outputs."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.inner[0].weight
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("offset", torch.ones(3), persistent=False)
        self.constant = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x, others, *, scale):
        self.calls.add_(1)
        others["written"].mul_(2)
        y = self.tied(self.inner(x)) * scale + self.constant + self.offset
        return {"y": y, "sums": (others["read"].sum(), y.sum())}


def inputs():
    others = {"read": torch.arange(3.0), "written": torch.ones(3)}
    return (torch.linspace(-1, 1, 12).reshape(4, 3), others), {"scale": torch.tensor(0.5)}


@pytest.fixture(scope="module")
def program():
    args, kwargs = inputs()
    batch = Dim("batch", min=2, max=64)
    shapes = {"x": {0: batch}, "others": {"read": None, "written": None}, "scale": None}
    return torch.export.export(Counting(), args, kwargs, dynamic_shapes=shapes)


@pytest.fixture(scope="module")
def lowered(program):
    return program.run_decompositions()


FORMS = {
    "unlifted": lambda program, lowered: program.module(),
    "flat": lambda program, lowered: program.graph_module,
    "decomposed": lambda program, lowered: lowered.module(),
    "decomposed and flat": lambda program, lowered: lowered.graph_module,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_program_goes_there_and_back(program, lowered, form):
    original = FORMS[form](program, lowered)

    ours = interop.from_torch(original)

    assert [line for line in differences(original, ours) if not line.startswith("class")] == []
    assert differences(original, interop.to_torch(ours)) == []


def everything_of(module):
    """Run once; return outputs, inputs as they are then, and buffers as they are then, which are put back."""
    args, kwargs = inputs()
    buffers = dict(module.named_buffers())
    before = {name: buffer.clone() for name, buffer in buffers.items()}
    outputs = module(*args, **kwargs)
    after = {name: buffer.clone() for name, buffer in buffers.items()}
    for name, buffer in buffers.items():
        buffer.copy_(before[name])
    assert not torch.equal(before["calls"], after["calls"])
    return outputs, args, after


@pytest.mark.parametrize("form", ["unlifted", "decomposed"])
def test_a_program_writes_into_buffers_and_inputs_as_before(program, lowered, form):
    expected = everything_of(FORMS[form](program, lowered))

    obtained = everything_of(interop.from_torch(FORMS[form](program, lowered)))

    torch.testing.assert_close(obtained, expected, rtol=0, atol=0)


def test_a_program_itself_is_taken(program):
    ours = interop.from_torch(program)

    assert list(ours.state_dict()) == list(program.module().state_dict())
    assert all(parameter is program.state_dict[name] for name, parameter in ours.named_parameters())
    assert isinstance(interop.to_torch(ours), type(program.module()).__mro__[1])
    expected = everything_of(ours)
    torch.testing.assert_close(everything_of(program.module()), expected, rtol=0, atol=0)


def test_another_size_is_taken_where_the_program_takes_it(program):
    ours = interop.from_torch(program)
    (x, others), kwargs = inputs()

    assert ours(x.repeat(2, 1), others, **kwargs)["y"].shape == (8, 3)
    with pytest.raises((RuntimeError, AssertionError), match=r"64|batch|<="):
        ours(x.repeat(20, 1), others, **kwargs)


def test_an_unflattened_program_is_taken_with_its_modules(program):
    unflattened = torch.export.unflatten(program)

    ours = interop.from_torch(unflattened)

    assert [node.target for node in ours.graph.nodes if node.op == "call_module"] == ["inner", "tied"]
    assert ours.inner is unflattened.inner
    assert [*inspect.signature(ours.forward).parameters] == [*inspect.signature(program.module().forward).parameters]
    expected = everything_of(unflattened)
    for module in (ours, interop.to_torch(ours)):
        torch.testing.assert_close(everything_of(module), expected, rtol=0, atol=0)


def test_a_method_of_the_instance_works_on_the_new_module(program):
    original = program.module()

    ours = interop.from_torch(original)

    bound = [value for value in vars(ours).values() if getattr(value, "__self__", None) is not None]
    assert bound
    assert all(method.__self__ is ours for method in bound)


@dataclasses.dataclass(frozen=True)
class Annotation:
    inputs: dict
    pair: tuple


def test_metadata_speaks_of_the_new_nodes():
    original = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    x, linear, relu, _ = original.graph.nodes
    shared = {"scale": 1.0}
    linear.meta.update(annotation=Annotation({x: "int8"}, (linear, relu)), later=[relu], shared=shared)
    linear.meta["ordered"] = OrderedDict(a=x)

    ours = interop.from_torch(original)
    back = interop.to_torch(ours)

    for module in (ours, back):
        x, linear, relu, _ = module.graph.nodes
        assert linear.meta["annotation"] == Annotation({x: "int8"}, (linear, relu))
        assert linear.meta["later"] == [relu]
        assert linear.meta["ordered"] == OrderedDict(a=x)
        assert linear.meta["shared"] is shared


def test_readers_keep_their_order():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    first, second = graph.call_function(torch.neg, (x,)), graph.call_function(torch.abs, (x,))
    graph.output((first, second))
    first.args = (x,)  # which makes it the last to read x
    assert [node.name for node in x.users] == ["abs_1", "neg"]

    ours = interop.from_torch(graph)

    for made in (ours, interop.to_torch(ours)):
        assert [node.name for node in next(iter(made.nodes)).users] == ["abs_1", "neg"]


class Special(torch.fx.GraphModule):
    def answer(self):
        return 42


class Ours(fxcore.GraphModule):
    def answer(self):
        return 43


def test_a_subclass_is_one_again_after_the_way_back():
    traced = torch.fx.symbolic_trace(nn.ReLU())
    theirs = Special(traced, traced.graph, "Named")
    ours = Ours({}, interop.from_torch(traced.graph), "Named")

    assert interop.to_torch(interop.from_torch(theirs)).answer() == 42
    assert interop.from_torch(interop.to_torch(ours)).answer() == 43
    assert differences(theirs, interop.to_torch(interop.from_torch(theirs))) == []


def test_what_was_put_on_a_graph_stays_there():
    traced = torch.fx.symbolic_trace(nn.ReLU())
    traced.graph.note = note = object()
    traced.meta["split"] = True

    back = interop.to_torch(interop.from_torch(traced))

    assert back.graph.note is note
    assert back.meta == {"split": True}


def test_guards_of_a_trace_come_back():
    traced = fxcore.symbolic_trace(lambda x: x + 1 if x.shape[0] > 2 else x, example_inputs=(torch.ones(4),))
    assert len(traced.graph.guards) > 0

    back = interop.from_torch(interop.to_torch(traced))

    assert back.graph.guards is traced.graph.guards
    back.check_guards(torch.ones(5))


def test_a_guarded_module_of_torch_is_edited_and_checks_again():
    traced = fxcore.symbolic_trace(lambda x: x + 1 if x.shape[0] > 2 else x, example_inputs=(torch.ones(4),))
    module = interop.to_torch(traced)
    add = next(node for node in module.graph.nodes if node.op == "call_function")
    output = next(node for node in module.graph.nodes if node.op == "output")
    add.prepend(output)
    module.recompile()  # the output reads a later node now
    add.append(output)
    add.args = (add.args[0], 2)
    module.recompile()

    assert torch.equal(module(torch.ones(3)), torch.full((3,), 3.0))
    with pytest.raises(GuardError, match=r"x\.shape\[0\] > 2: it is False"):
        module(torch.ones(2))


def test_nested_graphs_are_changed_where_that_is_asked_for():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.holder = nn.Sequential(inner, inner)

        def forward(self, x):
            return self.holder(x)

    inner = torch.fx.symbolic_trace(nn.ReLU())
    original = torch.fx.GraphModule(Outer(), KeepsHolder().trace(Outer()))

    ours = interop.from_torch(original, nested=True)

    first, second = ours.holder
    assert isinstance(first, fxcore.GraphModule)
    assert first is second
    assert original.holder[0] is inner
    assert interop.from_torch(original).holder is original.holder
    back = interop.to_torch(ours, nested=True)
    assert isinstance(back.holder[0], torch.fx.GraphModule)
    assert torch.equal(back(-torch.ones(2)), torch.zeros(2))


class KeepsHolder(torch.fx.Tracer):
    def is_leaf_module(self, module, path):
        return path == "holder"


def test_hooks_go_along_and_stay_apart():
    traced = torch.fx.symbolic_trace(nn.ReLU())
    seen = []
    traced.register_forward_hook(lambda module, args, output: seen.append(type(module).__mro__[-3]))

    ours = interop.from_torch(traced)
    ours(torch.ones(1))
    ours.register_forward_pre_hook(lambda module, args: None)

    assert seen == [fxcore.GraphModule]
    assert not traced._forward_pre_hooks
