"""A change of state that one run alone makes is a mismatch, also where all values stay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.state.held_state import HeldState, StateTensor
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.state_changes import StateAfter, StateNames, compare_state, state_after
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.errors import MismatchError
from pytest_fxgraph.functions import assert_equivalent


def kept(weight: torch.Tensor) -> torch.Tensor:
    return weight


def frozen(weight: torch.Tensor) -> torch.Tensor:
    return weight.requires_grad_(False)


class Scaled(nn.Module):
    def __init__(self, prepare) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.prepare = prepare

    def forward(self, x):
        return x * self.prepare(self.weight)


def graph_of(model: nn.Module, prepare) -> fxcore.GraphModule:
    graph = fxcore.Graph()
    x, weight = graph.placeholder("x"), graph.get_attr("weight")
    graph.output(graph.call_function(torch.mul, (x, graph.call_function(prepare, (weight,)))))
    return fxcore.GraphModule(model, graph)


@pytest.mark.parametrize(
    ("in_eager", "in_graph", "words"),
    [
        (frozen, kept, "after eager's call, not after the graph's"),
        (kept, frozen, "after the graph's call, not after eager's"),
    ],
)
def test_a_flag_that_one_run_alone_sets_is_a_mismatch(in_eager, in_graph, words):
    model = Scaled(in_eager)

    with pytest.raises(MismatchError, match=f"parameter weight has requires_grad=False now, {words}"):
        assert_equivalent(model, graph_of(model, in_graph), torch.ones(2), grads=False)
    assert model.weight.requires_grad


def test_a_flag_that_both_runs_set_is_no_mismatch():
    model = Scaled(frozen)

    assert_equivalent(model, graph_of(model, frozen), torch.ones(2), grads=False)

    assert model.weight.requires_grad


def after(changed: tuple[str, ...] = (), known: str = "a b", *, value: float = 1.0, facts=None, is_nested=False):
    """Return the changes of a run: buffers that it wrote, and the words for other changes."""
    tensors = {name: StateTensor(name, "buffer", torch.tensor([value]), is_nested) for name in changed}
    return StateAfter(frozenset(known.split()), tensors, {} if facts is None else facts)


@pytest.mark.parametrize(
    ("expected", "obtained", "words"),
    [
        (after(("a",)), after(("a",)), []),
        (after(("a",)), after(("a",), value=2.0), ["buffer a has other values after the graph's call"]),
        (after(("a",)), after(), ["buffer a was changed by eager, not by the graph"]),
        (after(("a",)), after(known="b"), ["buffer a was changed by eager, and the graph has no such state"]),
        (after(("a",), is_nested=True), after(known="b"), []),
        (after(), after(("a",)), ["buffer a was changed by the graph, not by eager"]),
        (after(known="b"), after(("a",)), ["buffer a was changed by the graph, not by eager"]),
        # eager wrote a nested tensor that the graph may know by the other name
        (after(("a",), "a", is_nested=True), after(("c",), "c"), []),
        (after(("a",), "a c", is_nested=True), after(("c",), "c"), ["buffer c was changed by the graph, not by eager"]),
        (after(("a",), "a", is_nested=True), after(("c",), "a c"),
         ["buffer a was changed by eager, not by the graph", "buffer c was changed by the graph, not by eager"]),
        (after(facts={"a": ("buffer a", ["x", "y"])}), after(facts={"a": ("buffer a", ["y", "z"])}),
         ["buffer a z, after the graph's call, not after eager's",
          "buffer a x, after eager's call, not after the graph's"]),
        (after(facts={"a": ("buffer a", ["x"])}), after(), ["buffer a x, after eager's call, not after the graph's"]),
        (after(facts={"a": ("buffer a", ["x"])}), after(known="b"), []),
        (after(known="b"), after(facts={"a": ("buffer a", ["x"])}), []),
    ],
)  # fmt: skip
def test_state_of_one_run_alone_is_told(expected, obtained, words):
    comparison = OutputComparison(ToleranceRule(), checks=frozenset({"state"}))

    assert [found.sentence() for found in compare_state(expected, obtained, comparison)] == words


def test_a_state_of_a_later_call_is_told_with_its_call():
    (found,) = compare_state(after(("a",)), after(), OutputComparison(ToleranceRule()), suffix=" after a second call")

    assert (found.kind, found.where) == ("state", "buffer a after a second call")


def test_a_tensor_has_its_first_name_in_the_model_and_else_the_name_of_its_pair():
    model = nn.Module()
    model.first = nn.Parameter(torch.ones(1))
    model.second = model.first
    names = StateNames(HeldState(model), {"copy": "first"})

    assert names.name(StateTensor("second", "parameter", model.first)) == "first"
    assert names.name(StateTensor("copy", "parameter", torch.ones(1))) == "first"
    assert names.name(StateTensor("own", "parameter", torch.ones(1))) == "own"
    assert names.holds(StateTensor("copy", "parameter", model.first))
    assert not names.holds(StateTensor("first", "parameter", torch.ones(1)))


class Holding(nn.Module):
    """Holds tensors as a buffer, an attribute and in a list; all are [1, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0]))
        self.plain, self.parts = torch.tensor([1.0, 2.0]), [torch.tensor([1.0, 2.0])]


def replaced(module, name):
    setattr(module, name, torch.tensor([5.0, 6.0]))


def resized(module):
    module.total.add_(1)
    module.total.untyped_storage().resize_(0)


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (lambda module: None, {}),
        (lambda module: module.total.add_(1), {"total": [2, 3]}),
        (lambda module: module.plain.add_(1), {"plain": [2, 3]}),
        (lambda module: module.parts[0].add_(1), {"parts[0]": [2, 3]}),
        (lambda module: replaced(module, "total"), {"total": [5, 6]}),
        (lambda module: replaced(module, "plain"), {}),  # a check of other attributes tells of these
        (lambda module: module.parts.__setitem__(0, torch.zeros(2)), {}),
        (lambda module: delattr(module, "total"), {}),
        (resized, {"total": []}),
    ],
    ids=["none", "buffer", "attribute", "part", "new buffer", "new attribute", "new part", "no buffer", "no memory"],
)
def test_the_changes_of_a_call_are_copies_of_written_tensors_and_new_buffers(change, changed):
    module = Holding()
    snapshot = Snapshot(module)
    names = StateNames(snapshot.state_of(module))

    change(module)
    findings = snapshot.compare()
    after = state_after(snapshot, module, findings, snapshot.state_now(module, findings), names)
    snapshot.restore()

    assert {name: state.tensor.tolist() for name, state in after.changed.items()} == changed
    assert after.known == {"total", "plain", "parts[0]"}
    assert module.total.tolist() == module.plain.tolist() == module.parts[0].tolist() == [1, 2]
