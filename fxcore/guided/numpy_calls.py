"""Functions of numpy on traced values, recorded as nodes.

numpy asks its arguments whether they want to handle a call, by `__array_function__` and `__array_ufunc__`. Functions
that make arrays ask no argument; the names of traced modules get other functions while a trace with an example runs.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from fxcore.errors import TraceError
from fxcore.guided.proxies import ExampleProxy, ExampleTensor, proxy_of
from fxcore.state.readings import is_array
from fxcore.tracing.call_site import instruction_at
from fxcore.tracing.patching import Replacement
from fxcore.tracing.wrap import called_on_proxies

_MAKE_ARRAYS = (
    *("array", "asarray", "asanyarray", "ascontiguousarray", "fromiter"),
    *("zeros", "ones", "empty", "full", "arange", "eye", "identity", "linspace", "tri"),
)

_WRITE = ("copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis")
_NUMBERS = (bool, int, float, complex)
# Universal functions that numpy calls for an operator, and the functions of these operators.
_UNIVERSAL = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "matmul", "left_shift"),
    *("right_shift", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
)
_OF_OPERATORS = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.matmul, operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
)
_OPERATORS = dict(zip(_UNIVERSAL, _OF_OPERATORS, strict=True))


def replacements() -> list[Replacement]:
    """Return the replacements of functions that make arrays of traced values.

    Only names in modules of the traced code change. Compiled code, such as numpy.random, looks up `numpy.empty` too,
    and crashes if it gets anything but an array.
    """
    return [Replacement("numpy", name, _recorded, is_in_place=False) for name in _MAKE_ARRAYS]


def recording_numpy(functions: dict[str, Any]) -> ModuleType:
    """Return numpy as a module in which these functions stand."""
    made = ModuleType("numpy")
    vars(made).update(vars(sys.modules["numpy"]), **functions)
    return made


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    return called_on_proxies(function, lambda tracer, *given: record(tracer, function, *given))


def record(tracer: Any, function: Callable[..., Any] | str, args: Any, kwargs: Any) -> Any:
    """Record a call of a function of numpy, or of a method of an array.

    Scalars of numpy keep their type, because it decides about the result's. Classes of numbers become their names.
    """
    args = tuple([_as_argument(tracer, each) for each in args])
    kwargs = {name: _as_argument(tracer, each) for name, each in kwargs.items()}
    for written in (kwargs.get("out"), args[0] if getattr(function, "__name__", "") in _WRITE else None):
        if any(is_array(each) and not isinstance(each, ExampleProxy) for each in _items(written)):
            raise TraceError(
                f"{getattr(function, '__name__', function)}() of numpy writes traced values into an array that is not "
                f"traced{tracer._place()}\nA graph would write into the trace's array. Make the array from a traced "
                "value (numpy.zeros_like(x)), take a tensor, or keep the function in a leaf with fxcore.wrap()"
            )
    kind = "call_method" if isinstance(function, str) else "call_function"
    return tracer.create_proxy(kind, function, args, kwargs)


def record_ufunc(tracer: Any, function: Any, method: str, args: Any, kwargs: Any, frame: FrameType) -> Any:
    """Record a call of a universal function. An operator in `frame` between an array and a tensor is torch's.

    Return NotImplemented for methods of universal functions, such as `numpy.add.reduce`.
    """
    if method != "__call__":
        return NotImplemented
    instruction = instruction_at(frame.f_code, frame.f_lasti)
    is_operator = instruction is not None and instruction.opname.startswith(("BINARY_", "INPLACE_", "COMPARE_"))
    target = _OPERATORS.get(function.__name__) if is_operator else None
    if target is not None and any(isinstance(each, ExampleTensor) for each in args):
        return tracer.create_proxy("call_function", target, args, {})
    return record(tracer, function, args, kwargs)


def typed(tracer: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of an operator on arrays, with scalars of numpy as arrays without dimensions."""
    if any(isinstance(each, ExampleProxy) and is_array(each.example) for each in args):
        return tuple([_as_argument(tracer, each) for each in args])
    return args


def _items(value: Any) -> Any:
    return value if isinstance(value, tuple) else (value,)


def _as_argument(tracer: Any, value: Any) -> Any:
    numpy = sys.modules["numpy"]
    if isinstance(value, ExampleProxy):
        return value
    if isinstance(value, numpy.generic):
        array = numpy.asarray(value)
        return proxy_of(tracer, tracer.node_of_array(array), array, False, False)
    if isinstance(value, numpy.dtype) or (isinstance(value, type) and issubclass(value, (*_NUMBERS, numpy.generic))):
        return numpy.dtype(value).name
    return value
