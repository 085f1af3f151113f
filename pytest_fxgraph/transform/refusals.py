"""Inputs that a graph refuses in words, by its guards and assertions, and that it still refuses after a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

import fxcore
from fxcore.state.snapshot import Snapshot, globals_kept, kept
from pytest_fxgraph.captures.shapes import arguments_in_order
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.equivalence.changed_calls import EVERYWHERE, Change, ChangedCall, Kind, changes_of
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.search.judging import quiet
from pytest_fxgraph.operator_patterns import name_of_target

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
