from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fxcore
from fxcore.matching.explanation import another_operation, describe_call, explain_matching, plain_name
from fxcore.matching.matcher import SubgraphMatcher


class Convolution(nn.Module):
    def __init__(self, stride: int, name: str) -> None:
        super().__init__()
        self.name = name
        self.add_module(name, nn.Conv1d(2, 2, 1, stride=stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(getattr(self, self.name)(x))


def explain(pattern, program, **options):
    of_pattern, of_program = fxcore.symbolic_trace(pattern), fxcore.symbolic_trace(program)
    return explain_matching(SubgraphMatcher(of_pattern.graph, **options), of_program.graph)


def reasons(pattern, program, **options):
    return [
        (place.node.name, failure.kind, failure.message)
        for place in explain(pattern, program, **options).near
        for failure in place.failures
    ]


def and_again(x, y):
    return y + torch.neg(x)


def around(x):
    inner = torch.neg(x)
    return torch.relu(inner) + torch.exp(torch.relu(inner))


# pattern, program, node, kind, words
CASES = {
    "another operator": (
        lambda x: torch.relu(torch.neg(x)), lambda x: torch.sigmoid(torch.neg(x)),
        "sigmoid", "operator", "the pattern has torch.relu, and here is torch.sigmoid",
    ),
    "another operator above": (
        lambda x: torch.relu(torch.neg(x)), lambda x: torch.relu(torch.exp(x)),
        "relu", "operator", "the pattern has torch.neg, and here is torch.exp",
    ),
    "another spelling": (
        lambda x: F.relu(x), lambda x: x.relu(),
        "relu", "operator", "here is the method relu, which is another spelling",
    ),
    "fewer arguments": (
        lambda x, y: torch.sum(x, 1, y), lambda x: torch.sum(x, 1),
        "sum_1", "arguments", "torch.sum is called with (%x, 1, %y) in the pattern, with (%x, 1) here",
    ),
    "by keyword": (
        lambda x: torch.clamp(x, 0, 6), lambda x: torch.clamp(x, min=0, max=6),
        "clamp", "arguments", "bind_arguments=True pairs them by parameter",
    ),
    "another constant": (
        lambda x: x + 1, lambda x: x + 1.0,
        "add", "literal", "an argument of operator.add is 1 in the pattern, and 1.0 here",
    ),
    "a value for a constant": (
        lambda x: x + 1, lambda x, y: x + y,
        "add", "wiring", "an argument of operator.add is 1 in the pattern, and %y here",
    ),
    "one value for two": (
        lambda x, y: x + y, lambda x: x + x,
        "add", "wiring", "x would stand for both x and y of the pattern",
    ),
    "two values for one": (
        lambda x: torch.mul(x, x), lambda x, y: torch.mul(x, y),
        "mul", "wiring", "the pattern reads x twice, and here these are two values, x and y",
    ),
    "a reader outside": (
        lambda x: torch.relu(torch.neg(x)), lambda x: (lambda y: torch.relu(y) + y)(torch.neg(x)),
        "relu", "user", "neg, which is torch.neg of the pattern, is also read by add outside of the match",
    ),
    "a way around": (
        lambda x, y: (torch.neg(x), torch.abs(y)), lambda x: torch.abs(torch.exp(torch.neg(x))),
        "neg", "cycle", "it cannot become one",
    ),
    "a second output missing": (
        lambda x: (torch.relu(x), torch.neg(x)), lambda x: (torch.relu(x), torch.exp(x)),
        "relu", "missing", "nothing that reads the same values is torch.neg, which the pattern returns too",
    ),
    "overlapping": (
        lambda x: torch.neg(torch.neg(x)), lambda x: torch.neg(torch.neg(torch.neg(x))),
        "neg_2", "claimed", "neg_1 is part of the match at neg_1, which comes first",
    ),
    "a constant and a value for one input": (
        lambda x, y: torch.add(torch.mul(x, y), y), lambda x, y: torch.add(torch.mul(x, 2), y),
        "add", "wiring", "y stands for the constant 2 already, and here for y",
    ),
    "a value and a constant for one input": (
        lambda x, y: torch.add(torch.mul(x, y), y), lambda x, y: torch.add(torch.mul(x, y), 2),
        "add", "wiring", "y stands for y already, and here for the constant 2",
    ),
    "two constants for one input": (
        lambda x, y: torch.add(torch.mul(x, y), y), lambda x: torch.add(torch.mul(x, 2), 3),
        "add", "wiring", "y stands for 2 already, and here for the constant 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pattern", "program", "node", "kind", "words"), CASES.values(), ids=CASES.keys())
def test_each_reason_is_named(pattern, program, node, kind, words):
    found = reasons(pattern, program)

    assert [(where, what) for where, what, told in found if words in told] == [(node, kind)]


@pytest.mark.parametrize(
    ("stride", "name", "options", "words"),
    [
        (1, "other", {}, "the module 'conv' (Conv1d), and here is the module 'other' (Conv1d); match_modules='class'"),
        (2, "conv", {"match_modules": "config"}, "whose stride is (1,) and (2,); match_modules='class' takes any of"),
    ],
)  # fmt: skip
def test_another_module_is_named_with_what_differs(stride, name, options, words):
    ((node, kind, told),) = reasons(Convolution(1, "conv"), Convolution(stride, name), **options)

    assert (node, kind) == ("relu", "module")
    assert words in told


def test_a_match_is_no_near_place():
    explanation = explain(lambda x: torch.relu(x), lambda x: torch.relu(x) + torch.relu(x.exp()))

    assert len(explanation.matches) == 2
    assert explanation.near == ()
    assert explanation.absent == ()


def test_operators_that_the_graph_has_nowhere_are_listed():
    explanation = explain(lambda x: torch.relu(torch.neg(torch.exp(x))), lambda x: torch.neg(x))

    assert [node.name for node in explanation.absent] == ["exp", "relu"]


def test_the_nearest_place_comes_first_and_their_number_is_limited():
    def program(x):
        far = torch.sigmoid(torch.tanh(x.neg()))
        near = torch.sigmoid(torch.tanh(torch.exp(x)))
        return [far, near, torch.sigmoid(x), torch.sigmoid(far)]

    explanation = explain(lambda x: torch.sigmoid(torch.tanh(torch.exp(torch.relu(x)))), program)

    assert explanation.near[0].node.name == "sigmoid_1"
    assert (explanation.near[0].agreed, explanation.near[0].total) == (3, 4)
    assert len(explanation.near) == 3


def test_an_input_may_stand_for_one_constant_in_two_calls():
    def pattern(x, y):
        return torch.add(torch.mul(torch.relu(x), y), y)

    explanation = explain(pattern, lambda x: torch.add(torch.mul(torch.neg(x), 2), 2))

    ((failure,),) = [place.failures for place in explanation.near]
    assert (failure.kind, failure.message) == ("operator", "the pattern has torch.relu, and here is torch.neg")


class Marked(nn.Parameter):
    """A parameter of a class of the user's."""


class Shifted(nn.Module):
    def __init__(self, shift: torch.Tensor) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.shift)


def test_another_attribute_is_named_with_its_class():
    found = reasons(Shifted(nn.Parameter(torch.ones(2))), Shifted(Marked(torch.ones(2))))

    told = "the pattern has the attribute 'shift' (Parameter), and here is the attribute 'shift' (Marked)"
    assert found == [("relu", "attribute", f"{told}, which holds something else")]


def test_an_attribute_of_a_graph_without_a_module_is_named_without_a_class():
    graph = fxcore.Graph()
    read = graph.get_attr("scale")

    assert describe_call(read) == "the attribute 'scale'"
    assert plain_name(graph.call_module("act", (read,))) == ""


def test_a_function_that_no_code_can_name_and_the_return_are_described():
    class Scale:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def __repr__(self) -> str:
            return "Scale()"

    graph = fxcore.Graph()
    call = graph.create_node("call_function", Scale(), (graph.placeholder("x"),), name="scale")

    assert describe_call(call) == "Scale()"
    assert describe_call(graph.output(call)) == "the return"


def test_modules_of_two_classes_are_named_without_a_hint():
    class Net(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.layer(x))

    ((node, kind, told),) = reasons(Net(nn.Sigmoid()), Net(nn.Tanh()), match_modules="class")

    assert (node, kind) == ("relu", "module")
    assert told == "the pattern has the module 'layer' (Sigmoid), and here is the module 'layer' (Tanh)"


class Layers(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.first, self.second = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.first(x) + self.second(torch.neg(x)))


def test_one_module_of_the_pattern_is_not_found_in_two():
    once = nn.Tanh()
    found = reasons(Layers(once, once), Layers(nn.Tanh(), nn.Tanh()), match_modules="class")

    told = "the pattern calls one module more than once, and here these are several modules"
    assert found == [("relu", "module", told)]


class Choosy(SubgraphMatcher):
    def _is_contained(self, nodes_map):
        return False


def test_a_place_that_a_subclass_of_the_matcher_refuses_is_told():
    pattern, program = (fxcore.symbolic_trace(lambda x: torch.relu(x)) for _ in range(2))

    (near,) = explain_matching(Choosy(pattern.graph), program.graph).near

    assert [(each.kind, each.message) for each in near.failures] == [
        ("user", "the matcher does not take it for self-contained")
    ]


def test_a_value_that_differs_is_told_once_however_often_it_is_read():
    def pattern(x):
        inner = torch.neg(x)
        return torch.add(inner, inner)

    assert reasons(pattern, lambda x: torch.add(torch.exp(x), torch.exp(x))) == [
        ("add", "operator", "the pattern has torch.neg, and here is torch.exp")
    ]


@pytest.mark.parametrize(
    ("readers", "words"),
    [
        (1, "is also read by add outside of the match;"),
        (3, "is also read by add, add_1, add_2 outside of the match;"),
        (4, "is also read by add, add_1, add_2 and others outside of the match;"),
    ],
)
def test_the_first_three_readers_outside_are_named(readers, words):
    def program(x):
        inner = torch.neg(x)
        return [torch.relu(inner), *[inner + number for number in range(readers)]]

    ((_, kind, told),) = reasons(lambda x: torch.relu(torch.neg(x)), program)

    assert (kind, words in told) == ("user", True)


def test_a_place_that_differs_everywhere_is_told_with_eight_reasons():
    found = reasons(
        lambda x: torch.cat([x + number for number in range(10)]),
        lambda x: torch.cat([x - number for number in range(10)]),
    )

    assert found == [("cat", "operator", "the pattern has operator.add, and here is operator.sub")] * 8


@pytest.mark.parametrize(("length", "shown"), [(58, "a" * 58 + "'"), (59, "a" * 56 + "...")])
def test_long_texts_are_cut_at_sixty_characters(length, shown):
    ((_, kind, told),) = reasons(lambda x: x.to("a" * length), lambda x: x.to("b"))

    words = f"an argument of the method to is '{shown} in the pattern, and 'b' here; ignore_literals=True takes any"
    assert (kind, told) == ("literal", f"{words} constant")


@pytest.mark.parametrize(
    ("pattern", "program", "expected"),
    [
        (lambda x: x + 1, lambda x, y: x + y, "an argument of operator.add is 1 in the pattern, and %y here"),
        (lambda x: x + x.neg(), lambda x: x + 1, "an argument of operator.add is %neg in the pattern, and 1 here"),
    ],
)
def test_a_value_is_no_constant_to_ignore(pattern, program, expected):
    ((_, kind, told),) = reasons(pattern, program)

    assert (kind, told) == ("wiring", expected)


def test_two_functions_without_a_name_are_no_spellings_of_one_operator():
    class Call:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x

        def __repr__(self) -> str:
            return "Call()"

    graph = fxcore.Graph()
    x = graph.placeholder("x")
    first, second = (graph.create_node("call_function", Call(), (x,), name="call") for _ in range(2))

    assert another_operation(first, second).message == "the pattern has Call(), and here is Call()"


@pytest.mark.parametrize(
    ("op", "target", "name"),
    [
        ("call_function", torch.relu, "relu"),
        ("call_function", torch.relu_, "relu"),
        ("call_method", "relu_", "relu"),
        ("call_module", "act", "relu"),
        ("placeholder", "relu", ""),
        ("get_attr", "act.relu", ""),
    ],
)
def test_all_spellings_of_an_operator_have_one_plain_name(op, target, name):
    graph = fxcore.Graph()
    args = () if op in ("placeholder", "get_attr") else (graph.placeholder("x"),)
    node = graph.create_node(op, target, args)
    graph.output(node)
    held = fxcore.GraphModule({"act": nn.ReLU(), "act.relu": nn.Parameter(torch.ones(1))}, graph)

    assert held.graph is graph
    assert plain_name(node) == name


def test_a_second_output_is_looked_for_below_the_values_of_the_first():
    def pattern(x):
        return torch.relu(x), torch.neg(torch.exp(x))

    def program(a, b):
        return torch.neg(torch.exp(a)), torch.relu(b), torch.neg(torch.sin(b))

    assert reasons(pattern, program) == [("relu", "operator", "the pattern has torch.exp, and here is torch.sin")]


def test_a_second_output_is_looked_for_anywhere_if_the_first_is_about_constants():
    def pattern(x, y):
        return torch.add(2, x), torch.neg(torch.exp(y))

    graph = fxcore.Graph()
    y = graph.placeholder("y")
    first = graph.call_function(torch.add, (2, 3))
    second = graph.call_function(torch.neg, (graph.call_function(torch.sin, (y,)),))
    graph.output((first, second))
    matcher = SubgraphMatcher(fxcore.symbolic_trace(pattern).graph)

    ((failure,),) = [place.failures for place in explain_matching(matcher, graph).near]

    assert failure.message == "the pattern has torch.exp, and here is torch.sin"


def test_a_pattern_that_computes_nothing_is_near_nowhere():
    explanation = explain(lambda x: 3, lambda x: torch.relu(x))

    assert (explanation.matches, explanation.absent, explanation.near) == ((), (), ())


def test_places_of_overlapping_matches_are_not_claimed():
    def pattern(x):
        return torch.neg(torch.neg(x))

    explanation = explain(pattern, lambda x: torch.neg(torch.neg(torch.neg(x))), remove_overlapping_matches=False)

    assert len(explanation.matches) == 2
    assert [each.kind for place in explanation.near for each in place.failures] == ["operator"]


def test_places_that_agree_alike_are_ordered_by_the_number_of_reasons():
    def pattern(x, y):
        return torch.add(torch.mul(x, 2), torch.sub(y, 3))

    def program(x, y):
        worse = torch.add(torch.mul(x, 1), torch.sub(y, 1))
        return worse, torch.add(torch.mul(x, 2), torch.sub(y, 1)), torch.add(x, torch.exp(y))

    graph, matcher = fxcore.symbolic_trace(program).graph, SubgraphMatcher(fxcore.symbolic_trace(pattern).graph)
    places = explain_matching(matcher, graph).near
    nearest = explain_matching(matcher, graph, limit=1).near

    found = [(place.node.name, place.agreed, len(place.failures)) for place in places]
    assert found[:2] == [("add_1", 3, 1), ("add", 3, 2)]
    assert [place.node.name for place in nearest] == ["add_1"]


def test_a_name_that_the_caller_looks_for_is_no_other_operator():
    pattern, program = (
        fxcore.symbolic_trace(each).graph
        for each in (lambda x: torch.relu(torch.neg(x)), lambda x: torch.exp(torch.abs(x)))
    )

    (place,) = explain_matching(SubgraphMatcher(pattern), program, "exp").near

    assert [each.message for each in place.failures] == ["the pattern has torch.neg, and here is torch.abs"]


@pytest.mark.parametrize("match_modules", ["path", "class"])
def test_inputs_and_modules_of_a_refused_place_are_no_further_reasons(match_modules):
    pattern = fxcore.symbolic_trace(lambda x, y: (torch.neg(x), torch.abs(y))).graph
    program = fxcore.symbolic_trace(lambda x: (torch.neg(x), torch.abs(torch.exp(torch.sin(x))))).graph

    (place,) = explain_matching(Choosy(pattern, match_modules=match_modules), program).near

    assert [(each.kind, each.obtained.name) for each in place.failures] == [("user", "abs_1")]


def test_an_input_of_a_match_is_no_part_of_the_match():
    def program(x):
        negative = torch.neg(x)
        return torch.relu(torch.neg(negative)), torch.relu(negative)

    found = reasons(lambda x: torch.relu(torch.neg(x)), program)

    assert [kind for node, kind, _ in found if node == "relu_1"] == ["user"]


def test_of_a_long_list_six_items_are_shown():
    ((_, _, told),) = reasons(lambda x: x.permute([*range(8)]), lambda x: x.permute([*range(7)]))

    assert told.count("0, 1, 2, 3, 4, 5") == 2
    assert "5, 6" not in told
