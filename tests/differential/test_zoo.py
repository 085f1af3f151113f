"""Every model of the zoo, traced by both libraries: the same graph, the same code, the same results."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest
import torch

from fixtures.catalog import real_models, small_models, untraceable_models
from fixtures.model_entry import ModelEntry
from fixtures.oracle import assert_same, assert_same_success
from fixtures.run_results import results_of_run
from fixtures.sight import AsIs
from fixtures.wrap_registry import wrapped_for_torch_fx


@pytest.fixture(autouse=True)
def wrapped() -> Iterator[None]:
    with wrapped_for_torch_fx():
        yield


def every_model(entries: list[ModelEntry], slow: str = "") -> list[object]:
    """Make a parameter of each model; those too slow for every day, and the one called `slow`, are marked."""
    return [
        pytest.param(
            entry, id=entry.name, marks=[pytest.mark.long] if "long" in entry.traits or entry.name == slow else []
        )
        for entry in entries
    ]


# torch.fx puts a buffer into the state dict that its owner keeps out; `test_mended.py` shows both.
MENDED = {"buffer_not_persistent"}
SMALL_MODELS = [entry for entry in small_models() if entry.name not in MENDED]
TRACEABLE = every_model(SMALL_MODELS + real_models(long=True))
SMALL = every_model(SMALL_MODELS)


def build(entry: ModelEntry, training: bool = False) -> torch.nn.Module:
    """Build a model of the zoo, or skip where the package that it comes from is missing."""
    if entry.requires:
        pytest.importorskip(entry.requires)
    return entry.build().train(training)


@pytest.mark.parametrize("entry", TRACEABLE)
def test_both_libraries_record_the_same_graph(entry):
    assert_same_success(lambda fx: fx.symbolic_trace(build(entry)))


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
# tests/zoo/test_equivalence.py compares the gradients of mobilenetv2 in every run; here they take a quarter of it all.
@pytest.mark.parametrize("entry", every_model(SMALL_MODELS + real_models(long=True), slow="mobilenetv2"))
def test_both_graphs_give_the_same_results_and_gradients(entry, training):
    def program(fx):
        traced = fx.symbolic_trace(build(entry, training))
        return results_of_run(traced, entry.example_inputs(), entry.example_kwargs())

    assert_same_success(program)


@pytest.mark.parametrize("entry", TRACEABLE)
def test_a_tracer_used_by_hand_leaves_the_same_marks_on_the_nodes(entry):
    def program(fx):
        root = build(entry)
        graph = fx.Tracer().trace(root)
        return [
            graph,
            fx.GraphModule(root, graph, "Named"),
            [list(map(str, node.meta.get("nn_module_stack", {}).items())) for node in graph.nodes],
        ]

    assert_same_success(program)


@pytest.mark.parametrize("entry", SMALL)
def test_a_deep_copy_looks_and_runs_the_same(entry):
    def program(fx):
        traced = copy.deepcopy(fx.symbolic_trace(build(entry)))
        return [traced, results_of_run(traced, entry.example_inputs(), entry.example_kwargs())]

    assert_same_success(program)


@pytest.mark.parametrize("entry", SMALL)
def test_a_pickled_graph_module_runs_the_same(entry):
    def program(fx):
        traced = pickle.loads(pickle.dumps(fx.symbolic_trace(build(entry))))
        return results_of_run(traced, entry.example_inputs(), entry.example_kwargs())

    assert_same(program)


@pytest.mark.parametrize("entry", SMALL)
def test_tracing_a_traced_module_again_gives_the_same_graph(entry):
    assert_same(lambda fx: fx.symbolic_trace(fx.symbolic_trace(build(entry))))


@pytest.mark.parametrize("entry", SMALL)
def test_an_interpreter_gives_the_same_results(entry):
    def program(fx):
        interpreter = fx.Interpreter(fx.symbolic_trace(build(entry)))
        torch.manual_seed(3)
        return interpreter.run(*entry.example_inputs(), *entry.example_kwargs().values())

    assert_same(program)


@pytest.mark.parametrize("entry", SMALL)
def test_a_transformer_that_changes_nothing_gives_the_same_graph(entry):
    def program(fx):
        made = fx.Transformer(fx.symbolic_trace(build(entry))).transform()
        # torch.fx's Transformer forgets which functions are wrapped (`test_mended.py`).
        code = [line for line in made.code.splitlines() if line and "_symbolic_trace.wrap(" not in line]
        return [AsIs(str(made.graph)), code, made.state_dict(), type(made).__name__]

    assert_same(program)


@pytest.mark.parametrize("entry", every_model(untraceable_models()))
def test_what_torch_fx_cannot_trace_is_refused_alike(entry):
    if entry.name == "asks_for_type":
        pytest.skip("torch.fx follows this model into its own error, so there is nothing to compare")

    assert_same(lambda fx: fx.symbolic_trace(build(entry)))
