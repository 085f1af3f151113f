"""Guards: the assumptions of a compiled function, and the guard that failed when the function was compiled again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
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
_OF_STATE = re.compile(r"GLOBAL_STATE changed: (?P<name>.+)")
_ADVICE = re.compile(r"\. Guard failed on a parameter, .*", re.DOTALL)
_LONGEST = 80
_OF_ALL_MODULES = frozenset(vars(nn.Module()))
_OTHER_TYPES = ("dict", "list", "tuple", "set", "frozenset", "collections.", "torch.")
_SUBJECTS = {"length": "len({})", "empty": "len({})", "keys": "list({})", "type": "type({})", "key": "key of {}"}
_SUBJECTS |= {"hooks": "hooks of {}"}
_KINDS = {"empty": "length", "keys": "key"}
# Facts that are a question with an answer: the kind, the question about name and text, the answer.
_QUESTIONS = {
    "no key": ("key", "{text} in {name}", "False"),
    "attribute": ("attribute", "hasattr({name}, {text!r})", "True"),
    "no attribute": ("attribute", "hasattr({name}, {text!r})", "False"),
    "not set": ("attribute", "{text!r} in vars({name})", "False"),
}
_CELL = re.compile(r"\.__closure__\[(\d+)\]\.cell_contents")
_DEFAULT = re.compile(r"\.__defaults__\[(\d+)\]")
_KEYWORD_DEFAULT = re.compile(r"\.__kwdefaults__\['(\w+)'\]")
_HELD = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")
_HOOKS = re.compile(r"\._(?:forward|backward)_(?:pre_)?hooks(?:_with_kwargs)?\Z")
# One step of a path through a model: a module, or a plain attribute.
_STEP = re.compile(r"\._modules\['([^']+)'\]|\.(\w+)")


FailedGuard = tuple[GuardFailure, Recompile]


def recompiles_of(found: Sequence[FailedGuard]) -> list[Recompile]:
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
    text = _ADVICE.sub("", text)
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
    if found := _OF_STATE.match(text):
        return "mode", f"torch's {found['name'].replace('_', ' ').strip()}", "", ""
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
    """Return the facts that the graphs rely on, in the words of users; a change of one compiles anew.

    The kind "value" is for arguments and attributes of the user's modules that are plain values. Goldens hold this kind
    alone. Other kinds are for parts of arguments, attributes and globals ("item"), for modules of torch ("module"), for
    torch's settings ("mode"), and for facts that are no value. `own_name` is the model's name inside its forward. Left
    out is torch's own code: its functions and files do not change while a program runs.
    """
    found: dict[Guard, None] = {}
    arguments: dict[str, None] = {}  # tensors
    for value in values:
        if value.kind == "mode":
            found[Guard("mode", value.name, value.text)] = None
            continue
        path = _HOOKS.sub("", value.name) if value.kind == "hooks" else value.name
        name, kind = _name_for_users(path, model, own_name)
        if name is None or _is_left_out(value, name, kind):
            continue
        if value.kind == "alias":
            other, kind = _name_for_users(value.text, model, own_name)
            found.update({} if other is None or kind == "mode" else {Guard("alias", f"{other} is {name}", ""): None})
            continue
        if value.kind == "tensor" and kind == "value":
            arguments[name] = None
        if value.kind in _QUESTIONS:
            kind, question, answer = _QUESTIONS[value.kind]
            found[Guard(kind, question.format(name=name, text=value.text), answer)] = None
            continue
        subject = _SUBJECTS.get(value.kind, "{}").format(name)
        shown = kind if value.kind == "value" else _KINDS.get(value.kind, value.kind)
        found[Guard(shown, subject, value.text)] = None
    aliased = {name for guard in found if guard.kind == "alias" for name in guard.name.split(" is ")}
    others = [name for name in arguments if name not in aliased]
    if len(others) > 1:
        found[Guard("alias", f"{' and '.join(others)} are different tensors", "")] = None
    return [*found]


def _is_left_out(value: GuardedValue, name: str, kind: str) -> bool:
    """Return whether a guard is about torch's own code, the model as a whole, a container, or a part of torch."""
    if kind == "mode":
        return value.kind != "value" or name == value.text
    if kind == "model":
        return value.kind not in _QUESTIONS
    is_module = kind == "module" and value.text.startswith("torch.nn.")
    return value.kind == "type" and value.text.startswith(_OTHER_TYPES) and not is_module


def _name_for_users(name: str, model: Any, own_name: str) -> tuple[str | None, str]:
    """Return torch's name of a value as users write it, or None, and the kind of a guard on its value."""
    found = _GLOBAL.match(name)
    if found is not None:
        return _global_for_users(found[1], name[found.end() :], model)
    local = _LOCAL.match(name)
    if local is None or local[1].startswith("___"):
        return None, "item"
    rest = name[local.end() :]
    if local[1] != own_name or not isinstance(model, nn.Module):
        return local[1] + rest, "item" if rest else "value"
    if not rest:
        return own_name, "model"
    return _part_of_user(model, rest) or (_HELD.sub(r".\1", rest).removeprefix("."), "module")


def _global_for_users(name: str, rest: str, model: Any) -> tuple[str | None, str]:
    """Name a global of the model's file, of another file of the user, or a setting of torch."""
    is_imported = name.startswith("__import_")
    if name.startswith("__") and not is_imported:
        return None, "item"
    file = name.removeprefix("__import_").replace("_dot_", ".") if is_imported else name
    _, is_of_torch, setting = f".{file}{rest}".rpartition(".torch.")
    if file.split(".")[0] == "torch" or (is_of_torch and is_imported):
        return f"torch.{setting}" if is_of_torch else None, "mode"
    forward = getattr(type(model), "forward", None) if isinstance(model, nn.Module) else model
    value = getattr(forward, "__globals__", {}).get(name)
    part = _part_of_function(value, rest) if isinstance(value, FunctionType) else None
    return f"global {file}{rest}" if part is None else f"{part} of global {file}", "item"


def _part_of_function(function: FunctionType, path: str) -> str | None:
    """Name a variable that a function encloses, or a parameter with a default, by torch's path; else None."""
    code = function.__code__
    defaults = code.co_varnames[code.co_argcount - len(function.__defaults__ or ()) : code.co_argcount]
    for pattern, names in ((_CELL, code.co_freevars), (_DEFAULT, defaults)):
        if (found := pattern.match(path)) is not None:
            return f"{names[int(found[1])]}{path[found.end() :]}"
    found = _KEYWORD_DEFAULT.match(path)
    return None if found is None else f"{found[1]}{path[found.end() :]}"


def _part_of_user(model: nn.Module, path: str) -> tuple[str, str] | None:
    """Return the path of an attribute of the user's modules, and "value"; of a part of one, `items[0]`, and "item".

    Return None for anything else.
    """
    module: Any = model
    names, end = [], 0
    while (step := _STEP.match(path, end)) is not None and step[1] in module._modules:
        module, end = module._modules[step[1]], step.end()
        names.append(step[1])
    if step is None or step[2] is None or type(module).__module__.startswith("torch."):
        return None
    is_plain = step.end() == len(path) and not step[2].startswith("_")
    if step[2] in _OF_ALL_MODULES and not is_plain:
        return None
    return ".".join([*names, path[end:].removeprefix(".")]), "value" if is_plain else "item"
