"""Real ranks: a function runs in processes of this machine, which exchange tensors by gloo.

A rank is a fork where that is safe, so that functions of test files and closures run as they are. Where it is not, a
rank is a new interpreter, which imports the function by its name.
"""

from __future__ import annotations

import faulthandler
import linecache
import multiprocessing
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import takewhile
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pytest_fxgraph.errors import RanksError
from pytest_fxgraph.ranks.fake_world import refuse_inside_a_world, refuse_without_distributed

_GRACE = 0.3  # seconds in which ranks that fail together report, so that the first cause is told
_DUMPING = 2.0  # seconds for the stacks of the other ranks
_NO_TRAINING = "Unable to handle autograd's threading"  # of torch's error in such a fork
_SIGNAL = getattr(signal, "SIGUSR1", None)  # makes a rank write its stack; Windows has no such signal
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_TORCH = str(Path(torch.__file__).parent)
_COLLECTIVES = re.compile(
    r"(?:all_|reduce|broadcast|barrier|monitored_barrier|gather|scatter|send|recv|isend|irecv|batch_isend|wait_tensor)"
)
_OF_COLLECTIVES = ("distributed_c10d.py", "_functional_collectives.py", "_collectives.py")
_OURS = str(Path(__file__).parent)


@dataclass
class _Rank:
    """One process, as its parent sees it."""

    number: int
    process: Any
    connection: Connection
    stack_file: Path
    answer: tuple[str, Any] | None = None  # ("result", pickled) or ("error", (a line, a traceback))

    @property
    def failure(self) -> str | None:
        """Return the error of the rank in one line; None if it has a result, or runs."""
        if self.answer is not None:
            return self.answer[1][0] if self.answer[0] == "error" else None
        code = self.process.exitcode
        if code is None:
            return None
        reason = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        return f"the process {reason} before it had a result"

    def read(self) -> None:
        """Take the answer of the rank, if there is one."""
        with suppress(EOFError, ConnectionError):
            if self.answer is None and self.connection.poll():
                self.answer = pickle.loads(self.connection.recv_bytes())
        if self.answer is None:
            self.process.join(_GRACE)  # a process that ended without an answer has an exit code at once


