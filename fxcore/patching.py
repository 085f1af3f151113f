"""Replacing attributes and globals for a while, also when several threads do so at once."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_MISSING = object()


@dataclass
class _Replacement:
    holder: Any  # a class, or the globals of a module
    name: str
    original: Any  # _MISSING if the holder did not have the name itself
    users: int

    def restore(self) -> None:
        if self.original is _MISSING:
            if isinstance(self.holder, dict):
                self.holder.pop(self.name, None)
            else:
                delattr(self.holder, self.name)
        elif isinstance(self.holder, dict):
            self.holder[self.name] = self.original
        else:
            setattr(self.holder, self.name, self.original)


class SharedReplacements:
    """Replacements in this process, each made once however many want it and undone when the last has left."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._by_place: dict[tuple[int, str], _Replacement] = {}

    def acquire(self, holder: Any, name: str, replace: Callable[[Any], Any]) -> tuple[int, str]:
        """Put `replace(original)` at `name` of a class or a dict of globals, or join those who did."""
        place = (id(holder), name)
        with self._lock:
            known = self._by_place.get(place)
            if known is not None:
                known.users += 1
                return place
            held = holder if isinstance(holder, dict) else vars(holder)
            original = held.get(name, _MISSING)
            current = original if original is not _MISSING else self._inherited(holder, name)
            self._by_place[place] = _Replacement(holder, name, original, users=1)
            if isinstance(holder, dict):
                holder[name] = replace(current)
            else:
                setattr(holder, name, replace(current))
        return place

    @staticmethod
    def _inherited(holder: Any, name: str) -> Any:
        return getattr(builtins, name) if isinstance(holder, dict) else getattr(holder, name)

    def release(self, place: tuple[int, str]) -> None:
        """Leave a replacement; the last to leave restores the original."""
        with self._lock:
            replacement = self._by_place[place]
            replacement.users -= 1
            if replacement.users == 0:
                del self._by_place[place]
                replacement.restore()


REPLACEMENTS = SharedReplacements()


class Patcher:
    """The replacements of one trace; leaving the `with` block gives them up, last first."""

    def __init__(self) -> None:
        self._places: list[tuple[int, str]] = []
        self._seen: set[int] = set()

    def replace(self, holder: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` at `name` of a class or of a dict of globals."""
        self._places.append(REPLACEMENTS.acquire(holder, name, make))

    def visit_once(self, thing: object) -> bool:
        """Return True the first time that `thing` is asked about."""
        if id(thing) in self._seen:
            return False
        self._seen.add(id(thing))
        return True

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *error: object) -> None:
        while self._places:
            REPLACEMENTS.release(self._places.pop())
