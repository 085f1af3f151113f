"""The list and dict for a node's arguments: readable as usual, closed to edits in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from torch.utils import _pytree as pytree

from fxcore.errors import ImmutableError

__all__ = ["immutable_dict", "immutable_list"]

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")


def _refuse_mutation(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise ImmutableError(
        f"{type(self).__name__!r} object does not support mutation: a node must know of every change to its arguments. "
        "Make a changed copy and assign that: node.args = new_args (or node.kwargs = new_kwargs)"
    )


class immutable_list(list[_T]):  # noqa: N801 - torch.fx's public name
    """A list that refuses every change with a TypeError; hashable if its items are."""

    __delitem__ = __setitem__ = __iadd__ = __imul__ = _refuse_mutation
    append = extend = insert = _refuse_mutation
    clear = pop = remove = reverse = sort = _refuse_mutation

    def __hash__(self) -> int:  # type: ignore[override]  # list says None: unhashable
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class immutable_dict(dict[_K, _V]):  # noqa: N801 - torch.fx's public name
    """A dict that refuses every change with a TypeError; hashable if its values are."""

    __delitem__ = __setitem__ = __ior__ = _refuse_mutation
    clear = pop = popitem = setdefault = update = _refuse_mutation

    def __hash__(self) -> int:  # type: ignore[override]  # dict says None: unhashable
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)


def _unflatten_list(values: Iterable[Any], context: Any) -> immutable_list[Any]:
    return immutable_list(values)


def _unflatten_dict(values: Iterable[Any], context: Any) -> immutable_dict[Any, Any]:
    return immutable_dict(zip(context, values, strict=True))


def _make_known_to_pytree() -> None:
    """Register the containers with torch's pytree, as torch.fx does with its own."""
    pytree.register_pytree_node(
        immutable_list,
        pytree._list_flatten,
        _unflatten_list,
        serialized_type_name="fxcore.immutable_collections.immutable_list",
        flatten_with_keys_fn=pytree._list_flatten_with_keys,
    )
    pytree.register_pytree_node(
        immutable_dict,
        pytree._dict_flatten,
        _unflatten_dict,
        serialized_type_name="fxcore.immutable_collections.immutable_dict",
        flatten_with_keys_fn=pytree._dict_flatten_with_keys,
    )


_make_known_to_pytree()
