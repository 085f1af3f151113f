"""Exported programs are called as their models were, whichever part of them is handed over."""

from __future__ import annotations

import copy
import operator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph import assert_equivalent
from pytest_fxgraph.equivalence.exported_call import (
    called_as_module,
    lifted_inputs,
    owner_of,
    user_inputs,
    with_graph_module,
)
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.inputs import Arguments, arguments_of
from pytest_fxgraph.errors import MismatchError, SubjectError


class Net(nn.Module):
    """Has a parameter, a buffer that it writes, a constant, nested inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(1))
        self.offset = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x: torch.Tensor, parts: dict[str, torch.Tensor], scale: float = 2.0) -> dict[str, torch.Tensor]:
        self.calls.add_(1)
        return {"y": self.lin(x) * scale + self.offset, "z": parts["z"].sin() + self.calls}


def inputs() -> tuple[Any, ...]:
    return torch.linspace(-1, 1, 8).reshape(2, 4), {"z": torch.ones(3)}


def net() -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net().eval()


def exported(model: nn.Module | None = None) -> torch.export.ExportedProgram:
    return torch.export.export(model or net(), inputs(), strict=False)


def functional() -> torch.export.ExportedProgram:
    """Return a program that has no writes: the new value of the buffer is one more output of its graph."""
    return exported().run_decompositions()


def broken(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    graph = program.graph_module.graph
    next(node for node in graph.nodes if node.target is torch.ops.aten.sin.default).target = torch.ops.aten.cos.default
    program.graph_module.recompile()
    return program


@pytest.mark.parametrize("make", [exported, functional])
def test_a_program_is_compared_with_its_graph(make):
    program = make()
    state = copy.deepcopy(program.state_dict)

    graph = FxEquivalence()(program, inputs(), grads=True, samples=2)

    assert isinstance(graph, fxcore.GraphModule)
    assert all(torch.equal(program.state_dict[name], value) for name, value in state.items())


def test_the_module_of_a_program_is_compared_although_it_refuses_train_and_eval():
    FxEquivalence()(exported().module(), inputs())
    part = torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(4),), strict=False).module()
    graph = fxcore.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Dropout(0.0)))
    FxEquivalence()(nn.Sequential(part, nn.Dropout(0.0)), torch.ones(4), graph=graph, modes=("train", "eval"))


def test_a_program_has_one_mode():
    with pytest.raises(ValueError, match=r"modes=\('train', 'eval'\) asks for more than one, and the .* refuses train"):
        FxEquivalence()(exported(), inputs(), modes=("train", "eval"))


@pytest.mark.parametrize("make", [exported, functional])
def test_a_model_is_compared_with_its_program_and_the_program_with_its_graph_module(make):
    program, model = make(), net()

    FxEquivalence()(model, inputs(), graph=program)
    FxEquivalence()(program, inputs(), graph=program.graph_module)
    assert_equivalent(program, program.graph_module, inputs())
    assert_equivalent(program, program, inputs())


@pytest.mark.parametrize("make", [exported, functional])
def test_a_graph_module_that_computes_something_else_than_its_program_is_found(make):
    program = make()
    changed = broken(copy.deepcopy(program))

    with pytest.raises(AssertionError, match=r"output\['z'\] has other values in the graph than in eager"):
        FxEquivalence()(program, inputs(), graph=changed.graph_module)
    with pytest.raises(AssertionError, match=r"first parted .*cos"):
        FxEquivalence()(net(), inputs(), graph=changed)


def test_a_graph_module_without_its_program_is_refused_and_says_what_to_hand_over():
    gm = exported().graph_module
    lifted = r"with 2 inputs: the first 4 that it takes \(p_lin_weight, p_lin_bias, b_calls and 1 more\) are parameters"

    with pytest.raises(SubjectError, match=lifted + r".*Hand over the program itself"):
        FxEquivalence()(gm, inputs())
    with pytest.raises(
        SubjectError, match=lifted + r".*and the model, .*has others. Hand over the program as the graph"
    ):
        FxEquivalence()(lambda x, parts: x, inputs(), graph=gm)
    with pytest.raises(SubjectError, match=lifted):
        assert_equivalent(Other(), gm, inputs())


class Other(Net):
    """Has a parameter more."""

    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Parameter(torch.ones(3))


@pytest.mark.slow
@pytest.mark.parametrize("make", [exported, functional])
def test_a_graph_module_gets_the_state_of_the_model_that_it_was_exported_from(make):
    model = net()
    changed = broken(make())

    FxEquivalence()(model, inputs(), graph=make().graph_module, grads=True)
    assert_equivalent(model, make().graph_module, inputs())
    with pytest.raises(AssertionError, match=r"output\['z'\] has other values in the graph than in eager"):
        FxEquivalence()(model, inputs(), graph=changed.graph_module)
    with torch.no_grad():
        model.lin.weight.mul_(2)
    FxEquivalence()(model, inputs(), graph=make().graph_module)


def test_a_graph_module_with_all_its_inputs_is_called_as_it_is():
    program = functional()
    model = net()
    flat = (model.lin.weight, model.lin.bias, model.calls, model.offset, *inputs()[:1], inputs()[1]["z"])

    graph = FxEquivalence()(program.graph_module, flat)

    assert len(graph(*flat)) == 3
    assert lifted_inputs(program.graph_module, arguments_of(flat)) == []
    assert len(lifted_inputs(program.graph_module, arguments_of(inputs()))) == 4


def test_a_program_without_state_returns_what_its_model_did():
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return x * 2

    program = torch.export.export(Writes(), (torch.ones(2),), strict=False).run_decompositions()

    FxEquivalence()(Writes(), torch.ones(2), graph=program.graph_module)
    FxEquivalence()(program, torch.ones(2), graph=program.graph_module)


def test_a_mutated_buffer_comes_back_into_the_state():
    def forgets(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        graph = program.graph_module.graph
        add = next(node for node in graph.nodes if node.target is torch.ops.aten.add.Tensor and node.args[1] == 1)
        list(graph.nodes)[-1].replace_input_with(add, add.args[0])
        program.graph_module.recompile()
        return program

    with pytest.raises(AssertionError, match="buffer calls"):
        FxEquivalence()(functional(), inputs(), graph=forgets(functional()).graph_module)


def test_a_renamed_input_and_output_are_followed_by_the_signature():
    program = functional()
    gm = copy.deepcopy(program.graph_module)
    for number, node in enumerate(gm.graph.nodes):
        if node.op != "output":
            node._rename(f"v{number}")
        if node.op == "placeholder":
            node.target = node.name
    gm.recompile()

    made = with_graph_module(program, gm)

    assert user_inputs(made) == ["v4", "v5"]
    made.validate()
    FxEquivalence()(program, inputs(), graph=made)


def test_an_input_that_was_removed_is_told_by_its_name():
    program = functional()
    gm = copy.deepcopy(program.graph_module)
    offset = next(node for node in gm.graph.nodes if node.name == "c_offset")
    reader = next(iter(offset.users))
    reader.replace_all_uses_with(reader.args[0])
    gm.graph.erase_node(reader)
    gm.graph.erase_node(offset)

    made = with_graph_module(program, gm)

    assert [spec.target for spec in made.graph_signature.input_specs][:3] == ["lin.weight", "lin.bias", "calls"]
    assert len(called_as_module(made)(*inputs())) == 2


def test_inputs_and_outputs_that_the_signature_does_not_know_are_refused():
    program = functional()
    more, fewer = copy.deepcopy(program.graph_module), copy.deepcopy(program.graph_module)
    first = next(iter(more.graph.nodes))
    with more.graph.inserting_before(first):
        more.graph.placeholder("extra")
    output = list(fewer.graph.nodes)[-1]
    output.args = (output.args[0][:1],)

    with pytest.raises(
        SubjectError, match="the graph has 7 inputs and the signature of its program 6, which knows no ex"
    ):
        with_graph_module(program, more)
    with pytest.raises(SubjectError, match="the graph has 1 outputs and the signature of its program 3; a pass that"):
        with_graph_module(program, fewer)


@pytest.mark.parametrize("package", [fxcore, torch.fx])
def test_a_graph_that_needs_no_module_gets_one_and_another_is_refused(package):
    graph = package.Graph()
    graph.output(graph.call_function(operator.neg, (graph.placeholder("x"),)))
    module = package.symbolic_trace(nn.Sequential(nn.ReLU()))

    assert torch.equal(owner_of(graph)(torch.ones(2)), -torch.ones(2))
    assert owner_of(module.graph) is module
    alone = package.Graph()
    alone.output(alone.call_module("0", (alone.placeholder("x"),)))
    with pytest.raises(SubjectError, match="cannot run a graph without its module: _0 needs '0'; hand over the gr"):
        owner_of(alone)


def test_a_graph_is_called_as_its_owner_or_as_a_module_around_it():
    owned = fxcore.symbolic_trace(nn.Linear(2, 2))
    graph = fxcore.Graph()
    graph.output(graph.call_function(torch.neg, (graph.placeholder("x"),)))

    assert called_as_module(owned.graph) is owned
    assert called_as_module(graph)(torch.ones(1)) == -1
    assert called_as_module(torch.neg) is torch.neg


def test_a_graph_that_its_module_has_replaced_has_no_owner():
    graph_module = torch.fx.symbolic_trace(nn.ReLU())
    replaced, graph_module.graph = graph_module.graph, torch.fx.Graph()

    assert owner_of(graph_module.graph) is graph_module
    assert owner_of(replaced) is not graph_module


def test_a_graph_that_returns_a_tuple_is_not_taken_for_the_graph_of_a_program():
    graph = torch.fx.symbolic_trace(lambda x: (torch.relu(x),))

    with pytest.raises(MismatchError, match="output is Tensor in eager, tuple of 1 in the graph"):
        FxEquivalence()(nn.ReLU(), torch.ones(2), graph=graph)


def spec(kind: str, name: str | None = None, target: str | None = None) -> Any:
    """Return the specification of an input or output; without a name it is a constant."""
    argument = SimpleNamespace(value=3) if name is None else SimpleNamespace(name=name)
    return SimpleNamespace(kind=SimpleNamespace(name=kind), arg=argument, target=target)


def test_a_signature_follows_the_names_of_a_changed_graph():
    outputs = [
        spec("USER_INPUT_MUTATION", "old", "x"),
        spec("BUFFER_MUTATION", "old", "x"),
        spec("USER_OUTPUT", "kept"),
        spec("USER_OUTPUT"),
    ]
    signature = SimpleNamespace(
        input_specs=[spec("PARAMETER", "p_w", "w"), spec("USER_INPUT", "x")], output_specs=outputs
    )
    graph = fxcore.Graph()
    weight, y = graph.placeholder("weight"), graph.placeholder("y")
    added = graph.call_function(torch.add, (weight, y))
    graph.output((added, y, 5, 3))

    program: Any = SimpleNamespace(graph_signature=signature)
    made = with_graph_module(program, SimpleNamespace(graph=graph))._graph_signature

    assert [(vars(each.arg), each.target) for each in made.input_specs] == [
        ({"name": "weight"}, "w"),
        ({"name": "y"}, None),
    ]
    assert [(vars(each.arg), each.target) for each in made.output_specs] == [
        ({"name": "add"}, "y"),
        ({"name": "y"}, "x"),
        ({"name": "kept"}, None),
        ({"value": 3}, None),
    ]
    assert [each.arg.name for each in signature.input_specs] == ["p_w", "x"]


@pytest.mark.parametrize(
    ("names", "count", "lifted"),
    [
        (["p_weight", "b_mean", "x"], 1, ["p_weight", "b_mean"]),
        (["p_weight", "x"], 2, []),
        (["p_weight"], 1, []),
        (["x", "p_weight"], 1, []),
        (["x", "y"], 1, []),
    ],
)
def test_the_first_inputs_hold_lifted_state_if_there_are_more_than_the_caller_gives(names, count, lifted):
    graph = torch.fx.Graph()
    graph.output(tuple(graph.placeholder(name) for name in names))
    made = torch.fx.GraphModule({}, graph)

    assert lifted_inputs(made, Arguments((torch.ones(1),) * count, {})) == lifted
    assert lifted_inputs(made, Arguments((torch.ones(1),) * (count - 1), {"x": torch.ones(1)})) == lifted
    assert lifted_inputs(made.forward, Arguments((), {})) == []
