"""Questions about the operators that a graph calls: the fixture `fx_ops`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import fxcore
from pytest_fxgraph.operator_patterns import (
    as_targets,
    call_nodes,
    matches,
    name_of_target,
    names_of_call,
    validate_target,
)

_SHOWN = 12


class OpsQuery:
    """Counts and checks the operators that one graph calls.

    A target is a function (torch.relu), a module class (nn.Conv2d; its subclasses count too), the name of a method
    ("relu" is x.relu() alone) or a glob over full names ("aten.batch_norm*", "*.relu", "torch.nn.Conv?d"). Every method
    raises TargetError (a ValueError) for a target that can match no operator.
    """

    def __init__(self, graph_module: fxcore.GraphModule) -> None:
        self._graph_module = graph_module

    def count(self, target: Any) -> int:
        """Return the number of nodes that call a target."""
        return len(self.nodes(target))

    def nodes(self, target: Any) -> list[fxcore.Node]:
        """Return the nodes that call a target, in the graph's order."""
        validate_target(target, self._graph_module)
        return [node for node in call_nodes(self._graph_module) if matches(target, node, self._graph_module)]

    def absent(self, *patterns: Any) -> None:
        """Check that no node calls one of the targets; raises AssertionError, naming the nodes."""
        for pattern in patterns:
            found = self.nodes(pattern)
            if found:
                names = ", ".join(f"{node.name} ({self._name(node)})" for node in found[:_SHOWN])
                more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
                calls = f"{len(found)} nodes of the graph call it: {names}{more}"
                raise AssertionError(f"{name_of_target(pattern)} must be absent, and {calls}")

    def in_order(self, *targets: Any) -> None:
        """Check that the targets are called in this order, others may come between; raises AssertionError if not."""
        remaining = call_nodes(self._graph_module)
        previous = "the graph begins"
        for position, target in enumerate(targets, start=1):
            validate_target(target, self._graph_module)
            places = [place for place, node in enumerate(remaining) if matches(target, node, self._graph_module)]
            if not places:
                raise AssertionError(
                    f"operators are not in the order asked for: no {name_of_target(target)} (number {position}) "
                    f"after {previous}; the graph calls, in order: {self._sequence()}"
                )
            previous = remaining[places[0]].name
            remaining = remaining[places[0] + 1 :]

    def only_from(self, allow_list: Iterable[Any]) -> None:
        """Check that every call matches a target of the list; raises AssertionError, naming the others."""
        allowed = as_targets(allow_list)
        for target in allowed:
            validate_target(target, self._graph_module)
        foreign = Counter(
            self._name(node)
            for node in call_nodes(self._graph_module)
            if not any(matches(target, node, self._graph_module) for target in allowed)
        )
        if foreign:
            listed = ", ".join(f"{name} x{count}" for name, count in foreign.most_common(_SHOWN))
            raise AssertionError(
                f"the graph calls what is not on the list: {listed}; allowed are "
                f"{', '.join(map(name_of_target, allowed)) or 'none'}"
            )

    def counts(self) -> dict[str, int]:
        """Return the number of calls by the full name of what is called."""
        return dict(Counter(self._name(node) for node in call_nodes(self._graph_module)))

    def _name(self, node: fxcore.Node) -> str:
        return names_of_call(node, self._graph_module)[0]

    def _sequence(self) -> str:
        names = [self._name(node) for node in call_nodes(self._graph_module)]
        shown = ", ".join(names[:_SHOWN]) or "nothing"
        return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
