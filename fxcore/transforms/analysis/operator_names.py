"""One name for each operator, however it is spelled: `F.relu`, `x.relu_()`, `nn.ReLU()` and `aten.relu` are "relu"."""

from __future__ import annotations

import functools
import re
from typing import Any

from torch import nn

from fxcore.node import Node
from fxcore.operators.effects import effects_of

# Other names of operators, of Python's first.
_OTHER_NAMES = {
    "truediv": "div",
    "floordiv": "floordivide",
    "mod": "remainder",
    "and": "bitwiseand",
    "or": "bitwiseor",
    "xor": "bitwisexor",
    "invert": "bitwisenot",
    "multiply": "mul",
    "divide": "div",
    "truedivide": "div",
    "subtract": "sub",
    "negative": "neg",
    "concatenate": "cat",
    "concat": "cat",
    "absolute": "abs",
    "clip": "clamp",
}
_IN_PLACE = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul", "concat",
                       "lshift", "rshift"})  # fmt: skip
_NUMBER_OF_DIMENSIONS = re.compile(r"(batchnorm|instancenorm|dropout|softmax)[123]d\Z")
_NOT_A_LETTER = re.compile(r"[^a-z0-9]")


def formula_name(node: Node, module: nn.Module | None = None) -> str:
    """Return the name of the operator that a node calls; `module` is the one that a `call_module` node calls.

    Names are lower-case letters and digits. Operators outside of torch and Python get a qualified name with a dot.
    """
    if node.op == "call_method":
        return _plain(str(node.target))
    if node.op == "call_module":
        return _name_of_class(type(module))
    return formula_name_of_operator(node.target) if node.op == "call_function" else node.op


def formula_name_of_target(target: Any) -> str:
    """Return the name of a function, an operator of `torch.ops`, a method (by its name), or the class of a module."""
    if isinstance(target, str):
        return _plain(target)
    return _name_of_class(target) if isinstance(target, type) else formula_name_of_operator(target)


@functools.lru_cache(maxsize=4096)
def formula_name_of_operator(function: Any) -> str:
    """Return the name of a function, builtin, or operator of `torch.ops`."""
    qualified = getattr(function, "_qualified_op_name", None)  # of a packet
    if qualified is None and hasattr(function, "_schema"):
        qualified = function._schema.name
    if qualified is not None:
        namespace, _, name = qualified.partition("::")
        return _plain(name) if namespace in ("aten", "prims", "_quantized") else f"{namespace}.{name}"
    name = getattr(function, "__name__", type(function).__name__)
    home = getattr(function, "__module__", None) or getattr(getattr(function, "__objclass__", None), "__module__", None)
    root = str(home or "torch").partition(".")[0]
    if root == "_operator":
        return _name_in_python(name)
    if root in ("torch", "builtins", "math"):
        return _plain(name)
    return f"{home}.{name}"


def is_in_place(node: Node, module: nn.Module | None) -> bool:
    """Return whether a node writes its result into its first argument."""
    written = effects_of(node.op, node.target, module).written(node.args, node.kwargs)
    return bool(node.args) and any(value is node.args[0] for value in written)


def _name_of_class(kind: type) -> str:
    if kind.__module__.startswith("torch.nn."):
        return _plain(kind.__name__)
    return f"{kind.__module__}.{kind.__qualname__}"


def _name_in_python(name: str) -> str:
    short = name.strip("_")
    if short.startswith("i") and short[1:] in _IN_PLACE:
        short = short[1:]
    return _plain(short)


def _plain(name: str) -> str:
    if name.startswith("__") and name.endswith("__"):
        return _name_in_python(name)
    plain = _NOT_A_LETTER.sub("", name.lower())
    plain = _NUMBER_OF_DIMENSIONS.sub(r"\1", plain)
    return _OTHER_NAMES.get(plain, plain)
