"""A stack that faulthandler wrote tells the collective, and the user's line that called it."""

from __future__ import annotations

from pathlib import Path

import torch

import pytest_fxgraph
from pytest_fxgraph.ranks.processes import _described_stack as described_stack
from pytest_fxgraph.ranks.processes import _Frame as Frame
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


def test_a_stack_is_described_with_the_innermost_call_last():
    assert described_stack(STACK[3:]) == (
        '  File "/home/me/train.py", line 3, in step\n  File "/home/me/model.py", line 12, in forward'
    )
