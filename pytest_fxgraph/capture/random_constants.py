"""Refuses a graph that is another one in every run, because numbers were drawn while it was traced."""

from __future__ import annotations

import contextlib
import linecache
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import torch

import fxcore
from fxcore.node_data.attribute_paths import get_attribute
from pytest_fxgraph.capture.tracing_failure import short_path
from pytest_fxgraph.errors import CaptureError

# Draws with few outcomes, such as which layers are dropped, may be the same twice.
MOST_RETRIES = 4


class Traced(Protocol):
    """A graph and the module that its paths begin at."""

    @property
    def graph(self) -> fxcore.Graph: ...

    @property
    def root(self) -> torch.nn.Module: ...


T = TypeVar("T", bound=Traced)


def traced_alike(name: str, traced: Callable[[], T]) -> T:
    """Trace once; if that moved a random generator, trace again, and refuse a graph that comes out different.

    A draw that leaves nothing in the graph does no harm. The generators end where the first trace left them.
    """
    before = _generator_states()
    first = traced()
    if not _have_moved(before):
        return first
    with generators_kept():
        for _ in range(MOST_RETRIES):
            node = _first_difference(first, traced())
            if node is not None:
                raise CaptureError(_refusal(name, node))
    return first


def _generator_states() -> tuple[torch.Tensor, tuple[Any, ...], tuple[Any, ...]]:
    numpy = sys.modules.get("numpy.random")
    return torch.random.get_rng_state(), random.getstate(), numpy.get_state() if numpy is not None else ()


def _have_moved(before: tuple[Any, ...]) -> bool:
    of_torch, of_python, of_numpy = _generator_states()
    if not torch.equal(of_torch, before[0]) or of_python != before[1]:
        return True
    if not before[2]:
        return bool(of_numpy)  # imported while tracing; whether anything was drawn since, nobody knows
    # The second item is an array, which changes with the rest only when all of it has been used up.
    return of_numpy[2:] != before[2][2:] or bool((of_numpy[1] != before[2][1]).any())


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Put the random generators back to where they were."""
    of_torch, of_python, of_numpy = _generator_states()
    try:
        yield
    finally:
        torch.random.set_rng_state(of_torch)
        random.setstate(of_python)
        if of_numpy:
            sys.modules["numpy.random"].set_state(of_numpy)


def _first_difference(traced: Traced, again: Traced) -> fxcore.Node | None:
    """Give the first node that the second trace has otherwise, or not at all."""
    others = iter(again.graph.nodes)
    for node in traced.graph.nodes:
        other = next(others, None)
        if other is None or _text(node) != _text(other) or not _read_the_same(traced, again, node):
            return node
    return None


def _text(node: fxcore.Node) -> tuple[str, ...]:
    target = node.target if isinstance(node.target, str) else str(id(node.target))
    return node.op, target, repr(node.args), repr(node.kwargs)


def _read_the_same(traced: Traced, again: Traced, node: fxcore.Node) -> bool:
    if node.op != "get_attr" or not node.meta.get("is_constant"):
        return True
    value, other = get_attribute(traced.root, node.target), get_attribute(again.root, node.target)
    if not isinstance(value, torch.Tensor) or value is other:
        return True
    # As texts, in which NaN equals itself.
    return value.dtype == other.dtype and repr(value.detach().tolist()) == repr(other.detach().tolist())


def _refusal(name: str, node: fxcore.Node) -> str:
    lines = [f"cannot trace {name}: it draws random numbers while it is traced, so that its graph differs in every run"]
    source = node.meta.get("source")
    if source is not None:
        file_name, line = source
        lines.append(f"  {short_path(file_name)}:{line}: {linecache.getline(file_name, line).strip()}")
    lines.append(
        f"Node {node.name!r} is the first that differs. Draw the number in __init__ and keep it as a buffer, "
        "or draw it from an input (torch.rand_like(x)), so that the graph does it"
    )
    return "\n".join(lines)
