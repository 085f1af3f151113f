"""A rule: a pattern, its replacement, and the condition for both."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import GraphArgumentError, PassArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.interpreter import TransformerTracer
from fxcore.matching.match import InternalMatch
from fxcore.matching.matcher import SubgraphMatcher
from fxcore.node import Node
from fxcore.node_data.arguments import map_values
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.subgraph_rewriter import refuse_without_operation
from fxcore.transforms.rule_effects import effects_of_graph, lost_effects

__all__ = ["Action", "Calls", "Rule", "RuleMatch"]


class Calls:
    """A pattern of one call, with any arguments.

    A target is a function, an operator of `torch.ops` with or without overload, the name of a method, or the class of
    a module.
    """

    def __init__(self, *targets: Any) -> None:
        """Take the targets. Raises PassArgumentError without one."""
        if not targets:
            raise PassArgumentError("Calls() matches no call; name functions, methods or classes of modules")
        self.targets = targets

    def keys(self) -> list[Hashable]:
        """Return the keys of the targets in an index of operators."""
        return [key_of_target(target) for target in self.targets]


def key_of_target(target: Any) -> Hashable:
    """Return the key of a target in an index of operators."""
    if isinstance(target, str):
        return "call_method", target
    is_module = isinstance(target, type) and issubclass(target, nn.Module)
    return ("call_module" if is_module else "call_function"), target


@dataclass(frozen=True)
class RuleMatch:
    """One place where the pattern of a rule was found."""

    graph_module: GraphModule
    node: Node  # the pattern's last call
    nodes: tuple[Node, ...]  # all matched calls
    values: Mapping[str, Any]  # name of a node of the pattern, or of its input -> node or constant of the graph
    found: InternalMatch | None = None  # None for a pattern `Calls`

    @property
    def module(self) -> Any:
        """The module that the last call calls; None if it calls no module."""
        return get_attribute(self.graph_module, str(self.node.target)) if self.node.op == "call_module" else None

    def record(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Record the calls that `function` makes, before the last call; return its result with nodes in it."""
        tracer = TransformerTracer(self.graph_module.graph, self.graph_module)
        args, kwargs = map_values((args, kwargs), tracer.proxy)
        result = function(*args, **kwargs)
        return result if result is NotImplemented else tracer.create_arg(result)


class Action:
    """A replacement that is a function of the match: for rewriting that no function of values can state.

    `function(match)` returns the value that takes the place of the match: a node, a constant, or a tuple of them. It
    may make nodes with `match.record(...)` or `match.graph_module.graph`, whose place of insertion is before the match.
    NotImplemented or a reason as text leaves the match as it was.
    """

    def __init__(self, function: Callable[[RuleMatch], Any]) -> None:
        """Take the function."""
        self.function = function


@dataclass(frozen=True, eq=False)
class Rule:
    """A pattern, its replacement, and the condition `when` both are right.

    `pattern` is a function, a Graph or a GraphModule as for `replace_pattern`, or `Calls(...)`. `replacement` takes the
    parameters of the pattern, or the arguments of the call (the module first, if one is called), or it is an
    `Action`. `when(match)` returns True, False or the reason against the match as text, or None if the match is no
    candidate. The keywords `match_modules`, `ignore_literals`, `capture_literals` and `bind_arguments` are keywords of
    `replace_pattern`. `example_inputs` are
    for the check of the rule. `changes_effects=True` allows a replacement that draws, writes or shares memory
    otherwise.

    Raises GraphArgumentError (an AssertionError) for a pattern that cannot be searched, and PassArgumentError for a
    replacement with other effects.
    """

    pattern: Any
    replacement: Any
    when: Callable[[RuleMatch], bool | str | None] | None = None
    name: str = ""
    match_modules: str = "path"
    ignore_literals: bool = False
    capture_literals: bool = False
    bind_arguments: bool = False
    example_inputs: Sequence[Any] | None = None
    changes_effects: bool = False

    def __post_init__(self) -> None:
        """Trace pattern and replacement, and compare their effects."""
        name = self.name or _name_of(self.pattern) or _name_of(self.replacement)
        object.__setattr__(self, "name", name)
        if self.matcher is None:
            return
        if isinstance(self.replacement, Action):
            if len(self.matcher.pattern_returning_nodes) != 1:
                raise GraphArgumentError(
                    f"the pattern of rule {name!r} returns {len(self.matcher.pattern_returning_nodes)} values, and an "
                    "Action replaces one; give the rule a function as its replacement"
                )
        elif not self.capture_literals:
            self.check_effects(self.traced_replacement.graph)

    @cached_property
    def traced_pattern(self) -> GraphModule | None:
        """The pattern as a module; None for `Calls`."""
        return None if isinstance(self.pattern, Calls) else _traced(self.pattern)

    @cached_property
    def traced_replacement(self) -> GraphModule:
        """The replacement as a module, for a pattern with a graph and without captured literals."""
        return _traced(self.replacement)

    @cached_property
    def matcher(self) -> SubgraphMatcher | None:
        """The search for the pattern; None for `Calls`."""
        if self.traced_pattern is None:
            return None
        pattern = self.traced_pattern.graph
        matcher = SubgraphMatcher(
            pattern,
            ignore_literals=self.ignore_literals,
            match_modules=self.match_modules,
            bind_arguments=self.bind_arguments,
        )
        refuse_without_operation(pattern)
        return matcher

    def check_effects(self, replacement: Graph) -> bool:
        """Return whether results share memory otherwise. Raises PassArgumentError for other effects."""
        if self.changes_effects or self.traced_pattern is None:
            return False
        expected, obtained = effects_of_graph(self.traced_pattern.graph), effects_of_graph(replacement)
        lost = lost_effects(expected, obtained)
        if lost:
            raise PassArgumentError(
                f"rule {self.name!r} would change effects: {lost}; let both have the same effects, or say "
                "changes_effects=True if that is the purpose of the rule"
            )
        return expected.aliases != obtained.aliases


def _traced(source: Any) -> GraphModule:
    if isinstance(source, GraphModule):
        return source
    return GraphModule(nn.Module(), source) if isinstance(source, Graph) else symbolic_trace(source)


def _name_of(source: Any) -> str:
    name = str(getattr(source, "__name__", ""))
    return "" if name == "<lambda>" else name
