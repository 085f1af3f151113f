"""Every operator that a call runs, in order, with what it returned: made by model and graph alike."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import fxcore
from pytest_fxgraph.equivalence.inputs import copy_of_view
from pytest_fxgraph.equivalence.nested_values import tensors_in

# Past this, values are no longer kept: a look for the place of a mismatch must not end a run for want of memory.
_BYTES_KEPT = 4 << 30
_NOBODYS = tuple(
    os.path.dirname(os.path.abspath(home)) + os.sep
    for home in (str(torch.__file__), str(fxcore.__file__), os.path.dirname(__file__))
)


@dataclass(frozen=True)
class Event:
    """One operator that ran."""

    name: str  # "relu", "conv2d"
    outputs: tuple[torch.Tensor, ...] | None  # copies; None where memory did not allow to keep them
    module: str  # path of the module whose forward called it
    line: tuple[str, int] | None  # file and line of the user's code
    node: str | None  # name of the graph's node that ran

    def source(self) -> str | None:
        """Give the line of the model's source: "model.py:12: y = torch.relu(x)"."""
        if self.line is None:
            return None
        file, number = self.line
        text = linecache.getline(file, number).strip()
        return f"{os.path.basename(file)}:{number}" + (f": {text}" if text else "")


@dataclass
class Recording:
    """The events of one call, and the inputs of one event of interest."""

    events: list[Event] = field(default_factory=list)
    inputs: dict[int, tuple[torch.Tensor, ...]] = field(default_factory=dict)


class Recorder(TorchFunctionMode):
    """Writes down what runs under it."""

    def __init__(self, root: object, keep_inputs_of: int | None = None) -> None:
        super().__init__()
        self.recording = Recording()
        self.node: Any = None
        self._keep_inputs_of = keep_inputs_of
        self._paths = {id(module): path for path, module in root.named_modules()} if isinstance(root, nn.Module) else {}
        self._bytes = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        index = len(self.recording.events)
        if index == self._keep_inputs_of:
            self.recording.inputs[index] = _copies((args, kwargs))
        result = func(*args, **kwargs)
        if tensors_in(result, ""):
            self._write_down(func, result)
        return result

    def _write_down(self, func: Callable[..., Any], result: Any) -> None:
        module, line = self._place(sys._getframe(2))
        name = str(getattr(func, "__name__", func)).strip("_")
        node = self.node.name if self.node is not None else None
        self.recording.events.append(Event(name, self._kept(result), module, line, node))

    def _kept(self, result: Any) -> tuple[torch.Tensor, ...] | None:
        self._bytes += sum(tensor.numel() * tensor.element_size() for _, tensor in tensors_in(result, ""))
        return _copies(result) if self._bytes <= _BYTES_KEPT else None

    def _place(self, frame: FrameType | None) -> tuple[str, tuple[str, int] | None]:
        """Find the module that runs and the innermost line that is not torch's or ours."""
        module: str | None = None
        line: tuple[str, int] | None = None
        while frame is not None and (module is None or line is None):
            if module is None:
                module = self._paths.get(id(_self_of(frame)))
            if line is None and _is_users(frame.f_code):
                line = (frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return module or "", line


class RecordingInterpreter(fxcore.Interpreter):
    """Runs a graph node by node, telling the recorder which node is at work."""

    def __init__(self, graph_module: fxcore.GraphModule, recorder: Recorder) -> None:
        super().__init__(graph_module)
        self._recorder = recorder

    def run_node(self, n: fxcore.Node) -> Any:
        """Run one node under its name."""
        self._recorder.node = n
        return super().run_node(n)


def positional(graph: fxcore.Graph, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Give the arguments in the order of the placeholders; None where they cannot be told apart by name."""
    if not kwargs:
        return args
    values = list(args)
    for node in [node for node in graph.nodes if node.op == "placeholder"][len(args) :]:
        if node.target in kwargs:
            values.append(kwargs[node.target])
        elif node.args:
            values.append(node.args[0])
        else:
            return None
    return tuple(values)


def _copies(value: object) -> tuple[torch.Tensor, ...]:
    return tuple(copy_of_view(tensor).detach() for _, tensor in tensors_in(value, ""))


def _self_of(frame: FrameType) -> object:
    names = frame.f_code.co_varnames
    return frame.f_locals.get("self") if names and names[0] == "self" else None


def _is_users(code: CodeType) -> bool:
    return not code.co_filename.startswith(("<", *_NOBODYS))
