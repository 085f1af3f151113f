from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import fxcore
from fixtures.shown_frames import raises_here
from pytest_fxgraph.equivalence.changed_calls import CALL, Change, ChangedCall, changes_of
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.errors import MismatchError


class Refusal(fxcore.FxError):
    """The refusal of a graph."""


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            raise ValueError("one row has no halves")
        self.seen += 1
        return x[: x.shape[0] // 2] * 2


class Other(Halves):
    """Stands for a graph; `answer` says how it goes wrong."""

    def __init__(self, answer) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> Tensor:
        return self.answer(self, x)


EXAMPLE = Arguments((torch.arange(8.0).view(4, 2),), {})
ONE_ROW = Change("size", "input 0", "has one row", lambda x: x[:1])


def refused(module, x):
    raise Refusal("not these rows")


def refused_after_a_write(module, x):
    x.add_(1)
    raise Refusal("not these rows")


def refused_after_a_count(module, x):
    module.seen += 1
    raise Refusal("not these rows")


def failed(module, x):
    raise IndexError("no such row")


def test_an_equal_answer_is_right():
    assert ChangedCall(EXAMPLE).check(Halves(), Halves()) == "right"


def test_a_refusal_is_told_from_an_answer():
    assert ChangedCall(EXAMPLE).check(Halves(), Other(refused)) == "refused"


def test_a_refusal_of_gradients_is_called_again_with_gradients():
    def refuses_gradients(module, x):
        if x.requires_grad:
            raise Refusal("no gradients")
        raise IndexError("another call")

    assert ChangedCall(EXAMPLE, grads=True).check(Halves(), Other(refuses_gradients)) == "refused"


def test_a_call_that_both_refuse_by_errors_of_their_own_says_little():
    assert ChangedCall(EXAMPLE, (ONE_ROW,)).check(Halves(), Halves()) == "both raise"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda module, x: x[:2] * 3, r"output has other values"),
        (failed, r"forward of the graph raised IndexError: no such row; eager ran"),
        (refused_after_a_write, r"input 0 was changed by a call that the graph refused"),
        (refused_after_a_count, r"the state of the graph was changed by a call that the graph refused"),
        (lambda module, x: x[:2] * 2, r"buffer seen was changed by eager, not by the graph"),
    ],
)
def test_a_wrong_answer_is_a_mismatch_that_names_the_call(answer, words):
    call = ChangedCall(EXAMPLE, (Change("size", "input 0", "is itself", lambda x: x),))

    with raises_here(MismatchError, match=words) as caught:
        call.check(Halves(), Other(answer))

    assert "at this call: input 0 is itself" in str(caught.value)


def test_an_answer_to_a_call_that_the_model_refuses_is_a_mismatch():
    with raises_here(MismatchError, match="eager raised ValueError: one row has no halves; the graph answered"):
        ChangedCall(EXAMPLE, (ONE_ROW,)).check(Halves(), Other(lambda module, x: x))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def test_a_second_call_finds_state_that_the_graph_lost():
    graph = Other(lambda module, x: x * 1)

    assert ChangedCall(EXAMPLE).check(Counts(), graph) == "right"
    with raises_here(MismatchError, match="output of a second call has other values"):
        ChangedCall(EXAMPLE, twice=True).check(Counts(), graph)


class Drifts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * (1 + 0.01 * (self.calls - 1))


def test_a_second_call_is_compared_as_closely_as_the_first():
    with raises_here(MismatchError, match="output of a second call has other values"):
        ChangedCall(EXAMPLE, twice=True).check(Drifts(), Other(lambda module, x: x * 1))


@pytest.mark.parametrize("words", ["has grad mode off", "is in inference mode"])
def test_a_call_that_records_no_gradients_has_none_to_compare(words):
    model, graph = Halves(), Halves()
    (change,) = [each for each in changes_of(model, graph, EXAMPLE)["mode"] if each.words == words]

    assert ChangedCall(EXAMPLE, (change,), grads=True).check(model, graph) == "right"


class AsksForModes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0
        self.asked: list[object] = []

    def forward(self, x: Tensor) -> Tensor:
        modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
        return x * 1, [*modes, self.training, self.factor, torch.get_default_dtype()]


def changed_to(words: str, *, training: bool = False) -> tuple[list[object], AsksForModes]:
    """Make the one change of these words; return the modes that a graph finds, and the model."""
    model, graph, found = AsksForModes().train(training), AsksForModes().train(training), []
    changes = [each for of_kind in changes_of(model, graph, EXAMPLE).values() for each in of_kind]
    (change,) = [each for each in changes if words in str(each)]

    def answer(module, x):
        found.append(AsksForModes.forward(graph, x)[1])
        raise Refusal("looked")

    graph.forward = partial(answer, graph)
    ChangedCall(EXAMPLE, (change,)).check(model, graph)
    return found[0], model


