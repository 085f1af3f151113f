"""What goldens say of a torch module's constructor, whichever torch is installed.

`constructors.json` has the parameters of torch's modules as the oldest torch that is served knows them, and is part of
the format of goldens: these are said, in this order, whatever a newer torch does to its constructors. A parameter that
is not in the table is said only where it is not at its default, since another torch may not know it; one that a newer
torch has dropped is said at the default that it had. `python -m fixtures.constructor_table` writes the table.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pytest_fxgraph.document.target_names import class_name

TABLE = Path(__file__).with_name("constructors.json")
# Parameters that say where and in which precision the state is made; the state itself says the second.
_NOT_CONFIGURATION = frozenset({"self", "device", "dtype"})
# Parameters that a class keeps under another name, by which they are said; they came into goldens late.
_KEPT_AS = {("torch.nn.PairwiseDistance", "p"): "norm"}
# In place of a value that none equals.
NEVER = object()
KEYWORDS_FOLLOW = "*"  # in the table: later parameters are given by keyword alone


class Parameter(NamedTuple):
    """A parameter of a constructor, and what is done about it."""

    name: str
    unsaid: Any = NEVER  # goes without saying where the module has this value
    is_new: bool = False  # not in the table: some torches that are served do not know it
    dropped: Any = NEVER  # said where the module has no such attribute: the torch that is installed dropped it


def recorded_parameters(cls: type) -> tuple[Parameter, ...]:
    """List what a golden says of a class of torch: the parameters in the table, and then those it does not know."""
    kind, installed = class_name(cls), constructor_parameters(cls)
    known = parameters_in_table(kind)
    if not known:  # one that is made while running, as for a parametrization, or that a newer torch derives
        inherited = next(filter(None, (parameters_in_table(class_name(base)) for base in cls.__mro__)), {})
        known = {name: parameter for name, parameter in inherited.items() if name in installed}
    parameters = [
        Parameter(_KEPT_AS.get((kind, name), name), unsaid, dropped=NEVER if name in installed else default)
        for name, (default, unsaid) in known.items()
    ]
    parameters += [
        Parameter(name, None if each.default is each.empty else each.default, is_new=True)
        for name, each in installed.items()
        if name not in known
    ]
    return tuple(parameters)


def parameters_in_table(kind: str) -> dict[str, tuple[Any, Any]]:
    """Give the default of each parameter in the table of a class, by its qualified name, and what goes unsaid of it.

    Defaults that are no literals are NEVER; so is the second where every value is said.
    """
    found: dict[str, tuple[Any, Any]] = {}
    by_keyword = False
    for text in _table().get(kind, ()):
        name, _, default = text.partition("=")
        if name == KEYWORDS_FOLLOW:
            by_keyword = True
            continue
        value = literal_of(default)
        goes_unsaid = by_keyword or value is None or value is False or (kind, name) in _KEPT_AS
        found[name] = (value, value if goes_unsaid else NEVER)
    return found


@functools.cache
def _table() -> dict[str, list[str]]:
    table: dict[str, list[str]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def literal_of(text: str) -> Any:
    """Return the value of a default as the table spells it; NEVER for a function, or without a default."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return NEVER


def constructor_parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Return a constructor's parameters; where it only hands on `*args`, those of its bases too."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if base is torch.nn.Module:
            break
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(base.__init__).parameters  # type: ignore[misc]  # of the class, not an instance
        for name, parameter in parameters.items():
            if not _takes_any(parameter) and not name.startswith("_") and name not in _NOT_CONFIGURATION:
                found.setdefault(name, parameter)
        if not any(map(_takes_any, parameters.values())):
            break
    return found


def _takes_any(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