def run_on_ranks(
    function: Callable[..., Any],
    world_size: int,
    *,
    args: Sequence[Any] = (),
    timeout: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> list[Any]:
    """Call `function(rank, *args)` on each rank of a new world of gloo processes; return the results by rank.

    Each rank runs with one thread, with the state of this process's random generators, and with RANK, LOCAL_RANK and
    WORLD_SIZE in its environment. A result is plain data or tensors. Raises RanksError if a rank raises, ends without
    a result or has none after `timeout` seconds. The error has the rank's traceback, and the stacks of ranks that wait.
    No process and no file stays behind.
    """
    __tracebackhide__ = True
    refuse_without_distributed()
    distributed: Any = torch.distributed
    if not distributed.is_gloo_available():
        raise RanksError(f"cannot run {world_size} ranks: torch {torch.__version__} was built without gloo")
    refuse_inside_a_world(f"run {world_size} ranks")
    with tempfile.TemporaryDirectory(prefix="fxgraph-ranks-") as folder:
        call = _Call(function, tuple(args), world_size, timeout, Path(folder), dict(environment or {}))
        ranks: list[_Rank] = []
        try:
            _start(call, ranks)
            problem = _follow(ranks, time.monotonic() + timeout)
            if problem:
                raise RanksError(_message(ranks, call))
            return [pickle.loads(rank.answer[1]) for rank in ranks if rank.answer is not None]
        finally:
            _end(ranks)


@dataclass(frozen=True)
class _Call:
    """What every rank runs."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    world_size: int
    timeout: float
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))


def _start(call: _Call, ranks: list[_Rank]) -> None:
    is_fork = _is_fork(call)
    context: Any = multiprocessing.get_context("fork" if is_fork else "spawn")
    pipes = [context.Pipe() for _ in range(call.world_size)]
    with ExitStack() as ends, _quiet_fork():
        for _, child in pipes:
            ends.enter_context(child)
        for number, (parent, child) in enumerate(pipes):
            # A fork holds all ends. A rank sees that its parent is gone only if no rank holds the parent's end.
            foreign = [end for pipe in pipes for end in pipe if end is not child] if is_fork else []
            process = context.Process(target=_run_rank, args=(number, call, child, foreign), name=f"rank {number}")
            try:
                process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise RanksError(
                    f"cannot send {call.name} to rank {number}: {error}; a rank of this process is a new interpreter, "
                    "because a fork is not safe here: define the function and its arguments at the top of a module"
                ) from error
            ranks.append(_Rank(number, process, parent, call.folder / f"stack-{number}"))


def _is_fork(call: _Call) -> bool:
    """Return whether a rank is a fork. A function that cannot be sent runs in a fork that may be unable to train."""
    cuda: Any = torch.cuda
    if sys.platform != "linux" or cuda.is_initialized():  # a fork cannot use an accelerator of its parent's
        return False
    return differentiates_in_a_fork() or not _is_importable(call)


def differentiates_in_a_fork() -> bool:
    """Return whether a fork of this process can run a backward, by the try of one.

    Builds of torch with an accelerator cannot, once this process has run a backward.
    """
    with _quiet_fork():
        child = os.fork()
    if not child:
        try:
            torch.autograd.backward(torch.ones(1, requires_grad=True).sum())
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _is_importable(call: _Call) -> bool:
    try:
        pickle.dumps((call.function, call.args))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


@contextmanager
def _quiet_fork() -> Iterator[None]:
    """Keep Python's warning about a fork with threads away; a rank starts no work in a pool of its parent's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*use of fork.*", DeprecationWarning)
        yield


def _follow(ranks: Sequence[_Rank], deadline: float) -> bool:
    """Read answers until all ranks have a result; return whether a rank failed, or has none at the deadline."""
    while running := [rank for rank in ranks if rank.answer is None]:
        ready = wait([*(rank.connection for rank in running), *(rank.process.sentinel for rank in running)],
                     max(0.0, deadline - time.monotonic()))  # fmt: skip
        for rank in running:
            if rank.connection in ready or rank.process.sentinel in ready:
                rank.read()
        if any(rank.failure for rank in ranks):
            _read_for_a_while([rank for rank in ranks if rank.answer is None])
            break
        if not ready:
            break
    _write_stacks([rank for rank in ranks if rank.answer is None and not rank.failure])
    return any(rank.answer is None or rank.failure for rank in ranks)


def _read_for_a_while(running: Sequence[_Rank]) -> None:
    """Take the answers of ranks that fail together with the first one."""
    end = time.monotonic() + _GRACE
    while running and (left := end - time.monotonic()) > 0:
        ready = wait([rank.connection for rank in running], left)
        for rank in running:
            if rank.connection in ready:
                rank.read()
        running = [rank for rank in running if rank.answer is None and not rank.failure]


def _write_stacks(waiting: Sequence[_Rank]) -> None:
    """Make ranks write their stacks, and wait until the files are written."""
    if _SIGNAL is None or not waiting:
        return
    for rank in waiting:
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, _SIGNAL)
    end = time.monotonic() + _DUMPING
    sizes: list[int] = []
    while time.monotonic() < end:
        time.sleep(0.05)
        before, sizes = sizes, [rank.stack_file.stat().st_size if rank.stack_file.exists() else 0 for rank in waiting]
        if all(sizes) and sizes == before:
            return


def _message(ranks: Sequence[_Rank], call: _Call) -> str:
    """Say which rank failed and why, and what each other rank was waiting for."""
    failed = [rank for rank in ranks if rank.failure]
    # A process that died ends the connections of the others, and those report an error of the connection.
    failed.sort(key=lambda rank: rank.answer is not None)
    lines = []
    if failed:
        lines.append(f"rank {failed[0].number} of {len(ranks)} failed in {call.name}: {failed[0].failure}")
        lines += [f"rank {rank.number} failed, too: {rank.failure}" for rank in failed[1:]]
    waiting = [rank for rank in ranks if rank.answer is None and not rank.failure]
    if not failed:
        names = ", ".join([str(rank.number) for rank in waiting])
        lines.append(f"rank {names} of {len(ranks)} did not end {call.name} within {call.timeout:g} s")
    stacks = {rank.number: _stack_in(rank.stack_file) for rank in waiting}
    lines += [f"rank {number} {_waits_in(stack)}" for number, stack in stacks.items()]
    ended = [str(rank.number) for rank in ranks if rank.answer is not None and not rank.failure]
    lines += [f"rank {', '.join(ended)} has ended"] if ended else []
    if not failed:
        lines.append("call each collective on all ranks of its group in one order, or give a longer timeout=")
    if any(_NO_TRAINING in str(rank.failure) for rank in failed):
        lines.append(
            "this build of torch cannot train in a fork of a process that has trained; define build at the top of a "
            "module, so that a rank is a new interpreter, or run the test in a process of its own"
        )
    for rank in failed:
        lines += ["", f"rank {rank.number}:", str(rank.answer[1][1]).rstrip()] if rank.answer is not None else []
    for number, stack in stacks.items():
        lines += ["", f"rank {number} waits:", _described_stack(stack)] if stack else []
    return "\n".join(lines)


