"""Shapes, dtypes and types of every value, found by running the graph once."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode

from fxcore.arguments import map_aggregate
from fxcore.errors import InterpreterError
from fxcore.graph_module import GraphModule
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.tensor_metadata import TensorMetadata
from fxcore.tensor_metadata import extract_tensor_metadata as _extract_tensor_metadata
from fxcore.verbose_code import innermost_frame

__all__ = ["ShapeProp", "TensorMetadata"]


class ShapeProp(Interpreter):
    """Runs a graph node by node and notes on each node what it gave.

    After `propagate`, `node.meta["type"]` is the class of the value, and `node.meta["tensor_meta"]`, for values that
    are or hold tensors, has the value's structure with a TensorMetadata for every tensor.
    """

    def __init__(self, gm: GraphModule, fake_mode: FakeTensorMode | None = None) -> None:
        """Prepare to run `gm`; under `fake_mode`, or the one that is active, on fake tensors without data."""
        super().__init__(gm)
        self.fake_mode: FakeTensorMode | None = detect_fake_mode() if fake_mode is None else fake_mode
        self.real_module: nn.Module = self.module
        # The notes go onto the real module's nodes; only parameters and buffers are needed fake.
        self.fake_module: nn.Module | None = _fake_copy(gm, self.fake_mode) if self.fake_mode is not None else None

    def propagate(self, *args: Any) -> Any:
        """Run the graph on example inputs, note what every node gives, and return the graph's result."""
        if self.fake_mode is not None:
            args = tuple([_as_fake(value, self.fake_mode) for value in args])
        return super().run(*args)

    def run_node(self, n: Node) -> Any:
        """Run one node and note what it gave. Raises InterpreterError (a RuntimeError) naming node and source line."""
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self._faking():
                    result = super().run_node(n)
        except Exception as error:
            raise InterpreterError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}\n"
                f"{type(error).__name__}: {error}\n{_place(n)}The example inputs do not fit the graph at this node, or "
                "the graph is wrong here; graph.lint() checks the graph"
            ) from error
        meta, has_tensor = _described(result)
        if has_tensor:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    @contextlib.contextmanager
    def _faking(self) -> Iterator[None]:
        if self.fake_mode is None or self.fake_module is None:
            yield
            return
        self.module = self.fake_module
        try:
            with self.fake_mode, enable_python_dispatcher():
                yield
        finally:
            self.module = self.real_module


def _fake_copy(module: nn.Module, mode: FakeTensorMode) -> nn.Module:
    with FakeCopyMode(mode):
        return copy.deepcopy(module)


def _as_fake(value: Any, mode: FakeTensorMode) -> Any:
    return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value


def _described(result: Any) -> tuple[Any, bool]:
    """Return `result` with metadata in place of tensors, and whether there were any."""
    if isinstance(result, torch.Tensor):
        return _extract_tensor_metadata(result), True
    found: list[TensorMetadata] = []

    def describe(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        found.append(_extract_tensor_metadata(leaf))
        return found[-1]

    return map_aggregate(result, describe), bool(found)


def _place(node: Node) -> str:
    """Return the line that says where in the user's source `node` comes from, as far as the node knows."""
    frame = innermost_frame(node.stack_trace)
    if frame is not None:
        file, line, function, source = frame
        return f"It comes from {file}:{line} in {function}: {source}\n"
    stack = node.meta.get("nn_module_stack")
    if stack:
        path, kind = next(reversed(stack.values()))
        return f"It comes from module {path!r} ({getattr(kind, '__name__', kind)})\n"
    return ""
