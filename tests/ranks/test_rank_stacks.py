"""What the parent of ranks says: of a stack the collective and the user's line, of ranks that fail the first cause."""

from __future__ import annotations

import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import pytest_fxgraph
from pytest_fxgraph.ranks import processes
from pytest_fxgraph.ranks.processes import _Call as Call
from pytest_fxgraph.ranks.processes import _described_stack as described_stack
from pytest_fxgraph.ranks.processes import _Frame as Frame
from pytest_fxgraph.ranks.processes import _message as message
from pytest_fxgraph.ranks.processes import _Rank as Rank
from pytest_fxgraph.ranks.processes import _stack_in as stack_in
from pytest_fxgraph.ranks.processes import _waits_in as waits_in

C10D = str(Path(torch.__file__).with_name("distributed") / "distributed_c10d.py")
START = str(Path(pytest_fxgraph.__file__).parent / "ranks" / "processes.py")
STACK = [
    Frame(C10D, 10, "_all_reduce"),
    Frame(C10D, 20, "wrapper"),
    Frame(C10D, 30, "all_gather_object"),
    Frame("/home/me/model.py", 12, "forward"),
    Frame("/home/me/train.py", 3, "step"),
]


def written(frames) -> str:
    return "".join(f'  File "{frame.file}", line {frame.line} in {frame.function}\n' for frame in frames)


def test_the_stack_of_the_main_thread_is_read_up_to_the_start_of_the_rank(tmp_path):
    dump = tmp_path / "stack-0"
    other = "Thread 0x1 (most recent call first):\n" + written([Frame("/lib/threading.py", 1, "run")])
    main = "Current thread 0x2 (most recent call first):\n" + written([*STACK, Frame(START, 5, "_run_rank"), STACK[-1]])
    dump.write_text(other + main, encoding="utf-8")

    assert stack_in(dump) == STACK
    assert stack_in(tmp_path / "stack-1") == []


def test_a_rank_waits_in_the_outermost_collective_that_the_user_called():
    assert waits_in(STACK) == "waits in all_gather_object, called in forward (model.py:12)"
    assert waits_in(STACK[:2]) == "waits in _all_reduce"
    assert waits_in(STACK[3:]) == "is in forward (model.py:12)"
    assert waits_in([]) == "had not ended; its stack is unknown"
    assert waits_in([Frame("<frozen importlib>", 1, "load"), Frame(START, 2, "start"), STACK[3]]) == waits_in(STACK[3:])
    assert waits_in([Frame("/home/me/model.py", 1, "all_reduce")]) == "is in all_reduce (model.py:1)"
    assert waits_in([Frame(C10D, 1, "get_rank"), STACK[3]]) == waits_in(STACK[3:])


def test_a_stack_is_described_with_the_innermost_call_last():
    assert described_stack(STACK[3:]) == (
        '  File "/home/me/train.py", line 3, in step\n  File "/home/me/model.py", line 12, in forward'
    )


def rank_of(number, answer=None, code=None, stack_file=Path("nowhere")) -> Rank:
    connection: Any = None
    return Rank(number, SimpleNamespace(exitcode=code), connection, stack_file, answer)


def failing(number: int, line: str, trace: str = "a trace") -> Rank:
    return rank_of(number, ("error", (line, trace)))


@pytest.mark.parametrize(
    ("rank", "words"),
    [
        (failing(0, "ValueError: no"), "ValueError: no"),
        (rank_of(0, ("result", b"")), None),
        (rank_of(0, ("result", b""), code=3), None),
        (rank_of(0), None),
        (rank_of(0, code=3), "the process exited with code 3 before it had a result"),
        (rank_of(0, code=0), "the process exited with code 0 before it had a result"),
        (rank_of(0, code=-9), "the process was killed by signal 9 before it had a result"),
    ],
)
def test_a_rank_fails_with_its_error_or_with_the_end_of_its_process(rank, words):
    assert rank.failure == words


def call_of(function, *args) -> Call:
    return Call(function, args, 2, 2.5, Path("nowhere"))


def test_the_rank_that_died_is_the_cause_before_ranks_that_lost_their_connection():
    ranks = [
        failing(0, "RuntimeError: connection lost", "its trace\n"),
        rank_of(1, code=7),
        rank_of(2, ("result", b"")),
    ]

    assert message(ranks, call_of(waits_in)).splitlines() == [
        "rank 1 of 3 failed in _waits_in: the process exited with code 7 before it had a result",
        "rank 0 failed, too: RuntimeError: connection lost",
        "rank 2 has ended",
        "",
        "rank 0:",
        "its trace",
    ]


def test_ranks_that_wait_for_ever_are_told_with_their_stacks(tmp_path):
    dump = tmp_path / "stack-0"
    dump.write_text("Current thread 0x2 (most recent call first):\n" + written(STACK[3:]), encoding="utf-8")
    ranks = [rank_of(0, stack_file=dump), rank_of(1), rank_of(2, ("result", b"")), rank_of(3, ("result", b""))]

    assert message(ranks, call_of(OrderedDict())).splitlines() == [
        "rank 0, 1 of 4 did not end OrderedDict within 2.5 s",
        "rank 0 is in forward (model.py:12)",
        "rank 1 had not ended; its stack is unknown",
        "rank 2, 3 has ended",
        "call each collective on all ranks of its group in one order, or give a longer timeout=",
        "",
        "rank 0 waits:",
        *described_stack(STACK[3:]).splitlines(),
    ]


def test_a_fork_that_cannot_train_is_told_with_the_way_out():
    words = "this build of torch cannot train in a fork of a process that has trained; define build at the top"

    assert words in message([failing(0, f"RuntimeError: {processes._NO_TRAINING} in a fork")], call_of(abs))
    assert words not in message([failing(0, "RuntimeError: other")], call_of(abs))


class Odd:
    def __reduce__(self):
        raise RuntimeError("odd\nin two lines")


def test_an_error_is_told_from_the_called_function_on():
    with pytest.raises(RuntimeError) as caught:
        processes._is_importable(call_of(Odd()))
    own = caught.tb
    while own.tb_frame.f_code.co_filename != processes.__file__:
        own = own.tb_next

    line, trace = processes._told(caught.value.with_traceback(own))

    assert line == "RuntimeError: odd"
    assert "processes.py" not in trace
    assert 'raise RuntimeError("odd' in trace


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no rank is a fork")
def test_a_rank_is_a_fork_where_that_is_safe_or_its_function_cannot_be_sent(monkeypatch):
    def forks(trains: bool, function) -> bool:
        monkeypatch.setattr(processes, "differentiates_in_a_fork", lambda: trains)
        return processes._is_fork(call_of(function))

    assert [forks(True, abs), forks(True, lambda rank: rank), forks(False, abs), forks(False, lambda rank: rank)] == [
        *(True, True, False, True)
    ]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert not forks(True, abs)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not forks(True, abs)