def _end(ranks: Sequence[_Rank]) -> None:
    """Let all processes end: ranks with an answer wait for this, so that no other rank loses a connection."""
    for rank in ranks:
        rank.connection.close()
        if rank.answer is None or rank.failure:
            rank.process.kill()
    for rank in ranks:
        rank.process.join(_DUMPING)
        if rank.process.is_alive():
            rank.process.kill()
            rank.process.join()
        rank.process.close()


def _run_rank(number: int, call: _Call, connection: Connection, foreign: Sequence[Connection]) -> None:
    """Be a rank: the body of its process."""
    for end in foreign:
        end.close()
    stacks = open(call.folder / f"stack-{number}", "w", encoding="utf-8")  # noqa: SIM115  # open for as long as the process lives
    if _SIGNAL is not None:
        faulthandler.register(_SIGNAL, stacks, all_threads=True)
    parent = threading.Thread(target=_exit_with_parent, args=(connection,), daemon=True)
    parent.start()
    try:
        connection.send_bytes(pickle.dumps(("result", pickle.dumps(_result_of_rank(number, call)))))
    except BaseException as error:
        connection.send_bytes(pickle.dumps(("error", _told(error))))
    parent.join()


def _result_of_rank(number: int, call: _Call) -> Any:
    names = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": call.world_size, "LOCAL_WORLD_SIZE": call.world_size}
    os.environ.update({name: str(value) for name, value in names.items()} | call.environment)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the name of the machine need not resolve to an address
    torch.set_num_threads(1)
    distributed: Any = torch.distributed
    store = distributed.FileStore(str(call.folder / "rendezvous"), call.world_size)
    timeout = timedelta(seconds=call.timeout + _DUMPING)
    distributed.init_process_group("gloo", store=store, rank=number, world_size=call.world_size, timeout=timeout)
    return call.function(number, *call.args)


def _told(error: BaseException) -> tuple[str, str]:
    """Return an error as a line, and its traceback from the called function on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    line = f"{type(error).__name__}: {error}".partition("\n")[0]
    return line, "".join(traceback.format_exception(type(error), error, frames))


def _exit_with_parent(connection: Connection) -> None:
    """Leave the process once the parent closes its end; a fork must not run what the parent does at its exit."""
    with suppress(EOFError, ConnectionError):
        connection.recv_bytes()
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


# The stack of a rank that waits, as faulthandler writes it.


class _Frame(NamedTuple):
    """A call of a stack."""

    file: str
    line: int
    function: str


def _stack_in(file: Path) -> list[_Frame]:
    """Return the calls of a process's main thread, the innermost first; nothing if it wrote no stack."""
    if not file.exists():
        return []
    # faulthandler writes the oldest thread last.
    of_main = file.read_text(encoding="utf-8", errors="replace").rpartition("hread 0x")[2]
    frames = [_Frame(found[1], int(found[2]), found[3]) for found in map(_FRAME.match, of_main.splitlines()) if found]
    # Below the called function lie the start of the rank and, in a fork, the calls of its parent.
    return list(takewhile(lambda frame: frame.file != __file__, frames))


def _waits_in(stack: Sequence[_Frame]) -> str:
    """Say what a rank was doing: "waits in all_reduce, called in forward (model.py:12)"."""
    collective = _collective_in(stack)
    user = next((frame for frame in stack if not frame.file.startswith((_TORCH, "<", _OURS))), None)
    called = f"{user.function} ({Path(user.file).name}:{user.line})" if user is not None else ""
    if collective:
        return f"waits in {collective}" + (f", called in {called}" if called else "")
    return f"is in {called}" if called else "had not ended; its stack is unknown"


def _described_stack(stack: Sequence[_Frame]) -> str:
    """Return a stack in the words of a traceback, the innermost call last."""
    lines = []
    for frame in reversed(stack):
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}')
        source = linecache.getline(frame.file, frame.line).strip()
        lines += [f"    {source}"] if source else []
    return "\n".join(lines)


def _collective_in(stack: Sequence[_Frame]) -> str:
    """Return the outermost function of torch.distributed that is a collective."""
    found = [
        frame.function
        for frame in stack
        if frame.file.endswith(_OF_COLLECTIVES) and _COLLECTIVES.match(frame.function.lstrip("_"))
    ]
    return found[-1] if found else ""