@pytest.mark.parametrize(
    ("words", "modes"),
    [
        ("the call has grad mode off", [False, False, False, False, 2.0, torch.float32]),
        ("the call is in inference mode", [False, True, False, False, 2.0, torch.float32]),
        ("the call is under autocast", [True, False, True, False, 2.0, torch.float32]),
        ("the call has float64 by default", [True, False, False, False, 2.0, torch.float64]),
        ("the model is in train mode", [True, False, False, True, 2.0, torch.float32]),
        ("factor is 3.0, not 2.0", [True, False, False, False, 3.0, torch.float32]),
    ],
)
def test_a_mode_holds_for_the_call_and_is_put_back(words, modes):
    found, model = changed_to(words)

    assert found == modes
    assert (model.training, model.factor) == (False, 2.0)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32


def test_a_mode_of_the_call_leaves_the_mode_of_the_model():
    found, _ = changed_to("the call has grad mode off", training=True)

    assert found[:4] == [False, False, False, True]


class Weighs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def test_gradients_are_compared_on_request_alone():
    detached = Other(lambda module, x: x * 1)

    assert ChangedCall(EXAMPLE).check(Weighs(), detached) == "right"
    with raises_here(MismatchError, match="gradient of weight exists in eager; the graph has no such parameter"):
        ChangedCall(EXAMPLE, grads=True).check(Weighs(), detached)


def counts_without_a_version(module, x):
    module.seen.data.add_(1)
    return x[:2] * 2


def test_a_write_that_torch_does_not_count_is_compared():
    assert ChangedCall(EXAMPLE).check(Halves(), Other(counts_without_a_version)) == "right"


def test_model_graph_and_example_are_as_before():
    model, graph = Halves(), Halves()
    before = EXAMPLE.args[0].clone()
    swap = Change("argument", CALL, "writes", lambda given: Arguments((given.args[0].zero_(),), {}))

    ChangedCall(EXAMPLE, (swap,), twice=True).check(model, graph)

    assert model.seen == graph.seen == 0
    assert torch.equal(EXAMPLE.args[0], before)


class Kind(enum.Enum):
    A = 1
    B = 2


class Pair(NamedTuple):
    first: Tensor
    second: Tensor | None


@dataclass
class Batch:
    mask: Tensor | None
    size: int


class Takes(nn.Module):
    def forward(self, x, pair=None, batch=None, *, options=None, scale=None):
        return x


X = torch.arange(6.0).view(2, 3)
NESTED = Arguments((X, Pair(X + 1, None), Batch(None, 3)), {"options": {"kind": Kind.A, "parts": [X, X * 2]}})
CHANGES = {str(each): each for of_kind in changes_of(Takes(), Takes(), NESTED).values() for each in of_kind}


def changed(words: str) -> Arguments:
    return ChangedCall(NESTED, (CHANGES[words],)).arguments()


def test_a_size_changes_alone_or_wherever_it_stands():
    alone = changed("input 0 has 4 in dimension 1, not 3")
    everywhere = changed("every input has the size 4 in place of 3")

    assert alone.args[0].tolist() == [[0, 1, 2, 0], [3, 4, 5, 3]]
    assert alone.args[1].first.shape == (2, 3)
    assert everywhere.args[1].first.shape == everywhere.kwargs["options"]["parts"][1].shape == (2, 4)


