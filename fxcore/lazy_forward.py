"""The forward of a GraphModule as of its last `recompile()`, written and compiled at its first use."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import fields
from types import FunctionType
from typing import Any, TypeVar

import torch

from fxcore.codegen.codegen import CodeGen, PythonCode
from fxcore.errors import GraphError
from fxcore.graph import Graph
from fxcore.guard_checks.guarded_forward import GuardedForward
from fxcore.guard_checks.modes_left import run_source
from fxcore.guards import Guards

_F = TypeVar("_F", bound=Callable[..., Any])

_CODE_FIELDS = frozenset(field.name for field in fields(PythonCode))


# Forwards whose graph has changed since, or may have changed without a call of `before_change`.
_OUTDATED: weakref.WeakSet[LazyForward] = weakref.WeakSet()


def any_outdated() -> bool:
    """Return whether recompiling a GraphModule could make a difference."""
    return bool(_OUTDATED)


def may_be_outdated(module: Any) -> bool:
    """Return whether the graph of a GraphModule may have changed since the module's last `recompile()`."""
    return getattr(type(module), "_generated", None) in _OUTDATED


class LazyForward:
    """Code and function of a graph in its current form.

    The code is written at its first reading or right before the graph changes. It is therefore equal to code written at
    once.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph: Graph | None = graph
        self._origin = graph._co_fields
        self._code: PythonCode | None = None
        self._guarded: GuardedForward | None = None
        self.enforced: GuardedForward | None = None  # with checks, once it is written and if the guards are enforced
        self._function: FunctionType | None = None
        self._failure: Exception | None = None
        self._readers: list[weakref.ref[LazyPythonCode]] = []
        # The code of a CodeGen of a user may depend on anything, beside the graph.
        if type(graph._codegen) is CodeGen and graph._codegen._body_transformer is None:
            graph.settle(until_next=self._write_before_change)
        else:
            graph.settle()
            self._write()
            _OUTDATED.add(self)

    def is_current(self, graph: Graph) -> bool:
        """Return whether this is the forward of the unchanged `graph`; False if the code is written already."""
        return self._graph is graph

    def add_reader(self, reader: LazyPythonCode) -> None:
        """Record an object that may read the code even after the module got another one."""
        self._readers = [known for known in self._readers if known() is not None]
        self._readers.append(weakref.ref(reader))

    def retire(self) -> None:
        """Record that the module has another forward now."""
        _OUTDATED.discard(self)

    def discard_code(self, graph: Graph) -> None:
        """Never write the code of `graph`, unless it is written already or has readers.

        This is for edits that end with `recompile()` and during which nobody can read the code.
        """
        if self._graph is not graph or any(reader() is not None for reader in self._readers):
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
            try:
                self._code = graph.python_code(root_module="self")
                guards = graph.guards
                if isinstance(guards, Guards) and guards.are_checked:
                    self._guarded = GuardedForward(graph, guards, graph.owning_module, self._code)
                    self.enforced = self._guarded if guards.are_enforced else None
            except Exception as error:
                self._failure = error  # for the next reading
                raise

    def _write_before_change(self) -> None:
        _OUTDATED.add(self)
        try:
            self._write()
        except Exception as error:
            # The edit may repair the fault. Reading the code raises the error.
            self._failure = error

    @property
    def python_code(self) -> PythonCode:
        """The generated code. Raises the error of its generation."""
        self._write()
        if self._code is None:
            assert self._failure is not None
            raise self._failure
        return self._code

    @property
    def guarded(self) -> GuardedForward | None:
        """The forward with checks; None for a graph without guards. Raises the error of the code generation."""
        return self._guarded if self.python_code else None

    @property
    def function(self) -> FunctionType:
        """The compiled forward. It checks the graph's guards, if they are enforced."""
        if self._function is None:
            code = self.python_code
            if self.enforced is not None:
                self._function = self.enforced.function
            else:
                names = code.globals.copy()
                run_source(code.src, names, self._origin)
                self._function = names.pop("forward")
        assert self._function is not None
        return self._function


