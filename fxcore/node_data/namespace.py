"""Unique names that are legal in generated Python."""

from __future__ import annotations

import builtins
import functools
import keyword
import re
import string
from collections.abc import Callable, Collection, Mapping
from typing import Any

_VALID = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")
_ILLEGAL_CHARACTERS = re.compile(r"[^0-9a-zA-Z_]+")
_LEGAL = f"{string.ascii_letters}{string.digits}_".encode()
_LOWER_THEN_UPPER = re.compile(r"(?<=[a-z])([A-Z])")

# Names that generated code may use for one object only. A keyword stands for no object, a builtin for itself.
_RESERVED: dict[str, object] = {name: object() for name in keyword.kwlist}
_RESERVED.update(vars(builtins))


def reserve(name: str, obj: object) -> None:
    """Keep `name` for `obj` in every namespace. A value of that name gets a number."""
    _RESERVED[name] = obj


@functools.lru_cache(maxsize=16384)
def snake_case(text: str) -> str:
    """Return `text` in the style of Python variables: `BatchNorm` -> `batch_norm`."""
    return _LOWER_THEN_UPPER.sub(r"_\1", text).lower()


@functools.lru_cache(maxsize=16384)
def name_for_text(target: str) -> str:
    """Return a wish for the name of a node whose target is a path or a method: `__getitem__` -> `getitem`."""
    return snake_case(target[2:-2] if target.startswith("__") and target.endswith("__") else target)


# A legal name, its base, and the number at its end or None.
NameParts = tuple[str, str, int | None]


@functools.lru_cache(maxsize=65536)
def name_parts(candidate: str) -> NameParts:
    """Return a legal form of `candidate`, its base, and the number at its end or None."""
    match = _VALID.match(candidate)
    if match is None:
        candidate = _ILLEGAL_CHARACTERS.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = _VALID.match(candidate)
        assert match is not None, candidate
    base, number = match.groups()
    return candidate, base, None if number is None else int(number)


class TextCache(dict[str, Any]):
    """Results of a function of a text, made at the first look-up. An `lru_cache` takes four times as long."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> Any:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        made = self[text] = self._make(text)
        return made


_MOST_TEXTS = 16384

# The parts of `name_for_text(target)`: one look-up for the nodes of a trace.
PARTS_FOR_TEXT = TextCache(lambda target: name_parts(name_for_text(target)))


class NameOrderError(KeyError):
    """A name depends on the order in which names are created."""


class Namespace:
    """The names in use. Every name is handed out once and shadows no keyword or builtin."""

    __slots__ = ("_last_number", "_name_of", "_used")

    def __init__(self) -> None:
        self._name_of: dict[object, str] = {}
        self._used: set[str] = set()
        self._last_number: dict[str, int] = {}

    def keeps(self, names: Collection[str]) -> bool:
        """Return whether values that ask for `names` get exactly these, in any order; False after the first name."""
        distinct = set(names)
        # A digit sorts before all other characters of names, and the empty text before everything.
        is_legal = not "".join(names).encode().translate(None, _LEGAL) and min(names, default="").isidentifier()
        is_unique = len(distinct) == len(names) and not self._used
        return is_legal and is_unique and _RESERVED.keys().isdisjoint(distinct)

    def take_all(self, names: Collection[str]) -> bool:
        """Take `names`, if values that ask for them one by one get exactly these; else return False and take none."""
        if not self.keeps(names):
            return False
        self._used.update(names)
        numbers = self._last_number
        for name in names:
            base, _, number = name.rpartition("_")
            if base and number.isdecimal():
                numbers[base] = int(number)
            else:
                numbers[name] = numbers.get(name, 0)
        return True

    def create_name(self, candidate: str, obj: object | None) -> str:
        """Return an unused name, as close to `candidate` as possible.

        With an `obj`, the name is kept for it, and the next call with `obj` returns the same name. A graph passes None,
        because its nodes keep their names themselves.
        """
        if obj is not None:
            known = self._name_of.get(obj)
            if known is None:
                known = self._name_of[obj] = self.take(name_parts(candidate), obj)
            return known
        return self.take(name_parts(candidate))

    def take(self, wish: NameParts, obj: object | None = None) -> str:
        """Return an unused name, as close to `wish` as possible. Only the builtin `obj` may have its own name."""
        candidate, base, number = wish
        if number is None or candidate in self._used:
            number = self._last_number.get(base, 0)
            if _RESERVED.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        while candidate in self._used:
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._last_number[base] = number
        return candidate

    def create_reserved_names(self, objects: Mapping[str, Any]) -> dict[str, Any]:
        """Reserve the names for these objects; return a dict from the names in use to the objects."""
        return {self.create_name(name, obj): obj for name, obj in objects.items()}

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Keep a name for `obj`, which must not have a name yet. The name was made without an object."""
        assert self._name_of.setdefault(obj, name) is name, f"{obj!r} has a name already"

    def _rename_object(self, obj: object, name: str) -> None:
        self._name_of[obj] = name
        self._used.add(name)
