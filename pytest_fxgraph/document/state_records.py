"""Records of the parameters, buffers and constant tensors that a graph reads."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch's stub lacks it

from pytest_fxgraph.document.model import StateRecord
from pytest_fxgraph.document.module_traits import Attributes, parts_of
from pytest_fxgraph.document.target_names import class_name
from pytest_fxgraph.document.tensor_texts import constant_text, tensor_text
from pytest_fxgraph.errors import DocumentError

# Tensors that tracing met in the code and put on the module: torch.fx's and torch.export's names.
_MADE_BY_TRACING = re.compile(r"(_tensor_constant|lifted_tensor_|_lifted_tensor_constant)\d+\Z")

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class StateRecords:
    """Collects records in the order of first use; one tensor under two paths is recorded as the same."""

    def __init__(self, attributes: Attributes, constants: str, text: Callable[[Any], str]) -> None:
        self._attributes = attributes
        self._constants = constants
        self._text = text
        self._records: dict[str, StateRecord] = {}
        self._first_paths: dict[int, str] = {}
        self._tensors: list[torch.Tensor] = []  # of the records, once each
        self._paths: list[str] = []  # of these tensors

    def add_attribute(self, path: str, is_constant: bool) -> None:
        """Record what a get_attr node reads: a tensor, or a plain value; a module has a record of its own."""
        if path in self._records:
            return
        owner_path, _, name = path.rpartition(".")
        owner, value = self._attributes.at(owner_path), self._attributes.at(path)
        if isinstance(value, torch.Tensor):
            self._add(path, owner, name, value, is_constant)
        elif not isinstance(value, torch.nn.Module):
            self._records[path] = StateRecord(path, "constant", class_name(type(value)), content=self._content(value))

    def _content(self, value: Any) -> str | None:
        try:
            return self._text(value)
        except DocumentError:  # an object of a custom class, say: its type is all that is the same in every run
            return None

    def add_module(self, path: str, module: torch.nn.Module) -> None:
        """Record the state of a called module and of the modules in it."""
        records = self._records
        for inner, owner in parts_of(path, module):
            for holder in (owner._parameters, owner._buffers):
                for name, tensor in holder.items():
                    inner_path = f"{inner}.{name}" if inner else name
                    if tensor is not None and inner_path not in records:
                        self._add(inner_path, owner, name, tensor, False)

    def records(self) -> tuple[StateRecord, ...]:
        """Return what was collected."""
        for path, storage in _overlaps(self._paths, self._tensors):
            self._records[path] = replace(self._records[path], storage=storage)
        return tuple(self._records.values())

    def _add(self, path: str, owner: Any, name: str, tensor: torch.Tensor, is_constant: bool) -> None:
        if isinstance(tensor, UninitializedTensorMixin):
            raise DocumentError(
                f"{path!r} of {class_name(type(owner))} is not initialized yet, so that it has no shape to write down: "
                "run the model once, with inputs as it will get, before it is traced or checked"
            )
        kind = "constant" if is_constant or _is_made_by_tracing(name) else _kind(owner, name, tensor)
        first = self._first_paths.setdefault(id(tensor), path)
        if first is path:
            self._tensors.append(tensor)
            self._paths.append(path)
        self._records[path] = StateRecord(
            path,
            kind,
            tensor_text(tensor),
            tensor.requires_grad,
            kind != "buffer" or name not in getattr(owner, "_non_persistent_buffers_set", ()),
            None if first == path else first,
            constant_text(tensor, self._constants) if kind == "constant" and first == path else None,
        )


def _overlaps(paths: Sequence[str], tensors: Sequence[torch.Tensor]) -> Iterator[tuple[str, str]]:
    """Yield the paths of tensors that overlap others in memory, and where they lie.

    The place is told from the first byte that the overlapping tensors have together, under the name of the one among
    them that comes first in the alphabet, so that it depends on no order.
    """
    spans: list[tuple[int, int, int]] = []  # first byte, the one after the last, index
    for index, tensor in enumerate(tensors):
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.is_meta or not tensor.nbytes:
            continue
        try:
            start = tensor.data_ptr()
            spans.append((start, start + (tensor.nbytes if tensor.is_contiguous() else _length(tensor)), index))
        except RuntimeError:  # what torch.func wraps has no memory to ask for
            continue
    spans.sort()
    group: list[tuple[int, int, int]] = []
    end = -1
    for span in spans:
        if span[0] >= end:
            yield from _places(group, paths)
            group = []
        group.append(span)
        end = max(end, span[1])
    yield from _places(group, paths)


def _length(tensor: torch.Tensor) -> int:
    """Count the bytes from a tensor's first to its last, which steps between elements make more, or fewer."""
    last = sum([(size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)])
    return (last + 1) * tensor.itemsize


def _places(group: Sequence[tuple[int, int, int]], paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    if len(group) > 1:
        name = min(paths[index] for _, _, index in group)
        for start, _, index in group:
            yield paths[index], f"{name} from byte {start - group[0][0]}"


@functools.lru_cache(maxsize=1024)
def _is_made_by_tracing(name: str) -> bool:
    return _MADE_BY_TRACING.match(name) is not None


def _kind(owner: Any, name: str, tensor: torch.Tensor) -> str:
    # By type first: asking a plain tensor whether it is a parameter runs Python of torch's.
    if type(tensor) is not torch.Tensor and isinstance(tensor, torch.nn.Parameter):
        return "parameter"
    return "buffer" if name in getattr(owner, "_buffers", ()) else "constant"
