"""A graph is well-formed, compiled anew and without leftovers, or its transform is named."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch._export.verifier import SpecViolationError
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from fixtures.shown_frames import raises_here
from pytest_fxgraph.transform.fixture import FxTransform
from pytest_fxgraph.transform.graph_checks import GraphFacts


def check(before: GraphFacts, made: Any, name: str, *, keeps_meta: tuple[str, ...] | bool = False) -> None:
    before.check(made, name, keeps_meta=keeps_meta, keeps_inputs=True)


def facts_without_leftovers(graph_module: Any) -> GraphFacts:
    return dataclasses.replace(GraphFacts.of(graph_module), dead={})


def traced() -> fxcore.GraphModule:
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch.exp(x)
        x.add_(1)
        return torch.relu(x)

    return fxcore.symbolic_trace(forward)


def test_only_pure_nodes_that_nobody_reads_are_dead():
    assert GraphFacts.of(traced()).dead == {"exp": "exp"}


def test_leftovers_of_the_model_itself_are_not_held_against_the_transform():
    graph_module = traced()

    check(GraphFacts.of(graph_module), graph_module, "fuse")
    with raises_here(AssertionError, match=r"fuse left nodes without users: exp; call graph\.eliminate_dead_code"):
        check(facts_without_leftovers(graph_module), graph_module, "fuse")


@pytest.mark.parametrize("target", [torch.ops.aten.detach.default, torch.ops.aten.detach_copy.default])
def test_dead_nodes_of_the_graph_before_may_get_other_names(target):
    subject = make_fx(lambda x: torch.relu(x) + x)(torch.ones(2))
    x = next(iter(subject.graph.nodes))
    with subject.graph.inserting_after(x):
        detached = subject.graph.call_function(torch.ops.aten.detach.default, (x,))
    subject.recompile()
    assert set(GraphFacts.of(subject).dead) == {detached.name}

    def rewritten(gm: torch.fx.GraphModule, times: int = 1) -> None:
        old = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default)[0]
        with gm.graph.inserting_after(old):
            for _ in range(times):
                gm.graph.call_function(target, old.args)
        gm.graph.erase_node(old)
        gm.recompile()

    FxTransform()(rewritten, subject, torch.ones(2))
    with raises_here(AssertionError, match=r"left nodes without users: detach\w*, detach\w*; call"):
        FxTransform()(partial(rewritten, times=2), subject, torch.ones(2))


def test_a_forgotten_recompile_is_named():
    graph_module = traced()
    graph_module.graph.eliminate_dead_code()

    with raises_here(AssertionError, match=r"fuse changed the graph and forgot recompile\(\)"):
        check(facts_without_leftovers(graph_module), graph_module, "fuse")


def test_meta_that_a_node_lost_is_named_with_the_node():
    gm = traced()
    for node in gm.graph.nodes:
        node.meta["origin"] = node.name
    before = GraphFacts.of(gm)
    check(before, gm, "tidy", keeps_meta=True)

    del next(node for node in gm.graph.nodes if node.name == "relu").meta["origin"]

    check(before, gm, "tidy", keeps_meta=("stack_trace",))
    with raises_here(AssertionError, match=r"tidy lost the meta of relu \(origin\); copy it to the nodes"):
        check(before, gm, "tidy", keeps_meta=("origin",))


def test_a_call_that_no_code_can_be_written_for_is_a_malformed_graph():
    graph_module = fxcore.symbolic_trace(lambda x: x + 1)
    call = list(graph_module.graph.nodes)[1]
    call.args = call.args[:1]

    with raises_here(AssertionError, match="fuse left a malformed graph"):
        check(facts_without_leftovers(graph_module), graph_module, "fuse")


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda x, other=2.0: x + other, "input 1 was 'scale' and is 'other'"),
        (lambda scale, x: scale + x, "input 0 was 'x' and is 'scale'"),
        (lambda x: x + 1, "input 1 was 'scale' and is gone"),
        (lambda x, scale=3.0: x + scale, "the default of 'scale' was 2.0 and is 3.0"),
        (lambda x, scale: x + scale, "the default of 'scale' was 2.0 and is none"),
    ],
)
def test_inputs_that_callers_know_are_kept(forward, words):
    before = GraphFacts.of(fxcore.symbolic_trace(lambda x, scale=2.0: x + scale))

    check(before, fxcore.symbolic_trace(lambda x, scale=2.0, more=1: x + scale + more), "fuse")
    with raises_here(AssertionError, match=f"fuse changed the inputs: {words}"):
        check(before, fxcore.symbolic_trace(forward), "fuse")


@pytest.mark.parametrize("symbolic_trace", [fxcore.symbolic_trace, torch.fx.symbolic_trace])
def test_graphs_of_both_packages_are_checked_alike(symbolic_trace):
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch.exp(x)
        return torch.relu(x)

    graph_module = symbolic_trace(forward)

    facts = GraphFacts.of(graph_module)
    before = dataclasses.replace(facts, dead={})

    assert facts.dead == {"exp": "exp"}
    assert facts.inputs == [("x", "")]
    with raises_here(AssertionError, match="fuse left nodes without users: exp"):
        check(before, graph_module, "fuse")
    graph_module.graph.eliminate_dead_code()
    with raises_here(AssertionError, match=r"fuse changed the graph and forgot recompile\(\)"):
        check(before, graph_module, "fuse")


def exported() -> Any:
    return torch.export.export(torch.nn.Sequential(torch.nn.Linear(2, 2)), (torch.ones(1, 2),), strict=False)


def test_a_program_is_checked_with_its_signature():
    program = exported()
    before = GraphFacts.of(program)

    check(before, program, "fuse")
    program.graph_signature.input_specs.pop()

    with raises_here(
        AssertionError, match=r"(?s)fuse left a malformed program: .*\(as program\.validate\(\) says\); k"
    ):
        check(before, program, "fuse")
    check(GraphFacts.of(program), program, "fuse")  # it was malformed before


def test_all_lines_of_a_verifiers_reason_are_told():
    program = exported()
    before = GraphFacts.of(program)
    program.graph_signature.input_specs.pop()
    with pytest.raises(SpecViolationError) as reason:
        program.validate()

    with raises_here(AssertionError) as told:
        check(before, program, "fuse")

    assert all(line in str(told.value) for line in str(reason.value).splitlines())


def test_a_verifier_that_stops_a_pass_is_told_as_the_fault_of_the_pass():
    class OfADialect(SpecViolationError):
        """As a verifier of another project raises it."""

    def fuse(program: Any) -> None:
        raise OfADialect("the operator is not allowed:\n  aten.foo\n  aten.bar")

    reason = "the operator is not allowed:\n  aten.foo\n  aten.bar"
    words = f"fuse left a malformed program: {reason} (as a verifier said while the pass ran); keep graph_signature"
    with raises_here(AssertionError, match=re.escape(words)):
        FxTransform()(fuse, exported(), torch.ones(1, 2))


def test_a_program_runs_its_graph_so_the_code_of_its_module_may_be_older():
    program = exported()
    before = GraphFacts.of(program)
    call = next(node for node in program.graph.nodes if node.op == "call_function")
    with program.graph.inserting_after(call):
        again = program.graph.call_function(torch.ops.aten.relu.default, (call,))
    again.meta.update(call.meta)
    call.replace_all_uses_with(again, delete_user_cb=lambda user: user is not again)
    next(spec for spec in program.graph_signature.output_specs).arg.name = again.name

    check(before, program, "fuse")
    with raises_here(AssertionError, match=r"forgot recompile\(\)"):
        check(before, program.graph_module, "fuse")


def test_names_and_meta_are_no_change_and_arguments_are():
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.add(x[1:], 1, alpha=2)

    graph_module = fxcore.symbolic_trace(forward)
    before = GraphFacts.of(graph_module)
    add = list(graph_module.graph.nodes)[-2]

    add.name, add.meta["note"] = "other", 1
    assert not before.changed(GraphFacts.of(graph_module))

    add.kwargs = {"alpha": 3}
    assert before.changed(GraphFacts.of(graph_module))


def test_a_copy_of_the_state_is_no_change_and_other_values_are():
    graph_module, state = fxcore.symbolic_trace(lambda x: x + 1), torch.ones(2)
    graph_module.register_buffer("state", state)
    before = GraphFacts.of(graph_module)

    graph_module.state = state.clone()
    assert not before.changed(GraphFacts.of(graph_module))
    graph_module.state = state + 1
    assert before.changed(GraphFacts.of(graph_module))
    del graph_module.state
    assert before.changed(GraphFacts.of(graph_module))


def positive(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(min=0)


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.ReLU()
        nn.init.ones_(self.first.weight)
        self.first.register_forward_hook(self.noted)
        self.second.forward = positive

    def noted(self, *_: Any) -> None:
        """Look at a call, and change nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


