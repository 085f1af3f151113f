"""Symbolic tracing of a model for the plugin: a graph to run or to read, with the plugin's errors.

A traced graph is the same in every run. A model that draws random numbers while it is traced may have another graph
in every run, so it is traced a second time and refused if the two graphs differ.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from torch import nn

import fxcore
from fxcore.errors import LeafError, VerificationError
from fxcore.graph import break_cycles
from fxcore.guards import enforce
from fxcore.guided.leaf_tracer import LeafTracer
from fxcore.guided.trace_verification import verify_trace
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.state.readings import marks_of_generators
from fxcore.state.snapshot import globals_kept
from pytest_fxgraph.captures.shapes import positional_arguments, record_shapes
from pytest_fxgraph.captures.tracing_failure import (
    describe_failure,
    name_of,
    refuse_untraceable,
    refuse_untraceable_parts,
    short_path,
)
from pytest_fxgraph.errors import CaptureError

_Function = Callable[..., Any]
# A draw with few outcomes (drop this layer or keep it) may be the same in two traces.
_MOST_RETRIES = 4


class TracedGraph(NamedTuple):
    """A graph and the root of its module paths: enough to read the graph, not to run it."""

    graph: fxcore.Graph
    root: Any  # a GraphModule, or the traced module or function
    model: Any = None  # the traced model, if source lines were left out and a second trace can add them

    def free(self) -> None:
        """Free the memory of a graph that was traced only to be read, without waiting for the garbage collector."""
        if self.model is not None:
            break_cycles(self.graph)


def trace_to_read(model: Any) -> TracedGraph:
    """Trace a module or function without source lines, only to read the graph, in half the time of `trace`.

    Raises CaptureError as `trace` does.
    """

    refuse_untraceable(model)

    def traced_once() -> TracedGraph:
        return _trace_once(model, _tracer((), (), record_sources=False), None, {}, runs=False)

    return _trace_reproducibly(name_of(model), traced_once)


def traced_again_with_sources(traced: TracedGraph) -> TracedGraph | None:
    """Trace the model of `trace_to_read` again, with source lines; return None if the trace has them or fails.

    A model may count its calls, so the second graph may differ: the caller has to compare. Random generators are
    restored.
    """
    if traced.model is None:
        return None
    with globals_kept(settings=False), contextlib.suppress(CaptureError):
        return _trace_once(traced.model, _tracer((), (), record_sources=True), None, {}, runs=False)
    return None


def trace(
    model: Any,
    *,
    example_inputs: object = None,
    example_kwargs: Mapping[str, Any] | None = None,
    concrete_args: dict[str, Any] | None = None,
    leaf_modules: Any = (),
    wrap: Any = (),
    assume: Mapping[str, Any] | None = None,
    verify: bool | None = None,
    enforce_guards: bool | None = None,
) -> fxcore.GraphModule:
    """Trace a module or function and return its graph module.

    `leaf_modules` are classes or module paths; a call of one of these modules is one node. With "auto", modules that
    cannot be traced are leaves. `wrap` are functions or names of functions; a call of one is one node. With
    `example_inputs`, tracing goes on where Python asks for a value, and every node has the shape and dtype of its value
    in its meta. Unless `verify` is False, the graph is then compared with the model on the example and on inputs of
    other sizes. Calls of the graph check its guards, unless `enforce_guards` is False. Raises CaptureError, with the
    user's line, if tracing fails, or if a random number was drawn that makes the graph differ in every run.
    """
    refuse_untraceable(model)
    functions, builtins_by_name = _functions_to_wrap(model, _as_tuple(wrap))
    example = _example_of(example_inputs, example_kwargs, assume)
    if not example and (assume or verify or enforce_guards):
        raise CaptureError("assume, verify and enforce_guards need an example: give example_inputs=")

    def traced_once() -> TracedGraph:
        tracer = _tracer(_as_tuple(leaf_modules), functions, record_sources=True)
        return _trace_once(
            model, tracer, concrete_args, builtins_by_name, runs=True, example=example, enforce_guards=enforce_guards
        )

    graph_module: fxcore.GraphModule = _trace_reproducibly(name_of(model), traced_once).root
    if example:
        if verify is not False:
            try:
                verify_trace(model, graph_module, example["example_inputs"], example["example_kwargs"])
            except VerificationError as error:
                raise CaptureError(f"cannot trace {name_of(model)}: {error}") from error
        record_shapes(graph_module, example["example_inputs"], example_kwargs)
    return graph_module


def trace_for_inputs(
    model: Any, inputs: object, kwargs: Mapping[str, Any] | None = None, *, verify: bool
) -> fxcore.GraphModule:
    """Trace a module or function without an example; if that fails, trace it with these inputs.

    A graph that can be traced without an example must not depend on one. Raises CaptureError if both traces fail.
    """
    try:
        return trace(model)
    except CaptureError:
        return trace(model, example_inputs=inputs, example_kwargs=kwargs, verify=verify)


def _example_of(
    example_inputs: object, example_kwargs: Mapping[str, Any] | None, assume: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the options of Tracer.trace for an example; an empty dict without one."""
    if example_inputs is None and not example_kwargs:
        return {}
    positional = () if example_inputs is None else positional_arguments(example_inputs, "example_inputs")
    return {"example_inputs": positional, "example_kwargs": example_kwargs, "assume": assume}


