"""Symbolic tracing of a model for the plugin: its errors, functions and modules to keep as nodes, random numbers."""

from __future__ import annotations

import builtins
import contextlib
import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import nn

import fxcore
from fxcore.errors import VerificationError
from fxcore.guards import refuse_other_inputs
from fxcore.guided.leaf_tracer import LeafTracer
from fxcore.guided.trace_verification import verify_trace
from pytest_fxgraph.captures.random_constants import trace_reproducibly
from pytest_fxgraph.captures.shapes import positional_arguments, record_shapes
from pytest_fxgraph.captures.traced_graph import TracedGraph
from pytest_fxgraph.captures.tracing_failure import describe_failure, name_of
from pytest_fxgraph.captures.untraceable import refuse_untraceable, refuse_untraceable_parts
from pytest_fxgraph.errors import CaptureError
from pytest_fxgraph.rng import generators_kept

_Function = Callable[..., Any]
_MOST_PATHS = 8


def trace_to_read(model: Any) -> TracedGraph:
    """Trace a module or function without source lines, only to read the graph, in half the time of `trace`.

    Raises CaptureError as `trace` does.
    """

    refuse_untraceable(model)

    def traced_once() -> TracedGraph:
        return _trace_once(model, _Tracer((), record_sources=False), None, {}, runs=False)

    return trace_reproducibly(name_of(model), traced_once)


def traced_again_with_sources(traced: TracedGraph) -> TracedGraph | None:
    """Trace the model of `trace_to_read` again, with source lines; return None if that fails or was done already.

    The graph may differ, as a model may count its calls: the caller has to compare. Random generators are restored.
    """
    if traced.model is None:
        return None
    with generators_kept(), contextlib.suppress(CaptureError):
        return _trace_once(traced.model, _Tracer((), record_sources=True), None, {}, runs=False)
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
    enforce_guards: bool = False,
) -> fxcore.GraphModule:
    """Trace a module or function and return its graph module.

    `leaf_modules` are classes or module paths, `wrap` functions or names of functions, whose calls stay one node each;
    with "auto" modules that cannot be traced are leaves. With `example_inputs` tracing goes on where Python asks for a
    value, every node has the shape and dtype of its value in its meta, and unless `verify` is False the graph is
    compared with the model there and on inputs of other sizes. Raises CaptureError, with the user's line, if tracing
    fails or a random number was drawn that makes the graph differ in every run.
    """
    refuse_untraceable(model)
    leaves = _as_tuple(leaf_modules)
    _check_leaves(model, leaves)
    functions, builtins_by_name = _functions_to_wrap(model, _as_tuple(wrap))
    example = _example_of(example_inputs, example_kwargs, assume)
    if not example and (assume or verify or enforce_guards):
        raise CaptureError("assume, verify and enforce_guards need an example: give example_inputs=")

    def traced_once() -> TracedGraph:
        tracer = _tracer(leaves, functions, record_sources=True)
        return _trace_once(model, tracer, concrete_args, builtins_by_name, runs=True, example=example)

    graph_module: fxcore.GraphModule = trace_reproducibly(name_of(model), traced_once).root
    if example:
        if verify is not False:
            _verify(model, graph_module, example)
        record_shapes(graph_module, example["example_inputs"], example_kwargs)
        if enforce_guards:
            graph_module.register_forward_pre_hook(refuse_other_inputs, with_kwargs=True)
    return graph_module


def trace_for_inputs(
    model: Any, inputs: object, kwargs: Mapping[str, Any] | None = None, *, verify: bool
) -> fxcore.GraphModule:
    """Trace a module or function as `trace` does without an example, and where that fails, with these inputs.

    So a graph that can be had without an example does not depend on one. Raises CaptureError if both fail.
    """
    try:
        return trace(model)
    except CaptureError:
        return trace(model, example_inputs=inputs, example_kwargs=kwargs, verify=verify)


