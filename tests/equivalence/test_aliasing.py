"""Shared storage is told by name and place."""

from __future__ import annotations

import torch

from fxcore.state.storage import storage_of
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
    y = torch.zeros(2)
    outputs = [("output[0]", torch.eye(2).to_sparse()), ("output[1]", y)]
    assert sharing_of_outputs(outputs, [("input 0", torch.eye(2).to_sparse()), ("input 1", y)]) == {
        "output[1]": {("input 1", 0)}
    }


def test_state_that_an_output_shares_is_found_by_its_storage():
    weight, x = torch.zeros(4), torch.zeros(2)

    sharing = sharing_of_outputs(
        [("output", weight[2:]), ("output.bits", weight[1:].view(torch.int32))],
        [("input 0", x)],
        {storage_of(weight): [("weight", weight)]},
    )

    assert sharing == {"output": {("weight", 2)}, "output.bits": {("weight", 0), ("output", 0)}}


def test_another_partner_is_a_mismatch_and_an_output_of_one_run_alone_is_none():
    one, two, none = frozenset({("input 0", 0)}), frozenset({("input 1", 2), ("input 0", 0)}), frozenset()

    assert [found.sentence() for found in compare_sharing({"a": one, "b": one, "c": none}, {"b": two, "c": one})] == [
        "b shares storage with input 0 in eager, with input 0, input 1 in the graph",
        "c shares storage with nothing in eager, with input 0 in the graph",
    ]
