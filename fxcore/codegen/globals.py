"""Names in generated code: its globals, and the names that all generated code may use."""

from __future__ import annotations

import enum
import math
import sys
import types
import typing
from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from fxcore import _pytree
from fxcore.errors import CodeGenerationError
from fxcore.node_data.namespace import NameOrderError, Namespace, reserve
from fxcore.node_data.targets import is_from_torch, qualified_name, type_repr


class CustomBuiltin(NamedTuple):
    """An object whose `repr` is a name. Only an import makes the name valid."""

    import_str: str
    obj: Any


CUSTOM_BUILTINS: dict[str, CustomBuiltin] = {
    "inf": CustomBuiltin("from math import inf", math.inf),
    "nan": CustomBuiltin("from math import nan", math.nan),
    "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
    "torch": CustomBuiltin("import torch", torch),
    "device": CustomBuiltin("from torch import device", torch.device),
    "fx_pytree": CustomBuiltin("import fxcore._pytree as fx_pytree", _pytree),
    "pytree": CustomBuiltin("import torch.utils._pytree as pytree", pytree),
}
for _name, _builtin in CUSTOM_BUILTINS.items():
    reserve(_name, _builtin.obj)


def register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    """Let all generated code use `name` for `obj`; `import_str` is the statement that defines the name in a file."""
    CUSTOM_BUILTINS[name] = CustomBuiltin(import_str, obj)
    reserve(name, obj)


_TYPING_ORIGINS: dict[Any, Any] = {
    list: typing.List,  # noqa: UP006 - the alias in annotations from before PEP 585
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}


def _is_bar_union(kind: Any) -> bool:
    """Return whether `kind` was written `A | B`. Python 3.14 has one class for all unions and spells it like typing."""
    return isinstance(kind, types.UnionType) and sys.version_info < (3, 14)


class GeneratedGlobals:
    """The globals of one piece of generated code, filled during its writing."""

    __slots__ = ("_known_names", "_namespace", "table")

    def __init__(self, namespace: Namespace, known_names: Collection[str] = ()) -> None:
        """`known_names` are names of values. `add` raises NameOrderError where a new global meets one of them."""
        self._namespace = namespace
        self._known_names = known_names
        self.table = namespace.create_reserved_names({name: builtin.obj for name, builtin in CUSTOM_BUILTINS.items()})

    def add(self, name_hint: str, obj: Any) -> str:
        """Make `obj` reachable from the code and return the name to write.

        Raises CodeGenerationError (a RuntimeError) if another object has the name.
        """
        if is_from_torch(obj) and obj != torch.device:
            return qualified_name(obj)
        name = self._namespace.create_name(name_hint, obj)
        if name not in self.table:
            # A number at the end of a global's name may come from another name.
            if self._known_names and (name[-1].isdigit() or name in self._known_names):
                raise NameOrderError
            self.table[name] = obj
        elif self.table[name] is not obj and self.table[name] != obj:
            raise CodeGenerationError(
                f"Global name {name} already assigned to different object: the code would have to mean both "
                f"{self.table[name]!r} and {obj!r}"
            )
        return name

    def annotation(self, kind: Any) -> str:
        """Return the text of a type annotation whose names the code can reach."""
        if kind == ():
            return "()"  # the content of Tuple[()]
        if isinstance(kind, list):  # the content of Callable[[int], str]
            return f"[{','.join([self.annotation(member) for member in kind])}]"
        if typing.get_origin(kind) is typing.Annotated:
            return self.annotation(kind.__origin__)
        name = type_repr(kind)
        if _is_bar_union(kind) and "|" in name:
            return "|".join([self.annotation(member) for member in typing.get_args(kind)])
        origin = getattr(kind, "__origin__", None)
        if not origin:
            return self.add(name, kind)
        if isinstance(kind, typing._GenericAlias):  # type: ignore[attr-defined]  # typing.List[int], not list[int]
            origin = _TYPING_ORIGINS.get(origin, origin)
        origin_name = self.add(type_repr(origin), origin)
        members = typing.get_args(kind)
        if not members:
            return origin_name
        return f"{origin_name}[{','.join([self.annotation(member) for member in members])}]"

    def enum_member(self, member: enum.Enum) -> str:
        """Return `Color.RED`, and make the class reachable."""
        kind = type(member)
        return f"{self.add(kind.__name__, kind)}.{member.name}"
