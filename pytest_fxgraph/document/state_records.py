"""Records of the parameters, buffers and constant tensors that a graph reads."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch's stub lacks it

from fxcore.state.packed_parameters import packed_tensors, tensors_of_packed
from pytest_fxgraph.document.model import StateRecord
from pytest_fxgraph.document.modules import Attributes, parts_of
from pytest_fxgraph.document.target_names import class_name
from pytest_fxgraph.document.tensor_forms import form_text
from pytest_fxgraph.document.tensor_texts import (
    computed_text,
    constant_text,
    known_text_and_bytes,
    tensor_text,
    text_and_bytes,
)
from pytest_fxgraph.errors import DocumentError

# Tensors that tracing met in the code and put on the module: torch.fx's and torch.export's names.
_MADE_BY_TRACING = re.compile(r"(_tensor_constant|lifted_tensor_|_lifted_tensor_constant)\d+\Z")

# Modules that only hold what another module has packed.
_OF_PACKED = re.compile(r"(?:\A|\.)_packed_params\Z")

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_QUANTIZED = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})

_Fields = tuple[tuple[Any, ...], int]  # a record without its path, and the number of bytes of the tensor
_facts = operator.attrgetter("requires_grad", "dtype", "shape")
_LATER = StateRecord("", "", "")  # holds the place of a record


class StateRecords:
    """Collects records in the order of first use; one tensor under two paths is recorded as the same."""

    def __init__(self, attributes: Attributes, constants: str, text: Callable[[Any], str]) -> None:
        self._attributes = attributes
        self._constants = constants
        self._text = text
        self._records: dict[str, StateRecord] = {}
        self._first_paths: dict[int, str] = {}
        self._spans: list[_Span] = []  # of tensors that are in memory, once each
        self._plain: list[tuple[str, Any, str, torch.Tensor]] = []  # path, owner, name: for `_add_plain`
        self._computed: dict[Hashable, str | None] = {}  # contents of large buffers outside the state dict
        self._computed_paths: list[str] = []

    def add_attribute(self, path: str, is_constant: bool, readers: Iterable[Any] = ()) -> None:
        """Record what a get_attr node reads: a tensor, or a plain value; a module has a record of its own.

        The content of a single number counts if one of the nodes `readers` quantizes by this number.
        """
        if path in self._records:
            return
        owner_path, _, name = path.rpartition(".")
        owner, value = self._attributes.at(owner_path), self._attributes.at(path)
        if isinstance(value, torch.Tensor):
            quantizes = value.numel() == 1 and any("quantize" in str(node.target) for node in readers)
            self._add(path, owner, name, value, is_constant, quantizes)
        elif not isinstance(value, torch.nn.Module):
            self._records[path] = StateRecord(path, "constant", class_name(type(value)), content=self._content(value))
            if isinstance(value, torch.ScriptObject):
                self._add_packed(path, tensors_of_packed(value))

    def _add_packed(self, path: str, parts: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Record tensors that are packed, each time, as new ones."""
        for name, tensor in parts:
            place = f"{path}.{name}" if path else name
            self._records[place] = StateRecord(place, "parameter", self._held(tensor))

    def _held(self, tensor: torch.Tensor) -> str:
        return tensor_text(tensor) + form_text(tensor, self._text)

    def _content(self, value: Any) -> str | None:
        try:
            return self._text(value)
        except DocumentError:  # an object of a custom class, say: its type is all that is the same in every run
            return None

    def add_module(self, path: str, module: torch.nn.Module) -> None:
        """Record the state of a called module and of the modules in it."""
        records, firsts = self._records, self._first_paths
        for inner, owner in parts_of(path, module):
            prefix = f"{inner}." if inner else ""
            quantizes = type(owner).__module__.startswith("torch.ao.")
            for holder, plain in (owner._parameters, torch.nn.Parameter), (owner._buffers, torch.Tensor):
                for name, tensor in holder.items() if holder else ():
                    if tensor is None or (place := prefix + name) in records:
                        continue
                    is_plain = type(tensor) is plain and not quantizes
                    is_kept = plain is torch.nn.Parameter or name not in owner._non_persistent_buffers_set
                    if is_plain and is_kept and firsts.setdefault(id(tensor), place) is place:
                        self._plain.append((place, owner, name, tensor))
                        records[place] = _LATER
                    else:
                        self._add(place, owner, name, tensor, False, quantizes and _is_setting(owner, name))
            if quantizes:
                self._add_packed(_OF_PACKED.sub("", inner), packed_tensors(owner))

    def records(self, changed: Callable[[], Collection[str]]) -> tuple[StateRecord, ...]:
        """Return what was collected. Tensors at the paths `changed()`, and below, have no content: a run changes it."""
        if self._plain:
            self._add_plain()
        written = changed() if self._computed_paths else ()
        for path in self._computed_paths:
            if any(path == each or path.startswith(f"{each}.") for each in written):
                self._records[path] = self._records[path]._replace(content=None)
        for path, storage in _overlaps(self._spans):
            self._records[path] = self._records[path]._replace(storage=storage)
        return tuple(self._records.values())

    def _add_plain(self) -> None:
        """Record parameters and buffers of torch's own classes as found out for the last ones like them.

        Maps ask all tensors without a step of Python: a model of 319 tensors takes 0.3 ms, and took 0.5 one by one.
        """
        collected, self._plain = self._plain, []
        paths, _, names, tensors = zip(*collected, strict=True)
        found: Iterable[_Fields | None] = repeat(None)
        starts: Iterable[int] = repeat(0)
        with suppress(TypeError, RuntimeError):  # symbolic sizes are no keys; sparse and wrapped tensors do not answer
            asked = map(type, tensors), names, map(_facts, tensors), map(torch.Tensor.stride, tensors)
            found, starts = [*map(_fields_of, *asked)], [*map(torch.Tensor.data_ptr, tensors)]
        for path, known, start, plain in zip(paths, found, starts, collected, strict=False):
            if known is None:
                self._add(*plain)
                continue
            facts, size = known
            if start and size:
                self._spans.append((start, start + size, path))
            # StateRecord(...) runs Python and takes four times as long, for a tenth of a document.
            self._records[path] = tuple.__new__(StateRecord, (path, *facts))

    def _add(
        self,
        path: str,
        owner: Any,
        name: str,
        tensor: torch.Tensor,
        is_constant: bool = False,
        is_setting: bool = False,
    ) -> None:
        if isinstance(tensor, UninitializedTensorMixin):
            raise DocumentError(
                f"{path!r} of {class_name(type(owner))} is not initialized yet, so that it has no shape to write down: "
                "run the model once, with inputs as it will get, before it is traced or checked"
            )
        kind = "constant" if is_constant or _is_made_by_tracing(name) else _kind(owner, name, tensor)
        text, size = text_and_bytes(tensor)
        text += form_text(tensor, self._text) if type(tensor) not in _PLAIN or tensor.is_quantized else ""
        first = self._first_paths.setdefault(id(tensor), path)
        if first is path and type(tensor) in _PLAIN and size and (start := _address(tensor)):
            self._spans.append((start, start + size, path))
        is_kept = kind != "buffer" or name not in getattr(owner, "_non_persistent_buffers_set", ())
        content = None
        if first == path and (kind == "constant" or is_setting):
            content = constant_text(tensor, self._constants)
        elif first == path and not is_kept and type(tensor) is torch.Tensor:
            content = computed_text(tensor, self._constants, self._computed)
            self._computed_paths.append(path)
        same_as = None if first == path else first
        self._records[path] = StateRecord(path, kind, text, tensor.requires_grad, is_kept, same_as, content)


