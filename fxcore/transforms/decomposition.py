"""Decomposition of operations into simpler ones, by tracing the graph again with rules."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from fxcore.errors import PassError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.arguments import map_values
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.operators.kinds import dialect_of, operator_name
from fxcore.operators.table import name_of_function
from fxcore.passes.infra.pass_base import PassBase
from fxcore.passes.infra.working_copy import Changes, Report, ReportedResult, RewritingPass
from fxcore.state.writes import OperatorMode
from fxcore.transforms.analysis.operator_names import formula_name, formula_name_of_operator, formula_name_of_target
from fxcore.transforms.fusion.calls import place_of
from fxcore.transforms.rule import Calls, Rule
from fxcore.transforms.rule_set import RuleSet

__all__ = ["Decompose", "DecomposeOperators", "torch_rules"]

Rules = Mapping[Any, Callable[..., Any]]

_DECLINED = "its rule calls the same, or returned NotImplemented"
_OF_DIALECT = "it is an operator of the dialect {0}; decompose the program before its lowering to {0}"
_NO_OPERATOR = "it is no operator of ATen; export the model, or trace it with make_fx"


@dataclass(frozen=True)
class Decompose(PassBase):
    """Replaces calls by the operations of plain Python functions.

    `rules` maps a target to a function of the same arguments. A target is a function, an operator of `torch.ops` with
    or without overload, the name of a method, or the class of a module; the rule of a class gets the module first. A
    rule that returns NotImplemented leaves a call as it is. Rules are applied to the results of rules, until no rule
    applies.
    """

    rules: Rules
    most_rounds: int = 20

    def call(self, graph_module: GraphModule) -> ReportedResult:
        """Return a new module, or `graph_module` itself if no rule applies.

        Raises PassError if rules still apply after `most_rounds`.
        """
        # The rule of an overload comes before the rule of all overloads.
        items = sorted(self.rules.items(), key=lambda item: hasattr(item[0], "overloads"))
        rules = [
            Rule(Calls(key), rule, name=getattr(key, "__name__", str(key)), changes_effects=True) for key, rule in items
        ]
        result = RuleSet(rules, most_rounds=self.most_rounds).call(graph_module)
        made = result.graph_module
        assert isinstance(made, GraphModule)
        reasons = {**_other_spellings_of(self.rules, made), **dict(result.report.left)}
        applied = sorted({each.rule for each in result.report.changed})
        return ReportedResult(made, result.modified, Report.of(applied, reasons))


def _other_spellings_of(rules: Rules, gm: GraphModule) -> dict[str, str]:
    """Return the calls of a graph without a rule that are another spelling of a call with a rule."""
    wanted = {formula_name_of_target(key): key for key in rules}
    left: dict[str, str] = {}
    for node in gm.graph.nodes:
        module = get_attribute(gm, str(node.target)) if node.op == "call_module" else None
        key = wanted.get(formula_name(node, module)) if node.op.startswith("call_") else None
        if key is not None:
            called = type(module) if module is not None else node.target
            left[place_of(node)] = f"it calls {_shown(called)}; the rule is for {_shown(key)}, which computes the same"
    return left


def _shown(target: Any) -> str:
    if isinstance(target, str):
        return f"the method {target}"
    return target.__qualname__ if isinstance(target, type) else operator_name(target) or name_of_function(target)


def torch_rules(*operators: Any) -> dict[Any, Callable[..., Any]]:
    """Return torch's own rules for operators of ATen, with or without overload; without arguments all of its table.

    Operators that torch itself builds from others, such as `aten.layer_norm`, are not in the table; named here, they
    have a rule, too.
    """
    # Imported here, because the import takes long.
    from torch._decomp import decomposition_table, get_decompositions

    if not operators:
        return dict(decomposition_table)
    rules = dict(get_decompositions(list(operators)))
    for each in operators:
        overloads = [getattr(each, name) for name in each.overloads()] if hasattr(each, "overloads") else [each]
        for overload in overloads:
            if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"):
                rules.setdefault(overload, overload.decompose)
    return rules


@dataclass(frozen=True)
class DecomposeOperators(RewritingPass):
    """Replaces operators of ATen by the operators that their rules call, to a fixed point.

    `rules` are torch's rules (`torch_rules`). They look at shapes and dtypes, and so each node needs the metadata
    `val`, as exported programs have it and `FakeTensorProp` gives it. Rules run on tensors without data.
    """

    rules: Rules
    most_rounds: int = 20

    def rewrite(self, made: GraphModule) -> Changes:
        """Apply the rules.

        Raises PassError for a node without metadata, if a rule chooses by a symbolic size, and if rules still apply
        after `most_rounds`.
        """
        values = _FakeValues(made)
        decomposed: list[str] = []
        left = self._other_spellings(made)
        for _ in range(self.most_rounds):
            nodes = [node for node in made.graph.nodes if isinstance(node.target, OpOverload)]
            nodes = [node for node in nodes if node.target in self.rules and node.name not in left]
            known = len(decomposed)
            for node in nodes:
                if _replace(node, self.rules[node.target], made, values):
                    decomposed.append(node.name)
                else:
                    left[node.name] = _DECLINED
            if len(decomposed) == known:
                break
        else:
            names = ", ".join(sorted({str(node.target) for node in nodes}))
            raise PassError(
                f"after {self.most_rounds} rounds rules still apply, for {names}: a rule gives what it is for"
            )
        made.graph.eliminate_dead_code()
        return decomposed, left

    def _other_spellings(self, gm: GraphModule) -> dict[str, str]:
        """Return the calls that a rule is meant for, but that are no calls of operators of ATen."""
        names = {formula_name_of_operator(target) for target in self.rules}
        calls = [node for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
        others = [node for node in calls if not isinstance(node.target, OpOverload) and formula_name(node) in names]
        dialects = [(node, dialect_of(node.target)) for node in others]
        return {
            node.name: _NO_OPERATOR if dialect is None else _OF_DIALECT.format(dialect) for node, dialect in dialects
        }


class _FakeValues:
    """The metadata `val` of a graph's nodes as tensors of one fake mode.

    make_fx with its default mode gives each value a fake mode of its own, and get_attr nodes no value.
    """

    def __init__(self, gm: GraphModule) -> None:
        self._gm = gm
        self._values: dict[Node, Any] = {}
        leaves = pytree.tree_leaves([node.meta.get("val") for node in gm.graph.nodes])
        modes = [mode for mode in map(_mode_of, leaves) if mode is not None]
        with_symbols = next((mode for mode in modes if mode.shape_env is not None), None)
        self.mode = with_symbols or (modes[0] if modes else FakeTensorMode())

    def of(self, node: Node) -> Any:
        """Return the value of a node. Raises PassError for a node without metadata."""
        if node not in self._values:
            if "val" in node.meta:
                value = node.meta["val"]
            elif node.op == "get_attr":
                value = get_attribute(self._gm, str(node.target))
            else:
                raise PassError(
                    f"cannot decompose what reads {node.name!r}: it has no metadata 'val', and torch's rules ask for "
                    "shapes; run FakeTensorProp on the graph first"
                )
            self._values[node] = pytree.tree_map(self._of_one_mode, value)
        return self._values[node]

    def _of_one_mode(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or _mode_of(leaf) is self.mode:
            return leaf
        if _mode_of(leaf) is None:
            return self.mode.from_tensor(leaf)
        with self.mode:
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)


def _mode_of(leaf: Any) -> Any:
    return getattr(leaf, "fake_mode", None)


def _replace(node: Node, rule: Callable[..., Any], gm: GraphModule, values: _FakeValues) -> bool:
    """Put a rule's calls in the place of a node; return False if the rule calls the same, or gives NotImplemented."""
    args, kwargs = map_values(node.args, values.of), map_values(node.kwargs, values.of)
    inputs = {id(values.of(each)): each for each in node.all_input_nodes}
    mode = values.mode
    recording = _Recording(node, inputs, gm)
    guards = len(_guards_of(mode))
    with torch.no_grad(), mode, recording:
        result = rule(*args, **kwargs)
    recording.check_guards(guards, mode)
    if result is NotImplemented or [each.target for each in recording.made] == [node.target]:
        recording.undo()
        return False
    if isinstance(result, (tuple, list)):
        replaced = [recording.node_of(value) if isinstance(value, torch.Tensor) else value for value in result]
        for user in list(node.users):
            item = replaced[user.args[1]]  # only getitem reads several values
            user.replace_all_uses_with(item)
            gm.graph.erase_node(user)
    else:
        node.replace_all_uses_with(recording.node_of(result), propagate_meta=False)
    gm.graph.erase_node(node)
    return True


