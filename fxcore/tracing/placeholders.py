"""The inputs of the traced function: its parameters become placeholders."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxcore._pytree import spec_children
from fxcore.codegen.pytree_codegen import PyTreeCodeGen, PyTreeInfo
from fxcore.errors import GraphArgumentError, GraphError
from fxcore.tracing.call_site import user_stacklevel
from fxcore.tracing.code_facts import function_behind
from fxcore.tracing.recorder import CONSTANT_TYPES, Recorder, SymbolicValue

# The file name of functions that are generated here, to call objects that are no functions.
_ADAPTER = "<fxcore adapter>"


def function_of(root: Any, method_name: str = "forward") -> tuple[FunctionType, bool]:
    """Return the function to run for a module or callable, and whether it takes the module as its first argument.

    Accept functions, modules (also with a `forward` of their own on the instance), bound methods, partials and objects
    with `__call__`. Raises GraphArgumentError (an AssertionError) for anything else.
    """
    if isinstance(root, nn.Module):
        return _forward_of(root, method_name)
    if isinstance(root, FunctionType):
        return root, False
    if callable(root):
        return _as_function(root), False
    raise GraphArgumentError(
        f"Expected FunctionType, got {type(root)}: {root!r:.200} is neither an nn.Module nor callable"
    )


def user_code_of(root: Any, function: FunctionType) -> CodeType:
    """Return the code that the user wrote: the code of `function`, or of the object that it calls or decorates."""
    target: Any = function
    if function.__code__.co_filename == _ADAPTER:
        target = inspect.unwrap(function_behind(root))  # a cached function
        if not isinstance(target, FunctionType):
            target = getattr(type(target), "forward" if isinstance(target, nn.Module) else "__call__", function)
    target = inspect.unwrap(target)
    return target.__code__ if isinstance(target, FunctionType) else function.__code__


def name_of(root: Any) -> str:
    """Return the name for a module that is made from a root."""
    if isinstance(root, nn.Module):
        return type(root).__name__
    return str(getattr(root, "__name__", None) or type(root).__name__)


def globals_of(root: Any, function: FunctionType) -> dict[str, Any]:
    """Return the globals that the traced code itself sees."""
    while isinstance(root, functools.partial):
        root = root.func
    if not isinstance(root, (nn.Module, FunctionType, MethodType)):
        root = getattr(root, "__call__", root)  # noqa: B004 - the method itself is wanted
    return getattr(getattr(root, "__func__", None), "__globals__", function.__globals__)


def _forward_of(module: nn.Module, name: str) -> tuple[FunctionType, bool]:
    own = vars(module).get(name)  # a call of the module would run this one, and so does a trace
    if own is None:
        if not hasattr(type(module), name):
            raise GraphArgumentError(
                f"traced_func_name={name} doesn't exist in {type(module).__name__}; "
                "set Tracer.traced_func_name to a method that it has"
            )
        own = getattr(module, name)
    if isinstance(own, MethodType) and own.__self__ is module and isinstance(own.__func__, FunctionType):
        return own.__func__, True
    return (own, False) if isinstance(own, FunctionType) else (_as_function(own), False)


def function_calling(root: Any) -> FunctionType:
    """Return a function that calls a module, or a callable, and has the parameters of its forward."""
    function = _as_function(root.forward if isinstance(root, nn.Module) else root)
    function.__globals__["__target"] = root  # a call of the module does more than its forward
    return function


def callable_behind(function: FunctionType) -> Any:
    """Return the callable of another kind that a function calls for the trace; None for a function of the user."""
    return function.__globals__.get("__target")


def _as_function(target: Any) -> FunctionType:
    """Return a function that calls `target`, a callable of another kind, and has its parameters."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError) as error:
        raise GraphArgumentError(
            f"cannot trace {target!r}: Python does not know its parameters; wrap it in a function that lists them"
        ) from error
    names: dict[str, Any] = {"__target": target}
    declared: list[str] = []
    passed: list[str] = []
    has_star = False
    for index, parameter in enumerate(parameters):
        name, kind = parameter.name, parameter.kind
        if kind is parameter.KEYWORD_ONLY and not has_star:
            declared.append("*")
            has_star = True
        prefix = "*" if kind is parameter.VAR_POSITIONAL else "**" if kind is parameter.VAR_KEYWORD else ""
        has_star = has_star or prefix == "*"
        default = ""
        if parameter.default is not parameter.empty:
            names[f"__default_{index}"] = parameter.default
            default = f"=__default_{index}"
        declared.append(f"{prefix}{name}{default}")
        passed.append(f"{name}={name}" if kind is parameter.KEYWORD_ONLY else f"{prefix}{name}")
    source = f"def call({', '.join(declared)}):\n    return __target({', '.join(passed)})\n"
    exec(compile(source, _ADAPTER, "exec"), names)
    function: FunctionType = names["call"]
    function.__annotations__ = {item.name: item.annotation for item in parameters if item.annotation is not item.empty}
    return function