def _example_of(
    example_inputs: object, example_kwargs: Mapping[str, Any] | None, assume: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the options of Tracer.trace that an example makes; none without an example."""
    if example_inputs is None and not example_kwargs:
        return {}
    positional = () if example_inputs is None else positional_arguments(example_inputs, "example_inputs")
    return {"example_inputs": positional, "example_kwargs": example_kwargs, "assume": assume}


def _verify(model: Any, graph_module: fxcore.GraphModule, example: Mapping[str, Any]) -> None:
    """Raise CaptureError if the graph does not do what the model does."""
    try:
        verify_trace(model, graph_module, example["example_inputs"], example["example_kwargs"])
    except VerificationError as error:
        raise CaptureError(f"cannot trace {name_of(model)}: {error}") from error


def _trace_once(
    model: Any,
    tracer: fxcore.Tracer,
    concrete_args: dict[str, Any] | None,
    builtins_by_name: Mapping[str, _Function],
    *,
    runs: bool,
    example: Mapping[str, Any] | None = None,
) -> TracedGraph:
    """Trace once; make a GraphModule if the graph is to be run, or has constants that the model must not keep."""
    with _constants_removed(model, tracer) as before:
        try:
            with _builtins_in_globals(_globals_of(model), builtins_by_name):
                graph = tracer.trace(model, concrete_args, **(example or {}))
        except Exception as error:
            refuse_untraceable_parts(model)
            raise CaptureError(describe_failure(model, error, example)) from error
        if not runs and not _constants_added(model, tracer, before):
            return TracedGraph(graph, tracer.root, None if tracer.record_sources else model)
        graph_module = fxcore.GraphModule(tracer.root, graph, name_of(model).rpartition(".")[2])
        return TracedGraph(graph_module.graph, graph_module, None if tracer.record_sources else model)


class _Tracer(fxcore.Tracer):
    """Keeps calls of the functions that the user chose as one node each."""

    def __init__(self, functions: tuple[_Function, ...], *, record_sources: bool) -> None:
        super().__init__(autowrap_functions=functions)
        self.record_sources = record_sources


def _check_leaves(model: Any, leaves: tuple[Any, ...]) -> None:
    """Raise CaptureError for what is neither a class nor the path of a module that the model has, nor "auto"."""
    for leaf in leaves:
        if not isinstance(leaf, (type, str)):
            raise CaptureError(
                f"leaf_modules: expected classes and module paths, got {leaf!r}; "
                "write the module's class, or its path such as 'encoder.block1'"
            )
    paths = [leaf for leaf in leaves if isinstance(leaf, str) and leaf != "auto"]
    if not paths:
        return
    if not isinstance(model, nn.Module):
        raise CaptureError(
            f"leaf_modules: {paths[0]!r} is the path of a module, and {name_of(model)} is a function, which has none; "
            "write the module's class"
        )
    known = [path for path, _ in model.named_modules(remove_duplicate=False) if path]
    for path in paths:
        if path not in known:
            near = difflib.get_close_matches(path, known, n=3, cutoff=0.5)
            found = f"did you mean {', '.join(map(repr, near))}?" if near else _paths_text(known)
            raise CaptureError(f"leaf_modules: {name_of(model)} has no module at {path!r}; {found}")


def _paths_text(paths: list[str]) -> str:
    shown = ", ".join(map(repr, paths[:_MOST_PATHS]))
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return f"its modules are at {shown}{more}" if paths else "it has no modules inside it"


def _tracer(leaves: tuple[Any, ...], functions: tuple[_Function, ...], *, record_sources: bool) -> fxcore.Tracer:
    """Return a tracer for the user's choices; one with leaves is slower, as it is asked about every module."""
    if not leaves:
        return _Tracer(functions, record_sources=record_sources)
    tracer = LeafTracer(leaves, autowrap_functions=functions)
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


def _as_tuple(one_or_many: Any) -> tuple[Any, ...]:
    if isinstance(one_or_many, (str, type)) or not isinstance(one_or_many, Iterable):
        return (one_or_many,)
    return tuple(one_or_many)


def _functions_to_wrap(model: Any, wanted: tuple[Any, ...]) -> tuple[tuple[_Function, ...], dict[str, _Function]]:
    """Return the functions to wrap, and by name those among them that are builtins."""
    namespace = _globals_of(model)
    functions: list[_Function] = []
    builtins_by_name: dict[str, _Function] = {}
    for each in wanted:
        function: Any = _resolve(each, namespace) if isinstance(each, str) else each
        name: str = getattr(function, "__name__", "") if each is function else each
        if not callable(function):
            raise CaptureError(f"wrap: expected functions and names of functions, got {each!r}")
        # Tracing wraps what it finds in a module's globals, private names left out.
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
    """Put builtins into the model's globals, where alone the tracer looks for functions to wrap."""
    namespace.update(builtins_by_name)
    try:
        yield
    finally:
        for name in builtins_by_name:
            del namespace[name]
