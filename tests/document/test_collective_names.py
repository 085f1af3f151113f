"""Collectives have one word each."""

from __future__ import annotations

import pytest

from pytest_fxgraph.document.collective_names import collective_kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("all_reduce", "all_reduce"),
        ("allreduce_", "all_reduce"),
        ("all_reduce_coalesced", "all_reduce"),
        ("all_gather_into_tensor", "all_gather"),
        ("_allgather_base_", "all_gather"),
        ("reduce_scatter_tensor", "reduce_scatter"),
        ("all_to_all_single", "all_to_all"),
        ("broadcast", "broadcast"),
        ("gather_object", "gather"),
        ("scatter", "scatter"),
        ("reduce", "reduce"),
        ("monitored_barrier", "barrier"),
        ("isend", "send"),
        ("irecv", "recv"),
        ("batch_p2p_ops", "batch_p2p"),
        ("permute_tensor", "permute_tensor"),
    ],
)
def test_an_operator_is_told_by_the_word_of_its_collective(name, kind):
    assert collective_kind(name) == kind