@pytest.mark.parametrize(
    ("words", "look", "expected"),
    [
        ("input 0 is of torch.float64, not torch.float32", lambda given: given.args[0].dtype, torch.float64),
        ("input 0 is of torch.float64, not torch.float32", lambda given: given.args[0].requires_grad, False),
        ("input 0 has one dimension more", lambda given: given.args[0].shape, (1, 2, 3)),
        ("input 0 has one dimension less", lambda given: given.args[0].shape, (3,)),
        ("input 0 has the layout 'transposed'", lambda given: given.args[0].stride(), (1, 2)),
        ("input 0 has requires_grad=True", lambda given: given.args[0].requires_grad, True),
        ("input 0 is None", lambda given: given.args[0], None),
        ("input 1 is a list", lambda given: type(given.args[1]), list),
        ("input 1[1] is a tensor, not None", lambda given: given.args[1].second.shape, (2, 3)),
        ("input 2.mask is a tensor, not None", lambda given: given.args[2].mask.shape, (2, 3)),
        ("input 2.size is 4, not 3", lambda given: given.args[2].size, 4),
        (
            "input options['kind'] is <Kind.B: 2>, not <Kind.A: 1>",
            lambda given: given.kwargs["options"]["kind"],
            Kind.B,
        ),
        ("input options['parts'] has 1 elements", lambda given: len(given.kwargs["options"]["parts"]), 1),
        ("input options['parts'] has 3 elements", lambda given: len(given.kwargs["options"]["parts"]), 3),
        ("input options['parts'] is a tuple", lambda given: type(given.kwargs["options"]["parts"]), tuple),
        ("input options lacks 'kind'", lambda given: list(given.kwargs["options"]), ["parts"]),
        ("input options has a key more", lambda given: list(given.kwargs["options"]), ["kind", "parts", "another"]),
        ("input options has its keys reversed", lambda given: list(given.kwargs["options"]), ["parts", "kind"]),
        ("the call leaves out options", lambda given: given.kwargs, {}),
        ("the call leaves out the last positional argument", lambda given: len(given.args), 2),
        ("the call gives scale a tensor", lambda given: given.kwargs["scale"].shape, (2, 3)),
    ],
)
def test_a_change_does_as_its_words_say(words, look, expected):
    assert look(changed(words)) == expected


def test_one_tensor_stands_in_two_places():
    example = Arguments((X, X + 1), {})
    (change,) = [each for each in changes_of(Takes(), Takes(), example)["argument"] if "too" in each.words]

    given = ChangedCall(example, (change,)).arguments()

    assert str(change) == "the call gives input 0 as input 1, too"
    assert given.args[0] is given.args[1]


def test_changes_that_do_not_suit_each_other_leave_the_value_of_the_first():
    changes = (CHANGES["input 0 is None"], CHANGES["input 0 has one dimension more"])

    assert ChangedCall(NESTED, changes).arguments().args[0] is None
    for words in ("input 0 has requires_grad=True", "input 0 has 4 in dimension 1, not 3"):
        assert ChangedCall(NESTED, (changes[0], CHANGES[words])).arguments().args[0] is None
    fewer = (CHANGES["input 0 has one dimension less"], CHANGES["input 0 has 4 in dimension 1, not 3"])
    assert ChangedCall(NESTED, fewer).arguments().args[0].tolist() == [0, 1, 2]


def listed(kind, *args, model=None, **kwargs):
    return [str(each) for each in changes_of(model, None, Arguments(args, kwargs)).get(kind, [])]


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((3,), ["input 0 has 1 in dimension 0, not 3", "input 0 has 2 in dimension 0, not 3",
                "input 0 has 4 in dimension 0, not 3", "input 0 has 6 in dimension 0, not 3"]),
        ((1,), ["input 0 has 0 in dimension 0, not 1", "input 0 has 2 in dimension 0, not 1"]),
        ((0,), ["input 0 has 1 in dimension 0, not 0"]),
        ((), []),
    ],
)  # fmt: skip
def test_each_size_becomes_one_smaller_larger_and_twice_as_large(shape, sizes):
    everywhere = [each.replace("input 0", "every input").replace("has ", "has the size ").replace(
        "in dimension 0, not", "in place of") for each in sizes]  # fmt: skip

    assert listed("size", torch.zeros(shape)) == sizes + everywhere


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.zeros(2), ["has one dimension more", "has one dimension less", *["has the layout"] * 3,
                          "has requires_grad=True"]),
        (torch.zeros(2, requires_grad=True), ["has one dimension more", "has one dimension less",
                                              *["has the layout"] * 3, "has requires_grad=False"]),
        (torch.zeros(()).long(), ["has one dimension more"]),
        (torch.zeros(0, 2).long(), ["has one dimension more", "has the layout"]),
    ],
)  # fmt: skip
def test_a_tensor_gets_other_dimensions_layouts_and_flags(tensor, words):
    found = [each.removeprefix("input 0 ") for each in listed("tensor", tensor)]

    assert [each for each in found if "layout" not in each] == [each for each in words if "layout" not in each]
    assert any("layout" in each for each in found) == (tensor.dim() > 0)


@pytest.mark.parametrize(
    ("value", "others"),
    [(3, ["4", "2", "0", "3.0", "None"]), (2.5, ["3.5", "-2.5", "0.0", "2", "None"]), (None, []), ({}, [])],
)
def test_numbers_have_neighbours_zero_and_other_types(value, others):
    assert listed("value", value) == [f"input 0 is {other}, not {value!r}" for other in others]