def replaced(path: str) -> Callable[[Any], None]:
    def without_hook(gm: Any) -> None:
        layer = nn.ReLU() if path == "second" else nn.Linear(2, 2)
        layer.load_state_dict(gm.get_submodule(path).state_dict())
        setattr(gm, path, layer)
        gm.recompile()

    return without_hook


@pytest.mark.parametrize("trace", ["fxcore", "torch"])
def test_a_lost_hook_is_told_where_results_stay_the_same(trace):
    x = torch.ones(1, 2)

    with raises_here(AssertionError, match=r"without_hook lost the forward hook Hooked\.noted; leave a module with"):
        FxTransform()(replaced("first"), Hooked(), x, trace=trace)
    with raises_here(AssertionError, match=r"without_hook lost the own forward positive; .*may_change=\('hooks'"):
        FxTransform()(replaced("second"), Hooked(), x, trace=trace)
    FxTransform()(replaced("first"), Hooked(), x, trace=trace, may_change="hooks")


def test_a_hook_on_a_copied_or_renamed_module_is_not_lost():
    def moved(gm: fxcore.GraphModule) -> None:
        gm.add_module("elsewhere", copy.deepcopy(gm.first))
        gm.graph.find_nodes(op="call_module", target="first")[0].target = "elsewhere"
        del gm.first
        gm.recompile()

    FxTransform()(moved, Hooked(), torch.ones(1, 2))


