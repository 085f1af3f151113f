from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.subgraph_rewriter
from torch import nn
from torch.nn import functional as F

import fxcore
from fxcore.subgraph_rewriter import Match, ReplacedPatterns, replace_pattern, replace_pattern_with_filters

LIBRARIES = [torch.fx, fxcore]


def rewritten(fx, function, pattern, replacement):
    """Return the graph of `function` after replacing, and how often that was."""
    traced = fx.symbolic_trace(function)
    matches = fx.subgraph_rewriter.replace_pattern(traced, pattern, replacement)
    traced.graph.lint()
    return str(traced.graph), traced.code, len(matches)


def test_every_occurrence_is_replaced():
    def program(x, w1, w2):
        m1 = torch.cat([w1, w2]).sum()
        m2 = torch.cat([w1, w2]).sum()
        return x + torch.max(m1) + torch.max(m2)

    traced = fxcore.symbolic_trace(program)

    matches = replace_pattern(traced, lambda a, b: torch.cat([a, b]), lambda a, b: torch.stack([a, b]))

    x, w = torch.randn(3, 3), torch.ones(3)
    assert len(matches) == 2
    assert torch.equal(traced(x, w, w), program(x, w, w))
    assert [node.name for node in traced.graph.nodes if "stack" in node.name] == ["stack", "stack_1"]
    assert "torch.cat" not in traced.code


def test_a_match_tells_what_stood_for_what():
    traced = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(x)))

    (match,) = replace_pattern(traced, lambda a: torch.relu(a), lambda a: torch.sigmoid(a))

    assert isinstance(match, Match)
    assert match.anchor.name == "relu"
    assert {ours.name: node.name for ours, node in match.nodes_map.items()} == {"relu": "relu", "a": "x"}


def test_a_replacement_tells_what_came_into_the_graph():
    traced = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(x)))

    (replaced,) = replace_pattern_with_filters(traced, lambda a: torch.relu(a), lambda a: torch.sigmoid(a) + 1)

    assert isinstance(replaced, ReplacedPatterns)
    assert [node.name for node in replaced.replacements] == ["sigmoid", "add"]
    assert [node.name for node in traced.graph.nodes] == ["x", "sigmoid", "add", "neg", "output"]


