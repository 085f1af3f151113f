"""Arguments of calls as texts: the one way in which every value that a graph may hold is written."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import itertools
import re
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fxcore.node_data.distributed_types import is_process_group, is_reduction, reduction_source
from fxcore.operators.kinds import operator_name
from pytest_fxgraph.document.literals import bytes_text, complex_text, float_text, int_text, string_text
from pytest_fxgraph.document.process_groups import ProcessGroupTexts
from pytest_fxgraph.document.target_names import TargetNames, class_name
from pytest_fxgraph.document.tensor_forms import form_text
from pytest_fxgraph.document.tensor_texts import inline_tensor_text
from pytest_fxgraph.errors import DocumentError

Writer = Callable[[Any], str]

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+|0x[0-9a-fA-F]{8,}")
_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    functools.partial,
    type,
)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def has_groups() -> bool:
    """Tell whether there are groups of processes, of which a graph may name one."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


class ArgumentTexts:
    """Writes arguments; `references` maps each node that may be read to its `%name` and grows from outside."""

    def __init__(
        self, node_type: type | None, constants: str = "exact", own_name: Callable[[Any], str | None] | None = None
    ) -> None:
        self.references: dict[Any, str] = {}
        self.names = TargetNames(self.text, own_name)
        self._constants = constants
        self._node_type = node_type
        self._writers: dict[type | None, Writer] = {**self._plain_writers(), node_type: self._reference}

    @functools.cached_property
    def groups(self) -> ProcessGroupTexts:
        """The texts of the groups of processes that the arguments name."""
        return ProcessGroupTexts()

    def text(self, value: Any) -> str:
        """Write a value. Raises DocumentError with the reason if it has no text that is the same in every run."""
        kind = type(value)
        writer = self._writers.get(kind)
        if writer is None:
            writer = self._writers[kind] = self._writer_for(kind)
        return writer(value)

    def text_with(self, value: Any, reference: Callable[[Any], str]) -> str:
        """Write a value with references to nodes written otherwise; what else is written is the same."""
        self._writers[self._node_type] = reference
        try:
            return self.text(value)
        finally:
            self._writers[self._node_type] = self._reference

    def _plain_writers(self) -> dict[type | None, Writer]:
        return {
            int: int_text,
            float: float_text,
            bool: repr,
            complex: complex_text,
            str: string_text,
            bytes: bytes_text,
            type(None): repr,
            type(...): repr,
            tuple: self._tuple,
            list: self._list,
            dict: self._dict,
            set: self._set,
            frozenset: lambda value: f"frozenset({self._set(value)})",
            slice: lambda value: self._call("slice", (value.start, value.stop, value.step)),
            range: lambda value: self._call("range", (value.start, value.stop, value.step)),
            torch.dtype: str,
            torch.layout: str,
            torch.memory_format: str,
            torch.device: lambda value: f'device("{value}")',
            torch.Size: lambda value: f"torch.Size({self._list(value)})",
            torch.Generator: lambda value: f'torch.Generator(device="{value.device}")',
            types.ModuleType: lambda value: str(value.__name__),
        }

    def _writer_for(self, kind: type) -> Writer:
        """Choose how values of a type are written that is not among the plain ones; asked once for each type."""
        if issubclass(kind, enum.Enum):
            return _enum_text
        if kind.__module__ == "numpy":  # before float, from which numpy.float64 inherits
            return self._numpy
        if issubclass(kind, _FUNCTIONS):
            return self.names.name
        if issubclass(kind, torch.Tensor):
            return lambda value: inline_tensor_text(value, self._constants, form_text(value, self.text))
        if issubclass(kind, tuple) and kind is not tuple:
            return self._named_tuple
        for base in (bool, int, float, complex, str, bytes, list, dict, set, frozenset, torch.Generator, Mapping):
            if issubclass(kind, base):
                return self._writers.get(base, self._dict)
        if dataclasses.is_dataclass(kind) and not kind.__name__.endswith("TreeSpec"):
            return self._dataclass
        return self._other

    def _reference(self, node: Any) -> str:
        try:
            return self.references[node]
        except KeyError:
            raise DocumentError(f"it reads %{node.name}, which no earlier node of this graph makes") from None

    def _call(self, function: str, values: tuple[Any, ...]) -> str:
        return f"{function}({', '.join(map(self.text, values))})"

    def _tuple(self, value: tuple[Any, ...]) -> str:
        text = self.text
        return f"({', '.join([text(item) for item in value])}{',' if len(value) == 1 else ''})"

    def _list(self, value: Any) -> str:
        return f"[{', '.join(map(self.text, value))}]"

    def _dict(self, value: Mapping[Any, Any]) -> str:
        return "{" + ", ".join(f"{self.text(key)}: {self.text(item)}" for key, item in value.items()) + "}"

    def _set(self, value: set[Any] | frozenset[Any]) -> str:
        return "{" + ", ".join(sorted(map(self.text, value))) + "}" if value else "set()"

    def _named_tuple(self, value: tuple[Any, ...]) -> str:
        fields = getattr(value, "_fields", None)
        if fields is None:
            return f"{class_name(type(value))}({self._list(value)})"
        return self._fields_text(value, fields)

    def _dataclass(self, value: Any) -> str:
        return self._fields_text(value, [field.name for field in dataclasses.fields(value)])

    def _fields_text(self, value: Any, fields: Any) -> str:
        parts = [f"{field}={self.text(getattr(value, field))}" for field in fields]
        return f"{class_name(type(value))}({', '.join(parts)})"

    def _numpy(self, value: Any) -> str:
        kind = class_name(type(value))
        if getattr(value, "shape", None) == ():
            return f"{kind}({self.text(value.item())})"
        if kind == "numpy.ndarray" and value.dtype.hasobject is False:
            return f"{kind}({self.text(torch.as_tensor(value))})"
        return self._other(value)

    def _other(self, value: Any) -> str:
        """Trust an object's own description, if it has one and no address is in it."""
        kind = class_name(type(value))
        if kind.endswith("TreeSpec"):
            return f"TreeSpec({structure_text(value, self.text)})"
        if is_process_group(value):
            return self.groups.text(value)
        if is_reduction(value):
            return reduction_source(value)
        if isinstance(value, _SYMBOLS):
            return f"{kind}({string_text(str(value))})"
        if callable(value) and (isinstance(getattr(value, "__name__", None), str) or operator_name(value)):
            return self.names.name(value)
        if not _has_own_text(type(value)):
            raise DocumentError(f"an object of type {kind} has no text that is the same in every run")
        description = repr(value)
        if _ADDRESS.search(description):
            raise DocumentError(f"the text of an object of type {kind} holds an address: {description[:80]}")
        return f"{kind}({string_text(description)})"


