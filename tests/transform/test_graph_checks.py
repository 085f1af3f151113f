"""A graph is well-formed, compiled anew and without leftovers, or its transform is named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import fxcore
from pytest_fxgraph.transform.graph_checks import GraphFacts


def check(before: GraphFacts, made: Any, name: str, *, keeps_meta: tuple[str, ...] | bool = False) -> None:
    before.check(made, name, keeps_meta=keeps_meta, keeps_inputs=True)


def facts_without_leftovers(graph_module: Any) -> GraphFacts:
    return dataclasses.replace(GraphFacts.of(graph_module), dead=frozenset())


def traced() -> fxcore.GraphModule:
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch.exp(x)
        x.add_(1)
        return torch.relu(x)

    return fxcore.symbolic_trace(forward)


def test_only_pure_nodes_that_nobody_reads_are_dead():
    assert GraphFacts.of(traced()).dead == {"exp"}


def test_leftovers_of_the_model_itself_are_not_held_against_the_transform():
    graph_module = traced()

    check(GraphFacts.of(graph_module), graph_module, "fuse")
    with pytest.raises(AssertionError, match=r"fuse left nodes without users: exp; call graph\.eliminate_dead_code"):
        check(facts_without_leftovers(graph_module), graph_module, "fuse")


def test_a_forgotten_recompile_is_named():
    graph_module = traced()
    graph_module.graph.eliminate_dead_code()

    with pytest.raises(AssertionError, match=r"fuse changed the graph and forgot recompile\(\)"):
        check(facts_without_leftovers(graph_module), graph_module, "fuse")


def test_meta_that_a_node_lost_is_named_with_the_node():
    gm = traced()
    for node in gm.graph.nodes:
        node.meta["origin"] = node.name
    before = GraphFacts.of(gm)
    check(before, gm, "tidy", keeps_meta=True)

    del next(node for node in gm.graph.nodes if node.name == "relu").meta["origin"]

    check(before, gm, "tidy", keeps_meta=("stack_trace",))
    with pytest.raises(AssertionError, match=r"tidy lost the meta of relu \(origin\); copy it to the nodes"):
        check(before, gm, "tidy", keeps_meta=("origin",))


def test_a_call_that_no_code_can_be_written_for_is_a_malformed_graph():
    graph_module = fxcore.symbolic_trace(lambda x: x + 1)
    call = list(graph_module.graph.nodes)[1]
    call.args = call.args[:1]

    with pytest.raises(AssertionError, match="fuse left a malformed graph"):
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
    with pytest.raises(AssertionError, match=f"fuse changed the inputs: {words}"):
        check(before, fxcore.symbolic_trace(forward), "fuse")


@pytest.mark.parametrize("symbolic_trace", [fxcore.symbolic_trace, torch.fx.symbolic_trace])
def test_graphs_of_both_packages_are_checked_alike(symbolic_trace):
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch.exp(x)
        return torch.relu(x)

    graph_module = symbolic_trace(forward)

    facts = GraphFacts.of(graph_module)
    before = dataclasses.replace(facts, dead=frozenset())

    assert facts.dead == {"exp"}
    assert facts.inputs == [("x", "")]
    with pytest.raises(AssertionError, match="fuse left nodes without users: exp"):
        check(before, graph_module, "fuse")
    graph_module.graph.eliminate_dead_code()
    with pytest.raises(AssertionError, match=r"fuse changed the graph and forgot recompile\(\)"):
        check(before, graph_module, "fuse")


def exported() -> Any:
    return torch.export.export(torch.nn.Sequential(torch.nn.Linear(2, 2)), (torch.ones(1, 2),), strict=False)


def test_a_program_is_checked_with_its_signature():
    program = exported()
    before = GraphFacts.of(program)

    check(before, program, "fuse")
    program.graph_signature.input_specs.pop()

    with pytest.raises(AssertionError, match=r"fuse left a malformed program: .*\(as program\.validate\(\) says\); k"):
        check(before, program, "fuse")


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
    with pytest.raises(AssertionError, match=r"forgot recompile\(\)"):
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


def test_a_copy_of_the_state_is_no_change_and_a_write_is():
    graph_module, state = fxcore.symbolic_trace(lambda x: x + 1), torch.ones(2)
    graph_module.register_buffer("state", state)
    before = GraphFacts.of(graph_module)

    graph_module.state = state.clone()
    assert not before.changed(GraphFacts.of(graph_module))
    graph_module.state = state + 1
    assert before.changed(GraphFacts.of(graph_module))
    del graph_module.state
    assert before.changed(GraphFacts.of(graph_module))
    graph_module.register_buffer("state", state.mul_(1))
    assert before.changed(GraphFacts.of(graph_module))
