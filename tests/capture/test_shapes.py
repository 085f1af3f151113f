from __future__ import annotations

from collections import namedtuple

import pytest
import torch

from pytest_fxgraph.capture.shapes import positional_arguments

Pair = namedtuple("Pair", ["first", "second"])


def test_a_tuple_holds_the_positional_arguments():
    assert positional_arguments((1, [2])) == (1, [2])


def test_a_lone_tensor_is_one_argument():
    tensor = torch.zeros(2)

    assert positional_arguments(tensor) == (tensor,)


@pytest.mark.parametrize("inputs", [[torch.zeros(2)], {"x": 1}, 3, None, Pair(1, 2)])
def test_anything_else_is_a_type_error_that_says_so(inputs):
    with pytest.raises(TypeError, match=r"inputs: expected a tuple of positional arguments or a lone tensor, got \w+"):
        positional_arguments(inputs)
