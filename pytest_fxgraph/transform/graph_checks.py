"""Checks of the graph that a transform made: well-formed, recompiled, without dead nodes, with its inputs and hooks.

Graphs of torch.fx and of fxcore are read alike. Of an exported program the graph is checked, and its signature.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch

from fxcore.transforms.analysis.operator_names import formula_name
from pytest_fxgraph.arguments import Promise
from pytest_fxgraph.captures.subjects import is_exported_program
from pytest_fxgraph.equivalence.check import code_is_stale
from pytest_fxgraph.equivalence.exported_call import user_inputs
from pytest_fxgraph.equivalence.outputs import EXACTLY
from pytest_fxgraph.report.printable import listed
from pytest_fxgraph.transform.collective_order import CollectiveOrder
from pytest_fxgraph.transform.program_interface import ProgramInterface
from pytest_fxgraph.transform.program_sets import program_at, programs_in

# The hooks that run with a call of a module, or with its backward.
_HOOKS = ("forward_pre_hook", "forward_hook", "backward_pre_hook", "backward_hook")


@dataclass(frozen=True)
class GraphFacts:
    """The facts about a graph module or exported program before or after a pass."""

    dead: Mapping[str, str]  # the nodes without users and side effects: the name -> the operator
    meta: dict[str, frozenset[str]]  # by the name of a node: the keys of its meta
    inputs: list[tuple[str, str]]  # names of the inputs that callers give, each with the repr of its default or ""
    # Operators, order and arguments of nodes, modules and settings; names of nodes and their meta do not count.
    structure: tuple[object, ...]
    state: dict[str, Any]  # the tensors
    hooks: Counter[tuple[str, object]]  # the code that calls run beside the graph: its kind, and the function
    interface: ProgramInterface | None  # of an exported program
    fault: Exception | None  # the error of the program's own check
    collectives: CollectiveOrder

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
            {node.name: _kind(node) for node in nodes if not node.users and not node.is_impure()},
            {node.name: frozenset(node.meta) for node in nodes},
            [
                (str(node.target), repr(node.args[0]) if node.args else "")
                for node in nodes
                if node.op == "placeholder" and (inputs is None or node.name in inputs)
            ],
            (_described_nodes(nodes), kinds, repr(settings)),
            state,
            Counter(_hooks(graph_module)),
            ProgramInterface.of(subject) if is_program else None,
            fault,
            CollectiveOrder.of(nodes),
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
            raise AssertionError(f"{name} left a malformed graph: {_reason(error)}") from error
        # The graph module of a program does not run, so its code may be older.
        if graph_module is made and code_is_stale(graph_module):
            raise AssertionError(
                f"{name} changed the graph and forgot recompile(): forward still runs the code from before; "
                "call graph_module.recompile() at the end of the transform"
            )
        after = GraphFacts.of(made)
        dead = self._new_dead_nodes(after)
        if self.interface is not None and after.interface is None:
            # The module of a program reads all state, also state that it does not need.
            dead -= {node.name for node in graph_module.graph.nodes if node.op == "get_attr"}
        if dead:
            raise AssertionError(
                f"{name} left nodes without users: {listed(sorted(dead), 5)}; call graph.eliminate_dead_code() before "
                "recompile(), or erase_node() for each"
            )
        if after.fault is not None and self.fault is None:
            raise AssertionError(
                f"{name} left a malformed program: {_reason(after.fault)} (as program.validate() says); "
                "keep graph_signature in step with the placeholders and outputs of the graph"
            ) from after.fault
        if keeps_inputs:
            self._check_inputs(after, name)
        self._check_meta(after, name, keeps_meta)
        return after

    def check_promises(self, after: GraphFacts, name: str, may_change: Collection[Promise]) -> None:
        """Raise AssertionError, naming the pass, for a lost hook, harmed collectives, or another interface.

        The promises in `may_change` are not asked for.
        """
        __tracebackhide__ = True
        lost = [f"{kind} {getattr(code, '__qualname__', code)}" for kind, code in self.hooks - after.hooks]
        if lost and "hooks" not in may_change:
            raise AssertionError(
                f"{name} lost the {listed(lost, 3)}; leave a module with hooks or its own forward as it is, move the "
                "hook to the module that takes its place, or check the pass with may_change=('hooks',) if that is meant"
            )
        self.collectives.warn_of_fake_values(name)
        harm = None if "collectives" in may_change else self.collectives.harm(after.collectives)
        if harm is not None:
            raise AssertionError(
                f"{name} broke the order of collectives: {harm}; keep the order of each group's collectives, or check "
                "the pass with may_change=('collectives',) if every rank runs the graph of this pass"
            )
        if self.interface is None or after.interface is None:
            return
        changes: dict[Promise, Iterator[str]] = {
            "ranges": self.interface.changed_sizes(after.interface),
            "signature": self.interface.changed_signature(after.interface),
        }
        for promise, found in changes.items():
            words = [] if promise in may_change else list(found)
            if words:
                raise AssertionError(
                    f"{name} changed the {promise} of the program: {listed(words, 3, '; ')}; keep range_constraints "
                    f"and graph_signature, or check the pass with may_change=({promise!r},) if that is meant"
                )

    def _new_dead_nodes(self, after: GraphFacts) -> set[str]:
        """Return the dead nodes of operators that now have more of them. A pass may rename the old ones."""
        more = Counter(after.dead.values()) - Counter(self.dead.values())
        return {name for name, kind in after.dead.items() if kind in more and name not in self.dead}

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
        """Return whether graph, modules, state or interface changed; a copy of a tensor is no change.

        Other values of the same tensor are not looked for: a Snapshot finds them.
        """
        if (self.structure, self.hooks) != (after.structure, after.hooks):
            return True
        if self.interface is not None and after.interface is not None and self.interface.changed(after.interface):
            return True
        if self.state.keys() != after.state.keys():
            return True
        return any(after.state[name] is not known and not _is_copy(after.state[name], known)
                   for name, known in self.state.items())  # fmt: skip


def facts_of(subject: Any) -> dict[str, GraphFacts]:
    """Read the facts of each program by name; those of a subject that is one graph are under ""."""
    return {name: GraphFacts.of(program_at(subject, name)) for name in programs_in(subject)}


def _kind(node: Any) -> str:
    """Return the operator of a node, the same for `aten.detach` and `edge.aten.detach_copy`."""
    return formula_name(node).removesuffix("copy") if node.op.startswith("call_f") else node.op


def _graph_module_of(subject: Any) -> Any:
    return subject.graph_module if is_exported_program(subject) else subject


def refuse_violation(error: BaseException, name: str) -> None:
    """Raise AssertionError, naming the pass, if a pass ended with the error of a verifier of exported programs."""
    __tracebackhide__ = True
    if any(kind.__name__ == "SpecViolationError" for kind in type(error).__mro__):
        raise AssertionError(
            f"{name} left a malformed program: {_reason(error)} (as a verifier said while the pass ran); keep "
            "graph_signature and metadata in step with the graph"
        ) from error


def _reason(error: BaseException) -> str:
    """Return all lines of an error; its type if it has none."""
    return str(error).strip() or type(error).__name__


def _hooks(graph_module: Any) -> Iterator[tuple[str, object]]:
    """Yield kind and function of each hook and own forward that a call runs; hooks of torch itself are left out."""
    called = {str(node.target) for node in graph_module.graph.nodes if node.op == "call_module"}
    modules = {graph_module: None}
    modules.update((part, None) for path in sorted(called) for part in graph_module.get_submodule(path).modules())
    for module in modules:
        found = [(kind, hook) for kind in _HOOKS for hook in getattr(module, f"_{kind}s").values()]
        if "forward" in vars(module) and not hasattr(module, "graph"):
            found.append(("own forward", vars(module)["forward"]))
        for kind, hook in found:
            function = _function_of(hook)
            if str(getattr(function, "__module__", "")).partition(".")[0] != "torch":
                yield kind.replace("_", " "), function


def _function_of(hook: Any) -> object:
    """Return the function behind a hook, which a copy of the module shares; the class of an object."""
    while isinstance(hook, (MethodType, functools.partial)):
        hook = hook.__func__ if isinstance(hook, MethodType) else hook.func
    return hook if hasattr(hook, "__code__") else type(hook)


def _is_copy(tensor: Any, other: Any) -> bool:
    if not isinstance(tensor, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return not any(replace(EXACTLY, requires_grad=True).compare_tensors(tensor, other, ""))


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