def _trace_once(
    model: Any,
    tracer: fxcore.Tracer,
    concrete_args: dict[str, Any] | None,
    builtins_by_name: Mapping[str, _Function],
    *,
    runs: bool,
    example: Mapping[str, Any] | None = None,
    enforce_guards: bool | None = None,
) -> TracedGraph:
    """Trace once; make a GraphModule if the graph is to be run, or has constants that the model must not keep."""
    with _constants_removed(model, tracer) as before:
        try:
            with _builtins_in_globals(_globals_of(model), builtins_by_name):
                graph = tracer.trace(model, concrete_args, **(example or {}))
                if enforce_guards is not None:
                    enforce(graph, enforce_guards)
        except LeafError as error:  # a wrong choice of the user, not a failure of the model
            raise CaptureError(str(error)) from error
        except Exception as error:
            refuse_untraceable_parts(model)
            raise CaptureError(describe_failure(model, error, example)) from error
        left_out = None if tracer.record_sources else model
        if not runs and not _constants_added(model, tracer, before):
            return TracedGraph(graph, tracer.root, left_out)
        graph_module = fxcore.GraphModule(tracer.root, graph, name_of(model).rpartition(".")[2])
        return TracedGraph(graph_module.graph, graph_module, left_out)


def _tracer(leaves: tuple[Any, ...], functions: tuple[_Function, ...], *, record_sources: bool) -> fxcore.Tracer:
    """Return a tracer for the user's choices. A tracer with leaves is slower: it is asked about every module.

    Raises CaptureError for a leaf that is neither a class nor a path.
    """
    try:
        options: dict[str, Any] = {"autowrap_functions": functions}
        tracer = LeafTracer(leaves, **options) if leaves else fxcore.Tracer(**options)
    except LeafError as error:
        raise CaptureError(str(error)) from error
    tracer.record_sources = record_sources
    return tracer


@contextlib.contextmanager
def _constants_removed(model: Any, tracer: fxcore.Tracer) -> Iterator[frozenset[str]]:
    """Remove the constants that tracing adds to the model, so that the next trace numbers its own from 0 again."""
    before = frozenset(vars(model)) if isinstance(model, nn.Module) else frozenset()
    try:
        yield before
    finally:
        for name in _constants_added(model, tracer, before):
            delattr(model, name)


def _constants_added(model: Any, tracer: fxcore.Tracer, before: frozenset[str]) -> set[str]:
    if not isinstance(model, nn.Module):
        return set()
    return {path for path in getattr(tracer, "tensor_attrs", {}).values() if path in vars(model)} - before


# Functions that stay one node.


def _as_tuple(one_or_many: Any) -> tuple[Any, ...]:
    if isinstance(one_or_many, (str, type)) or not isinstance(one_or_many, Iterable):
        return (one_or_many,)
    return tuple(one_or_many)


def _functions_to_wrap(model: Any, wanted: tuple[Any, ...]) -> tuple[tuple[_Function, ...], dict[str, _Function]]:
    """Return the functions to wrap, and the builtins among them by name."""
    namespace = _globals_of(model)
    functions: list[_Function] = []
    builtins_by_name: dict[str, _Function] = {}
    for each in wanted:
        function: Any = _resolve(each, namespace) if isinstance(each, str) else each
        name: str = getattr(function, "__name__", "") if each is function else each
        if not callable(function):
            raise CaptureError(f"wrap: expected functions and names of functions, got {each!r}")
        # Tracing wraps the functions in a module's globals, without private names.
        if name.startswith("_"):
            raise CaptureError(
                f"wrap: {name!r} begins with an underscore, which tracing leaves alone; "
                f"write fxcore.wrap({name!r}) at the top level of the file that calls it"
            )
        if name not in namespace and vars(builtins).get(name) is function:
            builtins_by_name[name] = vars(builtins)[name]
        functions.append(function)
    return tuple(functions), builtins_by_name


def _resolve(name: str, namespace: Mapping[str, Any]) -> Any:
    if name in namespace:
        return namespace[name]
    if hasattr(builtins, name):
        return getattr(builtins, name)
    home, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(home), attribute)
    except (ImportError, AttributeError, ValueError):
        raise CaptureError(
            f"wrap: there is no function {name!r} in the model's file; "
            "give the function itself, or its full name such as 'package.module.function'"
        ) from None