def test_a_hook_of_the_graph_module_itself_is_not_lost():
    subject = torch.fx.symbolic_trace(nn.ReLU())
    subject.register_forward_pre_hook(lambda *_: None)

    def anew(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
        return torch.fx.GraphModule(gm, gm.graph)

    with raises_here(AssertionError, match="anew lost the forward pre hook test_a_hook_of_the_graph_module_itself"):
        FxTransform()(anew, subject, torch.ones(2))


def test_a_tensor_in_place_of_another_value_is_a_change():
    graph_module = fxcore.symbolic_trace(lambda x: x + 1)
    graph_module.register_buffer("state", None)
    before = GraphFacts.of(graph_module)

    graph_module.state = torch.ones(2)

    assert before.changed(GraphFacts.of(graph_module))


def graph_with(arguments: Callable[[Any, Any], Any]) -> fxcore.GraphModule:
    """Return a graph with one call; the arguments are made of its two inputs."""
    graph = fxcore.Graph()
    graph.output(graph.call_function(print, arguments(graph.placeholder("x"), graph.placeholder("y"))))
    return fxcore.GraphModule({}, graph)


@pytest.mark.parametrize(
    ("before", "after", "is_changed"),
    [
        (lambda x, y: (x, y), lambda x, y: (x, y), False),
        (lambda x, y: (x,), lambda x, y: (y,), True),
        (lambda x, y: ([x],), lambda x, y: ((x,),), True),
        (lambda x, y: ([x],), lambda x, y: ([y],), True),
        (lambda x, y: ({"a": x},), lambda x, y: ({"a": x},), False),
        (lambda x, y: ({"a": x},), lambda x, y: ({"a": y},), True),
        (lambda x, y: ({"a": x},), lambda x, y: ({"b": x},), True),
        (lambda x, y: (slice(x, 1, 2),), lambda x, y: (slice(x, 1, 2),), False),
        (lambda x, y: (slice(x, 1, 2),), lambda x, y: (slice(y, 1, 2),), True),
        (lambda x, y: (slice(1, x, 2),), lambda x, y: (slice(1, y, 2),), True),
        (lambda x, y: (slice(1, 2, x),), lambda x, y: (slice(1, 2, y),), True),
        (lambda x, y: (1,), lambda x, y: (1.0,), True),
    ],
)
def test_other_arguments_are_a_change(before, after, is_changed):
    assert GraphFacts.of(graph_with(before)).changed(GraphFacts.of(graph_with(after))) is is_changed


def noted(text: str, number: int, *_: Any) -> None:
    """Look at a call, and change nothing."""


class Noting:
    def __call__(self, *_: Any) -> None:
        """Look at a call, and change nothing."""


def test_hooks_of_called_modules_are_known_by_their_functions():
    root, graph = nn.Module(), fxcore.Graph()
    root.called, root.idle = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.ReLU()
    graph.output(graph.call_module("called", (graph.placeholder("x"),)))
    root.called[0].register_forward_hook(partial(partial(noted, "a"), 1))
    root.called[0].register_forward_hook(partial(noted, "b", 2))
    root.called.register_forward_pre_hook(Noting())
    root.called.register_full_backward_hook(Noting())
    root.idle.register_forward_hook(noted)
    torch.nn.utils.spectral_norm(root.called[1])  # a hook of torch
    graph_module = fxcore.GraphModule(root, graph)
    graph_module.add_module("idle", root.idle)

    assert GraphFacts.of(graph_module).hooks == {
        ("forward hook", noted): 2,
        ("forward pre hook", Noting): 1,
        ("backward hook", Noting): 1,
    }


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.act = nn.Dropout(0.5), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.drop(x))


