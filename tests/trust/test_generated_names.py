"""Names that nobody chose: another name is harmless, and what was exchanged under them is caught."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from fixtures.mutant_trials import GRAPH_LEVELS as LEVELS
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode

ROWS, OTHER_ROWS = torch.ones(4, 3), torch.ones(5, 3)


def golden_of(subject):
    return decode(encode(build_document(to_graph_module(subject))), "golden")


def caught_at(expected, obtained):
    """Name the levels that report a difference; hold the stricter ones against the looser."""
    documents = golden_of(expected), golden_of(obtained)
    caught = {level for level in LEVELS if not compare_documents(*documents, level=level).is_empty}
    assert "structure" not in caught or "exact" in caught
    assert "structure" in caught or not caught & {"ops", "signature"}
    return caught


def symbolic(function, *inputs):
    return make_fx(function, tracing_mode="symbolic")(*inputs)


def scaled(x, y):
    return (x * 2.0).sum() + (y + torch.tensor([1.0, 2.0, 3.0])).sum() * torch.tensor([3.0, 2.0, 1.0])


def scaled_under_other_names(first, second):
    return scaled(first, second)


def scaled_the_other_way(x, y):
    return scaled(y, x)


def with_constants_exchanged(x, y):
    return (x * 2.0).sum() + (y + torch.tensor([3.0, 2.0, 1.0])).sum() * torch.tensor([1.0, 2.0, 3.0])


def test_a_function_captured_under_other_names_is_the_same():
    expected, obtained = symbolic(scaled, ROWS, OTHER_ROWS), symbolic(scaled_under_other_names, ROWS, OTHER_ROWS)

    assert caught_at(expected, obtained) == {"exact"}


def test_names_of_constants_exchanged_without_their_values_are_the_same():
    expected, obtained = make_fx(scaled)(ROWS, OTHER_ROWS), make_fx(scaled)(ROWS, OTHER_ROWS)
    buffers = obtained._buffers
    names = {"_tensor_constant0": "_tensor_constant1", "_tensor_constant1": "_tensor_constant0"}
    buffers["_tensor_constant0"], buffers["_tensor_constant1"] = (buffers[name] for name in names.values())
    for node in obtained.graph.nodes:
        node.target = names.get(node.target, node.target)
    obtained.recompile()

    assert caught_at(expected, obtained) == {"exact"}


@pytest.mark.parametrize("mutant", [scaled_the_other_way, with_constants_exchanged])
def test_inputs_and_constants_exchanged_are_caught(mutant):
    expected, obtained = symbolic(scaled, ROWS, OTHER_ROWS), symbolic(mutant, ROWS, OTHER_ROWS)

    assert caught_at(expected, obtained) >= {"exact", "structure"}


def test_values_of_constants_exchanged_under_their_names_are_caught():
    expected, obtained = make_fx(scaled)(ROWS, OTHER_ROWS), make_fx(scaled)(ROWS, OTHER_ROWS)
    buffers = obtained._buffers
    buffers["_tensor_constant0"], buffers["_tensor_constant1"] = (
        buffers["_tensor_constant1"],
        buffers["_tensor_constant0"],
    )

    assert caught_at(expected, obtained) >= {"exact", "structure"}


def test_two_symbols_made_one_and_one_made_two_are_caught():
    two, one = symbolic(scaled, ROWS, OTHER_ROWS), symbolic(scaled, ROWS, ROWS)

    assert caught_at(two, one) >= {"exact", "structure", "signature"}
    assert caught_at(one, two) >= {"exact", "structure", "signature"}


class Chooses(nn.Module):
    def __init__(self, *, exchanged: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.exchanged = exchanged

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        branches = (lambda x: self.linear(x).sin(), lambda x: self.linear(x).cos())
        return torch.cond(x.sum() > 0, *(branches[::-1] if self.exchanged else branches), (x,))


def exported(model):
    return torch.export.export(model, (ROWS,))


@pytest.mark.slow
def test_branches_exchanged_are_caught_and_other_names_of_them_are_not():
    expected, renamed = exported(Chooses()), exported(Chooses()).module()
    for name, other in (("true_graph_0", "true_graph_7"), ("false_graph_0", "a_false_graph")):
        renamed._modules[other] = renamed._modules.pop(name)
        next(node for node in renamed.graph.nodes if node.target == name).target = other
    renamed.recompile()

    assert caught_at(expected, exported(Chooses(exchanged=True))) >= {"exact", "structure"}
    assert caught_at(exported(Chooses()).module(), renamed) == {"exact"}


@pytest.mark.parametrize("name", ["_tensor_constant0", "submod_1", "lifted_tensor_0", "true_graph_0", "_frozen_param0"])
def test_a_name_of_the_users_that_is_spelled_like_one_of_ours_counts(name):
    class Holds(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            setattr(self, name, nn.Linear(3, 3) if "graph" in name or "submod" in name else nn.Parameter(torch.ones(3)))
            self.name = name

        def forward(self, x_1):
            held = getattr(self, self.name)
            return held(x_1) if isinstance(held, nn.Module) else x_1 * held

    digit = name[-1]
    assert caught_at(Holds(name), Holds(name.replace(digit, "7"))) >= {"exact", "structure", "signature"}


def test_an_input_of_the_users_that_is_spelled_like_one_of_make_fx_counts():
    assert caught_at(lambda x_1: x_1 + 1, lambda x_2: x_2 + 1) >= {"exact", "structure", "signature"}


def by_dynamo(function, *inputs):
    kept = []

    def keep(gm, _):
        kept.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=keep)(*inputs)
    torch._dynamo.reset()
    return kept[0]


def test_inputs_of_dynamo_exchanged_in_the_source_are_caught_and_renamed_ones_are_not():
    inputs = torch.ones(3), torch.zeros(3)
    expected = by_dynamo(lambda x, y: x - y, *inputs)

    assert caught_at(expected, by_dynamo(lambda x, y: y - x, *inputs)) >= {"exact", "structure", "signature"}
    assert caught_at(expected, by_dynamo(lambda one, other: one - other, *inputs)) == {"exact"}


class TwoLayers(nn.Module):
    def __init__(self, order: str) -> None:
        super().__init__()
        self.order, self.a, self.b = order, nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.order:
            x = getattr(self, name)(x)
        return x


def test_layers_of_a_model_exchanged_before_dynamo_are_caught():
    expected, obtained = (by_dynamo(TwoLayers(order), ROWS) for order in ("ab", "ba"))

    assert caught_at(expected, obtained) >= {"exact", "structure", "signature"}
