"""Comments and annotations of verbose generated code, for readers."""

from __future__ import annotations

import pprint
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fxcore.node import Node
from fxcore.node_data.printing import DTYPE_ABBREVIATIONS, example_value, shape_text

_FRAME = re.compile(r"^File \"(.+)\", line (\d+), in (.+)$")
_COLOURS = {
    "red": "\033[31m",
    "blue": "\033[34m",
    "dim": "\033[2m",
    "dim_blue": "\033[2m\033[34m",
    "dim_green": "\033[2m\033[32m",
}
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_WITHOUT_STRIDE = (torch.sparse_csc, torch.sparse_csr)
_LONGEST_ANNOTATION = 40


@dataclass(frozen=True)
class VerboseStyle:
    """Options of verbose code: the parts to show beside the statements."""

    stride: bool
    device: bool
    meta: bool
    colored: bool
    expanded_def: bool
    additional_meta: Sequence[str]
    sym_repr: Callable[[Any], str]

    def paint(self, colour: str, text: str) -> str:
        """Return `text` in a colour if the code is coloured."""
        return f"{_COLOURS[colour]}{text}\033[0m" if self.colored else text


def value_annotation(node: Node, style: VerboseStyle) -> str | None:
    """Return the annotation of a value by its recorded example, such as `: "f32[2, 3]"`; None without one."""
    value = example_value(node)
    if isinstance(value, torch.Tensor):
        return None if value.layout in _WITHOUT_STRIDE else f': "{_tensor_text(value, style)}"'
    if isinstance(value, _SYMBOLIC):
        return f': "Sym({style.sym_repr(value)})"'
    if _is_tensor_metadata(value):
        return f': "{DTYPE_ABBREVIATIONS[value.dtype]}{shape_text(value.shape)}"'
    return None


def _is_tensor_metadata(value: Any) -> bool:
    # By class name: a graph from torch.fx carries torch.fx's own class.
    return isinstance(value, tuple) and type(value).__name__ == "TensorMetadata"


def _tensor_text(tensor: torch.Tensor, style: VerboseStyle) -> str:
    stride = shape_text(tensor.stride()) if style.stride else ""
    device = str(tensor.device) if style.device else ""
    text = (
        style.paint("red", DTYPE_ABBREVIATIONS[tensor.dtype])
        + style.paint("blue", shape_text(tensor.shape))
        + style.paint("dim_blue", stride)
        + style.paint("dim_green", device)
    )
    is_plain = type(tensor) is torch.Tensor or isinstance(tensor, FakeTensor)
    return text if is_plain else f"{type(tensor).__name__}({text})"


def origin_comment(node: Node, style: VerboseStyle) -> str | None:
    """Return the comment with the line of the user's source for `node`; None for inputs and outputs."""
    if node.op in ("placeholder", "output"):
        return None
    comment = f"{_chosen_meta(node, style)}#{_custom_text(node)}{_recompute_text(node)} {_origin(node)}"
    return f"\n{style.paint('dim', comment)}\n"


def _chosen_meta(node: Node, style: VerboseStyle) -> str:
    shown = [f"{key}: {node.meta[key]}" for key in style.additional_meta if key in node.meta]
    return f"# {', '.join(shown)} " if shown else ""


def _custom_text(node: Node) -> str:
    custom = node.meta.get("custom")
    return f" Annotation: { {key: _shortened(value) for key, value in custom.items()} }" if custom else ""


def _shortened(value: Any) -> Any:
    text = str(value)
    return text[:_LONGEST_ANNOTATION] + "..." if len(text) > _LONGEST_ANNOTATION else value


def _recompute_text(node: Node) -> str:
    recompute, region = node.meta.get("recompute"), node.meta.get("ac_graph_id")
    if region is not None:
        return f" ac_graph_id: {region}" + (f" - {recompute.name}" if recompute is not None else "")
    return f" recompute: {recompute.name}" if recompute is not None else ""


def _origin(node: Node) -> str:
    frame = innermost_frame(node.stack_trace)
    if frame is None:
        return "No stacktrace found for following nodes"
    return frame.get_summary_str()


class StackFrame(NamedTuple):
    """A frame of a formatted stack."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        """Return the frame as one line."""
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def innermost_frame(
    stack_trace: str | None, filter_fn: Callable[[str, str, str], bool] | None = None
) -> StackFrame | None:
    """Return the last frame in a formatted stack; None if there is none.

    A frame counts only if `filter_fn(file, name, code)` answers True.
    """
    lines = stack_trace.strip().split("\n") if stack_trace else []
    for index in range(len(lines) - 2, -1, -1):
        match = _FRAME.match(lines[index].strip())
        if match:
            file, line, function = match.groups()
            code = lines[index + 1].strip()
            if filter_fn is None or filter_fn(file, function, code):
                return StackFrame(file, line, function, code)
    return None


def meta_docstring(node: Node) -> list[str]:
    """Return the lines of a string statement that lists all of `node.meta`."""
    if not node.meta:
        return []
    # str inside, because the repr of a symbolic value may ask for its truth.
    entries = [f"{key}: {pprint.pformat(str(value), width=80, compact=True)}" for key, value in node.meta.items()]
    return ['"""', *entries, '"""']