def set_on(path: str, name: str, value: object) -> Callable[[fxcore.GraphModule], None]:
    return lambda gm: setattr(gm.get_submodule(path), name, value)


@pytest.mark.parametrize(
    ("change", "is_changed"),
    [
        (lambda gm: None, False),
        (set_on("drop", "p", 0.1), True),
        (set_on("drop", "sizes", (1, 2)), True),
        (set_on("drop", "_private", 1), False),
        (set_on("drop", "notes", ["a"]), False),  # of an object, nobody can say whether a copy is another one
        (set_on("", "note", "of the graph module"), False),
        (lambda gm: gm.set_submodule("act", nn.Tanh()), True),
        (lambda gm: setattr(gm, "__class__", type("Other", (type(gm),), {})), False),
    ],
)
def test_settings_and_classes_of_modules_are_part_of_a_graph(change, is_changed):
    given = fxcore.symbolic_trace(Layers())
    before = GraphFacts.of(given)
    change(given)

    assert before.changed(GraphFacts.of(given)) is is_changed


def test_modules_that_share_all_are_no_change_of_equal_modules():
    given = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    given.get_submodule("1").load_state_dict(given.get_submodule("0").state_dict())
    before = GraphFacts.of(given)

    given.set_submodule("1", given.get_submodule("0"))

    assert not before.changed(GraphFacts.of(given))


def test_the_inputs_of_a_program_are_those_that_callers_give():
    ((name, default),) = GraphFacts.of(exported()).inputs

    assert "weight" not in name
    assert default == ""


@pytest.mark.parametrize(
    ("kind", "was_program", "is_refused"),
    [("get_attr", True, False), ("get_attr", False, True), ("call_function", True, True)],
)
def test_state_that_nobody_reads_is_left_over_unless_a_program_became_a_module(kind, was_program, is_refused):
    given = fxcore.symbolic_trace(nn.Linear(2, 2))
    before = dataclasses.replace(
        GraphFacts.of(given), interface=GraphFacts.of(exported()).interface if was_program else None
    )
    with given.graph.inserting_before():
        given.graph.create_node(
            kind, "weight" if kind == "get_attr" else torch.relu, () if kind == "get_attr" else (1,)
        )
    given.recompile()

    if is_refused:
        with raises_here(AssertionError, match="fuse left nodes without users: "):
            check(before, given, "fuse")
    else:
        check(before, given, "fuse")


def test_a_program_that_became_a_module_or_the_other_way_round_keeps_no_interface():
    program, module = GraphFacts.of(exported()), GraphFacts.of(fxcore.symbolic_trace(nn.Linear(2, 2)))

    program.check_promises(module, "unlifted", ())
    module.check_promises(program, "lifted", ())


@pytest.mark.parametrize(
    ("value", "is_changed"),
    [
        (lambda bias: bias, False),
        (lambda bias: nn.Parameter(bias.detach().clone()), False),
        (lambda bias: nn.Parameter(bias.detach().clone(), requires_grad=False), True),
        (lambda bias: nn.Parameter(bias.detach() + 1), True),
        (lambda bias: None, True),
    ],
)
def test_a_copy_of_a_tensor_is_no_change_and_other_state_is(value, is_changed):
    given = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    before = GraphFacts.of(given)

    layer = given.get_submodule("0")
    layer.bias = value(layer.bias)

    assert before.changed(GraphFacts.of(given)) is is_changed


def test_another_interface_of_a_program_is_a_change():
    facts = GraphFacts.of(exported())
    assert facts.interface is not None
    other = dataclasses.replace(facts, interface=dataclasses.replace(facts.interface, ranges={"s0": "from 0 to 9"}))

    assert facts.changed(other)
    assert not facts.changed(facts)
    assert not facts.changed(dataclasses.replace(facts, interface=None))
    assert not dataclasses.replace(facts, interface=None).changed(facts)


def test_another_operator_is_a_change_and_another_name_of_the_output_is_none():
    given = fxcore.symbolic_trace(lambda x: torch.relu(x))
    before = GraphFacts.of(given)
    _, call, output = given.graph.nodes

    output.target = "another"
    assert not before.changed(GraphFacts.of(given))
    call.target = torch.sigmoid
    assert before.changed(GraphFacts.of(given))
