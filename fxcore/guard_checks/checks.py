"""The work behind generated checks: whether a call is checked, the refusal of a call, and guards computed alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from fxcore import torch_fx_registry
from fxcore.errors import GuardError
from fxcore.guard_checks.plan import Plan
from fxcore.guard_checks.undo import WrittenState
from fxcore.guards import Guards, is_same, needed_nodes, refusal, refusal_of_change
from fxcore.node import Node
from fxcore.node_data.arguments import map_values
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.state.snapshot import Snapshot, kept, state_kept

# Errors of torch in a run for shapes alone, where tensors have no numbers: the class for fake tensors, words for meta.
_OF_FAKE = "DataDependentOutputException"
_OF_META = ("called on meta tensors", "out of meta tensor")

# The values that later checks need, after the snapshots that a refusal restores; None in a call without checks.
State = tuple[Any, ...]


def is_checked(*inputs: Any) -> bool:
    """Return whether a call checks its guards. Every call does, except where the code of the graph is traced.

    A trace with an example runs the checks on its proxies, so that the guards become guards of the new graph.
    """
    if torch.compiler.is_compiling():
        return True
    if torch_fx_registry.is_tracing() or torch._C._is_tracing():
        return any(map(_has_example, inputs))
    return not any(map(_holds_proxy, inputs))


def _has_example(value: Any) -> bool:
    return getattr(type(value), "__fx_has_example__", False) is True


def _holds_proxy(value: Any) -> bool:
    kind: Any = type(value)
    if kind in (tuple, list):
        return any(map(_is_proxy, map(type, value)))
    if kind is dict:
        return any(map(_is_proxy, map(type, value.values())))
    return _is_proxy(kind)


@functools.lru_cache(maxsize=1024)
def _is_proxy(kind: Any) -> bool:
    """Return whether values of a class are proxies of fxcore or torch.fx."""
    return getattr(kind, "__fx_is_symbolic__", False) is True or issubclass(
        kind, getattr(sys.modules.get("torch.fx.proxy"), "Proxy", ())
    )


class Checker:
    """The guards of one graph, as its generated checks see them. `name` is the name of the graph's module."""

    def __init__(self, guards: Guards, plan: Plan, written: WrittenState, name: str) -> None:
        self._guards, self._plan = guards, plan
        self._name = name
        self.keep = written.keep
        # Per position of a check: the guard that each line of its code belongs to.
        self.guard_of_line: dict[int, dict[int, int]] = {}

    def check_outer(self) -> None:
        """Raise GuardError (a ValueError) if a value beside the inputs is no more as the trace read it."""
        outer = self._guards.outer
        if torch.compiler.is_compiling() or outer is None:
            return
        change = outer.first_change()
        if change is not None:
            value, found = change
            raise GuardError(refusal_of_change(value, found, self._name))

    def refuse(self, module: Any, index: int, found: Any) -> None:
        """Raise GuardError (a ValueError) for a guard with another value than in the example."""
        raise GuardError(refusal(self._guards, index, found, self._name, _free_sizes(module)))

    def check(self, module: Any, index: int, found: Any) -> None:
        """Refuse a value that is not the example's. This is for values that Python's `!=` does not compare."""
        if not is_same(self._guards[index].value, found):
            self.refuse(module, index, found)

    def truth(self, value: Any) -> bool:
        """Return the truth of a value that follows from contents. A trace with an example assumes it again."""
        if torch.compiler.is_compiling() or not _has_example(value):
            return bool(value)
        return bool(value.tracer.answers.assumed(value))

    def _restore(self, state: State | None) -> None:
        for snapshot in (state and state[0]) or ():
            snapshot.restore()

    def failed(self, module: Any, state: State | None, error: Exception, position: int) -> None:
        """Restore the state and raise GuardError for an error in a check. A run without numbers goes on unchecked."""
        if torch.compiler.is_compiling() or torch_fx_registry.is_tracing():
            raise error
        if type(error).__name__ == _OF_FAKE or any(words in str(error) for words in _OF_META):
            return
        self._restore(state)
        if isinstance(error, GuardError) or error.__traceback__ is None:
            raise error
        index = self.guard_of_line[position].get(error.__traceback__.tb_lineno, 0)
        raise GuardError(refusal(self._guards, index, error, self._name, _free_sizes(module))) from error

    def refuse_caught(self, module: Any, node: Node, error: Exception, state: State | None) -> None:
        """Restore the state and raise GuardError if the traced code catches an error of a node of the graph."""
        names = {kind.__name__ for kind in type(error).__mro__}
        for index, asked in enumerate(self._plan.asked):
            guard = self._guards[index]
            if guard.caught and self._plan.twins.get(asked) is node and not names.isdisjoint(guard.caught):
                self._restore(state)
                raise GuardError(refusal(self._guards, index, error, self._name, _free_sizes(module))) from error

    def alone(self, module: Any, index: int, inputs: Sequence[Any], values: dict[Node, Any]) -> Any:
        """Return the value of a guard, computed from the inputs in a run of its own. The state stays as it was.

        `values` receives the values of the run, and has those of earlier guards.
        """
        asked = self._plan.asked[index]
        named = [(f"input {number}", value) for number, value in enumerate(inputs)]
        given = dict(zip(self._plan.placeholders, inputs, strict=True))
        values.update({node: given[twin] for node, twin in self._plan.twins.items() if twin in given})
        with state_kept(module), kept(Snapshot.of_values(named)):
            return run_nodes(asked.graph.nodes, needed_nodes([asked]), values, module)[asked]


def _free_sizes(module: Any) -> str:
    return str(getattr(module, "meta", {}).get("free_sizes", ""))


def run_nodes(order: Iterable[Node], nodes: set[Node], values: dict[Node, Any], module: Any) -> dict[Node, Any]:
    """Run some nodes in the order of their graph, with the attributes of `module`; `values` receives the results."""
    for node in order:
        if node in nodes and node not in values:
            values[node] = result_of(node, values.__getitem__, module)
    return values


def result_of(node: Node, value_of: Callable[[Node], Any], module: Any) -> Any:
    """Run one node that is neither input nor output, and return its result."""
    target: Any = node.target
    if node.op == "get_attr":
        return get_attribute(module, target)
    args, kwargs = map_values(node.args, value_of), map_values(node.kwargs, value_of)
    if node.op == "call_method":
        return getattr(args[0], target)(*args[1:], **kwargs)
    return (get_attribute(module, target) if node.op == "call_module" else target)(*args, **kwargs)
