"""Inputs are made smaller as long as the graph stays wrong for them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fixtures.searched_graphs import space_around
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.search.shrinking import Shrinker


def smallest(is_wrong: Callable[..., bool], *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Shrink inputs of a model that takes any sizes."""
    space = space_around(*inputs)

    def call(arguments: Arguments) -> bool:
        return bool(is_wrong(*arguments.args))

    return list(Shrinker(space, Arguments(inputs, {}), call).run().args)


def test_rows_go_that_do_not_matter():
    x = torch.rand(64, 3)
    x[37, 1] = 7.0

    (found,) = smallest(lambda x: (x == 7).any(), x)

    assert found.shape == (1, 1)
    assert found.tolist() == [[7.0]]


def test_values_become_zeros_and_round():
    (found,) = smallest(lambda x: x.shape == (2, 3) and x[1, 2] < -0.5, torch.randn(2, 3).abs() * -1 - 0.6)

    assert found.tolist() == [[0, 0, 0], [0, 0, -1]]


def test_a_number_keeps_as_many_digits_as_it_needs():
    (found,) = smallest(lambda x: ((x > 0.122) & (x < 0.124)).any(), torch.tensor([[0.12345678]]))

    assert found.item() == torch.tensor(0.123).item()


def test_minus_zero_is_another_value_than_zero():
    (found,) = smallest(lambda x: x.signbit().any(), torch.tensor([[-0.0, 1.0]]))

    assert found.signbit().all()
    assert found.item() == 0


def test_each_of_several_inputs_shrinks():
    x, y = smallest(lambda x, y: (x > 0).any() and bool(y.any()), torch.rand(4, 3), torch.tensor([5, 9, 4, 7]))

    assert (x.tolist(), y.tolist()) == ([[1.0]], [1])


def test_what_repeats_elements_keeps_its_strides():
    (found,) = smallest(lambda x: 0 in x.stride(), torch.rand(1, 3).expand(4, 3))

    assert 0 in found.stride()


def test_what_cannot_be_made_smaller_stays():
    x = torch.rand(2, 2)

    (found,) = smallest(lambda candidate: torch.equal(candidate, x), x)

    assert found is x
