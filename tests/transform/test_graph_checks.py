"""A graph is well-formed, compiled anew and without leftovers, or its transform is named."""

from __future__ import annotations

import pytest
import torch

import fxcore
from pytest_fxgraph.transform.graph_checks import (
    Fingerprint,
    check_graph,
    check_inputs,
    check_meta,
    check_program,
    dead_nodes,
    inputs_of,
    meta_keys,
)


def traced() -> fxcore.GraphModule:
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch.exp(x)
        x.add_(1)
        return torch.relu(x)

    return fxcore.symbolic_trace(forward)


def test_only_pure_nodes_that_nobody_reads_are_dead():
    assert dead_nodes(traced()) == {"exp"}


def test_leftovers_of_the_model_itself_are_not_held_against_the_transform():
    graph_module = traced()

    check_graph(graph_module, "fuse", dead_nodes(graph_module))
    with pytest.raises(AssertionError, match=r"fuse left nodes without users: exp; call graph\.eliminate_dead_code"):
        check_graph(graph_module, "fuse", frozenset())


def test_a_forgotten_recompile_is_named():
    graph_module = traced()
    graph_module.graph.eliminate_dead_code()

    with pytest.raises(AssertionError, match=r"fuse changed the graph and forgot recompile\(\)"):
        check_graph(graph_module, "fuse", frozenset())


def test_meta_that_a_node_lost_is_named_with_the_node():
    gm = traced()
    for node in gm.graph.nodes:
        node.meta["origin"] = node.name
    before = meta_keys(gm)
    check_meta(gm, "tidy", before, True)

    del next(node for node in gm.graph.nodes if node.name == "relu").meta["origin"]

    check_meta(gm, "tidy", before, ("stack_trace",))
    with pytest.raises(AssertionError, match=r"tidy lost the meta of relu \(origin\); copy it to the nodes"):
        check_meta(gm, "tidy", before, ("origin",))


def test_a_call_that_no_code_can_be_written_for_is_a_malformed_graph():
    graph_module = fxcore.symbolic_trace(lambda x: x + 1)
    call = list(graph_module.graph.nodes)[1]
    call.args = call.args[:1]

    with pytest.raises(AssertionError, match="fuse left a malformed graph"):
        check_graph(graph_module, "fuse", frozenset())


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
    before = inputs_of(fxcore.symbolic_trace(lambda x, scale=2.0: x + scale))

    check_inputs(fxcore.symbolic_trace(lambda x, scale=2.0, more=1: x + scale + more), "fuse", before)
    with pytest.raises(AssertionError, match=f"fuse changed the inputs: {words}"):
        check_inputs(fxcore.symbolic_trace(forward), "fuse", before)


@pytest.mark.parametrize("symbolic_trace", [fxcore.symbolic_trace, torch.fx.symbolic_trace])
def test_graphs_of_both_packages_are_checked_alike(symbolic_trace):
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch.exp(x)
        return torch.relu(x)

    graph_module = symbolic_trace(forward)

    assert dead_nodes(graph_module) == {"exp"}
    assert inputs_of(graph_module) == [("x", "")]
    with pytest.raises(AssertionError, match="fuse left nodes without users: exp"):
        check_graph(graph_module, "fuse", frozenset())
    graph_module.graph.eliminate_dead_code()
    with pytest.raises(AssertionError, match=r"fuse changed the graph and forgot recompile\(\)"):
        check_graph(graph_module, "fuse", frozenset())
    check_graph(graph_module, "fuse", frozenset(), is_run=False)


def test_a_program_is_checked_with_its_signature():
    program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(2, 2)), (torch.ones(1, 2),), strict=False)

    check_program(program, "fuse")
    program.graph_signature.input_specs.pop()

    with pytest.raises(AssertionError, match=r"fuse left a malformed program: .*\(as program\.validate\(\) says\); k"):
        check_program(program, "fuse")


def test_names_and_meta_are_no_part_of_a_fingerprint_and_everything_else_is():
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.add(x[1:], 1, alpha=2)

    graph_module = fxcore.symbolic_trace(forward)
    before = Fingerprint.of(graph_module)
    add = list(graph_module.graph.nodes)[-2]

    add.name, add.meta["note"] = "other", 1
    assert not Fingerprint.of(graph_module).differs_from(before)

    add.kwargs = {"alpha": 3}
    assert Fingerprint.of(graph_module).differs_from(before)


def test_a_copy_of_the_state_is_no_change_and_a_write_is():
    graph_module = fxcore.symbolic_trace(lambda x: x + 1)
    state = torch.ones(2)
    before = Fingerprint.of(graph_module, {"state": state})

    assert not Fingerprint.of(graph_module, {"state": state.clone()}).differs_from(before)
    assert Fingerprint.of(graph_module, {"state": state + 1}).differs_from(before)
    assert Fingerprint.of(graph_module).differs_from(before)
    state.mul_(1)
    assert Fingerprint.of(graph_module, {"state": state}).differs_from(before)
