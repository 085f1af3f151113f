"""Checks of the graph that a transform made: well-formed, recompiled, without dead nodes, with the same inputs.

Graphs of torch.fx and of fxcore are read alike. Of an exported program the graph is checked, and its signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pytest_fxgraph.captures.subjects import is_exported_program
from pytest_fxgraph.equivalence.check import code_is_stale
from pytest_fxgraph.equivalence.exported_call import user_inputs
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.report.printable import listed


@dataclass(frozen=True)
class GraphFacts:
    """The facts about a graph module or exported program before or after a pass."""

    dead: frozenset[str]  # names of the nodes that have no users and no side effects
    meta: dict[str, frozenset[str]]  # by the name of a node: the keys of its meta
    inputs: list[tuple[str, str]]  # names of the inputs that callers give, each with the repr of its default or ""
    # Operators, order and arguments of nodes, modules and settings; names of nodes and their meta do not count.
    structure: tuple[object, ...]
    state: dict[str, tuple[Any, int]]  # the tensors, and torch's number of writes to each
    is_program: bool
    fault: Exception | None  # the error of the program's own check

    @staticmethod
    def of(subject: Any) -> GraphFacts:
        """Read the facts."""
        graph_module = _graph_module_of(subject)
        is_program, fault = graph_module is not subject, None
        inputs = user_inputs(subject) if is_program else None
        if is_program:
            try:
                subject.validate()
            except Exception as error:
                fault = error
        nodes, parts = list(graph_module.graph.nodes), dict(graph_module.named_modules(remove_duplicate=False))
        settings = [
            (path, name, value)
            for path, part in parts.items()
            if not hasattr(part, "graph")
            for name, value in vars(part).items()
            if not name.startswith("_") and isinstance(value, (bool, int, str, float, tuple))
        ]
        state = {
            f"{path}.{name}": tensor
            for path, part in parts.items()
            for name, tensor in (*part._parameters.items(), *part._buffers.items())
        }
        state |= {**subject.state_dict, **subject.constants} if is_program else {}
        # A copy of the module at the root may have a class of another name.
        kinds = [(path, type(part).__name__) for path, part in parts.items() if path]
        return GraphFacts(
            frozenset(node.name for node in nodes if not node.users and not node.is_impure()),
            {node.name: frozenset(node.meta) for node in nodes},
            [
                (str(node.target), repr(node.args[0]) if node.args else "")
                for node in nodes
                if node.op == "placeholder" and (inputs is None or node.name in inputs)
            ],
            (_described_nodes(nodes), kinds, repr(settings)),
            {name: (tensor, _version(tensor)) for name, tensor in state.items()},
            is_program,
            fault,
        )

    def check(self, made: Any, name: str, *, keeps_meta: tuple[str, ...] | bool, keeps_inputs: bool) -> GraphFacts:
        """Check the result of a pass, and return its facts; raise AssertionError, naming the pass.

        The graph passes lint(), was recompiled and has no new dead nodes. The signature of a program fits its graph.
        Inputs keep names, order and defaults; new inputs may follow. Nodes with an unchanged name keep all (True), no
        (False) or the named entries of their meta.
        """
        __tracebackhide__ = True
        graph_module = _graph_module_of(made)
        try:
            graph_module.graph.lint()
            graph_module.graph.python_code("self")
        except Exception as error:
            raise AssertionError(f"{name} left a malformed graph: {_first_line(error)}") from error
        # The graph module of a program does not run, so its code may be older.
        if graph_module is made and code_is_stale(graph_module):
            raise AssertionError(
                f"{name} changed the graph and forgot recompile(): forward still runs the code from before; "
                "call graph_module.recompile() at the end of the transform"
            )
        after = GraphFacts.of(made)
        dead = after.dead - self.dead
        if self.is_program and not after.is_program:  # the module of a program reads all state, also unneeded state
            dead -= {node.name for node in graph_module.graph.nodes if node.op == "get_attr"}
        if dead:
            raise AssertionError(
                f"{name} left nodes without users: {listed(sorted(dead), 5)}; call graph.eliminate_dead_code() before "
                "recompile(), or erase_node() for each"
            )
        if after.fault is not None and self.fault is None:
            raise AssertionError(
                f"{name} left a malformed program: {_first_line(after.fault)} (as program.validate() says); "
                "keep graph_signature in step with the placeholders and outputs of the graph"
            ) from after.fault
        if keeps_inputs:
            self._check_inputs(after, name)
        self._check_meta(after, name, keeps_meta)
        return after

    def _check_inputs(self, after: GraphFacts, name: str) -> None:
        __tracebackhide__ = True
        for index, (expected, default) in enumerate(self.inputs):
            found = after.inputs[index] if index < len(after.inputs) else None
            if found is None or found[0] != expected:
                raise AssertionError(
                    f"{name} changed the inputs: input {index} was {expected!r} and is "
                    f"{'gone' if found is None else repr(found[0])}, so that callers who pass it by name, or those "
                    "behind it, get another function; keep names and order of the placeholders"
                )
            if found[1] != default:
                raise AssertionError(
                    f"{name} changed the inputs: the default of {expected!r} was {default or 'none'} and is "
                    f"{found[1] or 'none'}; keep the arguments of the placeholder"
                )

    def _check_meta(self, after: GraphFacts, name: str, wanted: tuple[str, ...] | bool) -> None:
        __tracebackhide__ = True
        lost = []
        for node, kept in after.meta.items():
            had = self.meta.get(node, frozenset())
            missing = sorted((had if wanted is True else had.intersection(wanted or ())) - kept)
            lost += [f"{node} ({', '.join(missing)})"] if missing else []
        if lost:
            raise AssertionError(
                f"{name} lost the meta of {listed(lost, 5)}; copy it to the nodes that take their place "
                "(new.meta.update(old.meta), or graph.node_copy())"
            )

    def changed(self, after: GraphFacts) -> bool:
        """Return whether the graph, its modules or its state changed; a copy of a tensor is no change."""
        if self.structure != after.structure or self.state.keys() != after.state.keys():
            return True
        return any(
            _version(known) != version or not (now is known or _is_copy(now, known))
            for (now, _), (known, version) in ((after.state[name], self.state[name]) for name in self.state)
        )


def _graph_module_of(subject: Any) -> Any:
    return subject.graph_module if is_exported_program(subject) else subject


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _is_copy(tensor: Any, other: Any) -> bool:
    if not isinstance(tensor, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    exact = OutputComparison(ToleranceRule(0.0, 0.0), requires_grad=True)
    return not any(exact.compare_tensors(tensor, other, ""))


def _described_nodes(nodes: Sequence[Any]) -> list[object]:
    """Describe the nodes, each by its place: a pass that copies all of them may give them other names."""
    numbers = {node: number for number, node in enumerate(nodes)}

    def described(value: Any) -> object:
        if isinstance(value, (tuple, list)):
            return [type(value).__name__, *map(described, value)]
        if isinstance(value, Mapping):
            return {key: described(each) for key, each in value.items()}
        if isinstance(value, slice):
            return [described(each) for each in (value.start, value.stop, value.step)]
        number = numbers.get(value) if hasattr(value, "all_input_nodes") else None
        return repr(value) if number is None else number

    return [
        (node.op, node.target if node.op != "output" else "", described(node.args), described(node.kwargs))
        for node in nodes
    ]


def _version(tensor: Any) -> int:
    """Return torch's number of writes to a tensor; 0 for a tensor without the count."""
    return 0 if not isinstance(tensor, torch.Tensor) or tensor.is_inference() else tensor._version
