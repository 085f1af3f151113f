"""The promises of a pass that only runs show: the recorded metadata of values, and the inputs that a graph refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload

import fxcore
from fxcore.node_data.arguments import map_values
from fxcore.operators.kinds import overload_behind
from fxcore.state.snapshot import Snapshot, globals_kept, kept
from pytest_fxgraph.captures.shapes import arguments_in_order
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.equivalence.changed_calls import EVERYWHERE, Change, ChangedCall, Kind, changes_of
from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments
from pytest_fxgraph.equivalence.search.judging import quiet
from pytest_fxgraph.operator_patterns import name_of_target
from pytest_fxgraph.report.printable import listed

# The metadata `val` of a graph's nodes, compared with the values of a run: shapes, dtypes and strides.

_RECORDED = "val"


def check_recorded_values(
    name: str, before: Any, made: fxcore.GraphModule, arguments: Arguments, guard: Snapshot
) -> None:
    """Raise AssertionError, naming the pass, if `made` records another shape, dtype or stride than a run shows.

    Nodes that were recorded wrongly in the graph `before` do not count. `guard` restores both graphs.
    """
    __tracebackhide__ = True
    found = unlike_a_run(made, arguments, guard)
    if not found:
        return
    known = unlike_a_run(to_graph_module(before), arguments, guard)
    told = [f"{node} {words}" for node, words in found.items() if known.get(node) != words]
    if told:
        raise AssertionError(
            f"{name} left metadata that a run contradicts: meta['val'] of {listed(told, 3, '; ')}; compute it anew "
            "(FakeTensorProp), or check the pass with may_change=('val',) if that is meant"
        )


def unlike_a_run(graph_module: fxcore.GraphModule, arguments: Arguments, guard: Snapshot) -> dict[str, str]:
    """Return the words for each node whose `meta["val"]` is unlike its value in a run; `guard` restores the graph."""
    if not any(_RECORDED in node.meta for node in graph_module.graph.nodes):
        return {}
    copied = copy_arguments(arguments).arguments
    run = _ComparingRun(graph_module)
    guard.include(graph_module)
    with globals_kept(), kept(guard):
        run.run(*arguments_in_order(graph_module, copied.args, copied.kwargs))
    return run.unlike


class _ComparingRun(fxcore.Interpreter):
    """A run that compares each value with the recorded value."""

    def __init__(self, graph_module: fxcore.GraphModule) -> None:
        super().__init__(graph_module)
        self._sizes: dict[Any, int] = {}  # of this run, by symbol
        self.unlike: dict[str, str] = {}

    def run_node(self, n: fxcore.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            words = self._difference(n.meta.get(_RECORDED), value)
            if words and not _follows_from_inputs(n):
                self.unlike[n.name] = words
        return value

    def _difference(self, recorded: Any, value: Any) -> str:
        """Return the words for a difference, or nothing."""
        if isinstance(recorded, (tuple, list)) and isinstance(value, (tuple, list)):
            pairs = zip(recorded, value, strict=False)
            return next(filter(None, (self._difference(one, other) for one, other in pairs)), "")
        if isinstance(recorded, torch.Tensor) and isinstance(value, torch.Tensor):
            return self._difference_of_tensors(recorded, value)
        if isinstance(recorded, torch.SymInt) and isinstance(value, int) and not self._fits(recorded, value):
            return f"says {recorded}, and the value is {value}"
        return ""

    def _difference_of_tensors(self, recorded: torch.Tensor, value: torch.Tensor) -> str:
        if recorded.dtype is not value.dtype:
            return f"says {recorded.dtype}, and the value is of {value.dtype}"
        if value.is_nested or recorded.is_nested:
            return ""
        sizes = list(value.shape)
        if recorded.dim() != len(sizes) or not all(map(self._fits, recorded.shape, sizes)):
            return f"says shape {list(recorded.shape)}, and the value has shape {sizes}"
        if value.layout is not torch.strided or recorded.layout is not torch.strided or not value.numel():
            return ""
        strides = zip(recorded.stride(), value.stride(), sizes, strict=True)
        if any(size > 1 and not self._fits(said, stride) for said, stride, size in strides):
            return f"says strides {list(recorded.stride())}, and the value has strides {list(value.stride())}"
        return ""

    def _fits(self, recorded: Any, value: int) -> bool:
        """Return whether a number is the recorded number; the first value of a symbol is its value in this run."""
        if not isinstance(recorded, torch.SymInt):
            return bool(recorded == value)
        expression = getattr(recorded.node, "expr", None)
        if expression is None:  # of a nested tensor
            return True
        expression = expression.subs(self._sizes)
        if expression.is_Symbol:
            self._sizes[expression] = value
        return not expression.is_number or int(expression) == value


def _follows_from_inputs(node: fxcore.Node) -> bool:
    """Return whether torch computes the recorded value from the values recorded for the operands.

    Some operators of torch give other strides without data than with data. The pass cannot know.
    """
    from torch._guards import detect_fake_mode

    recorded, overload = node.meta[_RECORDED], overload_behind(node.target)
    mode = detect_fake_mode([recorded])
    # Outside of a fake mode, the call would compute on the user's data; an operator that writes would change it.
    if mode is None or not isinstance(overload, OpOverload) or overload._schema.is_mutable:
        return False
    try:
        args, kwargs = (map_values(each, _recorded_of) for each in (node.args, node.kwargs))
        with globals_kept(), mode:
            computed = node.target(*args, **kwargs)
    except Exception:  # an operand has no recorded value, or the operator needs data
        return False
    return bool(_metadata(computed) == _metadata(recorded))


def _recorded_of(value: Any) -> Any:
    return value.meta[_RECORDED] if isinstance(value, fxcore.Node) else value


def _metadata(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [*map(_metadata, value)]
    if isinstance(value, torch.Tensor):
        return str(value.shape), value.dtype, str(value.stride())
    return str(value)


# Inputs that a graph refuses in words, by its guards and assertions, and that it still refuses after a pass.

# The kinds of changes that conditions of graphs are about, with the number of calls for each.
_TRIED: dict[Kind, int] = {"size": 16, "dtype": 4, "tensor": 4, "value": 8}
_ANSWERED = 6  # calls of a kind that are not refused


def check_refusals(
    name: str, before: Callable[..., Any], after: Callable[..., Any], example: Arguments, guard: Snapshot
) -> None:
    """Raise AssertionError, naming the pass, if it answers a call that guards or assertions of `before` refuse.

    The graphs are called with other sizes, dtypes and values than the example. Errors of operators, such as a product
    of unsuitable sizes, do not count. `guard` restores both graphs.
    """
    __tracebackhide__ = True
    readable = to_graph_module(before)
    assertions = _assertions(readable)
    # Hooks of torch.export check the inputs of a program.
    may_refuse = readable.graph.guards or getattr(before, "_forward_pre_hooks", ()) or assertions
    if not may_refuse or any(tensor.is_nested for _, tensor in example.tensors()):
        return
    for each in (before, readable, after):
        guard.include(each)
    answered: Counter[str] = Counter()
    with globals_kept(), quiet(), kept(guard):
        for kind, call in _calls(before, readable, assertions, example):
            if answered[kind] >= _ANSWERED:  # a call that is not refused takes a whole run
                continue
            error = _error_of(before, call, guard)
            answered[kind] += error is None
            if error is None or not _is_refused_in_words(readable, assertions, call, guard):
                continue
            if _error_of(after, call, guard) is None:
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise AssertionError(
                    f"{name} lost a refusal: a call where {call} was refused ({reason}), and the graph answers it "
                    "now; keep guards and assertions, or check the pass with may_change=('refusals',) if that is meant"
                )


def _calls(
    model: Any, readable: fxcore.GraphModule, assertions: Sequence[fxcore.Node], example: Arguments
) -> Iterator[tuple[str, ChangedCall]]:
    """Yield calls with one change each, and the kind of the change, in a fixed order."""
    changes = changes_of(model, readable, example)
    for kind, most in _TRIED.items():
        found: list[Change] = changes.get(kind, [])
        # A size that all inputs share comes first, because most conditions are about a batch.
        found = sorted(found, key=lambda change: change.where != EVERYWHERE)
        yield from ((kind, ChangedCall(example, (change,))) for change in found[:most])
    # The check of all guards on inputs, a module, reads no values.
    reads_values = any(node.op != "call_module" for node in assertions)
    # The values of a tensor on an accelerator may stop the process.
    if reads_values and all(tensor.device.type == "cpu" for _, tensor in example.tensors()):
        for words, edit in _OTHER_VALUES.items():
            yield "values", ChangedCall(example, (Change("tensor", EVERYWHERE, words, edit),))


def _times(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    made = tensor.detach() if tensor.dtype is torch.bool else tensor.detach() * factor
    return made.to(tensor.dtype).requires_grad_(tensor.requires_grad)


_OTHER_VALUES: dict[str, Callable[[Any], Any]] = {
    "has the negative values": partial(_times, factor=-1.0),
    "has zeros alone": partial(_times, factor=0.0),
    "has 1000 times the values": partial(_times, factor=1000.0),
}


def _error_of(call: Callable[..., Any], changed: ChangedCall, guard: Snapshot) -> Exception | None:
    try:
        arguments = changed.arguments()  # may fail for a tensor of an unusual kind; then both graphs fail
        call(*arguments.args, **arguments.kwargs)
    except Exception as error:
        return error
    finally:
        guard.restore(trust_versions=True)
    return None


def _is_refused_in_words(
    graph_module: fxcore.GraphModule, assertions: Sequence[fxcore.Node], changed: ChangedCall, guard: Snapshot
) -> bool:
    """Return whether no operator of the graph fails, but an assertion, or the call outside of the graph."""
    run = _Watched(graph_module)
    try:
        arguments = changed.arguments()
        run.run(*arguments_in_order(graph_module, arguments.args, arguments.kwargs))
    except fxcore.errors.GuardError:
        return True
    except Exception:
        return run.node is None or run.node in assertions
    finally:
        guard.restore(trust_versions=True)
    return True


class _Watched(fxcore.Interpreter):
    """A run that knows its present node."""

    node: fxcore.Node | None = None

    def run_node(self, n: fxcore.Node) -> Any:
        self.node = n
        return super().run_node(n)


def _assertions(graph_module: fxcore.GraphModule) -> list[fxcore.Node]:
    """Return the nodes that only refuse: assertions, and the module of torch.export that checks the inputs."""
    return [
        node
        for node in graph_module.graph.nodes
        if (node.op == "call_function" and _is_assertion(node.target))
        or (node.op == "call_module" and type(graph_module.get_submodule(str(node.target))).__name__ == "GuardsFn")
    ]


def _is_assertion(target: Any) -> bool:
    name = name_of_target(target)
    return "assert" in name or name.startswith("torch._check")
