"""A node as a Python statement."""

from __future__ import annotations

import enum
import functools
import keyword
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._ops import HigherOrderOperator, OpOverload

from fxcore.codegen.globals import GeneratedGlobals
from fxcore.errors import UnknownOpcodeError
from fxcore.node import Node
from fxcore.node_data.distributed_types import is_reduction, reduction_source
from fxcore.node_data.namespace import Namespace
from fxcore.node_data.opaque_types import is_opaque_constant_type, opaque_source
from fxcore.node_data.targets import qualified_name
from fxcore.operators.syntax import INPLACE_OPERATORS, OPERATORS

__all__ = ["StatementWriter", "attribute_path"]

_REPR_IS_SOURCE = frozenset({int, float, bool, str, type(None), torch.dtype, bytes})


def _complex_source(number: complex) -> str:
    """Return the source of a number. `repr` writes `infj`, a name, and loses the sign of a zero (-1j is -0-1j)."""
    real, imag = number.real, number.imag
    is_negative = math.copysign(1, imag) < 0
    loses_sign = (real == 0 and (is_negative or math.copysign(1, real) < 0)) or (imag == 0 and is_negative)
    if math.isfinite(real) and math.isfinite(imag) and not loses_sign:
        return repr(number)
    return f"complex({real!r}, {imag!r})"


def attribute_path(base: str, path: str) -> str:
    """Return the expression that reads the dotted `path` of `base`: `self.layer`, `getattr(self.layers, "0")`."""
    if _follows_a_dot(path):
        return f"{base}.{path}"
    expression = base
    for name in path.split("."):
        expression = f"{expression}.{name}" if _follows_a_dot(name) else f'getattr({expression}, "{name}")'
    return expression


