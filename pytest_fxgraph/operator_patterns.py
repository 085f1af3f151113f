"""Targets: the user's ways to name operators. A function, an operator, a module class, a method name or a glob."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import operator
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from fxcore.operators.kinds import is_packet, operator_name
from pytest_fxgraph.document.modules import Attributes
from pytest_fxgraph.document.nested_graphs import graphs_in, is_graph_module
from pytest_fxgraph.document.target_names import PUBLIC_MODULES, TargetNames, class_name
from pytest_fxgraph.errors import DocumentError, TargetError
from pytest_fxgraph.operator_dialects import DERIVED, PYTHON, TORCH, could_be_found, dialect_of_name, operator_names
from pytest_fxgraph.report import printable

CALLS = ("call_function", "call_method", "call_module")
_SHOWN = 12

OwnName = Callable[[Any], "str | None"]


@dataclass(frozen=True)
class OperatorCall:
    """A calling node with the names that a glob can match; messages show the first name."""

    node: Any
    path: str  # of the inner graph around the node, with a slash at its end; "" for the outermost graph
    names: tuple[str, ...]
    module: nn.Module | None = field(default=None, repr=False)  # the called module

    @property
    def place(self) -> str:
        """The node's name, with the path of the graph around it."""
        return f"{self.path}{self.node.name}"

    @property
    def dialect(self) -> str:
        """The dialect of the call; "" for a call that graphs of every dialect have."""
        if self.node.op == "call_function":
            return dialect_of_name(name_of_target(self.node.target))
        return "" if is_graph_module(self.module) else TORCH


def operator_calls(graph_module: Any, *, recursive: bool = True, own_name: OwnName | None = None) -> list[OperatorCall]:
    """List the calls of a graph in order; with `recursive`, then the calls of its inner graphs, each graph once.

    `own_name` is asked first for the name of a function, like the hook pytest_fxgraph_target_name. If inner graphs
    are listed, a call of a module that is a graph is no operator.
    """
    names = TargetNames(repr, own_name)
    found: list[OperatorCall] = []
    seen: set[int] = set()

    def visit(module: Any, path: str) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        attributes = Attributes(module)
        for node in module.graph.nodes:
            if node.op in CALLS:
                call = _call(node, path, attributes, names)
                if not (recursive and call.module is not None and is_graph_module(call.module)):
                    found.append(call)
        for place, inner in graphs_in(module.graph, attributes) if recursive else ():
            visit(inner, f"{path}{place}/")

    visit(graph_module, "")
    return found


def _call(node: Any, path: str, attributes: Attributes, names: TargetNames) -> OperatorCall:
    if node.op == "call_method":
        return OperatorCall(node, path, (str(node.target),))
    if node.op == "call_module":
        module = attributes.at(str(node.target))
        kind = type(module)
        return OperatorCall(node, path, (class_name(kind), f"{kind.__module__}.{kind.__qualname__}"), module)
    target = node.target
    spelled = f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', '')}"
    return OperatorCall(node, path, (_name(target, names), *operator_names(target), spelled))


def _name(target: Any, names: TargetNames) -> str:
    try:
        return names.name(target)
    except DocumentError:
        return repr(target)


def matches(target: Any, call: OperatorCall) -> bool:
    """Return whether a call matches a target."""
    node = call.node
    if isinstance(target, str):
        if target.isidentifier():  # a method
            return bool(node.op == "call_method" and node.target == target)
        return any(fnmatchcase(name, target) for name in call.names)
    if node.op == "call_module":
        return isinstance(target, type) and isinstance(call.module, target)
    if node.op == "call_method":
        return getattr(torch.Tensor, str(node.target), None) is target  # torch.Tensor.mean
    is_applied = isinstance(target, type) and getattr(node.target, "__self__", None) is target  # an autograd.Function
    return node.target is target or is_applied or operator_name(target) in operator_names(node.target)


def validate_target(target: Any, calls: Iterable[OperatorCall], own_name: OwnName | None = None) -> None:
    """Raise TargetError (a ValueError), with the nearest names, if a target can match no existing operator."""
    if isinstance(target, nn.Module):
        raise TargetError(f"an operator is named by its class, not by a module: write {type(target).__name__}")
    if not isinstance(target, str):
        if not callable(target):
            raise TargetError(f"no operator can be named by {target!r}: give a function, a module class or a name")
        return
    calls = list(calls)
    if any(matches(target, call) for call in calls) or _could_match(target, own_name):
        return
    called = _called(calls)
    near = _names_near(target, called)
    hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
    what = "a method of Tensor" if target.isidentifier() else "the name of any operator known here"
    raise TargetError(f"{target!r} could never match: it is not {what}{hint} (the graph calls {listed(called)})")


