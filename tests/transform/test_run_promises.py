"""Recorded values are compared with the values of a run. Whole passes are in test_recorded_values.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import fxcore
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.transform.run_promises import check_recorded_values, check_refusals, unlike_a_run

X = torch.ones(2)


def graph_of(*steps: tuple[Any, Callable[[Any], Any]]) -> fxcore.GraphModule:
    """Return a graph of calls, one after the other, each with its recorded value."""
    graph = fxcore.Graph()
    first = node = graph.placeholder("x")
    for number, (recorded, function) in enumerate(steps):
        node = graph.create_node("call_function", function, (first,), name=f"n{number}")
        node.meta["val"] = recorded
    output = graph.output(node)
    output.meta["val"] = torch.ones(7)  # nobody asks for it
    return fxcore.GraphModule(torch.nn.Module(), graph)


def told(*steps: tuple[Any, Any]) -> dict[str, str]:
    """Return the words for recorded values and the values of a run."""
    graph_module = graph_of(*((recorded, lambda x, value=value: value) for recorded, value in steps))
    return unlike_a_run(graph_module, arguments_of(X), Snapshot())


@pytest.mark.parametrize(
    ("recorded", "value", "words"),
    [
        (torch.ones(2), torch.ones(2), None),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "says torch.float32, and the value is of torch.float64"),
        (torch.ones(3), torch.ones(2), "says shape [3], and the value has shape [2]"),
        (torch.ones(2, 1), torch.ones(2), "says shape [2, 1], and the value has shape [2]"),
        (torch.ones(2), torch.ones(2, 1), "says shape [2], and the value has shape [2, 1]"),
        (torch.ones(3, 2).t(), torch.ones(2, 3), "says strides [1, 2], and the value has strides [3, 1]"),
        # The stride of one element, or of none, addresses nothing.
        (torch.empty_strided((1, 3), (7, 1)), torch.ones(1, 3), None),
        (torch.empty_strided((0, 3), (7, 1)), torch.ones(0, 3), None),
        (torch.ones(2, 2).to_sparse(), torch.eye(2).to_sparse(), None),
        (torch.ones(2, 2).to_sparse(), torch.ones(2, 2), None),
        (torch.ones(2, 2), torch.ones(2, 2).to_sparse(), None),
        (torch.ones(2, 3), torch.ones(2, 2).to_sparse(), "says shape [2, 3], and the value has shape [2, 2]"),
        ((X, torch.ones(3)), (X, torch.ones(4)), "says shape [3], and the value has shape [4]"),
        ([X, torch.ones(3)], (X, torch.ones(3)), None),
        ((X,), X, None),
        (X, (X,), None),
        (3, 4, None),
        (None, X, None),
    ],
)
def test_a_recorded_value_is_compared_in_shape_dtype_and_strides(recorded, value, words):
    assert told((recorded, value)) == ({} if words is None else {"n0": words})


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("is_recorded", [True, False])
def test_shapes_of_nested_tensors_are_not_compared(is_recorded):
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])

    assert told((nested, torch.ones(5)) if is_recorded else (torch.ones(5), nested)) == {}


def test_a_symbol_has_one_value_in_a_run():
    size = ShapeEnv().create_unbacked_symint()

    assert told((size, 3), (size, 3), (size + 1, 4)) == {}
    assert told((size, 3), (size, 4)) == {"n1": f"says {size}, and the value is 4"}
    assert told((size, 3), (size + 1, 3)) == {"n1": f"says {size + 1}, and the value is 3"}
    assert told((size, X)) == {}


def test_a_graph_that_records_nothing_is_not_run():
    def refuse(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("it was run")

    graph_module = graph_of((None, refuse))
    for node in graph_module.graph.nodes:
        node.meta.clear()

    assert unlike_a_run(graph_module, arguments_of(X), Snapshot()) == {}


def test_what_was_recorded_wrongly_before_the_pass_is_not_held_against_it():
    right, wrong = (graph_of((torch.ones(size), lambda x: x * 2)) for size in (2, 3))

    for before, made in ((right, right), (wrong, wrong), (wrong, right)):
        check_recorded_values("fuse", before, made, arguments_of(X), Snapshot())
    with pytest.raises(
        AssertionError, match=r"fuse left metadata that a run contradicts: meta\['val'\] of n0 says shape"
    ):
        check_recorded_values("fuse", right, wrong, arguments_of(X), Snapshot())


def sized(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 3 else x


def sized_at_the_end(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[1] > 3 else x


def typed(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.dtype is torch.float32 else x


def positive(x: torch.Tensor) -> torch.Tensor:
    torch._assert(x.sum() > 0, "the sum is positive")
    return x * 2


def plain(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("model", [sized, sized_at_the_end, typed, positive, plain])
def test_a_refusal_by_a_guard_or_assertion_that_is_lost_is_told(model):
    x = torch.linspace(1, 2, 20).reshape(5, 4)
    before = fxcore.symbolic_trace(model, example_inputs=(x,))

    check_refusals("fuse", before, before, arguments_of(x), Snapshot())
    for after in (lambda x: x, torch.nn.Identity(), fxcore.symbolic_trace(lambda x: x)):
        if model is plain:
            check_refusals("fuse", before, after, arguments_of(x), Snapshot())
            continue
        with pytest.raises(AssertionError, match=r"fuse lost a refusal: a call where .* was refused"):
            check_refusals("fuse", before, after, arguments_of(x), Snapshot())


def test_graphs_that_refuse_nothing_or_get_nested_tensors_are_not_called_again():
    def refuse(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("it was called")

    x = torch.ones(5, 4)
    nested = torch.nested.nested_tensor([torch.ones(2)])
    for before, given in ((plain, x), (sized, nested)):
        graph_module = fxcore.symbolic_trace(before, example_inputs=(x,))
        vars(graph_module)["forward"] = refuse
        check_refusals("fuse", graph_module, refuse, arguments_of(given), Snapshot())


def test_an_error_of_an_operator_is_no_refusal():
    def product(x: torch.Tensor) -> torch.Tensor:
        torch._assert(x.sum() > -1e9, "never refused here")
        return x @ torch.ones(4, 4)

    x = torch.linspace(1, 2, 20).reshape(5, 4)

    check_refusals("fuse", fxcore.symbolic_trace(product), lambda x: x, arguments_of(x), Snapshot())