def _has_own_text(kind: type) -> bool:
    # The class nearest to the object that says how to describe it must not be `object`.
    return next(base for base in kind.__mro__ if "__repr__" in vars(base)) is not object


def _enum_text(value: enum.Enum) -> str:
    kind = class_name(type(value))
    if value.name is not None and value.name.isidentifier():
        return f"{kind}.{value.name}"
    # A combination of flags, which has a name in some versions of Python only.
    return f"{kind}({value.value!r})"


def structure_notes(graph: Any, text: Callable[[Any], str]) -> tuple[str, ...]:
    """Return notes on nested inputs and outputs; none for a graph that takes and returns its values as they are."""
    flattening = getattr(getattr(graph, "_codegen", None), "pytree_info", None)
    if flattening is None:
        return ()
    notes = [f"inputs: {', '.join(flattening.orig_args)}"]
    if flattening.in_spec is not None:
        notes.append(f"input structure: {structure_text(flattening.in_spec, text)}")
    if flattening.out_spec is not None:
        notes.append(f"output structure: {structure_text(flattening.out_spec, text)}")
    return tuple(notes)


def structure_text(spec: Any, text: Callable[[Any], str]) -> str:
    """Write a tree of pytree; a leaf is `*`. Not torch's own form of it, which changes with its version."""
    if spec.type is None:
        return "*"
    children = [structure_text(child, text) for child in _children(spec)]
    if spec.type in (list, tuple):
        opening, closing = "[]" if spec.type is list else "()"
        comma = "," if spec.type is tuple and len(children) == 1 else ""
        return f"{opening}{', '.join(children)}{comma}{closing}"
    if isinstance(spec.type, type) and issubclass(spec.type, dict):
        return _mapping_text(spec, children, text)
    # Of a named tuple, torch keeps the class as the context of a type that all of them share.
    kind = spec.type if isinstance(spec.type, type) else spec.context
    names = _names_of_parts(kind, spec.context, len(children))
    parts = [f"{name}={child}" for name, child in zip(names, children, strict=True)] if names else children
    return f"{class_name(kind)}({', '.join([*parts, *_other_parts(spec.context)])})"


def _mapping_text(spec: Any, children: Sequence[str], text: Callable[[Any], str]) -> str:
    keys = spec.context[1] if issubclass(spec.type, defaultdict) else spec.context
    items = "{" + ", ".join(f"{text(key)}: {child}" for key, child in zip(keys, children, strict=True)) + "}"
    if issubclass(spec.type, defaultdict):
        return f"{class_name(spec.type)}({class_name(spec.context[0])}, {items})"
    return items if spec.type is dict else f"{class_name(spec.type)}({items})"


def _names_of_parts(kind: Any, context: Any, count: int) -> Sequence[str]:
    """Name the fields of a named tuple or a data class; nothing, where the parts have no names."""
    names = getattr(kind, "_fields", None)
    if names is None and dataclasses.is_dataclass(kind) and isinstance(context, list) and context:
        names = context[0]
    return names if isinstance(names, (list, tuple)) and len(names) == count else ()


def fields_of(kind: type) -> Sequence[str]:
    """Return the fields of a named tuple or a data class in the order of its arguments; nothing for other classes."""
    if not dataclasses.is_dataclass(kind) and not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return ()
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):  # of a class with a `__signature__` of its own
        return ()
    return [each.name for each in itertools.takewhile(lambda each: each.kind is each.POSITIONAL_OR_KEYWORD, parameters)]


def named_by_fields(
    fields: Sequence[str], values: Sequence[Any], by_keyword: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Give the arguments of a record by field, so that a field that got another name is a difference."""
    named = dict(zip(fields, values, strict=False))
    if len(named) < len(values) or not named.keys().isdisjoint(by_keyword):  # no call that Python would take
        return values, by_keyword
    return (), {**named, **by_keyword}


def _other_parts(context: Any) -> list[str]:
    """Tell what is no child: the fields of a data class that are None, and the bound of a deque."""
    if isinstance(context, list) and len(context) == 2 and isinstance(context[1], list):
        return [f"{name}=None" for name in context[1]]
    return [f"maxlen={context}"] if isinstance(context, int) else []


def _children(spec: Any) -> Any:
    # A method in newer versions of torch, an attribute in older ones.
    children = getattr(spec, "children", None)
    return children() if callable(children) else spec.children_specs
