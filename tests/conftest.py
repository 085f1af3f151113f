"""What holds for every test here: torch's global switches are left as they were found."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import os
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

# Before the import of torch, and for processes that tests start: the tensors are small, and threads for them take
# 1.08 times the processor time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from fixtures.torch_versions import reason_to_skip


def switches() -> tuple[object, ...]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()


@pytest.fixture(autouse=True)
def _torch_is_left_as_it_was() -> Iterator[None]:
    before = switches()
    yield
    after = switches()
    torch.set_grad_enabled(bool(before[0]))
    forget_compilations()
    assert after == before, "the test left grad mode, inference mode or the default dtype changed"


def forget_compilations() -> None:
    """Reset Dynamo after a test that compiled. Each eager torch.cond compiles, too, and Dynamo refuses the ninth."""
    frames = sys.modules.get("torch._dynamo.convert_frame")
    if getattr(frames, "FRAME_COUNTER", 0):
        torch._dynamo.reset()


class _ReadOnce:
    """An installed distribution that reads its list of files, its entry points and its metadata once.

    pytest reads them anew in each run, which takes a third of the time of the runs inside our tests.
    """

    def __init__(self, distribution: importlib.metadata.Distribution) -> None:
        self._distribution = distribution

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._distribution, name)
        if name in ("files", "entry_points", "metadata"):
            setattr(self, name, value)
        return value


_find_distributions = importlib.metadata.distributions


@functools.lru_cache
def _distributions_on(path: tuple[str, ...]) -> list[_ReadOnce]:
    return [_ReadOnce(each) for each in _find_distributions(path=list(path))]


importlib.metadata.distributions = lambda **context: (
    _find_distributions(**context) if context else _distributions_on(tuple(sys.path))
)

# The number of imported modules when the objects of this process were last taken out of garbage collection.
_FROZEN_AT = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests without the garbage collector: it finds nothing, in a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        freeze(session)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    if len(sys.modules) > item.session.stash[_FROZEN_AT] + 100:
        freeze(item.session)


def freeze(session: pytest.Session) -> None:
    """Keep the garbage collector from looking again at the objects of now.

    These are two million objects of torch, its compilers and the tests. One look at them takes 0.5 to 0.9 s.
    """
    gc.collect()
    gc.freeze()
    session.stash[_FROZEN_AT] = len(sys.modules)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        reason = reason_to_skip(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Mark the parameters that `sampled` leaves out of the default run: the next after each as slow, others as long.

    Here, because a test has all its parameters when it is made, even if the command line asks for one of them.
    """
    made = yield
    for number, item in enumerate(made if isinstance(made, list) else ()):
        sampled = item.get_closest_marker("sampled")
        place = 0 if sampled is None else (number - sampled.kwargs.get("start", 0)) % sampled.kwargs["every"]
        if place:
            item.add_marker(pytest.mark.slow if place == 1 else pytest.mark.long)
    return made
