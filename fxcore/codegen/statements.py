"""A node as a Python statement."""

from __future__ import annotations

import enum
import functools
import keyword
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from fxcore.codegen.globals import GeneratedGlobals
from fxcore.errors import UnknownOpcodeError
from fxcore.node import Node
from fxcore.node_data.distributed_types import is_reduction, reduction_source
from fxcore.node_data.namespace import Namespace, TextCache
from fxcore.node_data.opaque_types import is_opaque_constant_type, opaque_source
from fxcore.node_data.targets import qualified_name
from fxcore.operators.syntax import INPLACE_OPERATORS, OPERATORS

__all__ = ["StatementWriter", "attribute_path"]

# The name of a called function, the texts after the operands of an operator, or the writer of a statement.
_Call = str | tuple[str, ...] | Callable[..., str]

_AFTER_OPERANDS = {name: tuple(form.split("{}")[1:]) for name, form in OPERATORS.items()}

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
    if _FOLLOWS_A_DOT[path]:
        return f"{base}.{path}"
    expression = base
    for name in path.split("."):
        expression = f"{expression}.{name}" if _FOLLOWS_A_DOT[name] else f'getattr({expression}, "{name}")'
    return expression


_FOLLOWS_A_DOT = TextCache(lambda name: name.isidentifier() and not keyword.iskeyword(name))


@functools.lru_cache(maxsize=16)
def _paths_below(root: str) -> TextCache:
    """Return the table of the results of `attribute_path(root, path)`.

    The code of one model is written many times. Without this table, paths take most of the time.
    """
    return TextCache(functools.partial(attribute_path, root))


class _ValueNames(dict[Node, str]):
    """Names of values in the code. The first look-up of a value creates its name."""

    __slots__ = ("_create_name",)

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self._create_name = namespace.create_name

    def __missing__(self, node: Node) -> str:
        name = self[node] = self._create_name(node._name, None)
        return name


class StatementWriter:
    """Writer of a graph's nodes, in order, as statements in one namespace."""

    def __init__(
        self,
        namespace: Namespace,
        root_module: str,
        global_names: GeneratedGlobals,
        paint: Callable[[str], str] | None = None,
        names: dict[Node, str] | None = None,
    ) -> None:
        """`names` are the names of all values; without them, the first look-up of a value creates its name."""
        self.paths = _paths_below(root_module)
        self._globals = global_names
        self._paint = paint
        self._known = _REPR_IS_SOURCE if paint is None else ()
        self.names: dict[Node, str] = _ValueNames(namespace) if names is None else names
        self._calls: dict[Any, _Call] = {}
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

    # Statements. The order of look-ups decides about the numbers in names, so it follows torch.fx.

    def statement(self, node: Node, annotation: str = "", end: str = "") -> str:
        """Return the statement of a call or of a read attribute, and `end`.

        Raises UnknownOpcodeError for an unknown opcode.
        """
        op, target, args, names = node._op, node._target, node._args, self.names
        call: Any
        if op == "call_module":
            name, call = names[node], self.paths[target]
        elif op == "call_function":
            call = self._calls.get(target) or self._call_of(target)
            if type(call) is MethodType:
                return f"{call(node, annotation)}{end}"
            name, meta = names[node], node._meta
            if isinstance(meta, dict) and meta.get("is_wrapped") and type(call) is str:
                self.wrapped[call] = None
        elif op == "call_method":
            name, owner, args = names[node], args[0], args[1:]
            value = names[owner] if type(owner) is Node else self.value(owner)
            call = f"{value}.{target}" if _FOLLOWS_A_DOT[target] else attribute_path(value, target)
        elif op == "get_attr":
            return f"{names[node]}{annotation} = {self.paths[target]}{end}"
        else:
            raise UnknownOpcodeError(
                f"node: {op} {target} cannot be written as code: the opcode of {node._name!r} is none of FX's six; set "
                "Node.op to one of them"
            )
        kwargs = node._kwargs
        if len(args) == 1 and not kwargs and type(args[0]) is Node and type(call) is str:
            return f"{name}{annotation} = {call}({names[args[0]]}){end}"
        # Most arguments are values of the graph or constants; the checks save a call for each.
        texts, known = [], self._known
        for arg in args:
            kind = type(arg)
            texts.append(names[arg] if kind is Node else f"{arg!r}" if kind in known else self.value(arg))
        if type(call) is tuple:
            # Two operands in an f-string take a third of the time of str.format.
            if len(texts) == len(call) == 2:
                return f"{name}{annotation} = {texts[0]}{call[0]}{texts[1]}{call[1]}{end}"
            return f"{name}{annotation} = {OPERATORS[target.__name__].format(*texts)}{end}"
        if kwargs:
            for key, arg in kwargs.items():
                texts.append(f"{key} = {arg!r}" if type(arg) in known else f"{key} = {self.value(arg)}")
        return f"{name}{annotation} = {call}({', '.join(texts)}){end}"

    def _call_of(self, target: Any) -> _Call:
        """Return, and keep, the form of calls of a target; see `_Call`."""
        call: _Call | None = None
        if getattr(target, "__module__", "") == "_operator":
            function = getattr(target, "__name__", "")
            if function in OPERATORS:
                call = _AFTER_OPERANDS[function]
            elif function in INPLACE_OPERATORS:
                call = self._in_place_operator
        if call is None:
            name = self._globals.add(qualified_name(target), target)
            call = self._getattr if name == "getattr" else name
        self._calls[target] = call
        return call

    def _in_place_operator(self, node: Node, annotation: str) -> str:
        # torch.jit.script needs the operator itself, and the value's name needs an object.
        target: Any = node._target
        change = INPLACE_OPERATORS[target.__name__].format(*map(self.value, node._args))
        return f"{change};  {self.names[node]}{annotation} = {self.value(node._args[0])}"

    def _getattr(self, node: Node, annotation: str) -> str:
        name, args = self.names[node], node._args
        if len(args) == 2 and isinstance(args[1], str) and _FOLLOWS_A_DOT[args[1]]:
            return f"{name}{annotation} = {self.value(args[0])}.{args[1]}"
        texts = [*map(self.value, args), *[f"{key} = {self.value(arg)}" for key, arg in node._kwargs.items()]]
        return f"{name}{annotation} = getattr({', '.join(texts)})"
