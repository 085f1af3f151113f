"""Guards: the assumptions of a compiled function, and the guard that failed when the function was compiled again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.captures.capture import Guard, Recompile
from pytest_fxgraph.captures.places import Place, function_name
from pytest_fxgraph.captures.torch_internals import GuardedValue, GuardFailure

_COMPILE_ID = re.compile(r"^\d+/\d+: ")
_LOCAL = re.compile(r"L\['(\w+)'\]")
_OF_TENSOR = re.compile(
    r"tensor '(?P<name>.+)' (?P<what>[a-z_ ]+) mismatch(?: at index (?P<index>\d+))?\. "
    r"expected (?P<expected>.+?)(?:, (?:actual|but got) (?P<obtained>.+))?\Z"
)
_REQUIRES_GRAD = {"requires_grad=0": ("False", "True"), "requires_grad=1": ("True", "False")}
_NONE = re.compile(r"(?P<name>[\w.\[\]']+) is None\Z")
_OTHER_LENGTH = re.compile(r"(?P<name>len\(.+\)) != (?P<expected>\d+)\Z")
# torch 2.6 writes list(more.keys())[0], later ones list(dict.keys(more))[0].
_KEY = re.compile(
    r"list\((?:dict\.keys\()?(?P<name>[\w.\[\]']+?)(?:\)|\.keys\(\))\)\[(?P<place>\d+)\] == (?P<expected>.+)"
)
_GLOBAL = re.compile(r"G\['(\w+)'\]")
_EQUAL = re.compile(r"(?P<name>.+?) == (?P<expected>.+)")
_EMPTY = re.compile(r"not (?P<name>[\w.\[\]']+)\Z")
_SAME_OBJECT = re.compile(r"___check_obj_id\((?P<name>.+), (?P<id>\d+)\)")
_SAME_TYPE = re.compile(r"___check_type_id\((?P<name>.+), \d+\)")
_CONSTANTS = {id(value): repr(value) for value in (True, False, None)}
_LONGEST = 80
# One step of a path through a model: a module, or a plain attribute.
_STEP = re.compile(r"\._modules\['([^']+)'\]|\.(\w+)")


def recompiles_of(
    failures: Sequence[GuardFailure], call: int, arguments: Mapping[str, Any], place_of: Callable[[Any], Place]
) -> list[Recompile]:
    """Return the functions that one call compiled again, each with its failed guard."""
    found: dict[Any, Recompile] = {}
    # Every compiled version failed its guards. The guard of the newest version shows the latest change.
    for failure in sorted(failures, key=_version, reverse=True):
        if failure.code not in found:
            found[failure.code] = _recompile(failure, call, arguments, place_of(failure.code))
    return [found[code] for code in dict.fromkeys(failure.code for failure in failures)]


def _version(failure: GuardFailure) -> int:
    number = _COMPILE_ID.match(failure.text)
    return int(number[0].strip(": ").partition("/")[2]) if number else -1


def _recompile(failure: GuardFailure, call: int, arguments: Mapping[str, Any], place: Place) -> Recompile:
    text = _COMPILE_ID.sub("", failure.text).partition("\nUser stack trace")[0]
    text = _GLOBAL.sub(r"global \1", _LOCAL.sub(r"\1", re.split(r"\s{2,}#|\s{3,}", text)[0].strip()))
    # A function that Dynamo made after a break has other argument names than the call.
    is_first = function_name(failure.code.co_name) == failure.code.co_name
    kind, guard, expected, obtained = _read(text, arguments if is_first else {})
    return Recompile(call, kind, guard, expected, obtained, place, not is_first)


def _read(text: str, arguments: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return a guard's kind, subject, expected value and obtained value; "" for an unknown value."""
    if found := _OF_TENSOR.match(text):
        index = "" if found["index"] is None else f"[{found['index']}]"
        values = _REQUIRES_GRAD.get(found["expected"], (found["expected"], found["obtained"] or ""))
        return found["what"], f"{found['name']} {found['what']}{index}", *values
    if found := _NONE.match(text):
        return "value", found["name"], "None", _value(found["name"], arguments)
    if found := _OTHER_LENGTH.match(text):
        return "length", found["name"], found["expected"], _value(found["name"], arguments)
    if found := _KEY.match(text):
        return "key", f"key {found['place']} of {found['name']}", found["expected"], _key(found, arguments)
    if found := _SAME_OBJECT.match(text):
        known, value = _CONSTANTS.get(int(found["id"])), _value(found["name"], arguments)
        return "value" if known else "identity", found["name"], known or "the same object", value
    if found := _SAME_TYPE.match(text):
        argument = _evaluated(found["name"], arguments)
        return "type", found["name"], "the same type", "" if argument is _UNKNOWN else type(argument).__name__
    if found := _EMPTY.match(text):
        return "length", f"len({found['name']})", "0", _value(f"len({found['name']})", arguments)
    if found := _EQUAL.match(text):
        name, kind = found["name"], "length" if found["name"].startswith("len(") else "value"
        if ".size()" not in text and "Mod(" not in text:
            return kind, name, found["expected"], _value(name, arguments)
    is_of_sizes = any(word in text for word in (".size()", "shape", "Mod("))
    return "sizes" if is_of_sizes else "other", text, "", ""