def refuse_unspoken(targets: Sequence[Any], calls: Sequence[OperatorCall]) -> None:
    """Raise TargetError if the calls of a graph are in other dialects than the names of all targets.

    Several targets are one question: `absent(nn.Dropout, "aten.dropout*")` asks for dropout in each dialect.
    """
    spoken = Counter(filter(None, (call.dialect for call in calls)))
    asked = [_dialects_of_target(target) for target in targets]
    if not asked or any(could_be_found(each, spoken) for each in asked):
        return
    wanted = {_operation(target) for target in targets}
    called = [name for name in _called(calls) if _joined(_operation(name)).startswith(tuple(map(_joined, wanted)))]
    known = [name for name in _known_names() if could_be_found({dialect_of_name(name)}, spoken)]
    plain = {_without_overload(name) for name in known if _operation(name) in wanted}
    here = list(dict.fromkeys([*called, *sorted(plain, key=_rank)]))[:3]
    hint = f": here it is {' or '.join(map(repr, here))}" if here else ""
    raise TargetError(
        f"{', '.join(map(name_of_target, targets))} could never match: the graph speaks {', '.join(spoken)} and not "
        f"{', '.join(sorted(set().union(*asked)))} (it calls {listed(_called(calls))}). Name the operator in a dialect "
        f"of the graph{hint}; or with a glob for all dialects, such as '*relu*'; or hand over a graph of the other "
        "dialect (frontend=)"
    )


def refuse_unlimited(allow_list: Sequence[Any]) -> None:
    """Raise TargetError if a list of allowed targets allows every operator."""
    globs = [target for target in allow_list if isinstance(target, str)]
    if globs and all(any(fnmatchcase(name, glob) for glob in globs) for name in _known_names()):
        raise TargetError(
            f"only_from({allow_list!r}) could never fail: the list allows every operator. Name the allowed operators"
        )


def listed(texts: Sequence[str]) -> str:
    """Join the first 12 texts and count the others; "nothing" for an empty list."""
    return printable.listed(texts, _SHOWN) or "nothing"


def _called(calls: Iterable[OperatorCall]) -> list[str]:
    return list(dict.fromkeys(call.names[0] for call in calls))


def name_of_target(target: Any) -> str:
    """Return the name of a target as messages show it."""
    if isinstance(target, str):
        return target
    return class_name(target) if isinstance(target, type) else _name(target, TargetNames(repr))


def as_targets(targets: Any) -> list[Any]:
    """Return one target, or several, as a list."""
    if isinstance(targets, (str, type)) or not isinstance(targets, Iterable) or is_packet(targets):
        return [targets]
    return list(targets)


def _dialects_of_target(target: Any) -> set[str]:
    """Return the dialects in which a target names operations; {""} for a target that names a whole dialect.

    `absent("aten.*")` asks for the dialect itself, as a test of a conversion to another dialect does.
    """
    if not isinstance(target, str):
        is_module = isinstance(target, type) and issubclass(target, nn.Module)
        return {TORCH if is_module else dialect_of_name(name_of_target(target))}
    namespace = target.rstrip("*").removesuffix(".")
    if namespace != target and namespace.removeprefix(f"{DERIVED[0]}.") in _namespaces():
        return {""}
    if not any(sign in target.partition(".")[0] for sign in "*?["):
        return {dialect_of_name(target)}
    return {dialect_of_name(name) for name in _known_names() if fnmatchcase(name, target)} or {""}


def _operation(target: Any) -> str:
    """Return the plain name of an operation: "add" of `aten.add.Tensor`, of `edge.aten.add*` and of torch.add."""
    name = name_of_target(target).rstrip("*?.")
    for dialect in DERIVED:
        name = name.removeprefix(f"{dialect}.")
    return _without_overload(name).rpartition(".")[2].lower()


def _joined(name: str) -> str:
    """Write `batch_norm` as the name of a class does: "batchnorm", as in BatchNorm2d."""
    return name.replace("_", "")


