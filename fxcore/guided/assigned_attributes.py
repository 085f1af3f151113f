"""Assignments of `forward` to attributes: the graph writes tensors of the model, and notes describe the rest.

A graph computes from its inputs, and the trace restores the attributes of the model. Where a second call of the model
would see the first call's assignment, the graph must assign too, or say that it does not.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from fxcore.guided.proxies import ExampleTensor
from fxcore.state.snapshot import Snapshot
from fxcore.state.storage import ORDINARY
from fxcore.tracing.recorder import SymbolicValue

_TABLES = ("_parameters", "_buffers", "_modules")
_GROWING = frozenset({list, dict, set})
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class AssignedAttributes:
    """The attributes of a model and its modules before a trace, and the containers, classes and variables beside."""

    def __init__(self, root: torch.nn.Module, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._before = [
            (path, module, attributes, _lengths_of(attributes))
            for path, module in root.named_modules()
            for attributes in [_attributes_of(module)]
        ]

    def record(self, tracer: Any) -> tuple[str, ...]:
        """Let the graph write tensors that replaced other tensors; return notes about all other assignments."""
        notes: dict[str, None] = {}
        for path, value, before in self._changes(tracer):
            if not _is_recorded(tracer, path, value, before):
                notes[f"forward assigns self.{path}, which the graph does not"] = None
        for path, _, before, value, _ in self._snapshot.changes_beside_modules():
            if not (_is_equal(value, before) or _is_recorded(tracer, "", value, before)):
                note = f"forward assigns {path}, which the graph does not"
                if not any(path.startswith(told.split()[2].rstrip(",")) for told in notes):
                    notes[note] = None
        return tuple(notes)

    def _changes(self, tracer: Any) -> Iterator[tuple[str, Any, Any]]:
        """Yield path, value and former value of all attributes that were assigned, or grew."""
        for module_path, module, attributes, lengths in self._before:
            now = _attributes_of(module)
            lengths_now = _lengths_of(now)
            is_same = len(now) == len(attributes) and all(map(operator.is_, now.values(), attributes.values()))
            if is_same and lengths == lengths_now:
                continue
            prefix = f"{module_path}." if module_path else ""
            for name, value in now.items():
                path = prefix + name
                if path in tracer._lifted_paths:
                    continue
                before = attributes.get(name, _MISSING)
                has_grown = value is before and lengths.get(name) != lengths_now.get(name)
                if has_grown or not (value is before or _is_equal(value, before) or _stands_for(value, before)):
                    yield path, value, before


_MISSING = object()


def _attributes_of(module: torch.nn.Module) -> dict[str, Any]:
    attributes = dict(vars(module))
    for table in _TABLES:
        held = attributes.pop(table, None)
        if isinstance(held, dict):  # a scripted module has a view
            attributes.update(dict.items(held))  # past the interception of reads
    return attributes


def _lengths_of(attributes: dict[str, Any]) -> dict[str, int]:
    return {name: len(value) for name, value in attributes.items() if type(value) in _GROWING}


def _is_equal(value: Any, before: Any) -> bool:
    return type(value) in _PLAIN and type(value) is type(before) and value == before


def _stands_for(value: Any, before: Any) -> bool:
    """Return whether a container, or a weak reference, holds traced values of the same tensors as before."""
    if isinstance(value, ExampleTensor):
        return value.example is before
    if type(value) is not type(before):
        return False
    if isinstance(value, weakref.ref):
        return _stands_for(value(), before())
    return type(value) in (list, tuple) and len(value) == len(before) > 0 and all(map(_stands_for, value, before))


def _is_recorded(tracer: Any, path: str, value: Any, before: Any) -> bool:
    """Write a proxy into the tensor that it replaced; return whether that was possible."""
    if isinstance(before, SymbolicValue) or type(before) not in ORDINARY or not isinstance(value, torch.Tensor):
        return False
    if not isinstance(value, ExampleTensor):
        tracer.operators.note_write(before)  # from then on, the value may be one of the graph
        return False
    example = value.example
    if example is before or tracer.written_tensors.is_written_by(before, example):
        return True  # it was written in place, or read and put back
    is_parameter = isinstance(before, torch.nn.Parameter)
    if example.shape != before.shape or example.dtype != before.dtype or (example.requires_grad and not is_parameter):
        return False
    tracer.operators.note_write(before)
    node = tracer.create_node("get_attr", path, (), {}) if path else tracer.create_arg(before)
    tensor = tracer.proxy_of_state(node, before.detach().clone())
    if is_parameter:
        node = tracer.create_node("call_function", getattr, (node, "data"), {})
        tensor = tracer.proxy_of_state(node, before.detach().clone())
    for name in ("dtype", "shape"):  # eager's tensor would have those of the value
        asked = tracer.record_without_running("call_function", getattr, (value, name), {})
        tracer.answers.note(asked, getattr(example, name))
    tracer.create_proxy("call_method", "copy_", (tensor, value), {})
    return True