@functools.lru_cache(maxsize=4096)  # as of layers: a model has few of them
def _fields_of(cls: Any, name: str, told: tuple[Any, ...], strides: Any) -> _Fields | None:
    requires_grad, dtype, sizes = told
    if _is_made_by_tracing(name) or dtype in _QUANTIZED:
        return None
    text, size = known_text_and_bytes(dtype, sizes, strides)
    kind = "parameter" if cls is torch.nn.Parameter else "buffer"
    return StateRecord("", kind, text, requires_grad)[1:], size


def _is_setting(module: torch.nn.Module, name: str) -> bool:
    """Return whether a buffer of a module of torch.ao is no running statistic, but decides what the module computes."""
    is_converted = type(module).__module__.startswith("torch.ao.nn.quantized.")
    return name in ("fake_quant_enabled", "observer_enabled") or (is_converted and name in ("scale", "zero_point"))


def _address(tensor: torch.Tensor) -> int:
    """Return where a tensor's first element is; 0 of one without memory."""
    try:
        return tensor.data_ptr()
    except RuntimeError:  # what torch.func wraps has no memory to ask for
        return 0


_Span = tuple[int, int, str]  # the first byte of a tensor, the one after the last, and its path


def _overlaps(spans: Sequence[_Span]) -> Iterator[tuple[str, str]]:
    """Yield the paths of tensors that overlap others in memory, and where they lie.

    The place is told from the first byte that the overlapping tensors have together, under the name of the one among
    them that comes first in the alphabet, so that it depends on no order.
    """
    starts, ends = sorted([start for start, _, _ in spans]), sorted([end for _, end, _ in spans])
    if all(map(operator.le, ends, starts[1:])):  # none overlaps: nearly always
        return
    group: list[_Span] = []
    end = -1
    for span in sorted(spans):
        if span[0] >= end:
            yield from _places(group)
            group = []
        group.append(span)
        end = max(end, span[1])
    yield from _places(group)


def _places(group: Sequence[_Span]) -> Iterator[tuple[str, str]]:
    if len(group) > 1:
        name = min(path for _, _, path in group)
        for start, _, path in group:
            yield path, f"{name} from byte {start - group[0][0]}"


@functools.lru_cache(maxsize=1024)
def _is_made_by_tracing(name: str) -> bool:
    return _MADE_BY_TRACING.match(name) is not None


def _kind(owner: Any, name: str, tensor: torch.Tensor) -> str:
    # By type first: asking a plain tensor whether it is a parameter runs Python of torch's.
    if type(tensor) is not torch.Tensor and isinstance(tensor, torch.nn.Parameter):
        return "parameter"
    return "buffer" if name in getattr(owner, "_buffers", ()) else "constant"
