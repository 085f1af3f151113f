"""The stable public names of what graphs call: functions, classes, operators."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from fxcore.operators.kinds import operator_name
from pytest_fxgraph.errors import DocumentError

# Where the public name of a function of torch is looked for, nearest to the user first.
PUBLIC_MODULES = (
    *("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.sparse", "torch.nested"),
    *("torch.nn.init", "torch.autograd", "torch.amp", "torch.utils.checkpoint", "torch.distributed"),
)
# Modules whose functions are known to everybody under another name than the one they carry.
PUBLIC_NAME_OF_MODULE = {"_operator": "operator", "_functools": "functools", "posix": "os", "nt": "os"}


class TargetNames:
    """Names call targets; within one graph, different local functions of the same name are numbered."""

    def __init__(
        self, argument_text: Callable[[Any], str], own_name: Callable[[Any], str | None] | None = None
    ) -> None:
        self._argument_text = argument_text
        self._own_name = own_name  # asked first; None where nobody has names of their own
        self._known: dict[int, tuple[Any, str]] = {}  # holds the target too, so that its id stays taken
        self._codes: dict[str, list[object]] = {}

    def name(self, target: Any) -> str:
        """Return the name of a call target. Raises DocumentError if it has none that is the same in every run."""
        if type(target) is str:
            return target
        known = self._known.get(id(target))
        if known is None:
            known = self._known[id(target)] = (target, self._new_name(target))
        return known[1]

    def _new_name(self, target: Any) -> str:
        own = None if self._own_name is None else self._own_name(target)
        if own is not None:
            return _checked(own, target)
        if isinstance(target, functools.partial):
            return self._partial_name(target)
        name = operator_name(target) or _public_name(target)
        return self._numbered(name, target) if "<locals>" in name or "<lambda>" in name else name

    def _partial_name(self, partial: functools.partial[Any]) -> str:
        parts = [self.name(partial.func), *map(self._argument_text, partial.args)]
        parts += [f"{key}={self._argument_text(value)}" for key, value in partial.keywords.items()]
        return f"functools.partial({', '.join(parts)})"

    def _numbered(self, name: str, target: Any) -> str:
        """Tell local functions of one name apart by their code: a closure made anew in each call is the same."""
        code = getattr(target, "__code__", target)
        codes = self._codes.setdefault(name, [])
        position = next((index for index, seen in enumerate(codes) if seen is code), len(codes))
        if position == len(codes):
            codes.append(code)
        return name if position == 0 else f"{name}#{position + 1}"


def class_name(cls: type) -> str:
    """Return the qualified name of a class, for torch's classes the public one: torch.nn.Conv2d."""
    module, name = cls.__module__, cls.__qualname__
    if module.partition(".")[0] == "torch":
        parts = module.split(".")
        for length in range(1, len(parts)):
            shorter = ".".join(parts[:length])
            if getattr(sys.modules.get(shorter), name, None) is cls:
                return f"{shorter}.{name}"
    return f"{PUBLIC_NAME_OF_MODULE.get(module, module)}.{name}"


def text_or_class(value: Any, text: Callable[[Any], str]) -> str:
    """Return the text of a value, or the name of its class if nothing else of it is the same in every run."""
    try:
        return text(value)
    except DocumentError:
        return class_name(type(value))


def _checked(name: object, target: Any) -> str:
    """Return a name that a hook gave."""
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        raise DocumentError(f"pytest_fxgraph_target_name gave {name!r} for {target!r}; expected a name, or None")
    return name


def _public_name(target: Any) -> str:
    if isinstance(target, type):
        return class_name(target)
    if isinstance(target, types.MethodWrapperType):
        return f"{_public_name(target.__self__)}.{target.__name__}"
    name = getattr(target, "__name__", None)
    if not isinstance(name, str):
        raise DocumentError(
            f"an object of type {class_name(type(target))} is called and has no name that is the same in every run"
        )
    module = _module_of(target)
    public = _public_torch_name(target, module, name) if module.partition(".")[0] in ("torch", "") else None
    return public or _own_name(target, module, name)


def _module_of(target: Any) -> str:
    module = getattr(target, "__module__", None)
    return module if isinstance(module, str) else ""


def _public_torch_name(target: Any, module: str, name: str) -> str | None:
    if getattr(torch.Tensor, name, None) is target:
        return f"torch.Tensor.{name}"
    for candidate in PUBLIC_MODULES:
        if getattr(sys.modules.get(candidate), name, None) is target:
            return f"{candidate}.{name}"
    # torch.fft.fft calls itself torch._C._fft.fft_fft.
    family = module.rpartition("._")[2]
    public, short = f"torch.{family}", name.removeprefix(f"{family}_")
    return f"{public}.{short}" if getattr(sys.modules.get(public), short, None) is target else None


def _own_name(target: Any, module: str, name: str) -> str:
    owner = getattr(target, "__objclass__", None)
    if isinstance(owner, type):
        return f"{class_name(owner)}.{name}"
    qualified = getattr(target, "__qualname__", name)
    bound_to = getattr(target, "__self__", None)
    # A method of a class written in C is bound to that class, and its module is the class's. One that is inherited,
    # such as `apply` of an autograd.Function, calls itself by the class that defines it, and does what its class says.
    if isinstance(bound_to, type) and (not module or isinstance(target, types.MethodType)):
        return f"{class_name(bound_to)}.{name}"
    module = module or type(target).__module__
    return f"{PUBLIC_NAME_OF_MODULE.get(module, module)}.{qualified}"
