"""State of a copy under other paths: paired by bits and by what both runs do with it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import fxcore
from fxcore.passes.split_module import split_module
from fxcore.state.held_state import HeldState, StateTensor
from pytest_fxgraph.equivalence import state_pairs
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.run import RunResult, SecondOutput
from pytest_fxgraph.equivalence.state_changes import StateAfter, StateNames
from pytest_fxgraph.equivalence.state_pairs import _matching, paired_paths
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.errors import MismatchError
from pytest_fxgraph.functions import assert_equivalent, check_transform

INPUTS = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Two layers and two batch norms whose state is alike before the first call."""

    def __init__(self):
        super().__init__()
        self.first, self.first_norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.second, self.second_norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("total", torch.zeros(()))
        for layer in (self.first, self.second):
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        self.total.add_(x.detach().sum())
        hidden = self.first_norm(self.first(x)).relu()
        return self.second_norm(self.second(hidden)) * self.scale


def net():
    torch.manual_seed(0)
    return Net()


def split(graph_module):
    """Split into parts of three nodes."""
    places = {node: index // 3 for index, node in enumerate(graph_module.graph.nodes)}
    return split_module(graph_module, None, places.__getitem__)


def outlined(graph_module):
    """Put all into a module below a new root."""
    graph = fxcore.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    root = nn.Module()
    root.inner = graph_module
    return fxcore.GraphModule(root, graph)


def flattened(graph_module):
    """Move modules, parameters and buffers to names without dots, the last one first."""
    graph, root, values = fxcore.Graph(), nn.Module(), {}
    held = {}
    for node in graph_module.graph.nodes:
        values[node] = graph.node_copy(node, values.__getitem__)
        if node.op in ("call_module", "get_attr"):
            *path, name = node.target.split(".")
            held[f"moved_{node.target.replace('.', '_')}"] = getattr(graph_module.get_submodule(".".join(path)), name)
            values[node].target = list(held)[-1]
    for name, value in reversed(held.items()):
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
            root.register_buffer(name, value)
        else:
            setattr(root, name, value)
    return fxcore.GraphModule(root, graph)


MOVES = {"split": split, "outlined": outlined, "flattened": flattened}


@pytest.mark.parametrize("grads", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("copied", [lambda module: module, copy.deepcopy], ids=["shared", "copied"])
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_state_that_moved_to_other_paths_is_compared_with_its_origin(move, copied, mode, grads):
    model = net()

    assert_equivalent(model, move(copied(fxcore.symbolic_trace(model))), INPUTS, grads=grads, modes=mode)


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_pass_that_moves_the_state_of_its_copy_is_right(move, mode):
    model = net()

    check_transform(move, fxcore.symbolic_trace(model), INPUTS, grads=True, modes=mode)
    check_transform(lambda gm: move(copy.deepcopy(gm)), model, INPUTS, grads=True, modes=mode)


def with_other_momentum(graph_module):
    graph_module.moved_second_norm.momentum = 0.2


def with_frozen_weight(graph_module):
    graph_module.moved_first.weight.requires_grad_(False)


def with_other_gradient(graph_module):
    for node in graph_module.graph.find_nodes(op="call_module", target="moved_second"):
        with graph_module.graph.inserting_after(node):
            left = graph_module.graph.call_method("detach", (node,))
        with graph_module.graph.inserting_after(left):
            doubled = graph_module.graph.call_function(torch.mul, (node, 2))
        with graph_module.graph.inserting_after(doubled):
            same = graph_module.graph.call_function(torch.sub, (doubled, left))
        reader = next(iter(set(node.users) - {left, doubled}))
        reader.replace_input_with(node, same)
    graph_module.recompile()


def with_lost_update(graph_module):
    (node,) = graph_module.graph.find_nodes(op="call_method", target="add_")
    node.target = "add"
    graph_module.recompile()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (with_other_momentum, "buffer second_norm.running_mean has other values after the graph's call"),
        (with_frozen_weight, "gradient of first.weight exists in eager"),
        (with_other_gradient, "gradient of .* has other values"),
        (with_lost_update, "buffer total was changed by eager, not by the graph"),
    ],
)
def test_a_fault_in_a_copy_under_other_paths_is_told_by_the_models_names(spoil, words):
    model = net()
    graph_module = flattened(copy.deepcopy(fxcore.symbolic_trace(model)))
    spoil(graph_module)

    with pytest.raises(MismatchError, match=words):
        assert_equivalent(model, graph_module, INPUTS, grads=True, modes="train")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x).sin())


