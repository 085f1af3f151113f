from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from pytest_fxgraph.equivalence.changed_calls import ChangedCall
from pytest_fxgraph.equivalence.example_changes import changes_of
from pytest_fxgraph.equivalence.inputs import Arguments


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
EXAMPLE = Arguments((X, Pair(X + 1, None), Batch(None, 3)), {"options": {"kind": Kind.A, "parts": [X, X * 2]}})
CHANGES = {str(each): each for of_kind in changes_of(Takes(), Takes(), EXAMPLE).values() for each in of_kind}


def changed(words: str) -> Arguments:
    return ChangedCall(EXAMPLE, (CHANGES[words],)).arguments()


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

    assert ChangedCall(EXAMPLE, changes).arguments().args[0] is None


def test_values_are_the_examples_or_drawn_between_its_ends():
    assert torch.equal(ChangedCall(EXAMPLE).arguments().args[0], X)

    drawn = ChangedCall(EXAMPLE, seed=2).arguments().args[0]

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
