"""Arguments of calls: the values behind proxies, and objects that hold proxies."""

from __future__ import annotations

import copy
import pkgutil
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from fxcore.guided.proxies import ExampleProxy
from fxcore.state.containers import LIBRARIES
from fxcore.tracing.recorder import CONSTANT_TYPES, SymbolicValue


def restored_object(name: str | type, state: dict[str, Any], *items: Any) -> Any:
    """Return an object of the class at `module:Class` with these attributes. A returned object becomes this call.

    A class inside of a function is given itself. `items` is the content of a container, as one list, tuple or dict.
    """
    kind: Any = pkgutil.resolve_name(name) if isinstance(name, str) else name
    made: Any = tuple.__new__(kind, *items) if issubclass(kind, tuple) else kind.__new__(kind)
    if items and not isinstance(made, tuple):
        (made.update if isinstance(made, dict) else made.extend)(*items)
    if state:
        vars(made).update(state)
    return made


def drawn(name: str, *args: Any, **kwargs: Any) -> Any:
    """Draw with `random.uniform` or another function of that kind, given by its full name, and return the result."""
    return pkgutil.resolve_name(name)(*args, **kwargs)


def holds_proxies(value: Any) -> bool:
    """Return whether a proxy is somewhere in an object: in its items, its attributes, or in theirs."""
    unvisited, seen = [value], set()
    while unvisited:
        each = unvisited.pop()
        if isinstance(each, SymbolicValue):
            return True
        if id(each) in seen or isinstance(each, (type, torch.nn.Module, torch.Tensor)):
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            unvisited += each.values()
        elif isinstance(each, (list, tuple)):
            unvisited += each
        elif hasattr(each, "__dict__") and not callable(each):
            unvisited += vars(each).values()
    return False


def takes_content(kind: type) -> bool:
    """Return whether a call of a container's class takes the content, as the containers of Python do."""
    own = [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in LIBRARIES]
    return not any(name in vars(each) for each in own for name in ("__init__", "__new__"))


def is_made_of_fields(value: Any) -> bool:
    """Return whether a call of a dataclass with its fields makes an object like this one."""
    held = getattr(value, "__dict__", None)
    if isinstance(value, dict) or held is None:
        return True
    code = getattr(type(value).__init__, "__code__", None)
    is_generated = code is not None and code.co_filename == "<string>" and not hasattr(value, "__post_init__")
    return is_generated and held.keys() == {each.name for each in fields(value) if each.init}


def value_of(argument: Any, in_other_size: bool = False) -> Any:
    """Return an argument with the example's values in the place of proxies, or with the values of other sizes."""
    kind = type(argument)
    if kind in CONSTANT_TYPES:
        return argument
    if isinstance(argument, ExampleProxy):
        return argument.other if in_other_size and argument.other is not None else argument.example
    if kind is tuple:
        return tuple([value_of(item, in_other_size) for item in argument])
    if kind is list:
        return [value_of(item, in_other_size) for item in argument]
    if kind is dict:
        return {key: value_of(item, in_other_size) for key, item in argument.items()}
    if kind is slice:
        return slice(*[value_of(part, in_other_size) for part in (argument.start, argument.stop, argument.step)])
    if isinstance(argument, tuple) and hasattr(argument, "_fields"):
        return kind(*[value_of(item, in_other_size) for item in argument])
    if is_dataclass(argument) and not isinstance(argument, type):
        copied: Any = copy.copy(argument)
        for item in fields(argument):
            object.__setattr__(copied, item.name, value_of(getattr(argument, item.name), in_other_size))
        return copied
    if isinstance(argument, (list, tuple)):
        return kind([value_of(item, in_other_size) for item in argument])
    if isinstance(argument, dict):
        copied = copy.copy(argument)
        copied.update({key: value_of(item, in_other_size) for key, item in argument.items()})
        return copied
    return argument