CASES = {
    "a chain of operators": (
        lambda x: torch.neg(torch.relu(x)).sum(),
        lambda x: torch.neg(torch.relu(x)),
        lambda x: torch.clamp(x, max=0),
    ),
    "overlapping occurrences": (
        lambda x: torch.relu(torch.relu(torch.relu(x))),
        lambda x: torch.relu(torch.relu(x)),
        lambda x: torch.sigmoid(x),
    ),
    "an occurrence whose middle is read elsewhere": (
        lambda x: [torch.neg(torch.relu(x)), torch.relu(x)],
        lambda x: torch.neg(torch.relu(x)),
        lambda x: torch.tanh(x),
    ),
    "two outputs": (
        lambda x: torch.split(torch.relu(x) + torch.neg(x), 1),
        lambda x: (torch.relu(x), torch.neg(x)),
        lambda x: (torch.sigmoid(x), torch.tanh(x)),
    ),
    "the same input twice": (lambda x: x * x, lambda a, b: a * b, lambda a, b: a + b),
    "literals as inputs": (lambda x: F.dropout(x, 0.3, False), lambda x, p: F.dropout(x, p, False), lambda x, p: x * p),
    "other literals": (lambda x: torch.sum(x, 1), lambda x: torch.sum(x, 2), lambda x: torch.mean(x, 2)),
    "keywords": (lambda x: torch.sum(x, dim=1), lambda x: torch.sum(x, dim=1), lambda x: torch.mean(x, dim=1)),
    "methods": (lambda x: x.relu().neg(), lambda x: x.relu(), lambda x: x.sigmoid()),
    "operators of Python": (lambda x, y: (x + y) * 2, lambda a, b: a + b, lambda a, b: torch.sub(a, b)),
    "nothing to find": (lambda x: torch.relu(x), lambda x: torch.tanh(x), lambda x: torch.neg(x)),
    "the replacement is the input": (lambda x: torch.relu(torch.relu(x)) + 1, lambda x: torch.relu(x), lambda x: x),
    "lists as inputs": (
        lambda x, y: torch.cat([torch.relu(x), torch.relu(y)]),
        lambda xs: torch.cat(xs),
        lambda xs: torch.stack(xs),
    ),
    "a value nobody reads": (lambda x: (torch.relu(x), x)[1], lambda x: torch.relu(x), lambda x: torch.neg(x)),
    "further use of what a pattern returns": (
        lambda x, y: torch.relu(x) + y + torch.relu(x),
        lambda x, y: torch.relu(x) + y,
        lambda x, y: torch.sub(x, y),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_graphs_and_code_are_those_of_torch(name):
    theirs, ours = (rewritten(fx, *CASES[name]) for fx in LIBRARIES)

    assert ours == theirs


def test_modules_of_the_replacement_are_brought_along_as_in_torch():
    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.Tanh()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return self.act(x) * self.scale

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused = nn.Linear(1, 1)
            self.act2 = nn.Sigmoid()

        def forward(self, x):
            return torch.relu(self.act2(x))

    theirs, ours = (rewritten(fx, Model(), lambda x: torch.relu(x), Replacement()) for fx in LIBRARIES)

    assert ours == theirs
    traced = fxcore.symbolic_trace(Model())
    replace_pattern(traced, lambda x: torch.relu(x), Replacement())
    assert sorted(dict(traced.named_children())) == ["act", "act2"]
    assert traced(torch.zeros(1)) == torch.tanh(torch.tensor([0.5]))


def test_a_module_that_is_in_the_model_already_stays():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.Sigmoid()

        def forward(self, x):
            return self.act(torch.relu(x))

    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.Tanh()

        def forward(self, x):
            return self.act(x)

    traced = fxcore.symbolic_trace(Model())

    replace_pattern(traced, lambda x: torch.relu(x), Replacement())

    assert isinstance(traced.act, nn.Sigmoid)
    assert traced.code.count("self.act(") == 2


def test_filters_see_the_match_and_both_graphs():
    def is_of_first_input(match, original, pattern):
        graphs.append((original, pattern.find_nodes(op="output")[0].name))
        return match.placeholder_nodes[0].name == "x"

    graphs: list = []
    traced = fxcore.symbolic_trace(lambda x, y: torch.relu(x) + torch.relu(y))

    replaced = replace_pattern_with_filters(
        traced, lambda a: torch.relu(a), lambda a: torch.neg(a), [is_of_first_input]
    )

    assert len(replaced) == 1
    assert graphs == [(traced.graph, "output")] * 2


def test_a_callback_makes_the_graph_for_each_match():
    def per_match(match, original, pattern):
        target = torch.neg if match.placeholder_nodes[0].name == "x" else torch.sigmoid
        graph = fxcore.Graph()
        graph.output(graph.call_function(target, (graph.placeholder("a"),)))
        return graph

    traced = fxcore.symbolic_trace(lambda x, y: torch.relu(x) + torch.relu(y))

    replace_pattern_with_filters(traced, lambda a: torch.relu(a), replacement_callback=per_match)

    assert [node.name for node in traced.graph.nodes] == ["x", "y", "neg", "sigmoid", "add", "output"]


def test_the_last_node_can_be_matched_by_its_name():
    def program(x):
        return torch.sigmoid(torch.relu(x)) + torch.tanh(torch.relu(x))

    traced = fxcore.symbolic_trace(program)

    replaced = replace_pattern_with_filters(
        traced, lambda x: torch.neg(torch.relu(x)), lambda x: torch.abs(x), node_name_match="tanh"
    )

    assert len(replaced) == 1
    assert "torch.tanh" not in traced.code


def test_hooks_hear_of_every_edit_in_torchs_order():
    def heard(fx):
        traced = fx.symbolic_trace(lambda x: torch.neg(torch.relu(x)) + torch.relu(x))
        events: list[str] = []
        traced._register_create_node_hook(lambda node: events.append(f"create {node.name}"))
        traced._register_erase_node_hook(lambda node: events.append(f"erase {node.name}"))
        traced._register_replace_node_hook(lambda old, new, user: events.append(f"{user.name}: {old.name} -> {new}"))
        fx.subgraph_rewriter.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.tanh(x))
        return events

    assert heard(fxcore) == heard(torch.fx)


def test_a_replacement_or_a_callback_is_needed():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    with pytest.raises(AssertionError, match="Must provide either a replacement GraphModule or a replacement callback"):
        replace_pattern_with_filters(traced, lambda x: torch.relu(x))


def test_parameters_are_counted():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    with pytest.raises(AssertionError, match=r"Placeholder count mismatch: 1 vs 2: the replacement must .* \(a\)"):
        replace_pattern(traced, lambda a: torch.relu(a), lambda a, b: a + b)


def test_a_pattern_without_operation_is_refused():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    with pytest.raises(AssertionError, match="the pattern has no operation, so it would be found everywhere"):
        replace_pattern(traced, lambda a: a, lambda a: a)


def test_the_module_runs_what_was_put_in():
    class Model(nn.Module):
        def forward(self, x):
            return torch.relu(x)

    traced = fxcore.symbolic_trace(Model())
    before = traced(torch.tensor(-2.0))

    replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.neg(x))

    assert (before.item(), traced(torch.tensor(-2.0)).item()) == (0.0, 2.0)


