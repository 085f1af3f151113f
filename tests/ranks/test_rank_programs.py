"""The programs of all ranks as one subject: costs by group, equal graphs, refusals that name the rank."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fixtures.documents import document
from pytest_fxgraph.errors import CollectiveError, RanksError
from pytest_fxgraph.ranks.collectives import Collective, Communicator
from pytest_fxgraph.ranks.rank_program import StateMemory
from pytest_fxgraph.ranks.rank_programs import RankCost, RankCosts, RankPrograms, _sent
from pytest_fxgraph.ranks.world import World

FIRST = RankCost((0, 1, 3), 1000, 20, StateMemory(5, 6, 7), 8, {("all_reduce", "tp"): 4096}, ("my.op",))
SECOND = RankCost((2,), 10, 200, StateMemory(1, 2, 3), 4, {("all_reduce", "tp"): 1, ("send", "2_ranks"): 9}, ())


def test_memory_is_the_state_and_the_activations():
    assert FIRST.memory == 26
    assert FIRST.columns == {
        "flops": 1000,
        "bytes": 20,
        "memory_parameters": 5,
        "memory_gradients": 6,
        "memory_optimizer": 7,
        "peak_activation": 8,
        "sent_bytes_all_reduce_tp": 4096,
        "uncounted": 1,
    }


def test_a_row_has_the_largest_number_of_each_column_of_any_rank():
    largest = RankCosts([SECOND, FIRST]).largest

    assert largest == {**SECOND.columns, **FIRST.columns, "bytes": 200, "sent_bytes_send_2_ranks": 9}
    assert RankCosts([]).largest == {}


def test_the_table_has_a_column_for_each_exchange():
    rows = [line.split() for line in str(RankCosts([FIRST, SECOND])).splitlines()]

    assert rows[0][-6:] == ["activations", "memory", "all_reduce", "tp", "send", "2_ranks"]
    assert rows[1:] == [
        ["0-1,", "3", "1,000", "5", "6", "7", "8", "26", "4,096", "0"],
        ["2", "10", "1", "2", "3", "4", "10", "1", "9"],
    ]


def programs(*operators: str, hooked: str = "", collectives=()) -> RankPrograms:
    """Return programs of ranks that call one operator each."""
    found = []
    for rank, operator in enumerate(operators):
        graph = document(f"%x = input x\n%a = {operator}\nreturn %a")
        own = [each for each in collectives if each.rank == rank]
        capture = SimpleNamespace(graphs=[])
        found.append(SimpleNamespace(rank=rank, document=graph, hooked=hooked if rank else "", capture=capture,
                                     collectives=own))  # fmt: skip
    return RankPrograms("aot", World.of(len(operators), None), found)


def test_programs_are_counted_in_their_repr():
    assert repr(programs("torch.relu(%x)")) == "<1 rank in 1 group by aot>"
    assert repr(programs("torch.relu(%x)", "torch.sin(%x)")) == "<2 ranks in 2 groups by aot>"


def test_three_other_graphs_are_told_with_their_first_difference():
    programs("torch.relu(%x)", "torch.relu(%x)").assert_spmd()
    five = programs(*(f"torch.{name}(%x)" for name in ("relu", "sin", "cos", "exp", "neg")), "torch.sin(%x)")

    with pytest.raises(CollectiveError) as caught:
        five.assert_spmd()

    lines = str(caught.value).splitlines()
    assert lines[0] == "the 6 ranks run 5 different graphs: ranks 0; ranks 1, 5; ranks 2; ranks 3; ranks 4"
    assert [line.partition(":")[0] for line in lines[1:-1]] == [
        f"rank {rank} differs from rank 0" for rank in (1, 2, 3)
    ]
    assert "torch.relu -> torch.sin" in lines[1]
    assert lines[-1].startswith("a rank-dependent branch or size makes another graph")


def test_hooks_outside_of_the_graphs_are_refused_with_their_rank():
    hooked = programs("torch.relu(%x)", "torch.relu(%x)", hooked="FSDPModule blocks.0")

    with pytest.raises(RanksError, match=r"cannot match the collectives of rank 1: hooks of FSDPModule blocks\.0 call"):
        hooked.assert_matching_collectives()
    with pytest.raises(RanksError, match="cannot list the collectives of rank 1"):
        _ = hooked.collectives
    with pytest.raises(RanksError, match="cannot count the collectives of rank 1"):
        _ = hooked.cost


def test_collectives_of_all_ranks_meet_or_the_error_says_why():
    pair = Communicator((0, 1))
    calls = [Collective(rank, 0, "barrier", pair, "", (), 0) for rank in (0, 1)]

    programs("torch.relu(%x)", "torch.relu(%x)", collectives=calls).assert_matching_collectives()
    lonely = programs("torch.relu(%x)", "torch.relu(%x)", collectives=calls[:1])
    assert lonely.collectives == calls[:1]
    with pytest.raises(CollectiveError, match=r"rank 0 waits in barrier on ranks 0-1 .* for rank 1"):
        lonely.assert_matching_collectives()


def test_sent_bytes_are_added_up_by_kind_and_group():
    tp, lone = Communicator((0, 1), "tp"), Communicator((0, 2))
    calls = [
        Collective(0, place, kind, group, "float32", ((2,),), 8)
        for place, (kind, group) in enumerate(
            [("all_reduce", tp), ("all_reduce", tp), ("all_reduce", lone), ("send", lone)]
        )
    ]

    assert _sent(calls) == {("all_reduce", "tp"): 16, ("all_reduce", "2_ranks"): 8, ("send", "2_ranks"): 8}


def test_the_largest_numbers_of_one_rank_are_its_own():
    nothing = RankCost((0,), 0, 0, StateMemory(), 0, {}, ())

    assert RankCosts([SECOND]).largest == SECOND.columns
    assert RankCosts([nothing]).largest == nothing.columns