# pytree does not flatten these.
_LEAVES = (SymbolicValue, torch.nn.Module)
STARRED = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """Marks, in `concrete_args`, an input that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A marker that passes its attributes on to the placeholder's node."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def _assert_is_none(value: Any, msg: str) -> None:
    """Raise AssertionError if `value` is not None. The graph calls this for an input that is specialised to None."""
    # `value` is a proxy when fxcore or torch.fx traces a graph with this call again.
    if hasattr(getattr(value, "tracer", None), "create_proxy"):
        value.tracer.create_proxy("call_function", _assert_is_none, (value, msg), {})
    elif value is not None:
        raise GraphArgumentError(msg)


# Generated code and goldens name the function by this module, as torch.fx does. The file may move.
_assert_is_none.__module__ = "fxcore._symbolic_trace"


@dataclass(frozen=True)
class _Parameters:
    """The parameters of a function, as its code object lists them."""

    names: list[str]  # positional and keyword-only ones, in order, `self` included
    starred: list[str]  # "*args", "**kwargs"
    has_keyword_only: bool
    defaults: dict[str, Any]
    annotations: dict[str, Any]


def _parameters_of(function: Callable[..., Any]) -> _Parameters:
    # A decorator's wrapper has other parameters than the function.
    function = inspect.unwrap(function)
    code = function.__code__
    names = iter(code.co_varnames)
    plain = [next(names) for _ in range(code.co_argcount + code.co_kwonlyargcount)]
    starred = []
    if code.co_flags & inspect.CO_VARARGS:
        starred.append("*" + next(names))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        starred.append("**" + next(names))
    defaults = {}
    if function.__defaults__ or function.__kwdefaults__ or hasattr(function, "__signature__"):
        parameters = inspect.signature(function).parameters.values()
        defaults = {item.name: item.default for item in parameters if item.default is not item.empty}
    return _Parameters(plain, starred, code.co_kwonlyargcount > 0, defaults, function.__annotations__)


class RootArguments:
    """Makes the placeholders for one root function, and a function that takes the proxies for them."""

    def __init__(self, tracer: Recorder, function: FunctionType, root: torch.nn.Module | None) -> None:
        """`root` is the `self` argument of the function, or None for a function without `self`."""
        self._tracer = tracer
        self._function = function
        self._root = root
        self._parameters = _parameters_of(function)

    def create(self, concrete_args: dict[str, Any] | tuple[Any, ...] | None) -> tuple[Callable[..., Any], list[Any]]:
        """Add the placeholders; return the function to call and its arguments.

        Raises GraphError (a RuntimeError) for a method that takes `self` as part of `*args`.
        """
        names = self._parameters.names
        arguments: list[Any] = []
        if self._root is not None:
            if not names:
                raise GraphError(
                    "``self`` argument cannot be part of *args expansion! Give the function a parameter of its own "
                    "for self: def forward(self, *args)"
                )
            arguments, names = [self._root], names[1:]
        if isinstance(concrete_args, tuple):
            if concrete_args and self._parameters.starred and len(self._parameters.names) == 1:
                return self._function, [*arguments, *self._flat_inputs(concrete_args)]
            concrete_args = _by_name(names, concrete_args)
        arguments += [self._placeholder(name, concrete_args or {}) for name in names]
        arguments += [self._placeholder(name, concrete_args or {}) for name in self._parameters.starred]
        function: Callable[..., Any] = self._function
        if self._parameters.has_keyword_only or self._parameters.starred:
            function = with_plain_parameters(self._function, len(arguments))
        if all(isinstance(argument, _LEAVES) for argument in arguments):
            return function, arguments  # nothing is nested
        leaves, spec = pytree.tree_flatten(tuple(arguments))
        if all(child.is_leaf() for child in spec_children(spec)):
            return function, arguments
        return self._flattened(function, spec), leaves

    def _flat_inputs(self, concrete_args: tuple[Any, ...]) -> Iterator[Any]:
        for index, concrete in enumerate(concrete_args):
            proxy = self._tracer.create_proxy("placeholder", f"input_{index}", (), {})
            _pass_on_attributes(concrete, proxy)
            yield proxy

    def _flattened(self, function: Callable[..., Any], spec: pytree.TreeSpec) -> Callable[..., Any]:
        """Return `function` from leaves of its arguments to leaves of its result; tell the code generator."""
        names = self._parameters.names
        codegen = PyTreeCodeGen(PyTreeInfo(names[:], spec, None))
        self._tracer.graph.set_codegen(codegen)

        def call_flat(*leaves: Any) -> Any:
            outputs = function(*pytree.tree_unflatten(list(leaves), spec))
            output_leaves, output_spec = pytree.tree_flatten(outputs)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=output_spec)
            return output_leaves

        call_flat.__annotations__ = {}  # the graph's output has other annotations
        return call_flat

    def _placeholder(self, name: str, concrete_args: dict[str, Any]) -> Any:
        if name in concrete_args:
            return self._specialised(name, concrete_args[name])
        annotation = self._parameters.annotations.get(name)
        return self._tracer.create_proxy("placeholder", name, self._default(name), {}, type_expr=annotation)

    def _default(self, name: str) -> tuple[Any, ...]:
        defaults = self._parameters.defaults
        return (defaults[name],) if name in defaults else ()

    def _specialised(self, name: str, concrete: Any) -> Any:
        """Return the argument for a parameter with a concrete value: the value, with proxies in the places of PH."""
        leaves, spec = pytree.tree_flatten(concrete)
        values = []
        for number, leaf in enumerate(leaves, start=1):
            proxy = self._tracer.create_proxy("placeholder", f"{name}_{number}", self._default(name), {})
            if isinstance(leaf, PHBase):
                _pass_on_attributes(leaf, proxy)
                values.append(proxy)
            else:
                self._assert_unchanged(name, leaf, proxy)
                values.append(leaf)
        return pytree.tree_unflatten(values, spec)

    def _assert_unchanged(self, name: str, value: Any, proxy: Any) -> None:
        """Let the graph check that the input is still the value that the trace was specialised to."""
        if value is None:
            message = f"{name} has been specialized to have value None but got another value"
            _assert_is_none(proxy, message)
        elif type(value) in CONSTANT_TYPES:
            message = f"{name} has been specialized to have value {value} but got another value"
            torch._assert(proxy == value, message)  # type: ignore[no-untyped-call]
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to "
                "the user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=user_stacklevel(),
            )


def _by_name(names: list[str], concrete_args: tuple[Any, ...]) -> dict[str, Any]:
    if len(names) != len(concrete_args):
        raise GraphError(
            f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments: the function "
            f"takes {', '.join(names) or 'none'}; give one for each, PH where the input stays an input"
        )
    return dict(zip(names, concrete_args, strict=True))


def _pass_on_attributes(marker: Any, proxy: Any) -> None:
    if not isinstance(marker, PHBase) or marker is PH:
        return
    for name in dir(marker):
        value = getattr(marker, name)
        if not name.startswith("__") and not callable(value) and not hasattr(proxy.node, name):
            setattr(proxy.node, name, value)


def with_plain_parameters(function: FunctionType, count: int) -> FunctionType:
    """Return `function` with its first `count` variables as positional parameters.

    Its `*args` and `**kwargs` become ordinary variables, so that they can be proxies. Python would unpack a proxy.
    """
    code = function.__code__.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=function.__code__.co_flags & ~STARRED,
    )
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
