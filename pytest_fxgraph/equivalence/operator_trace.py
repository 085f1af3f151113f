"""Every operator that a call of a model or graph runs, in order, with its results."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import fxcore
from fxcore.state.storage import copy_tensor
from pytest_fxgraph.captures.tracing_failure import is_users_file
from pytest_fxgraph.document.origins import Origins
from pytest_fxgraph.equivalence.nested_values import tensors_in

# Values beyond this size are not kept, because the search for a cause must not use up the memory.
_MOST_BYTES_KEPT = 4 << 30


@dataclass(frozen=True)
class Event:
    """One call of an operator."""

    name: str  # "relu", "conv2d"
    outputs: tuple[torch.Tensor, ...] | None  # copies; None if copies would take too much memory
    module: str  # path of the module that called the operator
    source: str | None  # line of the user's source, if known: "model.py:12: y = torch.relu(x)"
    node: str | None  # name of the graph's node that ran
    autocast: str = ""  # "autocast to bfloat16 on cpu", if the operator ran under it


@dataclass
class OperatorTrace:
    """The events of one run, and by position in `events` the inputs of one that was asked for."""

    events: list[Event] = field(default_factory=list)
    inputs: dict[int, tuple[torch.Tensor, ...]] = field(default_factory=dict)


class OperatorRecorder(TorchFunctionMode):
    """Records the operators that run in its with block."""

    def __init__(self, root: object, keep_inputs_of: int | None = None) -> None:
        """Record a run of `root`; keep copies of the inputs of the event at one position."""
        super().__init__()
        self.trace = OperatorTrace()
        self.node: Any = None
        self._keep_inputs_of = keep_inputs_of
        self._origins = Origins(sources=True)
        self._outside: FrameType | None = None  # the frame that entered the mode
        self._paths = {id(module): path for path, module in root.named_modules()} if isinstance(root, nn.Module) else {}
        self._bytes = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        index = len(self.trace.events)
        if index == self._keep_inputs_of:
            self.trace.inputs[index] = _copies((args, kwargs))
        result = func(*args, **kwargs)
        if tensors_in(result, ""):
            self._record_call(func, result)
        return result

    def __enter__(self) -> Any:
        self._outside = sys._getframe(1)
        return super().__enter__()  # type: ignore[no-untyped-call]  # torch's

    def __exit__(self, *exception: Any) -> None:
        self._outside = None
        super().__exit__(*exception)  # type: ignore[no-untyped-call]  # torch's

    def _record_call(self, func: Callable[..., Any], result: Any) -> None:
        module, source = self._place(sys._getframe(2))
        name = str(getattr(func, "__name__", func)).strip("_")
        node = self.node.name if self.node is not None else None
        self.trace.events.append(Event(name, self._kept(result), module, source, node, _autocast_of(result)))

    def _kept(self, result: Any) -> tuple[torch.Tensor, ...] | None:
        self._bytes += sum(tensor.numel() * tensor.element_size() for _, tensor in tensors_in(result, ""))
        return _copies(result) if self._bytes <= _MOST_BYTES_KEPT else None

    def _place(self, frame: FrameType | None) -> tuple[str, str | None]:
        """Find the module that runs and the innermost line of the user's code; a graph's node knows both of its own."""
        if self.node is not None:
            source = self._origins.source(self.node)
            path = str(self.node.target) if self.node.op == "call_module" else self._origins.scope(self.node) or ""
            return path, source and _with_name_of_file(source)
        module: str | None = None
        line: str | None = None
        while frame is not None and frame is not self._outside and (module is None or line is None):
            if module is None:
                module = self._paths.get(id(_self_of(frame)))
            if line is None and is_users_file(frame.f_code.co_filename):
                line = _line_of(frame)
            frame = frame.f_back
        return module or "", line


def _line_of(frame: FrameType) -> str:
    file, number = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, number).strip()
    return f"{os.path.basename(file)}:{number}" + (f": {text}" if text else "")


def _with_name_of_file(source: str) -> str:
    """Shorten the path of a source line to the name of the file."""
    place, separator, text = source.partition(": ")
    return f"{os.path.basename(place)}{separator}{text}"


class RecordingInterpreter(fxcore.Interpreter):
    """Runs a graph node by node and tells the recorder the running node."""

    def __init__(self, graph_module: fxcore.GraphModule, recorder: OperatorRecorder) -> None:
        super().__init__(graph_module)
        self._recorder = recorder

    def run_node(self, n: fxcore.Node) -> Any:
        """Run one node; the events get the node's name."""
        self._recorder.node = n
        return super().run_node(n)


def _autocast_of(result: object) -> str:
    """Name the autocast that holds for the device of a result; return an empty string without autocast."""
    for device in dict.fromkeys(tensor.device.type for _, tensor in tensors_in(result, "")):
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            return f"autocast to {str(torch.get_autocast_dtype(device)).removeprefix('torch.')} on {device}"
    return ""


def _copies(value: object) -> tuple[torch.Tensor, ...]:
    return tuple(copy_tensor(tensor).detach() for _, tensor in tensors_in(value, ""))


def _self_of(frame: FrameType) -> object:
    names = frame.f_code.co_varnames
    return frame.f_locals.get("self") if names and names[0] == "self" else None