@pytest.mark.parametrize("move", [copy.copy, outlined, flattened], ids=["in place", "outlined", "flattened"])
def test_a_tied_parameter_of_a_copy_has_one_gradient(move):
    torch.manual_seed(0)
    model = Tied()

    assert_equivalent(model, move(copy.deepcopy(fxcore.symbolic_trace(model))), INPUTS, grads=True)


def test_a_copy_that_is_not_tied_any_more_has_another_gradient():
    torch.manual_seed(0)
    model = Tied()
    graph_module = flattened(copy.deepcopy(fxcore.symbolic_trace(model)))
    graph_module.moved_second.weight = nn.Parameter(graph_module.moved_first.weight.detach().clone())

    with pytest.raises(MismatchError, match=r"gradient of first\.weight has other values"):
        assert_equivalent(model, graph_module, INPUTS, grads=True)


class SharedBuffer(nn.Module):
    """Two paths to one buffer that the call changes."""

    def __init__(self):
        super().__init__()
        self.counter, self.other = nn.Module(), nn.Module()
        self.counter.register_buffer("total", torch.zeros(4))
        self.other.register_buffer("total", self.counter.total)

    def forward(self, x):
        self.counter.total.add_(x.detach().sum(0))
        return x + self.other.total


def test_a_buffer_with_two_paths_is_one_state_in_a_copy():
    model, graph = SharedBuffer(), fxcore.Graph()
    x = graph.placeholder("x")
    total = graph.call_method("sum", (graph.call_method("detach", (x,)), 0))
    graph.call_method("add_", (graph.get_attr("counter.total"), total))
    graph.output(graph.call_function(torch.add, (x, graph.get_attr("other.total"))))

    assert_equivalent(model, fxcore.GraphModule(copy.deepcopy(model), graph), INPUTS)


class ReturnsState(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(4))
        self.register_buffer("other", torch.ones(4))

    def forward(self, x):
        return x * self.other, self.table


def test_an_output_that_is_a_buffer_of_a_copy_shares_the_memory_of_the_models_buffer():
    model = ReturnsState()
    graph_module = flattened(copy.deepcopy(traced_with_buffers(model)))

    assert_equivalent(model, graph_module, INPUTS)


def traced_with_buffers(model):
    class Tracer(fxcore.Tracer):
        proxy_buffer_attributes = True

    return fxcore.GraphModule(model, Tracer().trace(model))


