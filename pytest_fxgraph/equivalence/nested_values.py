"""Nested values: the parts of a container, and the path to each part.

torch's pytree takes unregistered mappings, dataclasses and subclasses of list for leaves, and never returns from a
container that holds itself. Thus pytree is asked last, for types registered there.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import torch
from torch.utils import _pytree as torch_pytree

from fxcore.state.containers import attributes_of, shown
from fxcore.state.storage import ORDINARY

# Values that exist once in a process: two of them are equal only if they are one object.
SINGLES = (
    *(torch.dtype, torch.layout, torch.memory_format, torch.qscheme, enum.Enum, type, types.ModuleType),
    *(torch._ops.OpOverload, torch._ops.OpOverloadPacket),
)
# Attributes that are compared beside the parts of a container.
_PLAIN = (torch.Tensor, int, float, complex, str, bytes, list, tuple, dict)
# Objects with attributes that count as one value. A snapshot watches the state of modules.
_WHOLE = (*SINGLES, torch.Tensor, torch.nn.Module, torch.Generator)


@dataclasses.dataclass(frozen=True)
class ReadIterator:
    """The items of an iterator, in the iterator's place, because a check reads the items several times."""

    items: tuple[Any, ...]


def with_iterators_read(value: Any) -> Any:
    """Replace iterators, alone or in tuples, lists and dicts, by their items; return any other value itself."""
    if isinstance(value, Iterator):
        return ReadIterator(tuple([with_iterators_read(item) for item in value]))
    if type(value) in (list, tuple):
        items = [with_iterators_read(item) for item in value]
        return type(value)(items) if any(item is not given for item, given in zip(items, value, strict=True)) else value
    if type(value) is dict:
        values = {key: with_iterators_read(item) for key, item in value.items()}
        return values if any(values[key] is not value[key] for key in value) else value
    return value


def parts_of(value: object) -> list[tuple[str, Any]] | None:
    """List the parts of a value, each with its step in a path: "[0]", ".name"; None for a leaf.

    Containers have parts. The parts of an object without an own `==` are its attributes. A value is a leaf if a method
    of the user raises on the way to the parts.
    """
    if type(value) in ORDINARY:  # a quick answer, for most values are tensors
        return None
    try:
        return _parts_of(value)
    except Exception:
        return None


def _parts_of(value: object) -> list[tuple[str, Any]] | None:
    parts = _parts_of_container(value)
    if parts is None:
        parts = _registered_parts(value)
        return _attributes(value) if parts is None else parts
    if type(value) in (list, tuple, dict, ReadIterator):
        return parts
    known = {id(part) for _, part in parts}
    own = sorted(getattr(value, "__dict__", {}).items())
    return parts + [(f".{name}", each) for name, each in own if _is_further(value, name, each, known)]


def _is_further(container: object, name: str, attribute: object, known: set[int]) -> bool:
    """Return whether an attribute of a user's container is plain data beside its parts, and no cache of them."""
    if name.startswith("_") or not isinstance(attribute, _PLAIN) or id(attribute) in known:
        return False
    if isinstance(getattr(type(container), name, None), functools.cached_property):
        return False
    inner = _parts_of_container(attribute) or [(name, attribute)]
    return not known.issuperset(id(part) for _, part in inner)


def _parts_of_container(value: object) -> list[tuple[str, Any]] | None:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", part) for name, part in zip(value._fields, value, strict=True)]
    if isinstance(value, ReadIterator):
        value = value.items
    if isinstance(value, (list, tuple, KeysView, ValuesView, ItemsView)):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, Mapping):
        return [(f"[{shown(key, 200)}]", part) for key, part in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [entry.name for entry in dataclasses.fields(value)]
        return [(f".{name}", getattr(value, name)) for name in names if hasattr(value, name)]
    return None


def _attributes(value: Any) -> list[tuple[str, Any]] | None:
    """List the attributes of an object without an own `==`; None without attributes, and for one value."""
    if isinstance(value, functools.partial):
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, types.FunctionType):
        enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        return [(".__code__", value.__code__), (".__defaults__", value.__defaults__), (".__closure__", enclosed)]
    if isinstance(value, _WHOLE) or has_equality(value):
        return None
    if not hasattr(value, "__dict__") and not any(vars(kind).get("__slots__") for kind in type(value).__mro__):
        return None
    return [(f".{name}", part) for name, part in sorted(attributes_of(value).items())]


def has_equality(value: object) -> bool:
    """Return whether the class of a value defines `==`."""
    return getattr(type(value), "__eq__", None) is not object.__eq__


def _registered_parts(value: object) -> list[tuple[str, Any]] | None:
    """List the parts of a type registered with torch's pytree."""
    if isinstance(value, torch.Tensor):
        return None
    registered = getattr(torch_pytree, "SUPPORTED_NODES", {}).get(type(value))
    if registered is None:
        return None
    parts, _ = registered.flatten_fn(value)
    return [(f".<part {index}>", part) for index, part in enumerate(parts)]


def walk(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its path below `path`; a container inside itself is not entered again."""
    entered: set[int] = set()
    left = object()
    waiting: list[tuple[str, Any, Any]] = [(path, value, None)]  # with `left`, when all parts of a value are done
    while waiting:
        where, value, state = waiting.pop()
        if state is left:
            entered.discard(id(value))
            continue
        parts = parts_of(value)
        if parts is None:
            yield where, value
        elif id(value) not in entered:
            entered.add(id(value))
            waiting.append((where, value, left))
            waiting.extend((where + step, part, None) for step, part in reversed(parts))


def tensors_in(value: object, path: str) -> list[tuple[str, torch.Tensor]]:
    """List the tensors in a nested value with their paths below `path`."""
    return [(where, leaf) for where, leaf in walk(value, path) if isinstance(leaf, torch.Tensor)]