def _globals_of(model: Any) -> dict[str, Any]:
    function = type(model).forward if isinstance(model, nn.Module) else model
    function = getattr(function, "__func__", function)
    namespace = getattr(function, "__globals__", None)
    return namespace if isinstance(namespace, dict) else {}


@contextlib.contextmanager
def _builtins_in_globals(namespace: dict[str, Any], builtins_by_name: Mapping[str, _Function]) -> Iterator[None]:
    """Put builtins into the model's globals: the tracer looks for functions to wrap only there."""
    namespace.update(builtins_by_name)
    try:
        yield
    finally:
        for name in builtins_by_name:
            del namespace[name]


# Random numbers that are drawn while a model is traced.


def _trace_reproducibly(name: str, trace_once: Callable[[], TracedGraph]) -> TracedGraph:
    """Call `trace_once`; if the call used a random generator, call it again and compare the graphs.

    A drawn number that leaves no trace in the graph is allowed. The generators keep the state after the first trace.
    Raises CaptureError, naming the node, if a second trace gives another graph.
    """
    before = marks_of_generators()
    first = trace_once()
    if marks_of_generators() == before:  # not so either if the trace imported numpy, whose earlier state is unknown
        return first
    with globals_kept(settings=False):
        for _ in range(_MOST_RETRIES):
            node = _first_difference(first, trace_once())
            if node is not None:
                raise CaptureError(_drawn_number_message(name, node))
    return first


def _first_difference(traced: TracedGraph, again: TracedGraph) -> fxcore.Node | None:
    """Return the first node that differs in the second trace, or is missing there."""
    others = iter(again.graph.nodes)
    for node in traced.graph.nodes:
        other = next(others, None)
        if other is None or _text(node) != _text(other) or not _reads_same_constant(traced, again, node):
            return node
    return None


def _text(node: fxcore.Node) -> tuple[str, ...]:
    target = node.target if isinstance(node.target, str) else str(id(node.target))
    return node.op, target, repr(node.args), repr(node.kwargs)


def _reads_same_constant(traced: TracedGraph, again: TracedGraph, node: fxcore.Node) -> bool:
    if not node.meta.get("is_constant"):
        return True
    value, other = get_attribute(traced.root, node.target), get_attribute(again.root, node.target)
    if value is other:
        return True
    # As texts, because NaN is not equal to itself.
    return value.dtype == other.dtype and repr(value.detach().tolist()) == repr(other.detach().tolist())


def _drawn_number_message(name: str, node: fxcore.Node) -> str:
    lines = [f"cannot trace {name}: it draws random numbers while it is traced, so that its graph differs in every run"]
    source = node.meta.get("source")
    if source is not None:
        file_name, line = source
        lines.append(f"  {short_path(file_name)}:{line}: {linecache.getline(file_name, line).strip()}")
    lines.append(
        f"Node {node.name!r} is the first that differs. Draw the number in __init__ and keep it as a buffer, "
        "or draw it from an input (torch.rand_like(x)), so that the graph does it"
    )
    return "\n".join(lines)


class FxTrace:
    """Traces a model: the fixture `fx_trace`."""

    def __call__(
        self,
        model: Any,
        *,
        example_inputs: object = None,
        example_kwargs: Mapping[str, Any] | None = None,
        concrete_args: dict[str, Any] | None = None,
        leaf_modules: Any = (),
        wrap: Any = (),
        assume: Mapping[str, Any] | None = None,
        verify: bool | None = None,
        enforce_guards: bool | None = None,
    ) -> fxcore.GraphModule:
        """Return the graph of a model. A model that cannot be traced fails the test with the model's line.

        `leaf_modules` are classes or module paths; a call of one of these modules is one node. With "auto", modules
        that cannot be traced are leaves. `wrap` are functions or names of functions; a call of one is one node.

        With `example_inputs`, tracing goes on where Python asks for a value. The value becomes a guard of the graph,
        and every node has the shape and dtype of its value in its meta. Unless `verify` is False, graph and model are
        compared on the example, on fresh values and on inputs of other sizes. Calls of the graph refuse inputs that
        break a guard; `enforce_guards=False` leaves the checks out. `assume` names places, "file.py:line": a branch on
        tensor contents there goes as in the example.
        """
        try:
            return trace(
                model,
                example_inputs=example_inputs,
                example_kwargs=example_kwargs,
                concrete_args=concrete_args,
                leaf_modules=leaf_modules,
                wrap=wrap,
                assume=assume,
                verify=verify,
                enforce_guards=enforce_guards,
            )
        except CaptureError as error:
            import pytest  # here, because processes without tests trace, too

            message = str(error)
        # Outside the handler: the report is the message alone, without the frames of the tracer below it.
        return pytest.fail(message, pytrace=False)
