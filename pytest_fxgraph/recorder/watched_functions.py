"""The functions that make graphs, watched from the import of each on until the end of the run.

The outermost function counts: a trace inside an export, or inside one of our fixtures, is no graph of its own. Each
function runs as it is, and its graph is read at once, because the caller may change it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pytest_fxgraph.captures.places_of_graphs import AOT_GRAPHS, PLACES_OF_GRAPHS
from pytest_fxgraph.recorder.kept_graphs import KeptGraphs, reason_of
from pytest_fxgraph.recorder.replacements import Replacements, called_instead
from pytest_fxgraph.recorder.user_lines import frames, name_of_model, user_line

_MAKE_FX = os.path.join("experimental", "proxy_tensor.py")
# A pickle of a graph module traces its code again.
_UNPICKLING = (os.path.join("torch", "fx", "graph_module.py"), os.path.join("fxcore", "tracer.py"))
# Reads the documents of a graph from the result and the arguments of its maker.
Reader = Callable[..., Iterator[Any]]


class _Local(threading.local):
    is_inside = False  # a watched function
    model = ""  # of the function that Dynamo compiles
    line = ""
    waiting: tuple[Any, dict[str, Any]] | None = None  # a compiled function, and the facts that lack its guards
    recompiled: tuple[Any, list[str]] = (None, [])  # the code that is to be compiled again, and its failed guards


class WatchedFunctions:
    """Hands the graphs of torch, fxcore and our fixtures to KeptGraphs."""

    def __init__(self, kept: KeptGraphs, rootpath: Path) -> None:
        self._kept, self._rootpath = kept, rootpath
        self._local = _Local()

    @property
    def is_inside(self) -> bool:
        """Whether a watched function runs on this thread."""
        return self._local.is_inside

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Record nothing of a with block on this thread."""
        before, self._local.is_inside = self._local.is_inside, True
        try:
            yield
        finally:
            self._local.is_inside = before

    def add_to(self, replacements: Replacements) -> None:
        """Have all functions replaced."""
        places = PLACES_OF_GRAPHS

        def add(kind: str, places: Iterable[tuple[str, str]], replacement: Callable[..., Any]) -> None:
            replacements.add(kind, places, called_instead(replacement))

        add("symbolic", [*places["symbolic"], ("fxcore.tracer", "Tracer.trace")], self._trace)
        add("make_fx", places["make_fx"], self._make_fx)
        add("export", places["export"], partial(self._make, "export", _exported, 0))
        add("dynamo", places["dynamo"], self._dynamo)
        add("dynamo's guards", places["guards"], self._guards)
        add("dynamo's recompiles", places["recompiles"], self._recompiles)
        add("aot", places["aot"], self._aot)
        for module, path, read, place in _FIXTURES:
            add("fixture", [(module, path)], partial(self._make, "fixture", read, place))

    def _trace(self, trace: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        from pytest_fxgraph.captures.torch_internals import is_compiling

        if is_compiling() or _caller().endswith(_UNPICKLING):
            return trace(*args, **kwargs)
        return self._make("symbolic", _traced, 1, trace, *args, **kwargs)

    def _make_fx(self, trace: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        from pytest_fxgraph.captures.places import is_of_torch

        if is_of_torch(_caller(_MAKE_FX)):
            return trace(*args, **kwargs)
        return self._make("make_fx", _made, 1, trace, *args, **kwargs)

    def _make(self, kind: str, read: Reader, place: int, make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function that makes a graph, and keep the graph. `place` is the model's among the arguments."""
        __tracebackhide__ = True
        if self._local.is_inside:
            return make(*args, **kwargs)
        with self.muted():
            made = make(*args, **kwargs)
            self._keep_all(kind, lambda: name_of_model(args[place]), lambda: read(made, *args))
            return made

    def _keep_all(self, kind: str, name: Callable[[], str], read: Callable[[], Iterator[Any]]) -> None:
        model, line = "", ""
        try:
            model, line = name(), user_line(self._rootpath)
            for describe in read():
                self._kept.keep(kind, model, line, describe)
        except Exception as error:  # a graph in a form of its own must not fail the user's test
            self._kept.leave_out(kind, model, line, reason_of(error))

    def _dynamo(self, lower: Callable[..., Any], output_graph: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        local = self._local
        if local.is_inside:
            return lower(output_graph, graph, *args, **kwargs)
        from pytest_fxgraph.recorder.compilations import describe_graph, facts_of_function, has_calls

        function, local.model, facts = facts_of_function(output_graph, local.recompiled)
        local.waiting, local.line, record = (function, facts), user_line(self._rootpath), None
        # Dynamo hands over graphs without a call where Python asked a known tensor for a number.
        if has_calls(graph):
            record = self._kept.keep("dynamo", local.model, local.line, lambda: describe_graph(graph), facts)
        try:
            return lower(output_graph, graph, *args, **kwargs)
        except Exception as error:
            if type(error).__name__.endswith("RestartAnalysis"):  # torch makes the graph anew
                self._kept.withdraw(record)
            raise
        finally:
            local.model = local.line = ""

    def _guards(self, make: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        make(*args, **kwargs)
        waiting, self._local.waiting = self._local.waiting, None
        if waiting is not None:
            from pytest_fxgraph.recorder.compilations import guards_of_compilation

            function, facts = waiting
            # Its place among the arguments differs between releases.
            output_graph = next((each for each in (*args[1:], *kwargs.values()) if hasattr(each, "guards")), None)
            facts["guards"] = guards_of_compilation(function, output_graph)

    def _recompiles(self, reasons_of: Callable[..., Any], entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        reasons = reasons_of(entries, frame, *args, **kwargs)
        from pytest_fxgraph.recorder.compilations import recompiles_in

        self._local.recompiled = recompiles_in(frame, reasons)
        return reasons

    def _aot(self, log: Callable[..., Any], title: str, graph_module: Any, *args: Any, **kwargs: Any) -> Any:
        local = self._local
        if title in AOT_GRAPHS and not local.is_inside:
            from pytest_fxgraph.recorder.compilations import describe_graph

            line = local.line or user_line(self._rootpath)
            facts = {"part": AOT_GRAPHS[title]}
            self._kept.keep("aot", local.model, line, lambda: describe_graph(graph_module), facts)
        return log(title, graph_module, *args, **kwargs)


def _caller(but: str = "\0") -> str:
    """Return the file that called a watched function, but for files that end with `but`."""
    return next((file for frame in frames() if not (file := frame.f_code.co_filename).endswith(but)), "")


def document_of(root: Any, graph: Any = None) -> Any:
    """Return the document of a graph without code; by default, of the graph of its root."""
    from pytest_fxgraph.document.builder import build_document

    return build_document(root, graph=graph, sources=False, graphs={})


def _traced(graph: Any, tracer: Any, *_: Any) -> Iterator[Any]:
    yield lambda: document_of(tracer.root, graph)


def _made(graph_module: Any, *_: Any) -> Iterator[Any]:
    yield lambda: document_of(graph_module)


def _exported(program: Any, *_: Any) -> Iterator[Any]:
    from pytest_fxgraph.captures.subjects import to_graph_module

    yield lambda: document_of(to_graph_module(program))


def _golden(_: None, obtained: Any, *__: Any) -> Iterator[Any]:
    yield lambda: obtained.document


def _transformed(result: Any, *_: Any) -> Iterator[Any]:
    from pytest_fxgraph.transform.result import documents_of

    for document in documents_of(result.after, result.own_name).values():
        yield lambda document=document: document


# Our fixtures: the function, the reader of its result, and the number of the model among its arguments.
_FIXTURES: tuple[tuple[str, str, Reader, int], ...] = (
    ("pytest_fxgraph.gate.obtained", "ObtainedGraph.__init__", _golden, 1),
    ("pytest_fxgraph.gate.table_fixture", "TableExpectation._graphs_of", _exported, 1),
    ("pytest_fxgraph.captures.ways", "FxCapture.__call__", _exported, 1),
    ("pytest_fxgraph.captures.tracing", "FxTrace.__call__", _exported, 1),
    ("pytest_fxgraph.transform.fixture", "FxTransform.__call__", _transformed, 2),
    ("pytest_fxgraph.equivalence.fixture", "FxEquivalence.__call__", _exported, 1),
)
