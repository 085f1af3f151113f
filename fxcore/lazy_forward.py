"""The forward of a GraphModule as of its last `recompile()`, written and compiled when somebody needs it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import fields
from types import FunctionType
from typing import Any, TypeVar

import torch

from fxcore.codegen.codegen import CodeGen, PythonCode
from fxcore.codegen.source_cache import SOURCES
from fxcore.errors import GraphError
from fxcore.graph import Graph

_F = TypeVar("_F", bound=Callable[..., Any])

_CODE_FIELDS = frozenset(field.name for field in fields(PythonCode))


# Those whose graph has changed since, or may have without telling. A set, for the question whether there are any.
_OUTDATED: weakref.WeakSet[LazyForward] = weakref.WeakSet()


def any_outdated() -> bool:
    """Tell whether recompiling any GraphModule there is could make a difference."""
    return bool(_OUTDATED)


class LazyForward:
    """Code and function of a graph as it is now.

    The code is written when it is first asked for, or right before the graph changes, whichever comes first; so nobody
    can tell that it was not written at once.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph: Graph | None = graph
        self._origin = graph._co_fields
        self._code: PythonCode | None = None
        self._function: FunctionType | None = None
        self._failure: Exception | None = None
        self._promises: list[weakref.ref[LazyPythonCode]] = []
        if _may_wait(graph._codegen):
            graph.settle(until_next=self._write_before_change)
        else:
            graph.settle()
            self._write()
            _OUTDATED.add(self)

    def is_waiting_for(self, graph: Graph) -> bool:
        """Tell whether the code is still to be written, from this very graph, which then has not changed."""
        return self._graph is graph

    def note_promise(self, promised: LazyPythonCode) -> None:
        """Hear of somebody who may ask for the code even when the module has another."""
        self._promises = [known for known in self._promises if known() is not None]
        self._promises.append(weakref.ref(promised))

    def is_replaced(self) -> None:
        """Hear that the module has another forward now."""
        _OUTDATED.discard(self)

    def give_up(self, graph: Graph) -> None:
        """Never write the code of `graph`, unless it is written already or promised to somebody.

        For edits in which nobody can ask for it before `recompile()` ends them.
        """
        if self._graph is not graph or any(promised() is not None for promised in self._promises):
            return
        self._failure = GraphError(
            "there is no code: it was not written before its graph was rewritten, and the rewriting was interrupted; "
            "call recompile() on the module"
        )
        self._graph = None
        graph.settle()

    def _write(self) -> None:
        graph, self._graph = self._graph, None
        if graph is not None:
            self._code = graph.python_code(root_module="self")

    def _write_before_change(self) -> None:
        _OUTDATED.add(self)
        try:
            self._write()
        except Exception as error:
            # Whoever edits the graph may be mending just that; whoever asks for the code hears of it.
            self._failure = error

    @property
    def python_code(self) -> PythonCode:
        """The generated code. Raises what writing it raised."""
        self._write()
        if self._code is None:
            assert self._failure is not None
            raise self._failure
        return self._code

    @property
    def function(self) -> FunctionType:
        """The compiled forward."""
        if self._function is None:
            code = self.python_code
            names = code.globals.copy()
            SOURCES.run(code.src, names, self._origin)
            self._function = names.pop("forward")
        return self._function


def run_by_python(function: _F) -> _F:
    """Keep Dynamo from compiling the frame of `function` on its own; it may inline it, and compile what it calls."""
    frames: Any = torch._C._dynamo.eval_frame
    code = function.__code__
    if hasattr(frames, "skip_code"):  # torch < 2.7
        frames.skip_code(code)
    elif hasattr(frames, "set_code_exec_strategy"):
        this_frame_only = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(code, this_frame_only)
    return function


def give_up_code(module: Any, graph: Graph) -> None:
    """Say that the code of a GraphModule, if it is still to be written, is not needed: `LazyForward.give_up`."""
    generated = vars(type(module)).get("_generated")
    if generated is not None:
        generated.give_up(graph)


@run_by_python
def make_ready(owner: type) -> bool:
    """Put the function itself in the place of a descriptor that stands for it, in a class or one that it derives from.

    Returns True.
    """
    holder = next((kind for kind in owner.__mro__ if "forward" in vars(kind)), None)
    descriptor = vars(holder)["forward"] if holder is not None else None
    if isinstance(descriptor, ForwardDescriptor):
        # Dynamo, if it is watching this thread, has no business in the writing of code.
        watcher = torch._C._dynamo.eval_frame.set_eval_frame(None)
        try:
            holder.forward = descriptor.pending.function  # type: ignore[union-attr]  # it holds the descriptor
        finally:
            torch._C._dynamo.eval_frame.set_eval_frame(watcher)
    return True


# So marked, the function runs while Dynamo traces its caller, and what Dynamo looks up next is in place.
# (torch.compiler.assume_constant_result does the same but imports all of Dynamo.)
make_ready._dynamo_marked_constant = True  # type: ignore[attr-defined]


class ForwardDescriptor:
    """Stands for `forward` in a GraphModule's class until somebody wants the function, then makes room for it."""

    def __init__(self, pending: LazyForward) -> None:
        self.pending = pending

    @run_by_python
    def __get__(self, module: Any, owner: type[Any]) -> Callable[..., Any]:
        make_ready(owner)
        # Dynamo inlines this, so it is written with what Dynamo knows: looked up anew in the class, then bound.
        function: FunctionType = owner.forward
        return function if module is None else function.__get__(module, owner)


def _may_wait(codegen: CodeGen) -> bool:
    """Tell whether the code depends on the graph alone; a user's CodeGen may depend on anything."""
    return type(codegen) is CodeGen and codegen._body_transformer is None


class LazyPythonCode(PythonCode):
    """Generated code that is written when one of its fields is first read."""

    def __init__(self, pending: LazyForward) -> None:
        self._pending = pending
        pending.note_promise(self)

    def __getattr__(self, name: str) -> Any:
        if name not in _CODE_FIELDS:
            raise AttributeError(name)
        vars(self).update(vars(self._pending.python_code))
        return vars(self)[name]
