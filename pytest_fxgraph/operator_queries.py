"""Questions about the operators that a graph calls: the fixture `fx_ops`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_fxgraph.captures.choice import captured_by
from pytest_fxgraph.captures.subjects import Adapter, to_graph_with_operators
from pytest_fxgraph.choices import Frontend
from pytest_fxgraph.operator_patterns import (
    OperatorCall,
    OwnName,
    as_targets,
    listed,
    matches,
    name_of_target,
    operator_calls,
    refuse_unlimited,
    refuse_unspoken,
    validate_target,
)
from pytest_fxgraph.vacuity import refuse_nothing_asked


class FxOps:
    """Questions about the operators of a subject's graph: the fixture `fx_ops`."""

    def __init__(
        self,
        adapt: Adapter | None = None,
        own_name: OwnName | None = None,
        frontend: Callable[[], str] = lambda: "symbolic",
    ) -> None:
        """Take the user's hooks for subjects and for names of functions, and the frontend of the test."""
        self._adapt, self._own_name, self._frontend = adapt, own_name, frontend

    def __call__(
        self,
        subject: Any,
        *,
        recursive: bool = True,
        frontend: Frontend | None = None,
        example_inputs: object = None,
        example_kwargs: Mapping[str, Any] | None = None,
    ) -> OpsQuery:
        """Return the query for a subject's graph, and with `recursive` for the graphs inside it.

        A module becomes a graph by `frontend`: "symbolic", or with example inputs "export", "dynamo", "aot", "make_fx",
        "inductor". A model that "symbolic" cannot trace without an example is traced with the example inputs.
        Raises SubjectError (a TypeError) for an object that is no subject, and CaptureError if tracing fails.
        """
        way = frontend or self._frontend()
        with captured_by(way, subject, example_inputs, example_kwargs, self._adapt) as given:
            if given is subject:
                example = {"example_inputs": example_inputs, "example_kwargs": example_kwargs}
                graph = to_graph_with_operators(given, self._adapt, **example)
            else:
                graph = to_graph_with_operators(given.operators_of, self._adapt)
        return OpsQuery(graph, recursive=recursive, own_name=self._own_name)


class OpsQuery:
    """Counts and checks the operators of one graph and of the graphs inside it.

    A target is a function (torch.relu), an operator with or without overload (torch.ops.aten.add), a module class
    (nn.Conv2d; its subclasses count too), the name of a method ("relu" is x.relu() alone) or a glob over full names
    ("aten.batch_norm*", "*.relu", "torch.nn.Conv?d", "edge.aten.add*"). A name of aten also finds the operator of the
    edge dialect that stands for it. Every method raises TargetError (a ValueError) for a target that can match no
    operator; `count`, `nodes` and `absent` also for a target in a dialect that the graph does not speak (`dialects`).
    `recursive=False` leaves out the graphs inside the graph. `own_name` is asked first for the name of a function.
    """

    def __init__(self, graph_module: Any, *, recursive: bool = True, own_name: OwnName | None = None) -> None:
        self._calls = operator_calls(graph_module, recursive=recursive, own_name=own_name)
        self._own_name = own_name

    def count(self, target: Any) -> int:
        """Return the number of nodes that call a target."""
        return len(self.nodes(target))

    def nodes(self, target: Any) -> list[Any]:
        """Return the nodes that call a target, in the graph's order."""
        found = self._found(target)
        if not found:
            refuse_unspoken([target], self._calls)
        return [call.node for call in found]

    def absent(self, *patterns: Any) -> None:
        """Check that no node calls one of the targets. Raises AssertionError with the names of the nodes.

        The graph must speak the dialect of one of the targets.
        """
        refuse_nothing_asked("absent", patterns)
        for pattern in patterns:
            found = self._found(pattern)
            if found:
                names = listed([f"{call.place} ({call.names[0]})" for call in found])
                number = "1 node of the graph calls" if len(found) == 1 else f"{len(found)} nodes of the graph call"
                calls = f"{number} it: {names}"
                raise AssertionError(
                    f"{name_of_target(pattern)} must be absent, and {calls}; the graph calls {self.summary()}"
                )
        refuse_unspoken(patterns, self._calls)

    def in_order(self, *targets: Any) -> None:
        """Check that the targets are called in this order, with any calls between. Raises AssertionError if not."""
        refuse_nothing_asked("in_order", targets)
        remaining = self._calls
        previous = "the graph begins"
        for position, target in enumerate(targets, start=1):
            validate_target(target, self._calls, self._own_name)
            places = [place for place, call in enumerate(remaining) if matches(target, call)]
            if not places:
                sequence = listed([call.names[0] for call in self._calls])
                raise AssertionError(
                    f"operators are not in the order asked for: no {name_of_target(target)} (number {position}) "
                    f"after {previous}; the graph calls, in order: {sequence}"
                )
            previous = remaining[places[0]].place
            remaining = remaining[places[0] + 1 :]

    def only_from(self, allow_list: Iterable[Any]) -> None:
        """Check that every call matches a target of the list. Raises AssertionError with the other calls."""
        allowed = as_targets(allow_list)
        for target in allowed:
            validate_target(target, self._calls, self._own_name)
        refuse_unlimited(allowed)
        foreign = [call for call in self._calls if not any(matches(target, call) for target in allowed)]
        if foreign:
            raise AssertionError(
                f"the graph calls what is not on the list: {_counted(foreign)}; allowed are "
                f"{', '.join(map(name_of_target, allowed)) or 'none'}; the graph calls {self.summary()}"
            )

    @property
    def dialects(self) -> list[str]:
        """Return the dialects that the graph speaks, in the order of its calls: "torch", "python", "aten", "edge"."""
        return list(dict.fromkeys(call.dialect for call in self._calls if call.dialect))

    def counts(self) -> dict[str, int]:
        """Return the number of calls by the full name of the operator."""
        return dict(Counter(call.names[0] for call in self._calls))

    def summary(self) -> str:
        """Return the called operators, the most frequent first: `torch.relu x3, operator.add x1`."""
        return _counted(self._calls)

    def __repr__(self) -> str:
        return f"<operators: {self.summary()}>"

    def _found(self, target: Any) -> list[OperatorCall]:
        validate_target(target, self._calls, self._own_name)
        return [call for call in self._calls if matches(target, call)]


def _counted(calls: Iterable[OperatorCall]) -> str:
    return listed([f"{name} x{count}" for name, count in Counter(call.names[0] for call in calls).most_common()])
