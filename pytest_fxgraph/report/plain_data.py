"""Records of plain data, read back from the values that JSON and pytest-xdist carry."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_Record = TypeVar("_Record")
_WORDS = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


def record_of(kind: Callable[..., _Record], data: object) -> _Record:
    """Read a record that `dataclasses.asdict` wrote. Fields that this release does not know are left out.

    Raises KeyError for a missing field without a default, and ValueError for a value of another form.
    """
    values = _mapping(data)
    readers, required = _readers_of(kind)
    found = {name: read(values[name]) for name, read in readers.items() if name in values}
    missing = next((name for name in required if name not in found), None)
    if missing is not None:
        raise KeyError(missing)
    return kind(**found)


@functools.cache
def _readers_of(kind: Any) -> tuple[dict[str, Callable[[Any], Any]], list[str]]:
    """Return the reader of each field, and the fields without a default."""
    hints = get_type_hints(kind)
    required = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    return {each.name: _reader(hints[each.name]) for each in fields(kind)}, required


def _reader(hint: Any) -> Callable[[Any], Any]:
    origin, given = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if isinstance(hint, type) and is_dataclass(hint):
        return functools.partial(record_of, hint)
    if type(None) in given:
        inner = _reader(given[0])
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        part = _reader(given[0])
        return lambda value: tuple(map(part, _of_form(value, (list, tuple), "a list")))
    if origin is Mapping:
        key, item = map(_reader, given)
        return lambda value: {key(name): item(each) for name, each in _mapping(value).items()}
    return lambda value: _checked(value, hint)


def _checked(value: Any, kind: type) -> Any:
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    raise ValueError(f"expected {_WORDS[kind]}, got {value!r:.40}")


def _mapping(value: object) -> Any:
    return _of_form(value, Mapping, "names and values")


def _of_form(value: object, kinds: Any, words: str) -> Any:
    if not isinstance(value, kinds):
        raise ValueError(f"expected {words}, got {value!r:.40}")
    return value
