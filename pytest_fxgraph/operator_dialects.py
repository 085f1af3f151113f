"""Dialects: the languages in which graphs name an operation, such as torch, aten and edge."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from fxcore.operators.kinds import dialect_of, operator_name, packet_name

TORCH = "torch"  # functions and methods of torch, and modules
PYTHON = "python"
_ROOTS = {"operator": PYTHON, "math": PYTHON, "builtins": PYTHON}
_CORE = ("aten", "prims")
# Dialects with other names for torch's operators. Their names are right even if executorch is not loaded.
DERIVED = ("edge", "backend")
# The dialects that exclude each other: a graph of one of them calls no operation by the name of another.
# Operators of libraries, higher-order operators and functions of Python have one name for all graphs.
_LANGUAGES = frozenset((TORCH, *_CORE, *DERIVED))
# Any captured graph picks items and computes sizes with these functions, whatever its dialect.
_IN_EVERY_DIALECT = ("operator.getitem", "torch.sym_", "torch._")


def operator_names(target: Any) -> tuple[str, ...]:
    """Return the names of an operator, with and without its overload; () for a target that is no operator.

    An operator of a derived dialect has its own names and torch's: `edge.aten.neg` is `aten.neg`, too.
    """
    dialect = dialect_of(target)
    names = [name for name in (operator_name(target), packet_name(target)) if name is not None]
    return tuple(dict.fromkeys([*names, *(name.removeprefix(f"{dialect}.") for name in names if dialect)]))


def dialect_of_name(name: str) -> str:
    """Return the dialect of a full name: "aten" of `aten.add.Tensor`, "torch" of a method; "" for a name of all."""
    root, dot, _ = name.partition(".")
    if name.startswith(_IN_EVERY_DIALECT):
        return ""
    return _ROOTS.get(root, root) if dot else TORCH


def could_be_found(asked: Collection[str], spoken: Iterable[str]) -> bool:
    """Return whether a graph that speaks some dialects can name an operation in one of the asked dialects.

    A graph without any call of a known dialect can: nothing is known about its dialect.
    """
    known = _LANGUAGES.intersection(spoken)
    if not known and PYTHON in spoken:
        known = frozenset((TORCH,))  # a traced `x + 1` calls operator.add; a captured graph calls aten.add
    if not known or not _LANGUAGES.issuperset(asked):
        return True
    found = set(known)
    if known - {TORCH}:
        found |= {*_CORE}  # the names of torch's operators find those of derived dialects
    if known.intersection(DERIVED):
        found |= {*DERIVED}
    return not found.isdisjoint(asked)
