"""Checks of the graph that a transform made: well-formed, recompiled, without dead nodes, with the same inputs.

Graphs of torch.fx and of fxcore are read alike. Of an exported program the graph is checked, and its signature.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """The facts about a graph module or exported program before a pass."""

    dead: frozenset[str]
    meta: dict[str, frozenset[str]]
    inputs: list[tuple[str, str]]
    fingerprint: Fingerprint
    is_program: bool
    is_valid: bool  # False if the program fails its own check already

    @staticmethod
    def of(subject: Any) -> GraphFacts:
        """Read the facts."""
        graph_module, names, state = _parts_of(subject)
        is_valid = True
        if names is not None:
            try:
                check_program(subject, "")
            except AssertionError:
                is_valid = False
        return GraphFacts(
            dead_nodes(graph_module),
            meta_keys(graph_module),
            inputs_of(graph_module, names),
            Fingerprint.of(graph_module, state),
            names is not None,
            is_valid,
        )

    def check(self, made: Any, name: str, *, keeps_meta: tuple[str, ...] | bool, keeps_inputs: bool) -> None:
        """Check the result of a pass; raise AssertionError, naming the pass."""
        __tracebackhide__ = True
        graph_module, names, _ = _parts_of(made)
        dead = self.dead
        if self.is_program and names is None:  # the module of a program reads all state, even state that no node needs
            dead |= {node.name for node in graph_module.graph.nodes if node.op == "get_attr"}
        check_graph(graph_module, name, dead, is_run=names is None)
        if names is not None and self.is_valid:
            check_program(made, name)
        if keeps_inputs:
            check_inputs(graph_module, name, self.inputs, names)
        check_meta(graph_module, name, self.meta, keeps_meta)

    def changed(self, made: Any) -> bool:
        """Return whether the graph, its modules or its state changed."""
        graph_module, _, state = _parts_of(made)
        return Fingerprint.of(graph_module, state).differs_from(self.fingerprint)


def _parts_of(subject: Any) -> tuple[Any, list[str] | None, dict[str, Any]]:
    """Return the graph module of a subject, and of an exported program the inputs that callers give, and the state."""
    if is_exported_program(subject):
        return subject.graph_module, user_inputs(subject), {**subject.state_dict, **subject.constants}
    return subject, None, {}


def check_graph(graph_module: Any, name: str, dead_before: frozenset[str], *, is_run: bool = True) -> None:
    """Check that the graph passes lint(), was recompiled and has no dead nodes except `dead_before`.

    The code may be older if the graph module itself does not run, as in an exported program. Raises
    AssertionError, naming the transform.
    """
    __tracebackhide__ = True
    try:
        graph_module.graph.lint()
        graph_module.graph.python_code("self")
    except Exception as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise AssertionError(f"{name} left a malformed graph: {first_line}") from error
    if is_run and code_is_stale(graph_module):
        raise AssertionError(
            f"{name} changed the graph and forgot recompile(): forward still runs the code from before; "
            "call graph_module.recompile() at the end of the transform"
        )
    left = sorted(dead_nodes(graph_module) - dead_before)
    if left:
        raise AssertionError(
            f"{name} left nodes without users: {listed(left, 5)}; call graph.eliminate_dead_code() before recompile(), "
            "or erase_node() for each"
        )


def check_meta(
    graph_module: Any, name: str, before: Mapping[str, frozenset[str]], wanted: tuple[str, ...] | bool
) -> None:
    """Check that nodes with an unchanged name keep all (True), no (False) or the named entries of their meta.

    `before` is what meta_keys() returned before the transform. Raises AssertionError, naming the transform.
    """
    __tracebackhide__ = True
    lost = []
    for node in graph_module.graph.nodes:
        had = before.get(node.name, frozenset())
        missing = sorted((had if wanted is True else had.intersection(wanted or ())) - set(node.meta))
        if missing:
            lost.append(f"{node.name} ({', '.join(missing)})")
    if lost:
        raise AssertionError(
            f"{name} lost the meta of {listed(lost, 5)}; copy it to the nodes that take their place "
            "(new.meta.update(old.meta), or graph.node_copy())"
        )


def check_program(program: Any, name: str) -> None:
    """Check that the signature of an exported program fits its graph; raises AssertionError, naming the transform."""
    __tracebackhide__ = True
    try:
        program.validate()
    except Exception as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise AssertionError(
            f"{name} left a malformed program: {first_line} (as program.validate() says); "
            "keep graph_signature in step with the placeholders and outputs of the graph"
        ) from error


def inputs_of(graph_module: Any, names: list[str] | None = None) -> list[tuple[str, str]]:
    """List the names of the inputs, or of the inputs in `names`, each with the repr of its default or ""."""
    return [
        (str(node.target), repr(node.args[0]) if node.args else "")
        for node in graph_module.graph.nodes
        if node.op == "placeholder" and (names is None or node.name in names)
    ]


def check_inputs(graph_module: Any, name: str, before: list[tuple[str, str]], names: list[str] | None = None) -> None:
    """Check that the inputs, or the inputs in `names`, keep names, order and defaults; new inputs may follow.

    `before` is what inputs_of() returned before the transform. Raises AssertionError, naming the transform.
    """
    __tracebackhide__ = True
    after = inputs_of(graph_module, names)
    for index, (expected, default) in enumerate(before):
        if index >= len(after) or after[index][0] != expected:
            obtained = repr(after[index][0]) if index < len(after) else "gone"
            raise AssertionError(
                f"{name} changed the inputs: input {index} was {expected!r} and is {obtained}, so that callers who "
                "pass it by name, or those behind it, get another function; keep names and order of the placeholders"
            )
        if after[index][1] != default:
            raise AssertionError(
                f"{name} changed the inputs: the default of {expected!r} was {default or 'none'} and is "
                f"{after[index][1] or 'none'}; keep the arguments of the placeholder"
            )


def meta_keys(graph_module: Any) -> dict[str, frozenset[str]]:
    """Map the name of each node to the keys of its meta."""
    return {node.name: frozenset(node.meta) for node in graph_module.graph.nodes}


def dead_nodes(graph_module: Any) -> frozenset[str]:
    """Return the names of the nodes that have no users and no side effects."""
    return frozenset(node.name for node in graph_module.graph.nodes if not node.users and not node.is_impure())


@dataclass(frozen=True)
class Fingerprint:
    """The nodes, modules, settings and state that tell a changed graph from an unchanged one.

    Operators, order and arguments of nodes count; their names and meta do not.
    """

    structure: tuple[object, ...]
    state: dict[str, tuple[Any, int]]  # the tensors, and torch's number of writes to each

    @staticmethod
    def of(graph_module: Any, state: Mapping[str, Any] | None = None) -> Fingerprint:
        """Take the fingerprint of a graph module; `state` is that of an exported program."""
        parts = dict(graph_module.named_modules(remove_duplicate=False))
        tensors = {
            f"{path}.{name}": tensor
            for path, part in parts.items()
            for held in (part._parameters, part._buffers)
            for name, tensor in held.items()
        }
        settings = [
            (path, name, value)
            for path, part in parts.items()
            if not hasattr(part, "graph")
            for name, value in vars(part).items()
            if not name.startswith("_") and isinstance(value, (bool, int, str, float, tuple))
        ]
        # A copy of the module at the root may have a class of another name.
        kinds = [(path, type(part).__name__) for path, part in parts.items() if path]
        return Fingerprint(
            (_nodes_of(graph_module.graph), kinds, repr(settings)),
            {name: (tensor, _version(tensor)) for name, tensor in {**tensors, **(state or {})}.items()},
        )

    def differs_from(self, before: Fingerprint) -> bool:
        """Return whether anything changed; a copy of a tensor is no change."""
        if self.structure != before.structure or self.state.keys() != before.state.keys():
            return True
        return any(
            _version(known) != version or not (now is known or _is_copy(now, known))
            for (now, _), (known, version) in ((self.state[name], before.state[name]) for name in self.state)
        )


def _is_copy(tensor: Any, other: Any) -> bool:
    if not isinstance(tensor, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    exact = OutputComparison(ToleranceRule(0.0, 0.0), requires_grad=True)
    return not any(exact.compare_tensors(tensor, other, ""))


def _nodes_of(graph: Any) -> list[object]:
    """Describe the nodes, each by its place: a pass that copies all of them may give them other names."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}

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
        for node in graph.nodes
    ]


def _version(tensor: Any) -> int:
    """Return torch's number of writes to a tensor; 0 for a tensor without the count."""
    return 0 if not isinstance(tensor, torch.Tensor) or tensor.is_inference() else tensor._version
