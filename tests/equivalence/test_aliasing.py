"""Shared storage is told by name and place."""

from __future__ import annotations

import torch

from pytest_fxgraph.equivalence.aliasing import compare_sharing, sharing_of_outputs


def test_an_output_shares_with_inputs_and_earlier_outputs():
    x = torch.zeros(4)

    sharing = sharing_of_outputs([("output[0]", x[1:]), ("output[1]", x[2:]), ("output[2]", x + 1)], [("input 0", x)])

    assert sharing["output[0]"] == {("input 0", 1)}
    assert sharing["output[1]"] == {("input 0", 2), ("output[0]", 1)}
    assert sharing["output[2]"] == frozenset()


def test_the_same_storage_at_another_place_is_a_mismatch():
    x = torch.zeros(4)
    expected, obtained = (sharing_of_outputs([("output", part)], [("input 0", x)]) for part in (x[:2], x[2:]))

    assert list(compare_sharing(expected, expected)) == []
    assert [found.sentence() for found in compare_sharing(expected, obtained)] == [
        "output begins at another place of the storage of input 0"
    ]


def test_empty_and_sparse_tensors_share_nothing():
    x = torch.zeros(0)

    sharing = sharing_of_outputs([("output[0]", x), ("output[1]", torch.eye(2).to_sparse())], [("input 0", x)])

    assert sharing == {}
