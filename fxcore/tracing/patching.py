"""Temporary replacement of attributes and globals, also by several threads at once."""

from __future__ import annotations

import builtins
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_MISSING = object()


@dataclass
class _Holder:
    """The replaced names of one class, or of one module's globals."""

    holder: Any
    originals: dict[str, Any] = field(default_factory=dict)  # _MISSING if the holder did not have the name itself
    users: dict[str, int] = field(default_factory=dict)
    put_at_once: Mapping[str, Any] | None = None  # by the only user, while it is alone

    @property
    def is_in_use(self) -> bool:
        return bool(self.users) or self.put_at_once is not None

    def put(self, replacements: Mapping[str, Any]) -> None:
        is_dict = isinstance(self.holder, dict)
        names = self.holder if is_dict else vars(self.holder)
        if not self.is_in_use and (not is_dict or replacements.keys() <= names.keys()):
            # One trace at a time, as nearly always: without counting, a small trace takes 0.8 of the time.
            self.put_at_once = replacements
            self.originals = {name: names.get(name, _MISSING) for name in replacements}
            self.set_all(replacements)
            return
        if self.put_at_once is not None:
            self.users, self.put_at_once = dict.fromkeys(self.put_at_once, 1), None
        for name, replacement in replacements.items():
            if name in self.users:
                self.users[name] += 1
                continue
            self.users[name] = 1
            self.originals[name] = names.get(name, _MISSING)
            self.set(name, replacement)

    def give_back(self, replacements: Mapping[str, Any]) -> None:
        if self.put_at_once is replacements:
            self.put_at_once = None
            self.set_all(self.originals)
            self.originals.clear()
            return
        for name in replacements:
            self.users[name] -= 1
            if not self.users[name]:
                del self.users[name]
                self.set(name, self.originals.pop(name))

    def set_all(self, values: Mapping[str, Any]) -> None:
        """Put values at names. A dict of globals has all of these names itself."""
        if isinstance(self.holder, dict):
            self.holder.update(values)
        else:
            for name, value in values.items():
                self.set(name, value)

    def current(self, name: str) -> Any:
        """Return the value at a name of the holder itself, without base classes."""
        names = self.holder if isinstance(self.holder, dict) else vars(self.holder)
        return names.get(name, _MISSING)

    def set(self, name: str, value: Any) -> None:
        """Put a value at a name; remove the name for _MISSING."""
        if value is _MISSING:
            if isinstance(self.holder, dict):
                self.holder.pop(name, None)
            elif name in vars(self.holder):
                delattr(self.holder, name)
        elif isinstance(self.holder, dict):
            self.holder[name] = value
        else:
            setattr(self.holder, name, value)


class SharedReplacements:
    """Replacements in this process. Each is made once for all of its users, and undone when the last user leaves.

    The first replacement of a name stays in place. Every later caller must pass an equivalent replacement.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holders: dict[int, _Holder] = {}

    def acquire(self, holder: Any, replacements: Mapping[str, Any]) -> None:
        """Put values at names of a class or of a dict of globals, or join the callers who did so before."""
        with self._lock:
            known = self._holders.get(id(holder))
            if known is None:
                known = self._holders[id(holder)] = _Holder(holder)
            known.put(replacements)

    def release(self, holder: Any, replacements: Mapping[str, Any]) -> None:
        """Leave replacements. The last user to leave restores the originals."""
        with self._lock:
            known = self._holders[id(holder)]
            known.give_back(replacements)
            if not known.is_in_use:
                del self._holders[id(holder)]

    def original(self, holder: Any, name: str) -> Any:
        """Return the original value at a name of a class, or of a dict of globals and the builtins behind it."""
        with self._lock:
            known = self._holders.get(id(holder))
            if known is not None and known.originals.get(name, _MISSING) is not _MISSING:
                return known.originals[name]
        if isinstance(holder, dict):
            return holder[name] if name in holder else getattr(builtins, name)
        return getattr(holder, name)

    def originals_of(self, names: dict[str, Any]) -> dict[str, Any]:
        """Return a dict of globals with the original values; the dict itself if nothing in it is replaced."""
        with self._lock:
            known = self._holders.get(id(names))
            if known is None:
                return names
            merged = {**names, **known.originals}
        return {name: value for name, value in merged.items() if value is not _MISSING}

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Put all originals back for a while, in every thread."""
        with self._lock:
            held = [
                (known, {name: known.current(name) for name in known.originals}) for known in self._holders.values()
            ]
            for known, values in held:
                for name in values:
                    known.set(name, known.originals[name])
            try:
                yield
            finally:
                for known, values in held:
                    for name, value in values.items():
                        known.set(name, value)


REPLACEMENTS = SharedReplacements()


class Replacement(NamedTuple):
    """A name of a class, or of a module given by its name, and the maker of the value to put there."""

    owner: type | str
    name: str
    make: Callable[[Any], Any]  # takes the original
    is_in_place: bool = True  # else only names that traced modules imported are replaced

    @property
    def holder(self) -> Any:
        """The class, or the globals of the module."""
        return vars(sys.modules[self.owner]) if isinstance(self.owner, str) else self.owner

    @functools.cache  # noqa: B019 - the table of replacements stays
    def pair(self) -> tuple[Any, Any]:
        """Return the original and its replacement, which all traces share."""
        original = REPLACEMENTS.original(self.holder, self.name)
        return original, self.make(original)


class Patcher:
    """The replacements of one trace; leaving the `with` block gives them up, last first."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, Mapping[str, Any]]] = []
        self._seen: set[int] = set()

    def replace(self, holder: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` at a name of a class or of a dict of globals."""
        self.replace_all(holder, {name: make(REPLACEMENTS.original(holder, name))})

    def replace_all(self, holder: Any, replacements: Mapping[str, Any]) -> None:
        """Put values at names of a class or of a dict of globals."""
        REPLACEMENTS.acquire(holder, replacements)
        self._made.append((holder, replacements))

    def install(self, replacements: Iterable[Replacement]) -> None:
        """Put replacements in place, which all traces share."""
        for each in replacements:
            self.replace_all(each.holder, {each.name: each.pair()[1]})

    def visit_once(self, thing: object) -> bool:
        """Return True the first time that `thing` is asked about."""
        if id(thing) in self._seen:
            return False
        self._seen.add(id(thing))
        return True

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *error: object) -> None:
        while self._made:
            REPLACEMENTS.release(*self._made.pop())
