"""Names of call targets: the name for readers, and the name that generated code imports."""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import types
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import _tensor

from fxcore.errors import CodeGenerationError

# Modules below torch whose objects have an importable full name. Dynamo and Inductor make theirs at run time.
_REACHABLE_TORCH = re.compile(r"^torch(?:\.(?!_dynamo\.|_inductor\.)[^.]+)*$").fullmatch

# torch.nn.functional defines these under a private name and exports a public one.
_PUBLIC_FUNCTIONAL = {"_ScalingType": "ScalingType", "_SwizzleType": "SwizzleType"}


_FUNCTION_META = type(torch.autograd.Function)


def is_from_torch(obj: Any) -> bool:
    """Return whether generated code can reach `obj` by its full name with `import torch` alone."""
    module_name = getattr(obj, "__module__", None)
    if isinstance(obj, torch.jit.ScriptFunction):
        return False  # it carries the name of its class
    if isinstance(obj, (types.MethodType, types.BuiltinMethodType)) and isinstance(obj.__self__, type):
        module_name = obj.__self__.__module__  # for example Function.apply, inherited by a user's class
    if module_name is not None:
        return _REACHABLE_TORCH(module_name) is not None
    name = getattr(obj, "__name__", None)
    if name is None or name == "torch":
        return False
    return any(getattr(place, name, None) is obj for place in (torch, torch.nn.functional))


_F = TypeVar("_F", bound=Callable[..., Any])


def _kept(find: _F) -> _F:
    """Keep the results of a function of a target, except for targets that are not hashable."""
    known = functools.lru_cache(maxsize=4096)(find)

    @functools.wraps(find)
    def look_up(target: Any) -> Any:
        try:
            return known(target)
        except TypeError:
            return find(target)

    return look_up  # type: ignore[return-value]  # same signature as the function


@_kept
def qualified_name(func: Any) -> str:
    """Return the name by which code can reach `func`: `torch.relu`, `getattr`, `my_module.my_function`.

    Raises CodeGenerationError (a RuntimeError) for a lambda without readable source, and for a function without a
    module.
    """
    if isinstance(func, torch.jit.ScriptFunction):
        return str(func.qualified_name).removeprefix("__torch__.")
    name = getattr(func, "__name__", None)
    if not isinstance(name, str):
        raise CodeGenerationError(
            f"{type(func).__name__!r} object has no attribute '__name__', so generated code cannot call it by a name; "
            "define a function with `def` that makes this call, and let the graph call that"
        )
    if getattr(builtins, name, None) is func:
        return name
    if _is_tensor_method(func, name):
        return f"torch.Tensor.{name}"
    if name == "<lambda>":
        name = _name_in_source(func)
    owner = getattr(func, "__self__", None)
    if isinstance(owner, _FUNCTION_META) and _REACHABLE_TORCH(owner.__module__):
        return f"{owner.__module__}.{owner.__qualname__}.{name}"  # `apply` itself carries the name of the base class
    module = _module_of(func).replace("torch._ops", "torch.ops")
    if module == "torch" and name == "segment_reduce":
        name = "_" + name
    if module == "torch.nn.functional":
        name = _PUBLIC_FUNCTIONAL.get(name, name)
    return f"{module}.{name}"


def _is_tensor_method(func: Any, name: str) -> bool:
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return func is getattr(torch.Tensor, name, None)
    return bool(func.__module__ == _tensor.__name__ and func.__qualname__ == f"Tensor.{name}")


def _name_in_source(func: Callable[..., Any]) -> str:
    """Return the variable that a lambda is assigned to in its source."""
    try:
        return inspect.getsource(func).split("=")[0].strip()
    except Exception as error:
        raise CodeGenerationError(
            f"Unable to represent lambda: the source of {func!r} cannot be read, so it has no name that code could "
            "use; define a function with `def` in a module and call that"
        ) from error


def _module_of(func: Callable[..., Any]) -> str:
    module: str | None = func.__module__
    if module is not None:
        return module
    for place in (torch, torch.nn.functional):
        if getattr(place, func.__name__, None) is func:
            return place.__name__
    if isinstance(getattr(func, "__self__", None), _FUNCTION_META):
        return "torch.autograd.function"  # older torch, in which `apply` is no builtin, says this module
    raise CodeGenerationError(
        f"cannot find module for {func!r}: it says none, and neither torch nor torch.nn.functional has it; "
        "wrap it in a function of a module of your own"
    )


def type_repr(obj: Any) -> str:
    """Return the text of a type annotation: `int`, `torch.Tensor`, `list[int]`."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        return obj.__qualname__ if obj.__module__ == "builtins" else f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)


@_kept
def readable_target(target: Any) -> str:
    """Return a target in the form of graph printouts: `operator.add`, `builtins.getattr`, `torch.relu`, a path."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None)
    if name is not None:
        module = getattr(target, "__module__", None)
        if module == "builtins":
            return f"builtins.{name}"
        if module == "_operator":
            return f"operator.{name}"
    return qualified_name(target)
