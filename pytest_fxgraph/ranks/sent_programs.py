"""The programs of real ranks: each process captures its rank, and sends the program to the process of the test.

A program is sent as torch saves it. A fake tensor arrives as another one of the same facts, an object of C++ as an
empty object, and a class that cannot be imported as an empty class of the same name.
"""

from __future__ import annotations

import io
import pickle
import pkgutil
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import fxcore
from fxcore.serialization.pickling import is_importable
from pytest_fxgraph.captures import collective_trace
from pytest_fxgraph.ranks.processes import run_on_ranks
from pytest_fxgraph.ranks.rank_program import ProgramRequest, RankProgram, program_of_rank

_FACTS = ("val", "nn_module_stack")  # of nodes, beside plain data


def programs_of_processes(request: ProgramRequest, ranks: Collection[int], timeout: float) -> list[RankProgram]:
    """Capture the program of each rank in a process of its own; the processes exchange tensors by gloo.

    All ranks of the world run, and the programs of `ranks` return. Raises RanksError if a rank cannot be built or
    captured, ends, or waits longer than `timeout` seconds.
    """
    __tracebackhide__ = True
    found = run_on_ranks(capture_of_rank, request.world.size, args=(request, frozenset(ranks)), timeout=timeout)
    return [torch.load(io.BytesIO(found[rank]), weights_only=False) for rank in ranks]


def capture_of_rank(rank: int, request: ProgramRequest, wanted: Collection[int]) -> bytes:
    """Capture the rank that this process is. Return its program as bytes, or nothing if the rank is not wanted."""
    program = program_of_rank(request, rank)
    stream = io.BytesIO()
    if rank in wanted:
        torch.save(program, stream, pickle_module=_PICKLE)
    return stream.getvalue()


class ScriptObject:
    """Stands for an object of C++ that no second process can have. Goldens contain the name of its class."""


class _Sender(pickle.Pickler):
    """Pickles a program with the values of its nodes; `GraphModule.__reduce__` keeps plain facts alone."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, fxcore.GraphModule):
            facts = [{key: node.meta[key] for key in _FACTS if key in node.meta} for node in value.graph.nodes]
            return _graph_module, (*value.__reduce__(), facts, type(value).__name__)
        if isinstance(value, FakeTensor):
            size, stride = tuple(value.size()), value.stride()
            return _fake_tensor, (value.fake_mode, size, stride, value.dtype, value.device, value.requires_grad)
        if isinstance(value, FakeTensorMode):
            return FakeTensorMode, ()
        if isinstance(value, torch.ScriptObject):
            return ScriptObject, ()
        if value is collective_trace.wait:
            return pkgutil.resolve_name, (f"{collective_trace.__name__}:wait",)
        if isinstance(value, type) and not is_importable(value):
            names = {"__module__": value.__module__, "__qualname__": value.__qualname__}
            return type, (value.__name__, (nn.Module,) if issubclass(value, nn.Module) else (), names)
        return NotImplemented


_PICKLE: Any = SimpleNamespace(Pickler=_Sender, dumps=pickle.dumps, __name__="pickle")


def _graph_module(rebuild: Any, arguments: Any, facts: list[dict[str, Any]], name: str) -> fxcore.GraphModule:
    made: fxcore.GraphModule = rebuild(*arguments)
    type(made).__name__ = name
    for node, meta in zip(made.graph.nodes, facts, strict=True):
        node.meta.update(meta)
    return made


def _fake_tensor(mode: Any, size: Any, stride: Any, dtype: Any, device: Any, requires_grad: bool) -> torch.Tensor:
    with mode:
        return torch.empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)
