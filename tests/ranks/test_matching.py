"""Collectives of all ranks meet, or the message names the ranks, the calls and the reason."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.ranks.collectives import Collective, Communicator
from pytest_fxgraph.ranks.matching import mismatch_of

SIZE = 4
WORLD = Communicator(tuple(range(SIZE)))
ROWS = [Communicator((0, 1), "tp"), Communicator((2, 3), "tp")]
COLUMNS = [Communicator((0, 2), "dp"), Communicator((1, 3), "dp")]


class Plan:
    """A program of some ranks, written call by call."""

    def __init__(self, size: int = SIZE) -> None:
        self.calls: dict[int, list[Collective]] = {rank: [] for rank in range(size)}

    def all(self, kind: str, group: Communicator = WORLD, **facts) -> Plan:
        """Let every rank of a group call a collective."""
        for rank in group.ranks:
            self.one(rank, kind, group, **facts)
        return self

    def one(self, rank: int, kind: str, group: Communicator = WORLD, **facts) -> Plan:
        """Let one rank call a collective."""
        order = len(self.calls[rank])
        given = {"dtype": "float32", "shapes": ((2, 8),), "bytes": 64, "node": f"{kind}_{order}", **facts}
        if given.pop("waits", kind == "recv"):
            given["awaited"] = order + 1
        self.calls[rank].append(Collective(rank, order, kind, group, **given))
        return self

    def pair(self, sender: int, receiver: int, **facts) -> Plan:
        """Let one rank send to another, which waits for the data."""
        return self.one(sender, "send", peer=receiver, **facts).one(receiver, "recv", peer=sender, **facts)


def renumbered(calls):
    """Number calls anew after a mutation."""
    return [
        replace(call, order=place, awaited=None if call.awaited is None else place + call.awaited - call.order)
        for place, call in enumerate(calls)
    ]


def test_equal_calls_in_groups_that_overlap_meet():
    plan = Plan().all("all_gather", gives=(16,), takes=(16,))
    for group in (*ROWS, *COLUMNS):
        plan.all("all_reduce", group, reduction="sum")
    plan.all("barrier", shapes=(), dtype="")
    assert mismatch_of(plan.calls) is None


def test_groups_in_another_order_on_two_ranks_are_a_deadlock():
    plan = Plan()
    for rank in (0, 3):
        plan.one(rank, "all_reduce", ROWS[rank // 2]).one(rank, "all_reduce", COLUMNS[rank % 2])
    for rank in (1, 2):
        plan.one(rank, "all_reduce", COLUMNS[rank % 2]).one(rank, "all_reduce", ROWS[rank // 2])
    assert mismatch_of(plan.calls) == (
        "the ranks wait for each other without end:\n"
        "  ranks 0, 3 wait in all_reduce of float32[2, 8] on tp (its collective 0, node all_reduce_0) for ranks 1-2\n"
        "  ranks 1-2 wait in all_reduce of float32[2, 8] on dp (its collective 0, node all_reduce_0) for ranks 0, 3"
    )


def test_the_first_difference_is_told_though_the_ranks_stop_later():
    plan = Plan(2)
    pair = Communicator((0, 1))
    for module in ("up", "gate", "down"):
        plan.one(0, "all_reduce", pair, module=module)
    for module in ("up", "down"):
        plan.one(1, "all_reduce", pair, module=module)
    told = mismatch_of(plan.calls)
    assert "rank 0 waits in all_reduce of float32[2, 8] on ranks 0-1 (its collective 2, node all_reduce_2" in told
    assert "the first difference: rank 0 calls all_reduce of float32[2, 8] on ranks 0-1 (its collective 1, " in told
    assert "in gate), and rank 1 calls" in told
    assert "rank 1 has called all its 2 collectives" in told


def test_without_a_difference_up_to_the_end_of_a_rank_none_is_told():
    group = Communicator((0, 1, 2))
    told = mismatch_of(Plan(3).all("barrier", group).one(0, "all_reduce", group).calls)
    assert "rank 0 waits in all_reduce" in told
    assert told.splitlines()[2:] == ["  ranks 1-2 have called all their 1 collectives"]


@pytest.mark.parametrize(
    ("kind", "other", "words"),
    [
        ("all_reduce", {"kind": "all_gather"}, "the kind differs"),
        ("all_reduce", {"reduction": "avg"}, "the reduction differs"),
        ("all_reduce", {"dtype": "bfloat16"}, "the dtype differs"),
        ("all_reduce", {"shapes": ((2, 9),)}, "the shapes differ"),
        ("broadcast", {"peer": 1}, "the root differs"),
        ("all_gather", {"gives": (3,), "takes": (3,)}, "rank 0 hands 16 elements to rank 1, which expects 3 of it"),
        ("all_gather", {"takes": (3,)}, "rank 0 hands 16 elements to rank 1, which expects 3 of it"),
        ("all_gather", {"gives": (3,)}, "rank 1 hands 3 elements to rank 0, which expects 16 of it"),
        (
            "all_gather",
            {"gives": (9, 7), "takes": (9, 16)},
            "rank 0 hands 16 elements to rank 1, which expects 9 of it",
        ),
        ("reduce", {"peer": 1}, "the root differs"),
        ("reduce", {"shapes": ((1, 16),)}, "the shapes differ"),
    ],
)
def test_calls_that_do_not_fit_are_told(kind, other, words):
    plan = Plan(2)
    facts = {"reduction": "sum"} if kind == "all_reduce" else {"peer": 0} if kind in ("broadcast", "reduce") else {}
    facts |= {"gives": (16,), "takes": (16,)} if kind == "all_gather" else {}
    pair = Communicator((0, 1))
    plan.all(kind, pair, **facts)
    assert mismatch_of(plan.calls) is None
    plan.calls[1] = [replace(plan.calls[1][0], **other)]
    assert words in mismatch_of(plan.calls)


@pytest.mark.parametrize(
    ("kind", "facts", "other"),
    [
        ("all_reduce", {}, {"shapes": ()}),  # torch does not say the shapes
        ("all_gather", {}, {"shapes": ((2, 9),)}),
        ("all_to_all", {"peer": 0}, {"peer": 1}),
        ("gather", {"peer": 0, "gives": (16,), "takes": ()}, {"gives": (7,)}),  # rank 0 does not say its parts
        ("scatter", {"peer": 0, "gives": (), "takes": (16,)}, {"takes": (7,)}),
        ("all_gather", {"gives": (16,), "takes": ()}, {"gives": (7,)}),
    ],
)
def test_facts_that_may_differ_or_are_not_known_are_no_mismatch(kind, facts, other):
    plan = Plan(2).all(kind, Communicator((0, 1)), **facts)
    plan.calls[1] = [replace(plan.calls[1][0], **other)]
    assert mismatch_of(plan.calls) is None


def test_the_root_alone_gives_or_takes_the_parts():
    pair = Communicator((3, 5))
    for kind, root, other in (
        ("scatter", {"gives": (4, 6), "takes": (4,)}, {"takes": (6,)}),
        ("gather", {"gives": (4,), "takes": (4, 6)}, {"gives": (6,)}),
    ):
        calls = {rank: [Collective(rank, 0, kind, pair, "int8", ((9,),), 9, None, 3, **facts)]
                 for rank, facts in ((3, root), (5, other))}  # fmt: skip
        assert mismatch_of(calls) is None
        # a tensor that the other rank hands in for parts of its own is not exchanged
        calls[5] = [replace(calls[5][0], **{"gives" if kind == "scatter" else "takes": (8, 8)})]
        assert mismatch_of(calls) is None
        calls[5] = [replace(calls[5][0], **{"takes" if kind == "scatter" else "gives": (7,)})]
        told = "rank 3 hands 6 elements to rank 5, which expects 7" if kind == "scatter" else (
               "rank 5 hands 7 elements to rank 3, which expects 6")  # fmt: skip
        assert mismatch_of(calls).endswith(f"{told} of it")


def test_uneven_parts_are_legal_if_both_sides_agree():
    sizes = [(1, 2, 3, 4), (5, 6, 7, 8), (0, 0, 1, 0), (9, 9, 9, 9)]
    plan = Plan()
    for rank in range(SIZE):
        takes = tuple(sizes[other][rank] for other in range(SIZE))
        plan.one(rank, "all_to_all", gives=sizes[rank], takes=takes, shapes=((sum(sizes[rank]),),))
    for rank in range(SIZE):
        plan.one(rank, "all_gather", gives=(rank + 1,), takes=(1, 2, 3, 4), shapes=((rank + 1,),))
    for rank in range(SIZE):
        plan.one(rank, "scatter", peer=1, gives=(4, 3, 2, 1) if rank == 1 else (), takes=(4 - rank,))
    assert mismatch_of(plan.calls) is None
    plan.calls[2][0] = replace(plan.calls[2][0], takes=(3, 7, 2, 9))
    assert mismatch_of(plan.calls).endswith("rank 2 hands 1 elements to rank 2, which expects 2 of it")


def test_two_ranks_that_both_receive_first_wait_for_each_other():
    plan = Plan(2).one(0, "recv", peer=1).one(0, "send", peer=1).one(1, "recv", peer=0).one(1, "send", peer=0)
    told = mismatch_of(plan.calls)
    assert "rank 0 waits in recv of float32[2, 8] from rank 1 on ranks 0-3" in told
    assert "for a send of rank 1" in told


def test_receives_that_are_posted_before_the_send_meet():
    plan = Plan()
    for rank in range(SIZE):
        plan.one(rank, "recv", peer=(rank - 1) % SIZE, awaited=2, waits=False).one(rank, "send", peer=(rank + 1) % SIZE)
    assert mismatch_of(plan.calls) is None
    late = {rank: [replace(calls[0], awaited=1), calls[1]] for rank, calls in plan.calls.items()}
    assert "wait for each other" in mismatch_of(late)


def test_a_receive_that_comes_while_the_rank_stands_at_a_collective_counts_it_once():
    plan = Plan()
    plan.one(1, "recv", peer=0, waits=False).one(1, "all_reduce", ROWS[0])
    plan.one(0, "send", peer=1).one(0, "all_reduce", ROWS[0])
    assert mismatch_of({1: plan.calls[1], 0: plan.calls[0]}) is None


def test_sends_and_receives_without_partner_are_told():
    assert mismatch_of(Plan(2).one(0, "send", peer=1).calls) == (
        "sends and receives find no partner:\n"
        "  rank 0 calls send of float32[2, 8] to rank 1 on ranks 0-3 (its collective 0, node send_0), and rank 1 never "
        "receives it"
    )
    assert "rank 0 never sends it" in mismatch_of(Plan(2).one(1, "recv", peer=0, waits=False).calls)
    other_tag = Plan(2).one(0, "send", peer=1, tag=1).one(1, "recv", peer=0, tag=2, waits=False)
    assert "never receives it" in mismatch_of(other_tag.calls)
    shorter = Plan(2).one(0, "send", peer=1).one(1, "recv", peer=0, shapes=((2, 4),))
    assert mismatch_of(shorter.calls).endswith("16 elements are sent and 8 expected")
    assert "exchanges data with itself" in mismatch_of(Plan(2).one(0, "send", peer=0).calls)


def test_a_receive_from_any_rank_takes_what_comes():
    for first, then in ((0, 2), (2, 0)):  # rank 2 receives; a rank in front goes first
        plan = Plan(3).one(0, "send", peer=2).one(1, "all_reduce", ROWS[0]).one(0, "all_reduce", ROWS[0])
        plan.one(2, "recv").one(1, "send", peer=2, tag=1).one(2, "recv", tag=1)
        calls = {rank: plan.calls[rank] for rank in (first, 1, then)}
        assert mismatch_of(calls) is None
        shorter = replace(plan.calls[2][0], shapes=((1,),))
        assert mismatch_of({**calls, 2: [shorter, plan.calls[2][1]]}).endswith("16 elements are sent and 1 expected")


def test_a_receive_from_any_rank_without_a_send_is_told():
    told = mismatch_of(Plan().one(1, "recv").calls)
    assert told.splitlines()[1].endswith(" for a send of any rank")
    lost = Plan().one(1, "recv", waits=False).one(2, "recv", peer=1, waits=False)
    assert [line.rpartition(", and ")[2] for line in mismatch_of(lost.calls).splitlines()[1:]] == [
        "any rank never sends it",
        "rank 1 never sends it",
    ]


def test_a_receive_from_any_rank_may_take_from_a_rank_that_was_not_captured():
    plan = Plan().one(1, "recv")
    assert mismatch_of({rank: plan.calls[rank] for rank in (0, 1)}) is None
    assert "any rank" in mismatch_of(plan.calls)


def test_many_lines_are_counted():
    def lines(lost: int) -> list[str]:
        plan = Plan(2)
        for tag in range(lost):
            plan.one(0, "send", peer=1, tag=tag)
        return mismatch_of(plan.calls).splitlines()[1:]

    assert len(lines(12)) == 12
    assert "more" not in lines(12)[-1]
    assert lines(14)[-1] == "  and 2 more"
    assert [f"its collective {place}," in line for place, line in enumerate(lines(14)[:-1])] == [True] * 12


def test_waiting_ranks_are_told_in_at_most_twelve_lines():
    def lines(ranks: int) -> list[str]:
        plan = Plan(ranks)
        for rank in range(ranks):
            plan.one(rank, "recv", peer=(rank + 1) % ranks, node=f"recv_{rank}")
        return mismatch_of(plan.calls).splitlines()[1:]

    assert len(lines(12)) == 12
    assert "rank 11 waits in recv" in lines(12)[-1]
    assert lines(14)[-1] == "  and 2 more"


@pytest.mark.parametrize(
    ("step", "count", "named"),
    [
        (2, 1, "rank 0"),
        (2, 6, "ranks 0, 2, 4, 6, 8, 10"),
        (2, 7, "ranks 0, 2, 4, 6, 8, 10, ... (7 ranks)"),
        (1, 7, "ranks 0-6"),
    ],
)
def test_many_ranks_are_named_by_their_first_spans(step, count, named):
    ranks = [*range(0, step * count, step)]
    late = ranks[-1] + 1
    group = Communicator((*range(late + 1),))
    plan = Plan(late + 1)
    for rank in ranks:
        plan.one(rank, "barrier", group, dtype="", shapes=())
    waits = "waits" if count == 1 else "wait"
    told = mismatch_of({rank: plan.calls[rank] for rank in (*ranks, late)}).splitlines()
    group_text = f"ranks 0-{late}" if late else "ranks 0"
    assert told[1] == f"  {named} {waits} in barrier on {group_text} (its collective 0, node barrier_0) for rank {late}"
    assert told[2] == f"  rank {late} has called all its 0 collectives"


def test_ranks_that_are_done_are_told_together():
    told = mismatch_of(Plan().one(0, "barrier", shapes=(), source="train.py:3", module="net").calls).splitlines()
    assert told[1].endswith("(its collective 0, node barrier_0 in net, at `train.py:3`) for ranks 1-3")
    assert told[2:] == ["  ranks 1-3 have called all their 0 collectives"]


def test_a_call_in_a_group_of_other_ranks_is_told():
    told = mismatch_of(Plan().one(3, "all_reduce", ROWS[0]).calls)
    assert told.endswith("(its collective 0, node all_reduce_0), and is no rank of this group")


def test_a_send_of_a_tensor_without_a_known_shape_meets_its_receive():
    for facts in ({"shapes": ()}, {"shapes": ((16,),)}):
        assert mismatch_of(Plan(2).one(0, "send", peer=1, **facts).one(1, "recv", peer=0).calls) is None
    assert mismatch_of(Plan(2).one(0, "send", peer=1).one(1, "recv", peer=0, shapes=()).calls) is None
    told = mismatch_of(Plan(2).one(0, "send", peer=1).one(1, "recv", peer=0, dtype="int8").calls)
    assert told.endswith("the dtype differs, and the data are read wrongly")


def test_two_groups_of_the_same_ranks_are_two_groups():
    first, second = Communicator((0, 1)), Communicator((0, 1), number=1)
    plan = Plan(2).one(0, "all_reduce", first).one(0, "all_reduce", second)
    plan.one(1, "all_reduce", second).one(1, "all_reduce", first)
    assert "on ranks 0-1 (group 2 of these ranks)" in mismatch_of(plan.calls)


def test_ranks_that_were_not_captured_are_believed():
    plan = Plan().all("all_reduce").pair(0, 2).pair(3, 1)
    assert mismatch_of({0: plan.calls[0], 1: plan.calls[1]}) is None


def test_the_message_of_a_thousand_ranks_is_short():
    group = Communicator(tuple(range(1000)))
    plan = Plan(1000)
    for rank in range(1000):
        plan.one(rank, "all_reduce" if rank % 100 else "all_gather", group)
    assert len(mismatch_of(plan.calls).splitlines()) < 15
    for rank in range(0, 1000, 7):
        plan.calls[rank] = []
    assert len(mismatch_of(plan.calls)) < 600


def test_the_work_is_linear_in_the_number_of_calls():
    seen = defaultdict(int)

    class Counted(list):
        def __getitem__(self, place):
            seen[len(self)] += 1
            return super().__getitem__(place)

    for length in (100, 200):
        plan = Plan(20)
        for _ in range(length):
            plan.all("all_reduce", Communicator(tuple(range(20))))
        mismatch_of({rank: Counted(calls) for rank, calls in plan.calls.items()})
    assert seen[200] <= 2.1 * seen[100]


@st.composite
def programs(draw):
    """Return a right program: calls of whole groups, pairs and shifts in one order for all ranks."""
    plan = Plan()
    groups = [WORLD, *ROWS, *COLUMNS]
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["all_reduce", "all_gather", "broadcast", "barrier", "pair", "shift"]))
        shapes = ((draw(st.integers(1, 4)), 8),)
        if kind == "pair":
            sender, receiver = draw(st.sampled_from([(a, b) for a in range(SIZE) for b in range(SIZE) if a != b]))
            plan.pair(sender, receiver, shapes=shapes)
        elif kind == "shift":
            step = draw(st.integers(1, SIZE - 1))
            for rank in range(SIZE):
                plan.one(rank, "send", peer=(rank + step) % SIZE, shapes=shapes)
                plan.one(rank, "recv", peer=(rank - step) % SIZE, shapes=shapes)
        else:
            group = draw(st.sampled_from(groups))
            facts = {"reduction": draw(st.sampled_from(["sum", "max"]))} if kind == "all_reduce" else {}
            facts |= {"peer": draw(st.sampled_from(group.ranks))} if kind == "broadcast" else {}
            sizes = (shapes[0][0] * 8,)
            facts |= {"gives": sizes, "takes": sizes} if kind == "all_gather" else {}
            plan.all(kind, group, shapes=() if kind == "barrier" else shapes, **facts)
    return plan.calls


@settings(max_examples=200, deadline=None)
@given(programs(), st.randoms())
def test_no_right_program_is_accused(calls, random):
    ranks = list(calls)
    random.shuffle(ranks)
    assert mismatch_of({rank: calls[rank] for rank in ranks}) is None


@settings(max_examples=200, deadline=None)
@given(programs(), st.integers(0, 10**6))
def test_every_dropped_or_changed_call_is_found(calls, seed):
    random = Random(seed)
    rank = random.choice([rank for rank, own in calls.items() if own])
    place = random.randrange(len(calls[rank]))
    call = calls[rank][place]
    dropped = renumbered(calls[rank][:place] + calls[rank][place + 1 :])
    assert mismatch_of({**calls, rank: dropped}) is not None
    other = {
        "all_reduce": {"reduction": "avg"}, "all_gather": {"dtype": "int8"}, "broadcast": {"kind": "all_reduce"},
        "barrier": {"kind": "all_reduce"}, "send": {"tag": 9}, "recv": {"dtype": "int8"},
    }[call.kind]  # fmt: skip
    assert mismatch_of({**calls, rank: [*calls[rank][:place], replace(call, **other), *calls[rank][place + 1 :]]})
    if call.kind not in ("send", "recv"):
        lost = replace(call, communicator=WORLD._replace(number=1))
        assert mismatch_of({**calls, rank: [*calls[rank][:place], lost, *calls[rank][place + 1 :]]})


@settings(max_examples=200, deadline=None)
@given(programs(), st.integers(0, 10**6))
def test_two_swapped_collectives_of_different_groups_or_kinds_are_found(calls, seed):
    random = Random(seed)
    rank = random.choice([rank for rank, own in calls.items() if own])
    own = calls[rank]
    places = [
        place
        for place in range(len(own) - 1)
        if {own[place].kind, own[place + 1].kind}.isdisjoint({"send", "recv"})
        and {*own[place].communicator.ranks} & {*own[place + 1].communicator.ranks} != {rank}
        and own[place].text != own[place + 1].text
    ]
    for place in places:
        swapped = renumbered([*own[:place], own[place + 1], own[place], *own[place + 2 :]])
        assert mismatch_of({**calls, rank: swapped}) is not None
