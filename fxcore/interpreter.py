"""Running a graph node by node: on values (Interpreter), or on proxies to make a new graph (Transformer)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn

from fxcore import traceback
from fxcore.errors import GraphArgumentError, InterpreterError
from fxcore.graph import Graph, gc_paused
from fxcore.graph_module import GraphModule
from fxcore.guard_checks.check_code import CheckFunctions, ChecksOfRun
from fxcore.guard_checks.modes_left import modes_ended, switches_modes
from fxcore.guard_checks.plan import Plan
from fxcore.guards import Guards
from fxcore.node import Argument, Node, Target
from fxcore.node_data.arguments import PLAIN, map_aggregate, map_values
from fxcore.node_data.attribute_paths import attribute_of
from fxcore.nodes.liveness import values_freed_after
from fxcore.proxy import Attribute, Proxy
from fxcore.tracer import Tracer


class Interpreter:
    """Runner of a graph, node by node. Subclasses override the method of an opcode.

    `run` calls `run_node` for every node. `run_node` calls the method with the name of the node's opcode:
    `placeholder`, `get_attr`, `call_function`, `call_method`, `call_module` or `output`.
    """

    def __init__(self, module: nn.Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        """Prepare to run `module.graph`, or `graph` with the submodules and attributes of `module`.

        With `garbage_collect_values`, a value is removed from `env` after its last use.
        """
        self.module = module
        self.graph: Graph = module.graph if graph is None else graph  # type: ignore[assignment]  # a GraphModule's
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True

    @functools.cached_property
    def submodules(self) -> dict[str, nn.Module]:
        """The modules by path, including the root."""
        return dict(self.module.named_modules())

    @functools.cached_property
    def user_to_last_uses(self) -> dict[Node, list[Node]]:
        """Each node -> the values that no later node reads. Missing without `garbage_collect_values`."""
        if not self.garbage_collect_values:
            raise AttributeError("user_to_last_uses: values stay, garbage_collect_values is False")
        return values_freed_after(self.graph.nodes)

    @functools.cached_property
    def _guard_checks(self) -> CheckFunctions | None:
        """The checks of a graph that was traced with an example."""
        guards = self.graph.guards
        if not (isinstance(guards, Guards) and guards.are_enforced and guards.are_checked):
            return None
        plan = Plan(self.graph, guards, self.module)
        return CheckFunctions(plan, guards, self.module, type(self.module).__name__)

    @functools.cached_property
    def _switches_modes(self) -> bool:
        return switches_modes(self.graph)

    # Running.

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph on positional arguments and return its result.

        `initial_env` holds known values; their nodes do not run. Without `enable_io_processing`, the arguments belong
        to the placeholders and the result to the output node, regardless of the nesting in the traced function. An
        error of a node gets a note with the node and its stack trace, unless `extra_traceback` is False; a KeyError
        becomes a RuntimeError. Raises GuardError (a ValueError) if the graph was traced with an example and does not
        hold for these arguments.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        with modes_ended() if self._switches_modes else nullcontext():
            return self._run_nodes(enable_io_processing)

    def _run_nodes(self, enable_io_processing: bool) -> Any:
        checks = self._guard_checks
        guards = None if checks is None else ChecksOfRun(checks, self.module, self.env)
        run_node, env = self.run_node, self.env
        last_uses = self.user_to_last_uses if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node in env:
                continue
            try:
                value = env[node] = run_node(node)
            except Exception as error:
                if guards is not None:
                    guards.failed(node, error)
                if self.extra_traceback:
                    _note_node(error, node)
                raise
            if guards is not None:
                guards.after(node, value)
            if node in last_uses:
                for unread in last_uses[node]:
                    del env[unread]
            if node._op == "output":
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on the arguments in a list.

        The list is emptied, so that each argument can be freed after its last use. The arguments belong to the
        placeholders. Raises InterpreterError (a RuntimeError) if there are more or fewer.
        """
        placeholders = self.graph.find_nodes(op="placeholder")
        if len(args_list) != len(placeholders):
            kind = "extra arguments" if len(args_list) > len(placeholders) else "missing arguments"
            names = ", ".join([node._name for node in placeholders])
            raise InterpreterError(
                f"Interpreter.boxed_run expected {len(placeholders)} arguments for placeholders but received "
                f"{len(args_list)} ({kind}): the graph takes {names or 'none'}"
            )
        env = dict(zip(placeholders, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    def run_node(self, n: Node) -> Any:
        """Run one node on values from `env` and return its result."""
        if type(self)._set_current_node is _SET_CURRENT_NODE and not (traceback.THREAD.is_preserving and n.meta):
            # The block below would change nothing here, and would add half of the overhead of a run.
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n._op)(n._target, args, kwargs)
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n._op)(n._target, args, kwargs)

    def _set_current_node(self, node: Node) -> AbstractContextManager[None]:
        return traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}")

    # The opcodes. `args` and `kwargs` are values.

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument of `run`, all remaining arguments for a `*` parameter, or the default in `args`.

        Raises InterpreterError (a RuntimeError) without a remaining argument and a default.
        """
        name = _path(target)
        if name.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
        raise InterpreterError(
            f"Expected positional argument for parameter {name}, but one was not passed in! "
            "run() takes the arguments of all placeholders by position"
        )

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the attribute at the path `target`."""
        return self.fetch_attr(_path(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function `target` and return its result. Raises GraphArgumentError if `target` is a string."""
        if isinstance(target, str):
            raise GraphArgumentError(f"target should not be a string for call_function, got {target!r}")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call the method named `target` of `args[0]` and return its result."""
        return getattr(args[0], _path(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call the submodule at the path `target` and return its result."""
        return self.fetch_attr(_path(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the graph's result."""
        return args[0]

    # Values.

    def fetch_attr(self, target: str) -> Any:
        """Return the object at a dotted path below the module.

        Raises InterpreterError (a RuntimeError) if it is missing.
        """
        found: Any = self.module
        atoms = target.split(".")
        for depth, atom in enumerate(atoms):
            try:
                found = attribute_of(found, atom)
            except AttributeError as error:
                raise InterpreterError(
                    f"Node referenced nonexistent target {'.'.join(atoms[: depth + 1])}: "
                    f"{type(self.module).__name__} has nothing there"
                ) from error
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node with values in the place of nodes.

        Raises GraphArgumentError (an AssertionError) if an overridden `map_nodes_to_values` returns other containers.
        """
        args = self.map_nodes_to_values(n._args, n)
        kwargs = self.map_nodes_to_values(n._kwargs, n) if n._kwargs else n._kwargs
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise GraphArgumentError(
                f"Expected args to be tuple and kwargs to be dict, got {type(args)} and {type(kwargs)}: "
                f"{type(self).__name__}.map_nodes_to_values() must return containers of the kind that it is given"
            )
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return `args`, arguments of the node `n`, with values in the place of nodes.

        Raises InterpreterError (a RuntimeError) if a value does not exist yet, or was freed.
        """
        env = self.env
        try:
            if type(args) is tuple:
                return tuple(
                    [
                        env[item] if type(item) is Node else item if type(item) in PLAIN else _load(item, env)
                        for item in args
                    ]
                )
            return _load(args, env)
        except KeyError as error:
            raise InterpreterError(
                f"Node {n} referenced nonexistent value {error.args[0]}! Run Graph.lint() to diagnose such issues"
            ) from error


_SET_CURRENT_NODE = Interpreter._set_current_node


def _load(argument: Any, env: dict[Node, Any]) -> Any:
    return map_values(argument, env.__getitem__)


def _path(target: Target) -> str:
    if not isinstance(target, str):
        raise GraphArgumentError(f"Expected target to be str, got {type(target)}: {target!r} is no name and no path")
    return target


def _note_node(error: Exception, node: Node) -> None:
    """Add the running node and its origin to the message of `error`."""
    place = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
    message = f"{error.args[0]}\n\n{place}" if error.args else place
    error.args = (message, *error.args[1:])
    if isinstance(error, KeyError):
        # A KeyError shows its message as a repr, on one line.
        raise InterpreterError(*error.args) from error


class TransformerTracer(Tracer):
    """Recorder for the new graph of a Transformer. Every module is a leaf."""

    def __init__(self, graph: Graph, root: nn.Module) -> None:
        super().__init__()
        self.graph = graph
        self.root = root

    @functools.cached_property
    def _path_by_module(self) -> dict[nn.Module, str]:
        # Built once. A walk through the hierarchy at every call would take quadratic time.
        return {module: path for path, module in self.root.named_modules()}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return True: every module becomes one node."""
        return True

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the path of a module below the root.

        Raises ModuleLookupError (a NameError) if it is not part of the root.
        """
        path = self._path_by_module.get(mod)
        return path if path is not None else super().path_of_module(mod)


class Transformer(Interpreter):
    """Runner of a graph on proxies, which makes a new module. Subclasses override the method of an opcode.

    The methods are those of `Interpreter`. Their operations on proxies and their results are recorded onto `new_graph`.
    """

    def __init__(self, module: GraphModule) -> None:
        """Prepare to transform `module`. It stays unchanged; the new module will share its submodules."""
        super().__init__(module)
        graph = self.graph
        self.new_graph = Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
        self.new_graph.set_codegen(graph._codegen)
        self.new_graph.take_origin(graph)
        self.tracer: Tracer = TransformerTracer(self.new_graph, module)
        self._keep_types = False

    def run_node(self, n: Node) -> Any:
        """Run one node and return a proxy. An unchanged node keeps all its metadata."""
        before = self.new_graph._root._prev
        result = super().run_node(n)
        # Reading the node of an Attribute would create it too early.
        if isinstance(result, Proxy) and not isinstance(result, Attribute):
            made = result.node
            if made is not before and made._op == n._op and made._target == n._target:
                self._carry_over(n, made)
        return result

    def _carry_over(self, node: Node, made: Node) -> None:
        if made is not self.new_graph._root._prev:
            return
        meta = made.meta
        for key, value in node.meta.items():
            meta.setdefault(key, value)
        if self._keep_types and made._type is None:
            made.type = node._type

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Add an input to the new graph, with the default value in `args` if there is one."""
        default = args[0] if args else inspect.Signature.empty
        return self.tracer.proxy(self.new_graph.placeholder(_path(target), default_value=default))

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Add the reading of an attribute to the new graph."""
        return self.tracer.create_proxy("get_attr", _path(target), args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a submodule, or its inside, as `self.tracer` decides."""
        module = self.fetch_attr(_path(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a function."""
        # Calling the function instead would not record a function that tracing wrapped.
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self, *, keep_types: bool = False) -> GraphModule:
        """Run the graph on proxies and return the new module.

        With `keep_types`, type annotations of inputs, values and the result are kept; torch.fx drops them.
        """
        self._keep_types = keep_types
        with gc_paused():
            tracer = self.tracer
            if isinstance(tracer, Tracer):  # a subclass may have another tracer
                tracer.allow_fast_recording(True)
            with traceback.preserve_node_meta():
                result = self.run(enable_io_processing=False)
            if isinstance(tracer, Tracer):
                tracer.allow_fast_recording(False)
            if result is not None:
                output = self.graph.output_node()
                made = self.new_graph.output(map_aggregate(result, _without_proxy))
                made.meta.update(output.meta)
                if keep_types:
                    made.type = output._type
            return GraphModule(self.module, self.new_graph)


def _without_proxy(value: Any) -> Any:
    return value.node if isinstance(value, Proxy) else value


__all__ = ["Interpreter", "Transformer"]
