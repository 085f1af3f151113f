"""The words for changes of a state: "parameter conv.weight has other values", "bn.eps was 1e-05 and is 0.1"."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from fxcore.state.changes import MISSING, Change, TensorFact
from fxcore.state.containers import is_plain, shown

_REGISTERED = {"parameter": "parameters", "buffer": "buffers", "module": "modules"}
_HOOKS = {"_backward_hooks": "tensor hooks", "_post_accumulate_grad_hooks": "hooks after its gradient"}


def fact_words(fact: TensorFact | Change) -> str:
    """Return the words for a fact of a tensor: strides, gradient, hooks, `requires_grad`."""
    if fact.what == "strides":
        return f"has strides {fact.after} now, and had {fact.before}"
    if fact.what == "requires_grad":
        return f"has requires_grad={fact.after} now"
    if fact.what == "grad":
        is_new = "a gradient now" if fact.before is None else "no gradient any more" if fact.after is None else None
        return f"has {is_new or 'another gradient'}"
    return f"has other {_HOOKS[fact.what]}"


def settings_in_words(changes: Iterable[Change]) -> dict[str, str]:
    """Return the old and new value of each changed setting of torch by name: "True -> False"."""
    return {change.path: f"{change.before} -> {change.after}" for change in changes if change.role == "setting"}


def words_of(changes: Iterable[Change]) -> list[str]:
    """Return a sentence for each change. A generator may be used, and two objects may print the same: no sentence."""
    return [words for change in changes if change.role != "generator" for words in _words_of(change)]


def _words_of(change: Change) -> Iterator[str]:
    path, what, before, after, role = change
    is_tensor = what != "held" or isinstance(before, torch.Tensor) or isinstance(after, torch.Tensor)
    name = f"{role} {path}" if role in ("parameter", "buffer") or (role == "attribute" and is_tensor) else path
    if what == "values":
        yield f"{name} has other values"
    elif what == "class":
        yield f"the class of {path or 'the model'} was {_written(before)} and is {_written(after)}"
    elif what == "function":
        yield f"{path}, of the class, {'is gone' if after is MISSING else 'is another function'}"
    elif what == "order" and role:
        yield (
            f"the {_REGISTERED[role]} of {path or 'the model'} are in another order: {', '.join(before[:5])} became "
            f"{', '.join(after[:5])}"
        )
    elif what == "setting":
        yield f"{path} ({before} -> {after})"
    elif what not in ("held", "order"):
        yield f"{name} {fact_words(change)}"
    elif role == "module":
        kinds = [type(each).__qualname__ if isinstance(each, torch.nn.Module) else "missing" for each in change[2:4]]
        alike = f"module {path} is another {kinds[0]}"
        yield alike if kinds[0] == kinds[1] else f"module {path} was {kinds[0]} and is {kinds[1]}"
    elif isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        yield f"{name} is another tensor"
    elif _is_readable(before) and _is_readable(after):
        if _written(before) != _written(after):
            yield f"{path} was {_written(before)} and is {_written(after)}"
    else:
        state = "is gone" if after is MISSING else "is new" if before is MISSING else "holds something else"
        yield f"{name} {'was replaced' if path.rpartition('.')[2] == 'forward' else state}"


def _is_readable(value: Any) -> bool:
    if type(value) in (tuple, list, set):
        return all(type(part) is not types.FunctionType and is_plain(part) for part in value)
    is_function = isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))
    return value is MISSING or (is_plain(value) and not is_function)


def _written(value: Any) -> str:
    if isinstance(value, type):
        return value.__qualname__
    return "missing" if value is MISSING else shown(value)