def skipped_by_dynamo(function: _F) -> _F:
    """Keep Dynamo from compiling the frame of `function`. Dynamo may still inline it, and compile its callees."""
    frames: Any = torch._C._dynamo.eval_frame
    code = function.__code__
    if hasattr(frames, "skip_code"):  # torch < 2.7
        frames.skip_code(code)
    elif hasattr(frames, "set_code_exec_strategy"):
        this_frame_only = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(code, this_frame_only)
    return function


@skipped_by_dynamo
def _set_callback() -> Any:
    callback = torch._C._dynamo.eval_frame.set_eval_frame(None)
    torch._C._dynamo.eval_frame.set_eval_frame(callback)
    return callback


# Returns None where Dynamo does not compile the functions that are called. torch 2.6 does not own the callback that it
# returns, and crashes.
dynamo_callback: Callable[[], Any] = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", _set_callback)
if hasattr(torch._C._dynamo.eval_frame, "skip_code"):  # torch < 2.7
    dynamo_callback = _set_callback


def discard_lazy_code(module: Any, graph: Graph) -> None:
    """Do not write the code of a GraphModule if it is not written yet: see `LazyForward.discard_code`."""
    lazy = vars(type(module)).get("_generated")
    if lazy is not None:
        lazy.discard_code(graph)


@skipped_by_dynamo
def install_forward(owner: type) -> bool:
    """Replace the `ForwardDescriptor` of a class, or of its base class, by the function. Return True."""
    # A loop, because Dynamo would see the frame of a generator although it skips this frame.
    descriptor = None
    for holder in owner.__mro__:
        if "forward" in vars(holder):
            descriptor = vars(holder)["forward"]
            break
    if isinstance(descriptor, ForwardDescriptor):
        # Dynamo may be watching this thread. It must not compile the code generation.
        watcher = torch._C._dynamo.eval_frame.set_eval_frame(None)
        try:
            holder.forward = descriptor.lazy.function  # type: ignore[attr-defined]  # the class with the descriptor
        finally:
            torch._C._dynamo.eval_frame.set_eval_frame(watcher)
    return True


# The mark lets the function run while Dynamo traces its caller, before Dynamo looks up the forward.
# (torch.compiler.assume_constant_result does the same but imports all of Dynamo.)
install_forward._dynamo_marked_constant = True  # type: ignore[attr-defined]


@skipped_by_dynamo
def check_outer_values(lazy: LazyForward) -> None:
    """Raise GuardError (a ValueError) if an enforced guard on a value beside the inputs does not hold."""
    watcher = torch._C._dynamo.eval_frame.set_eval_frame(None)  # Dynamo must not compile the check
    try:
        if lazy.enforced is not None:
            lazy.enforced.checks.checker.check_outer()
    finally:
        torch._C._dynamo.eval_frame.set_eval_frame(watcher)


class ForwardDescriptor:
    """The `forward` in a GraphModule's class until its first reading. Then the function itself takes its place."""

    def __init__(self, lazy: LazyForward) -> None:
        self.lazy = lazy

    @skipped_by_dynamo
    def __get__(self, module: Any, owner: type[Any]) -> Callable[..., Any]:
        install_forward(owner)
        # Dynamo inlines this code, so it uses only steps that Dynamo knows: a look-up in the class and a binding.
        function: FunctionType = owner.forward
        return function if module is None else function.__get__(module, owner)


class LazyPythonCode(PythonCode):
    """Generated code that is written at the first reading of a field."""

    def __init__(self, lazy: LazyForward) -> None:
        self._lazy = lazy
        lazy.add_reader(self)

    def __getattr__(self, name: str) -> Any:
        if name not in _CODE_FIELDS:
            raise AttributeError(name)
        vars(self).update(vars(self._lazy.python_code))
        return vars(self)[name]