def _without_overload(name: str) -> str:
    is_plain = dialect_of_name(name) in (TORCH, PYTHON)
    return name if is_plain else ".".join(name.split(".")[:2])


# Names that exist.


@functools.cache
def _names_of_torch() -> tuple[str, ...]:
    """Return the names of torch's functions, methods and modules, and of Python's operators."""
    names = {f"operator.{name}" for name in dir(operator) if not name.startswith("_")}
    names |= {name for name in dir(torch.Tensor) if not name.startswith("_")}
    names |= {f"torch.nn.{name}" for name, value in vars(nn).items() if isinstance(value, type)}
    for module in PUBLIC_MODULES:
        names |= {f"{module}.{name}" for name, value in vars(sys.modules[module]).items()
                  if callable(value) and not name.startswith("_")} if module in sys.modules else set()  # fmt: skip
    return tuple(sorted(names))


def _names_of_operators() -> Iterator[str]:
    """Yield the names of all registered operators, also of libraries, with and without overload."""
    for name in torch._C._dispatch_get_all_op_names():
        plain = name.replace("::", ".")
        yield plain
        yield f"{plain}.default" if plain.count(".") == 1 else plain.rpartition(".")[0]
    for name in getattr(torch._ops, "_higher_order_ops", ()):
        yield f"higher_order.{name}"


def _known_names() -> list[str]:
    return [*_names_of_torch(), *dict.fromkeys(_names_of_operators())]


def _namespaces() -> set[str]:
    """Return the modules and namespaces of the known names, and the derived dialects."""
    return {
        *DERIVED,
        *(name.rpartition(".")[0] for name in _names_of_torch()),
        *(name.partition(".")[0] for name in _names_of_operators()),
    }


def _names_near(target: str, called: Iterable[str]) -> list[str]:
    """Return names close to a target: the same name in a module (torch's own modules first), then similar names."""
    dialect, _, rest = target.partition(".")
    if dialect in DERIVED and rest:
        return [f"{dialect}.{name}" for name in _names_near(rest, ()) if not name.startswith(("torch.", "operator."))]
    known = _known_names()
    same = sorted((name for name in known if name.endswith(f".{target}")), key=_rank)[:3]
    plain = target.rstrip("*?")
    home = plain.rpartition(".")[0]
    beside = [f"{home}.{name}" for name in getattr(sys.modules.get(home), "__dict__", ())]
    alike = difflib.get_close_matches(plain, [*called, *beside, *known], n=3, cutoff=0.7)
    return same + [name for name in dict.fromkeys(alike) if name not in same]


def _rank(name: str) -> tuple[int, str]:
    roots = ("torch", "operator", "aten")
    root = name.partition(".")[0]
    return (roots.index(root) if root in roots else len(roots)), name


def _could_match(target: str, own_name: OwnName | None) -> bool:
    """Return whether an operator of this name exists, even if the graph does not call it."""
    if target.isidentifier():
        return hasattr(torch.Tensor, target)
    if any(fnmatchcase(name, target) for name in _known_names()):
        return True
    dialect, _, rest = target.partition(".")
    if dialect in DERIVED and any(fnmatchcase(name, rest) for name in _names_of_operators()):
        return True
    if "<" in target:
        return True  # there is no list of functions inside functions
    if dialect in sys.modules:
        return _is_in_a_package(target)
    # Names from hooks can have any form. Other names begin with a loaded package.
    return own_name is not None or (any(sign in dialect for sign in "*?[") and _is_in_a_package(target))


def _is_in_a_package(target: str) -> bool:
    """Return whether a loaded module has a callable with a name that the target matches."""
    literal = re.split(r"[*?\[]", target)[0]
    for name, module in list(sys.modules.items()):
        if module is None or not (literal.startswith(f"{name}.") or name.startswith(literal)):
            continue
        for attribute, value in list(vars(module).items()):
            if callable(value) and _is_named(f"{name}.{attribute}", value, target):
                return True
    # An installed module that is not imported yet.
    home = literal.rpartition(".")[0]
    try:
        return home not in sys.modules and "." in home and importlib.util.find_spec(home) is not None
    except (ImportError, ValueError):
        return False


def _is_named(name: str, value: Any, target: str) -> bool:
    if fnmatchcase(name, target):
        return True
    if not isinstance(value, type) or not target.startswith(f"{name}."):
        return False
    return any(fnmatchcase(f"{name}.{method}", target) for method in dir(value))
