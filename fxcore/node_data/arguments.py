"""Arguments of nodes: nested tuples, lists, dicts and slices whose leaves are values of the graph or constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fxcore.errors import GraphArgumentError
from fxcore.immutable_collections import immutable_dict, immutable_list


class Value:
    """A result in a graph. Arguments may refer to it; its one subclass is `Node`."""

    __slots__ = ()


# Frequent leaves, by exact type: nothing inside them needs mapping.
PLAIN = frozenset({int, float, bool, str, type(None), complex, type(...)})


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every leaf of `a`. Lists and dicts become immutable ones; named tuples keep their class."""
    kind = type(a)
    if kind is tuple:
        return tuple([map_aggregate(item, fn) for item in a])
    if kind in PLAIN:
        return fn(a)
    # isinstance would ask `__class__`, and proxies of a library answer with the class that they imitate.
    if issubclass(kind, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if issubclass(kind, dict):
        return immutable_dict([(key, map_aggregate(item, fn)) for key, item in a.items()])
    if kind is slice:
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    if issubclass(kind, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return kind(*items) if hasattr(a, "_fields") else tuple(items)
    return fn(a)


def map_values(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every `Value` in `a` and keep the other leaves."""
    kind = type(a)
    if kind is tuple:
        # Most items are values or plain; a check here saves a call for each.
        return tuple(
            [
                fn(item) if isinstance(item, Value) else item if type(item) in PLAIN else map_values(item, fn)
                for item in a
            ]
        )
    if kind is immutable_list:
        return immutable_list([map_values(item, fn) for item in a])
    if kind in PLAIN:
        return a
    if isinstance(a, Value):
        return fn(a)
    if isinstance(a, (list, dict, slice, tuple)):
        return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Value) else leaf)
    return a


def replace_value(a: Any, old: Value, new: Any) -> Any:
    """Return `a` with `new` in every place of the value `old`."""
    kind = type(a)
    if kind is tuple or kind is immutable_list:  # takes 0.7 of the time of the last line
        return kind(
            [
                new
                if item is old
                else item
                if isinstance(item, Value) or type(item) in PLAIN
                else replace_value(item, old, new)
                for item in a
            ]
        )
    return map_values(a, lambda value: new if value is old else value)


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every node in `a`, which may be nested tuples, lists, dicts and slices.

    The result has the structure of `a`. Raises AssertionError (GraphArgumentError) if `fn` is not callable.
    """
    if not callable(fn):
        raise GraphArgumentError(
            f"torch.fx.map_arg(a, fn): fn must be a callable, and {fn!r} is not; pass a function of one node"
        )
    if type(a) is tuple:  # as for the arguments of every node: one call less
        return tuple([fn(item) if isinstance(item, Value) else map_values(item, fn) for item in a])
    return map_values(a, fn)


def freeze(a: Any, seen: dict[Any, None]) -> Any:
    """Return `a` with its containers immutable, and add the values in it to `seen` in reading order."""
    kind = type(a)
    if kind is tuple:
        return _freeze_tuple(a, seen)
    if kind in PLAIN:
        return a
    if isinstance(a, Value):
        seen[a] = None
        return a
    if isinstance(a, (list, dict, slice, tuple)):
        return map_aggregate(a, lambda leaf: _collect(leaf, seen))
    return a


def _freeze_tuple(items: tuple[Any, ...], seen: dict[Any, None]) -> tuple[Any, ...]:
    for item in items:
        if isinstance(item, Value):
            seen[item] = None
        elif type(item) not in PLAIN:
            return tuple([freeze(item, seen) for item in items])
    return items  # the frequent case: nothing in the tuple can change


def _collect(leaf: Any, seen: dict[Any, None]) -> Any:
    if isinstance(leaf, Value):
        seen[leaf] = None
    return leaf