class Running(nn.Module):
    """Adds up the inputs of all calls; the output does not show it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.total.add_(x.detach().sum())
        return x.sin()


def test_state_after_a_second_call_is_compared():
    model = Running()
    graph_module = fxcore.symbolic_trace(model)
    (node,) = graph_module.graph.find_nodes(op="call_method", target="add_")
    node.target = "copy_"  # right in the first call, because the total begins at zero
    graph_module.recompile()

    with pytest.raises(MismatchError, match="buffer total after a second call has other values"):
        assert_equivalent(model, graph_module, INPUTS)
    assert_equivalent(model, graph_module, INPUTS, checks=("values", "state"))


def run_of(known="", changed=None, gradients=None, sharing=None, second=None):
    """Return a run by the names of its state, each a letter."""
    states = {name: StateTensor(name, "buffer", tensor) for name, tensor in (changed or {}).items()}
    shared = {path: frozenset((name, 0) for name in names) for path, names in (sharing or {}).items()}
    after = StateAfter(frozenset(known), states, {})
    second = second and SecondOutput(None, state=run_of(known, second).state)
    return RunResult(None, arguments_of(()), shared, after, {}, {}, gradients, False, {}, second)


def holding(**tensors):
    module = nn.Module()
    for name, tensor in tensors.items():
        module.register_buffer(name, tensor)
    return module


def pairs_of(expected, obtained, model, graph):
    held = HeldState(model), HeldState(graph)
    return paired_paths(expected, obtained, held, StateNames(held[0]), OutputComparison(ToleranceRule()), ())


def alike(*names):
    return holding(**{name: torch.zeros(2) for name in names})


ONE, OTHER = torch.tensor([100.0, 0.0]), torch.tensor([-100.0, 0.0])
NEARLY = torch.tensor([0.0, 4.0])  # a rounding of half precision in gradients of a hundred


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        (run_of("ab", {"a": ONE}), run_of("xy", {"y": ONE})),
        (run_of("ab", {"a": ONE, "b": OTHER}), run_of("xy", {"y": ONE, "x": OTHER})),
        (run_of("ab", sharing={"output": "a"}), run_of("xy", sharing={"output": "y"})),
        (run_of("ab", sharing={"output": "ai"}), run_of("xy", sharing={"output": "yi"})),
        (run_of("ab", gradients={"a": ONE, "b": None}), run_of("xy", gradients={"y": ONE, "x": None})),
        (
            run_of("ab", gradients={"a": ONE, "b": OTHER, "c": None}),
            run_of("xy", gradients={"y": ONE + NEARLY, "x": OTHER + NEARLY}),
        ),
        (run_of("ab", {"a": ONE}, second={"a": ONE}), run_of("xy", {"y": ONE}, second={"y": ONE})),
        (run_of("ab", {"a": ONE}, second={"a": ONE}), run_of("xy", {"y": ONE})),
        (
            run_of("ab", {"a": ONE, "b": ONE}, second={"a": ONE, "b": OTHER}),
            run_of("xy", {"x": ONE, "y": ONE}, second={"y": ONE, "x": OTHER}),
        ),
    ],
)
def test_among_alike_tensors_those_with_which_both_runs_did_the_same_are_paired(expected, obtained):
    for paths in ("xy", "yx"):
        assert pairs_of(expected, obtained, alike("a", "b"), alike(*paths)) == {"x": "b", "y": "a"}


def test_state_is_paired_only_where_the_run_used_state_that_the_graph_does_not_know():
    assert pairs_of(run_of("ab"), run_of("xy"), alike("a", "b"), alike("x", "y")) == {}
    assert pairs_of(run_of("a", {"a": ONE}), run_of("ax"), alike("a"), alike("a", "x")) == {}


def test_a_further_path_of_a_tied_tensor_has_the_name_that_the_model_knows():
    shared = torch.zeros(2)

    assert pairs_of(run_of("a"), run_of("abc"), alike("a"), holding(b=shared, a=shared, c=shared)) == {
        "b": "a",
        "c": "a",
    }


@pytest.mark.parametrize("make", [lambda: torch.empty(2, device="meta"), lambda: torch.eye(2).to_sparse()])
def test_tensors_without_plain_values_are_paired_by_their_shape_and_type(make):
    assert pairs_of(run_of("a", {"a": make()}), run_of("x", {"x": make()}), holding(a=make()), holding(x=make())) == {
        "x": "a"
    }


@pytest.mark.parametrize(
    ("candidates", "pairs"),
    [
        ({"x": "ab", "y": "a"}, {"x": "b", "y": "a"}),
        ({"x": "a", "y": "a"}, {"x": "a"}),
        ({"x": "ab", "y": "bc", "z": "a"}, {"x": "b", "y": "c", "z": "a"}),
        ({"x": "", "y": "a"}, {"y": "a"}),
        ({"x": "ab", "y": "ab", "z": "ab"}, {"x": "b", "y": "a"}),
    ],
)
def test_as_many_paths_as_possible_get_a_name(candidates, pairs):
    assert _matching({path: [*names] for path, names in candidates.items()}) == pairs


def test_alike_tensors_have_the_same_bits_and_the_same_form():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    model = {"a": torch.arange(9.0), "b": torch.arange(9.0) * torch.tensor([1.0] * 8 + [2.0]), "c": nested}
    graph = {"x": torch.arange(9.0), "y": torch.arange(9.0).reshape(3, 3), "z": nested.clone()}

    assert state_pairs._alike(graph, model) == {"x": ["a"], "y": [], "z": ["c"]}


@pytest.mark.parametrize(
    ("expected", "obtained", "are_same"),
    [
        (None, None, True),
        (None, torch.ones(2), False),
        (torch.ones(2), None, False),
        (torch.ones(2), torch.ones(2), True),
        (torch.ones(2), torch.zeros(2), False),
        (torch.ones(2, 2), torch.ones(2, 2).t().contiguous().t(), True),
    ],
)
def test_a_tensor_that_one_run_lacks_is_another_one(expected, obtained, are_same):
    assert state_pairs._are_same(expected, obtained, OutputComparison(ToleranceRule())) == are_same


def test_outputs_are_found_by_the_state_that_they_share():
    sharing = {"output[0]": [("weight", False), ("total", True)], "output[1]": [("total", True)], "output[2]": []}

    assert state_pairs._outputs_with(sharing, "total") == {"output[0]", "output[1]"}
    assert state_pairs._outputs_with(sharing, "weight") == {"output[0]"}
    assert state_pairs._outputs_with(sharing, "other") == set()
