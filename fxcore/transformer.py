"""Running a graph node by node on stand-ins, which makes a new graph."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from torch import nn

from fxcore import traceback
from fxcore.arguments import map_aggregate
from fxcore.collector import collector_paused
from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.interpretation import Interpreter
from fxcore.node import Argument, Node, Target
from fxcore.plain_transform import PlainTransform
from fxcore.proxy import Attribute, Proxy
from fxcore.recorder import overrides_none
from fxcore.tensor_constants import PathsByIdentity
from fxcore.tracer import Tracer


class TransformerTracer(Tracer):
    """Records onto the graph that a Transformer makes; every module is a leaf."""

    def __init__(self, graph: Graph, root: nn.Module) -> None:
        super().__init__()
        self.graph = graph
        self.root = root
        self.tensor_attrs = {}
        self._paths = PathsByIdentity(root)
        self._next_number = {}
        self._parameter_proxies = {}

    @functools.cached_property
    def _path_by_module(self) -> dict[nn.Module, str]:
        # Looked up once: asking the hierarchy at every call takes time that grows with the square of the modules.
        return {module: path for path, module in self.root.named_modules()}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Say that every module becomes one node."""
        return True

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the path of a module below the root. Raises ModuleLookupError (a NameError) if it is not there."""
        path = self._path_by_module.get(mod)
        return path if path is not None else super().path_of_module(mod)


class Transformer(Interpreter):
    """Runs a graph on stand-ins and so makes a new module; subclasses override what becomes of each node.

    The methods are those of `Interpreter`; what they do with the stand-ins that they get, and what they return in
    place of a node's value, is recorded onto `new_graph`.
    """

    def __init__(self, module: GraphModule) -> None:
        """Prepare to transform `module`, which stays as it is; the new module will share its submodules."""
        super().__init__(module)
        graph = self.graph
        self.new_graph = Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
        self.new_graph._co_fields = dict(graph._co_fields)
        self.new_graph.set_codegen(graph._codegen)
        self.tracer: Tracer = TransformerTracer(self.new_graph, module)
        self._keep_types = False

    def run_node(self, n: Node) -> Any:
        """Run one node and return a stand-in; a node that comes out as it went in keeps all its metadata."""
        before = self.new_graph._root._prev
        result = super().run_node(n)
        # An attribute makes its node when asked for it; nobody may ask yet.
        if isinstance(result, Proxy) and not isinstance(result, Attribute):
            made = result.node
            if made is not before and made._op == n._op and made._target == n._target:
                self._carry_over(n, made)
        return result

    def _carry_over(self, node: Node, made: Node) -> None:
        if made is not self.new_graph._root._prev:
            return
        for key, value in node.meta.items():
            made.meta.setdefault(key, value)
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
        """Record a call of a submodule, or its inside, as `self.tracer` has it."""
        module = self.fetch_attr(_path(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a function."""
        # Not by calling it: a function that tracing wrapped would run through.
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self, *, keep_types: bool = False) -> GraphModule:
        """Run the graph on stand-ins and return the new module.

        With `keep_types`, type annotations of inputs, values and the result are kept; torch.fx drops them.
        """
        self._keep_types = keep_types
        with collector_paused():
            with traceback.preserve_node_meta():
                result = self._run_plainly() if self._overrides_none() else self.run(enable_io_processing=False)
            if result is not None:
                output = self.graph.output_node()
                made = self.new_graph.output(map_aggregate(result, _without_proxy))
                made.meta.update(output.meta)
                if keep_types:
                    made.type = output._type
            return GraphModule(self.module, self.new_graph)

    def _overrides_none(self) -> bool:
        """Tell whether each node would be run, and its call recorded, as this class does it."""
        tracer, graph = self.tracer, self.new_graph
        if not overrides_none(self, Transformer, _RUNNING_HOOKS):
            return False
        if type(tracer) is not TransformerTracer or tracer.graph is not graph or tracer.root is not self.module:
            return False
        if type(graph) is not Graph or len(graph.nodes) or not isinstance(self.graph, Graph):
            return False
        wants_more = tracer.record_stack_traces or tracer.record_sources or tracer.check_mutable_operations
        return not wants_more and overrides_none(tracer, TransformerTracer, _RECORDING_HOOKS)

    def _run_plainly(self) -> Any:
        """Do what `run` does, from node to node as far as that goes; return what the graph returns."""
        tracer = self.tracer
        plain = PlainTransform(
            self.new_graph,
            self.submodules,
            f"Interpreter_{type(self).__name__}",
            tracer.node_name_to_scope,
            keep_types=self._keep_types,
        )
        rest = plain.copy(self.graph)
        if rest is None or rest._op == "output":
            return None if rest is None else plain.value(rest._args[0])
        env = {node: tracer.proxy(copied) for node, copied in plain.copies.items()}
        return self.run(initial_env=env, enable_io_processing=False)


# What runs a node.
_RUNNING_HOOKS = (
    *("run", "run_node", "_set_current_node", "_carry_over", "fetch_attr", "fetch_args_kwargs_from_env"),
    *("map_nodes_to_values", "placeholder", "get_attr", "call_function", "call_method", "call_module", "output"),
)
# What records it; no subclass of the tracer is asked about, but somebody may have set one of these on the object.
_RECORDING_HOOKS = (
    *("create_arg", "create_node", "create_proxy", "proxy", "call_module", "is_leaf_module", "path_of_module"),
)


def _without_proxy(value: Any) -> Any:
    return value.node if isinstance(value, Proxy) else value


def _path(target: Target) -> str:
    if not isinstance(target, str):
        raise GraphArgumentError(f"Expected target to be str, got {type(target)}: {target!r} is no name and no path")
    return target
