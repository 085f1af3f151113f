"""The stack of a rank that waits, as faulthandler writes it: the collective, and the user's line that called it."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import torch

_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_TORCH = str(Path(torch.__file__).parent)
_COLLECTIVES = re.compile(
    r"(?:all_|reduce|broadcast|barrier|monitored_barrier|gather|scatter|send|recv|isend|irecv|batch_isend|wait_tensor)"
)
_OF_COLLECTIVES = ("distributed_c10d.py", "_functional_collectives.py", "_collectives.py")
_START = str(Path(__file__).with_name("processes.py"))
_OURS = str(Path(__file__).parent)


class Frame(NamedTuple):
    """A call of a stack."""

    file: str
    line: int
    function: str


def stack_in(file: Path) -> list[Frame]:
    """Return the calls of a process's main thread, the innermost first; nothing if it wrote no stack."""
    if not file.exists():
        return []
    # faulthandler writes the oldest thread last.
    of_main = file.read_text(encoding="utf-8", errors="replace").rpartition("hread 0x")[2]
    frames = [Frame(found[1], int(found[2]), found[3]) for found in map(_FRAME.match, of_main.splitlines()) if found]
    # Below the called function lie the start of the rank and, in a fork, the calls of its parent.
    return list(takewhile(lambda frame: frame.file != _START, frames))


def waits_in(stack: Sequence[Frame]) -> str:
    """Say what a rank was doing: "waits in all_reduce, called in forward (model.py:12)"."""
    collective = _collective_in(stack)
    user = next((frame for frame in stack if not frame.file.startswith((_TORCH, "<", _OURS))), None)
    called = f"{user.function} ({Path(user.file).name}:{user.line})" if user is not None else ""
    if collective:
        return f"waits in {collective}" + (f", called in {called}" if called else "")
    return f"is in {called}" if called else "had not ended; its stack is unknown"


def described_stack(stack: Sequence[Frame]) -> str:
    """Return a stack in the words of a traceback, the innermost call last."""
    lines = []
    for frame in reversed(stack):
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}')
        source = linecache.getline(frame.file, frame.line).strip()
        lines += [f"    {source}"] if source else []
    return "\n".join(lines)


def _collective_in(stack: Sequence[Frame]) -> str:
    """Return the outermost function of torch.distributed that is a collective."""
    found = [
        frame.function
        for frame in stack
        if frame.file.endswith(_OF_COLLECTIVES) and _COLLECTIVES.match(frame.function.lstrip("_"))
    ]
    return found[-1] if found else ""