def test_containers_lose_gain_and_reverse_their_parts():
    assert listed("structure", {"a": 1}) == ["input 0 lacks 'a'", "input 0 has a key more"]
    assert listed("structure", [1]) == ["input 0 has 0 elements", "input 0 has 2 elements", "input 0 is a tuple"]
    assert listed("structure", Pair(1, 2)) == ["input 0 is a list"]
    assert listed("structure", None, X) == ["input 0 is a tensor, not None", "input 1 is None"]
    assert listed("structure", None) == []


def test_arguments_are_left_out_given_and_shared():
    last = "the call leaves out the last positional argument"

    assert listed("argument", 1) == []
    assert listed("argument", 1, 2, flag=3) == ["the call leaves out flag", last]
    assert listed("argument", X, X + 1) == [last, "the call gives input 0 as input 1, too"]
    assert listed("argument", X, 1, X + 1) == [last, "the call gives input 0 as input 2, too"]
    assert listed("argument", X, X.long()) == listed("argument", X, X[:1]) == [last]
    assert listed("argument", X, model=Takes(), scale=X) == [
        "the call leaves out scale", "the call gives pair a tensor", "the call gives batch a tensor",
        "the call gives options a tensor"
    ]  # fmt: skip
    assert listed("argument", X, None, None, model=Takes()) == [last, "the call gives options a tensor",
                                                                "the call gives scale a tensor"]  # fmt: skip
    assert listed("argument", 3, model=Takes()) == []
    assert listed("mode", 3, model=Takes().eval())[0] == "the model is in train mode"
    assert listed("mode", 3)[0] == "the call has grad mode off"


def test_a_call_is_named_by_its_changes_seed_and_way():
    assert str(ChangedCall(EXAMPLE)) == "the example"
    assert str(ChangedCall(EXAMPLE, (ONE_ROW,))) == "input 0 has one row"
    assert str(ChangedCall(EXAMPLE, (ONE_ROW,), seed=3, grads=True, twice=True)) == (
        "input 0 has one row; values of seed 3; gradients; twice"
    )


def test_values_are_the_examples_or_drawn_between_its_ends():
    assert torch.equal(ChangedCall(NESTED).arguments().args[0], X)

    drawn = ChangedCall(NESTED, seed=2).arguments().args[0]

    assert not torch.equal(drawn, X)
    assert 0 <= drawn.min() <= drawn.max() <= 5


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self._count, self.name = 2.0, 1, "scaled"
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x) * self.scale


def test_attributes_are_numbers_of_own_modules_and_training_flags_that_the_graph_has_too():
    graph = Scaled()
    attributes = changes_of(Scaled(), graph, Arguments((X,), {}))["attribute"]
    graph.scale = 3.0

    left = changes_of(Scaled(), graph, Arguments((X,), {}))["attribute"]

    flags = ["training is False, not True", "dropout.training is False, not True"]
    assert sorted(map(str, attributes)) == sorted([*flags, "scale is 3.0, not 2.0"])
    assert sorted(map(str, left)) == sorted(flags)


@pytest.mark.parametrize(
    ("tensor", "layouts"),
    [
        (X, ["contiguous", "reversed", "transposed", "offset", "sliced", "expanded"]),
        (X[0], ["contiguous", "offset", "sliced", "expanded"]),
        (X[0, 0], []),
    ],
)
def test_a_tensor_takes_each_other_layout_of_its_dimensions(tensor, layouts):
    words = [each for each in listed("tensor", tensor) if "layout" in each]

    assert words == [f"input 0 has the layout {each!r}" for each in layouts]


def test_an_empty_dimension_grows_by_zeros():
    empty = Arguments((torch.ones(0, 2),), {})
    sizes = changes_of(None, None, empty)["size"]
    (change,) = [each for each in sizes if str(each) == "input 0 has 1 in dimension 0, not 0"]

    (made,) = ChangedCall(empty, (change,)).arguments().args

    assert made.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (torch.float64, [torch.float32, torch.bfloat16]),
        (torch.int64, [torch.int32, torch.bool]),
        (True, [False, 1]),
        ("a", ["a_", "", None]),
        (Kind.A, [Kind.B]),
        (object(), []),
    ],
)
def test_a_plain_value_is_replaced_by_values_of_its_kind(value, others):
    changes = changes_of(None, None, Arguments((value,), {})).get("value", [])

    assert [each.edit(value) for each in changes] == others


def test_the_arguments_around_a_repeated_tensor_stay():
    example = Arguments((X, X + 1, 5), {"flag": True})

    (change,) = [each for each in changes_of(Takes(), Takes(), example)["argument"] if "too" in each.words]
    given = ChangedCall(example, (change,)).arguments()

    assert given.args[2:] == (5,)
    assert given.args[1] is given.args[0]