@functools.lru_cache(maxsize=16384)
def _follows_a_dot(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


# The code of one model is written many times. Without this cache, paths take most of the time.
path_of_root = functools.lru_cache(maxsize=16384)(attribute_path)


class _ValueNames(dict[Node, str]):
    """Names of values in the code. The first look-up of a value creates its name."""

    __slots__ = ("_create_name",)

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self._create_name = namespace.create_name

    def __missing__(self, node: Node) -> str:
        name = self[node] = self._create_name(node._name, None)
        return name


class _Spelling(NamedTuple):
    """A function whose call is no plain expression: an in-place operator, or `getattr` for None."""

    in_place: Callable[..., str] | None


class StatementWriter:
    """Writer of a graph's nodes, in order, as statements in one namespace."""

    def __init__(
        self,
        namespace: Namespace,
        root_module: str,
        global_names: GeneratedGlobals,
        paint: Callable[[str], str] | None = None,
    ) -> None:
        self.root = root_module
        self._globals = global_names
        self._paint = paint
        self.names = _ValueNames(namespace)
        self._calls: dict[Any, str | Callable[..., str] | _Spelling] = {}
        self.wrapped: dict[str, None] = {}  # global names of functions that another trace must not enter

    # Values.

    def value(self, arg: Any) -> str:
        """Return the expression for an argument."""
        kind = type(arg)
        if kind is Node:
            return self.names[arg]
        if kind in _REPR_IS_SOURCE:
            return repr(arg) if self._paint is None else self._paint(repr(arg))
        if kind is tuple:
            return self._tuple(arg)
        return self._unusual_value(arg)

    def _values(self, args: Iterable[Any]) -> list[str]:
        # Most arguments are values of the graph; a check here saves a call for each.
        names, value = self.names, self.value
        return [names[arg] if type(arg) is Node else value(arg) for arg in args]

    def _painted(self, text: str) -> str:
        return self._paint(text) if self._paint else text

    def _tuple(self, items: tuple[Any, ...]) -> str:
        if len(items) == 1:
            return f"({self.value(items[0])},)"
        return f"({', '.join([self.value(item) for item in items])})"

    def _unusual_value(self, arg: Any) -> str:
        if isinstance(arg, Node):
            return self.names[arg]
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            return self._named_tuple(arg)
        if isinstance(arg, (OpOverload, HigherOrderOperator)):
            return self._globals.add(qualified_name(arg), arg)
        if isinstance(arg, enum.Enum):
            return self._globals.enum_member(arg)
        if isinstance(arg, type):  # torch.fx writes `<class 'int'>`, which cannot be compiled
            return self._globals.annotation(arg)
        if isinstance(arg, torch.Tensor):
            return f"torch.Tensor(size={list(arg.size())}, dtype={str(arg.dtype).split('.')[-1]})"
        if isinstance(arg, tuple):
            return self._tuple(arg)
        if isinstance(arg, list):
            return f"[{', '.join([self.value(item) for item in arg])}]"
        if isinstance(arg, dict):
            return self._dict(arg)
        if isinstance(arg, complex):
            return self._painted(_complex_source(arg))
        if isinstance(arg, slice):
            return f"slice({self.value(arg.start)}, {self.value(arg.stop)}, {self.value(arg.step)})"
        if is_opaque_constant_type(type(arg)):
            return self._opaque(arg)
        if is_reduction(arg):
            return reduction_source(arg)
        return self._painted(repr(arg))

    def _named_tuple(self, arg: Any) -> str:
        constructor = self._globals.add(qualified_name(type(arg)), type(arg))
        with self._unpainted():
            return f"{constructor}({', '.join([self.value(item) for item in arg])})"

    def _dict(self, arg: dict[Any, Any]) -> str:
        with self._unpainted():
            text = ", ".join([f"{key!r}: {self.value(item)}" for key, item in arg.items()])
        return self._painted(f"{{{text}}}")

    @contextmanager
    def _unpainted(self) -> Iterator[None]:
        paint, self._paint = self._paint, None
        yield
        self._paint = paint

    def _opaque(self, arg: Any) -> str:
        text, names = opaque_source(arg)
        for name, obj in names.items():
            self._globals.add(name, obj)
        return text

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the arguments of a call, without parentheses."""
        names = self.names
        if len(args) == 1 and not kwargs:
            arg = args[0]
            return names[arg] if type(arg) is Node else self.value(arg)
        # Most arguments are values of the graph or numbers; a check here saves a call for each.
        known = _REPR_IS_SOURCE if self._paint is None else ()
        parts = [
            names[arg] if type(arg) is Node else repr(arg) if type(arg) in known else self.value(arg) for arg in args
        ]
        if kwargs:
            parts += [f"{key} = {self.value(arg)}" for key, arg in kwargs.items()]
        return ", ".join(parts)

    # Statements. The order of look-ups decides about the numbers in names, so it follows torch.fx.

    def call_method(self, node: Node, annotation: str) -> str:
        """Return the statement of a node that calls a method."""
        name = self.names[node]
        args, target = node._args, node._target
        value = self.names[args[0]] if type(args[0]) is Node else self.value(args[0])
        method = f"{value}.{target}" if _follows_a_dot(target) else attribute_path(value, target)
        return f"{name}{annotation} = {method}({self.arguments(args[1:], node._kwargs)})"

    def call_module(self, node: Node, annotation: str) -> str:
        """Return the statement of a node that calls a module."""
        name = self.names[node]
        module = path_of_root(self.root, node._target)
        return f"{name}{annotation} = {module}({self.arguments(node._args, node._kwargs)})"

    def get_attr(self, node: Node, annotation: str) -> str:
        """Return the statement of a node that reads an attribute. Raises UnknownOpcodeError for another opcode."""
        if node._op != "get_attr":
            raise UnknownOpcodeError(
                f"node: {node._op} {node._target} cannot be written as code: the opcode of {node._name!r} is none of "
                "FX's six; set Node.op to one of them"
            )
        return f"{self.names[node]}{annotation} = {path_of_root(self.root, node._target)}"

    def call_function(self, node: Node, annotation: str) -> str:
        """Return the statement of a node that calls a function."""
        target: Any = node._target
        call = self._calls.get(target)
        if call is None:
            call = self._calls[target] = self._call_of(target)
        if isinstance(call, str):
            name = self.names[node]
            meta = node._meta
            if isinstance(meta, dict) and meta.get("is_wrapped"):
                self.wrapped[call] = None
            return f"{name}{annotation} = {call}({self.arguments(node._args, node._kwargs)})"
        if isinstance(call, _Spelling):
            return self._special_call(call, node, annotation)
        return f"{self.names[node]}{annotation} = {call(*self._values(node._args))}"

    def _call_of(self, target: Any) -> str | Callable[..., str] | _Spelling:
        """Return the call of a function: its name, the format of an expression, or a `_Spelling`."""
        if getattr(target, "__module__", "") == "_operator":
            function = getattr(target, "__name__", "")
            if function in OPERATORS:
                return OPERATORS[function].format
            if function in INPLACE_OPERATORS:
                return _Spelling(INPLACE_OPERATORS[function].format)
        name = self._globals.add(qualified_name(target), target)
        return _Spelling(None) if name == "getattr" else name

    def _special_call(self, spelling: _Spelling, node: Node, annotation: str) -> str:
        if spelling.in_place is not None:
            return self._in_place_operator(spelling.in_place, node, annotation)
        return self._getattr(node, annotation)

    def _getattr(self, node: Node, annotation: str) -> str:
        name, args = self.names[node], node._args
        if len(args) == 2 and isinstance(args[1], str) and _follows_a_dot(args[1]):
            return f"{name}{annotation} = {self.value(args[0])}.{args[1]}"
        return f"{name}{annotation} = getattr({self.arguments(args, node._kwargs)})"

    def _in_place_operator(self, spell: Callable[..., str], node: Node, annotation: str) -> str:
        # torch.jit.script needs the operator itself, and the value's name needs an object.
        change = spell(*self._values(node._args))
        return f"{change};  {self.names[node]}{annotation} = {self.value(node._args[0])}"