def _key(found: re.Match[str], arguments: Mapping[str, Any]) -> str:
    value = _evaluated(found["name"], arguments)
    keys = list(value) if isinstance(value, Mapping) else []
    place = int(found["place"])
    return repr(keys[place]) if place < len(keys) else ""


_UNKNOWN = object()


def _evaluated(expression: str, arguments: Mapping[str, Any]) -> Any:
    """Return the value of torch's expression for a part of an argument. It may hold names, parts and len() only."""
    if not re.fullmatch(r"(?:len\()?\w+(?:\.\w+|\[(?:\d+|'[^']*')\])*\)?", expression):
        return _UNKNOWN
    try:
        return eval(expression, {"__builtins__": {}, "len": len}, dict(arguments))
    except Exception:  # torch has another name for the argument
        return _UNKNOWN


def _value(expression: str, arguments: Mapping[str, Any]) -> str:
    value = _evaluated(expression, arguments)
    if value is _UNKNOWN:
        return ""
    if isinstance(value, (torch.Tensor, nn.Module)):
        return type(value).__name__
    text = repr(value)
    return text if len(text) <= _LONGEST and " at 0x" not in text else type(value).__name__


def guards_of(values: Iterable[GuardedValue], model: Any, own_name: str) -> list[Guard]:
    """Return the guarded values of the user's code: arguments, and attributes of the user's modules.

    `own_name` is the model's name inside its forward. Attributes of torch's modules and functions are left out, because
    they differ between versions of torch.
    """
    found: dict[Guard, None] = {}
    for value in values:
        local = _LOCAL.match(value.name)
        if local is None or (local.end() < len(value.name) and local[1] != own_name):
            continue
        rest = value.name[local.end() :]
        name = local[1] if not rest else _attribute_of_user(model, rest)
        if name is not None and not name.startswith("___"):
            found[Guard("value", name, value.text)] = None
    return sorted(found, key=lambda guard: guard.name)


def _attribute_of_user(model: Any, path: str) -> str | None:
    """Return the path of a plain value in one of the user's modules; None for anything else."""
    module, names = model, []
    steps = list(_STEP.finditer(path))
    if "".join(step[0] for step in steps) != path or not isinstance(model, nn.Module):
        return None
    for step in steps[:-1]:
        if step[1] is None or not isinstance(module, nn.Module) or step[1] not in module._modules:
            return None
        module = module._modules[step[1]]
        names.append(step[1])
    last = steps[-1][2]
    if last is None or module is None or type(module).__module__.startswith("torch."):
        return None
    return None if last.startswith("_") else ".".join([*names, last])