def _guards_of(mode: Any) -> list[Any]:
    return getattr(getattr(mode, "shape_env", None), "guards", [])


# Functions that compute sizes -> the functions of a graph.
_ARITHMETIC: dict[str, Any] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "ToFloat": torch.sym_float,
}


class _Recording(OperatorMode):  # type: ignore[no-untyped-call]  # torch's
    """Runs operators on tensors without data and notes each before a node of a graph."""

    def __init__(self, place: Node, inputs: dict[int, Node], gm: GraphModule) -> None:
        super().__init__()
        self._place, self._gm = place, gm
        self._nodes = dict(inputs)
        self._alive: list[Any] = []  # alive, because an identity must not be used again
        self._sizes: dict[Any, Any] = {}
        self._size_nodes: list[Node] = []
        self.made: list[Node] = []

    def run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and note its call."""
        result = super().run(function, args, kwargs)
        if function.namespace == "prim" or function in (torch.ops.aten.sym_size.int, torch.ops.aten.sym_stride.int):
            return result
        with self._gm.graph.inserting_before(self._place):
            read = pytree.tree_map(self._argument, (args, kwargs))
            node = self._note(self._gm.graph.call_function(function, *read), result)
            if isinstance(result, (tuple, list)):
                for index, item in enumerate(result):
                    if isinstance(item, torch.Tensor):
                        self._note(self._gm.graph.call_function(operator.getitem, (node, index)), item)
        return result

    def _note(self, node: Node, value: Any) -> Node:
        node.meta = {key: kept for key, kept in self._place.meta.items() if key not in ("val", "tensor_meta")}
        node.meta["val"] = value
        self._nodes[id(value)] = node
        self._alive.append(value)
        self.made.append(node)
        return node

    def _argument(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self.node_of(leaf)
        if isinstance(leaf, torch.SymBool):
            raise self._refusal(f"its rule passes on whether {leaf}")
        return self._size(leaf.node.expr) if isinstance(leaf, (torch.SymInt, torch.SymFloat)) else leaf

    def _size(self, expression: Any) -> Any:
        """Return a number, or the node that computes a symbolic size from the sizes of known tensors."""
        if expression.is_Integer:
            return int(expression)
        if expression.is_Float:
            return float(expression)
        if expression not in self._sizes:
            self._sizes[expression] = self._read_size(expression)
        return self._sizes[expression]

    def _read_size(self, expression: Any) -> Node:
        graph = self._gm.graph
        for node in graph.nodes:
            if node is self._place:
                break
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and value.node.expr == expression:
                return node
            if isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt) and size.node.expr == expression:
                        return self._sized(torch.ops.aten.sym_size.int, node, axis)
        function = _ARITHMETIC.get(type(expression).__name__)
        if function is None:
            raise self._refusal(f"its rule computes {expression}, which no tensor has as its size")
        parts = [self._size(part) for part in expression.args]
        if len(parts) == 1:
            return self._sized(function, parts[0])
        computed: Node = functools.reduce(functools.partial(self._sized, function), parts)
        return computed

    def _sized(self, function: Any, *args: Any) -> Node:
        node = self._gm.graph.call_function(function, args)
        values = [each.meta["val"] if isinstance(each, Node) else each for each in args]
        node.meta["val"] = function(*values)
        self._size_nodes.append(node)
        return node

    def _refusal(self, why: str) -> PassError:
        return PassError(
            f"cannot decompose {self._place.name!r}: {why}; use run_decompositions() of the exported program, or "
            "export without dynamic shapes"
        )

    def check_guards(self, before: int, mode: Any) -> None:
        """Raise PassError if the rule chose by a symbolic size: it would give other operators for another size."""
        chosen = [str(guard.expr) for guard in _guards_of(mode)[before:]]
        if chosen:
            raise self._refusal(f"its rule goes on differently unless {', '.join(dict.fromkeys(chosen))}")

    def node_of(self, value: torch.Tensor) -> Node:
        """Return the node that gives a value. Raises PassError for a tensor that comes from elsewhere."""
        node = self._nodes.get(id(value))
        if node is None:
            raise PassError(
                f"cannot decompose {self._place.name!r}: its rule uses a tensor that is no argument and no result"
            )
        return node

    def undo(self) -> None:
        """Erase the recorded nodes."""
        for node in (*reversed(self.made), *reversed(self._size_nodes)):
            self._gm.graph.erase_node(node)
