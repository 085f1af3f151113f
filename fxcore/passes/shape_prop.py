"""Shapes, dtypes and types of every value, found by one run of the graph."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import _prims_common, nn
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode

from fxcore.codegen.comments import innermost_frame
from fxcore.errors import InterpreterError
from fxcore.graph_module import GraphModule
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.node_data.arguments import map_aggregate
from fxcore.uninitialized import refuse_uninitialized

_WITH_STRIDES = (torch.strided, torch.jagged)
_MEMORY_FORMATS = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
_PER_TENSOR = (torch.per_tensor_affine, torch.per_tensor_symmetric)
_REAL = contextlib.nullcontext()


class TensorMetadata(NamedTuple):
    """Shape, dtype and layout of a tensor, as ShapeProp records them in `node.meta["tensor_meta"]`."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: torch.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def is_tensor_metadata(value: Any) -> bool:
    """Return whether `value` is metadata of a tensor: of fxcore, or of torch.fx in a graph that came from there."""
    return isinstance(value, tuple) and type(value).__name__ == TensorMetadata.__name__


def _extract_tensor_metadata(result: torch.Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Return the metadata of `result`. Finding the memory format takes time; `include_contiguity` asks for it."""
    has_strides = result.layout in _WITH_STRIDES
    return TensorMetadata(
        shape=result.shape,
        dtype=result.dtype,
        requires_grad=result.requires_grad,
        stride=result.stride() if has_strides else (),
        memory_format=_memory_format(result) if include_contiguity and has_strides else None,
        is_quantized=result.is_quantized,
        qparams=_quantization(result) if result.is_quantized else {},
    )


def _memory_format(tensor: torch.Tensor) -> torch.memory_format | None:
    for memory_format in _MEMORY_FORMATS:
        if _is_laid_out(tensor, memory_format):
            return memory_format
    return None


def _is_laid_out(tensor: torch.Tensor, memory_format: torch.memory_format) -> bool:
    if type(tensor) is torch.Tensor:  # no symbolic sizes; the tensor itself answers twenty times faster
        return tensor.is_contiguous(memory_format=memory_format)
    # Some releases of torch have a form of the question that sets no guards on symbolic sizes.
    ask = getattr(_prims_common, "is_contiguous_for_memory_format_or_false", None)
    if ask is not None:
        return bool(ask(tensor, memory_format=memory_format))
    return tensor.is_contiguous(memory_format=memory_format)


def _quantization(tensor: torch.Tensor) -> dict[str, Any]:
    scheme = tensor.qscheme()
    if scheme in _PER_TENSOR:
        return {"qscheme": scheme, "scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    # Plain lists for each channel, because metadata outlives tensors and is serialized.
    return {
        "qscheme": scheme,
        "scale": tensor.q_per_channel_scales().tolist(),
        "zero_point": tensor.q_per_channel_zero_points().tolist(),
        "axis": tensor.q_per_channel_axis(),
    }


__all__ = ["ShapeProp", "TensorMetadata"]


class ShapeProp(Interpreter):
    """Runs a graph node by node, and notes shape and dtype of each node's value.

    After `propagate`, `node.meta["type"]` is the class of the value, and `node.meta["tensor_meta"]`, for values that
    are or hold tensors, has the value's structure with a TensorMetadata for every tensor.
    """

    def __init__(self, gm: GraphModule, fake_mode: FakeTensorMode | None = None) -> None:
        """Prepare to run `gm`; under `fake_mode`, or the one that is active, on fake tensors without data.

        With fake tensors, raises InterpreterError (a RuntimeError) if a lazy module has no shapes yet.
        """
        super().__init__(gm)
        self.fake_mode: FakeTensorMode | None = detect_fake_mode() if fake_mode is None else fake_mode
        self.real_module: nn.Module = self.module
        # The notes go onto the real module's nodes. Only parameters and buffers must be fake.
        self.fake_module: nn.Module | None = _fake_copy(gm, self.fake_mode) if self.fake_mode is not None else None

    def propagate(self, *args: Any) -> Any:
        """Run the graph on example inputs, note every node's value, and return the graph's result."""
        if self.fake_mode is not None:
            fake = self.fake_mode.from_tensor
            args = tuple([fake(value) if isinstance(value, torch.Tensor) else value for value in args])
        return super().run(*args)

    def run_node(self, n: Node) -> Any:
        """Run one node and note its value. Raises InterpreterError (a RuntimeError) that names node and line."""
        try:
            # On real tensors, a generator for each node would be a third of the overhead of a run.
            with _REAL if self.fake_mode is None else self._faking(self.fake_mode):
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
    def _faking(self, mode: FakeTensorMode) -> Iterator[None]:
        if self.fake_module is not None:
            self.module = self.fake_module
        try:
            with mode, enable_python_dispatcher():
                yield
        finally:
            self.module = self.real_module


def _fake_copy(module: nn.Module, mode: FakeTensorMode) -> nn.Module:
    refuse_uninitialized(module, "", "cannot find, on fake tensors, the shapes of", InterpreterError)
    with FakeCopyMode(mode):
        return copy.deepcopy(module)


def _described(result: Any) -> tuple[Any, bool]:
    """Return `result` with metadata in place of tensors, and whether there were any."""
    if isinstance(result, torch.Tensor):  # nearly always: 1.3 us in place of 2.1
        return _extract_tensor_metadata(result), True
    found: list[TensorMetadata] = []

    def describe(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        found.append(_extract_tensor_metadata(leaf))
        return found[-1]

    return map_aggregate(result, describe), bool(found)


def _place(node: Node) -> str:
    """Return a line with the place of `node` in the user's source, as far as it is known."""
    frame = innermost_frame(node.stack_trace)
    if frame is not None:
        file, line, function, source = frame
        return f"It comes from {file}:{line} in {function}: {source}\n"
    stack = node.meta.get("nn_module_stack")
    if stack:
        path, kind = next(reversed(stack.values()))
        return f"It comes from module {path!r} ({getattr(kind, '__name__', kind)})\n"
    return ""