@pytest.mark.parametrize(
    "filters", [lambda *_: True, torch.rand(2, 3), [torch.rand(2)]], ids=["one", "inputs", "tensor"]
)
def test_filters_that_are_no_list_of_functions_are_refused(filters):
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    with pytest.raises(
        fxcore.FxError, match=r"match_filters must be a list of functions of a match.* got \w+; give a list"
    ):
        replace_pattern_with_filters(traced, lambda a: torch.relu(a), lambda a: torch.sigmoid(a), filters)

    assert "relu" in traced.code


class Clips(nn.Module):
    def __init__(self, name, limit):
        super().__init__()
        self.name = name
        setattr(self, name, nn.Hardtanh(0, limit))

    def forward(self, x):
        return torch.neg(getattr(self, self.name)(x))


class ClipsOnly(Clips):
    def forward(self, x):
        return getattr(self, self.name)(x)


@pytest.mark.parametrize("match_modules", ["path", "class"])
def test_a_replacement_reads_the_matched_module(match_modules):
    model = fxcore.symbolic_trace(Clips("act" if match_modules == "path" else "other", 2))

    found = replace_pattern(model, Clips("act", 3), ClipsOnly("act", 4), match_modules=match_modules)

    assert len(found) == 1
    assert model(torch.tensor(5.0)) == 2


def test_a_replacement_by_a_module_removes_what_nobody_calls_and_one_by_a_function_does_not():
    def children(replacement):
        model = fxcore.symbolic_trace(Clips("act", 2))
        replace_pattern(model, Clips("act", 2), replacement)
        return [name for name, _ in model.named_children()]

    assert children(lambda x: torch.relu(x)) == ["act"]
    assert children(ClipsOnly("new", 4)) == ["new"]


@pytest.mark.parametrize(
    ("option", "pattern", "program"),
    [
        ("bind_arguments", lambda x: torch.sum(x, 1), lambda x: torch.sum(x, dim=1)),
        ("ignore_literals", lambda x: torch.sum(x, 1), lambda x: torch.sum(x, 2)),
        ("capture_literals", lambda x, n: torch.sum(x, n), lambda x: torch.sum(x, 2)),
    ],
)
@pytest.mark.parametrize("replace", [replace_pattern, replace_pattern_with_filters])
def test_options_are_off_unless_they_are_given(option, pattern, program, replace):
    def replacement(x, n=None):
        return torch.exp(x) if isinstance(n, int) else torch.neg(x)

    def replaced(**options):
        model = fxcore.symbolic_trace(program)
        names = {"capture_literals": lambda x, n: replacement(x, n)}
        found = replace(model, pattern, names.get(option, lambda x: torch.neg(x)), **options)
        return len(found), [node.target for node in model.graph.nodes if node.op == "call_function"]

    given = replaced(**{option: True})

    assert given == (1, [torch.exp if option == "capture_literals" else torch.neg])
    assert replaced() == replaced(**{option: False}) != given
