"""Guards: the assumptions of a compiled function, and the guard that failed when the function was compiled again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
_OF_GLOBAL = re.compile(r"G\['(\w+)'\]")
_OF_ALL_MODULES = frozenset(vars(nn.Module()))
_OTHER_TYPES = ("dict", "list", "tuple", "set", "frozenset", "collections.", "torch.")
_SUBJECTS = {"length": "len({})", "empty": "len({})", "keys": "list({})", "type": "type({})", "key": "key of {}"}
_KINDS = {"empty": "length", "keys": "key"}
_STEP = re.compile(r"\._modules\['([^']+)'\]|\.(\w+)")


def recompiles_of(found: Sequence[tuple[GuardFailure, Recompile]]) -> list[Recompile]:
    """Return the functions that one call compiled again, each with its failed guard."""
    by_code: dict[Any, Recompile] = {}
    # Every compiled version failed its guards. The guard of the newest version shows the latest change.
    for failure, recompile in sorted(found, key=lambda pair: _version(pair[0]), reverse=True):
        by_code.setdefault(failure.code, recompile)
    return [by_code[code] for code in dict.fromkeys(failure.code for failure, _ in found)]


def _version(failure: GuardFailure) -> int:
    number = _COMPILE_ID.match(failure.text)
    return int(number[0].strip(": ").partition("/")[2]) if number else -1


def read_failure(failure: GuardFailure, call: int, arguments: Mapping[str, Any], place: Place) -> Recompile:
    """Describe a failed guard. Called when the guard fails, because the call may change the guarded value."""
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
    """Return the guarded facts of the user's code: of arguments, of attributes of the user's modules, and of globals.

    The kind "value" is for arguments and attributes that are plain values. Other kinds are for parts of arguments,
    attributes and globals ("item"), and for facts that are no value. `own_name` is the model's name inside its forward.
    Left out are attributes of torch's modules, which differ between versions of torch, and torch's settings.
    """
    found: dict[Guard, None] = {}
    for value in values:
        name, is_plain = _name_for_users(value.name, model, own_name)
        # A list or dict has its length and items; types and objects of torch are torch's.
        if name is None or (value.kind == "type" and value.text.startswith(_OTHER_TYPES)):
            continue
        subject = _SUBJECTS.get(value.kind, "{}").format(name)
        kind = ("value" if is_plain else "item") if value.kind == "value" else _KINDS.get(value.kind, value.kind)
        found[Guard(kind, subject, value.text)] = None
    return sorted(found, key=lambda guard: (guard.name, guard.expected))


def _name_for_users(name: str, model: Any, own_name: str) -> tuple[str | None, bool]:
    """Return torch's name of a value as users write it, or None, and whether it is a whole argument or attribute."""
    found = _OF_GLOBAL.match(name)
    if found is not None:
        is_of_torch = found[1].startswith("__")
        return (None if is_of_torch else f"global {found[1]}{name[found.end() :]}"), False
    local = _LOCAL.match(name)
    if local is None or local[1].startswith("___"):
        return None, False
    rest = name[local.end() :]
    if local[1] != own_name or not isinstance(model, nn.Module):
        return local[1] + rest, not rest
    if not rest:
        return None, False  # the model itself
    attribute = _attribute_of_user(model, rest)
    return (attribute, True) if attribute is not None else (_part_of_user(model, rest), False)


def _part_of_user(model: Any, path: str) -> str | None:
    """Return the path of a part of an attribute of the user's modules, `items[0]`, `cfg.depth`; else None."""
    module, names, end = model, [], 0
    while (step := _STEP.match(path, end)) is not None and step[1] is not None and step[1] in module._modules:
        module, end = module._modules[step[1]], step.end()
        names.append(step[1])
    step = _STEP.match(path, end)
    is_of_all = step is None or step[2] is None or step[2] in _OF_ALL_MODULES
    if is_of_all or type(module).__module__.startswith("torch."):
        return None
    return ".".join([*names, path[end:].removeprefix(".")])


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
