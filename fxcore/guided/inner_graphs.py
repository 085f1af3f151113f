"""Graphs inside the graph of a trace: functions that a higher-order operator calls.

While such a function runs, calls are recorded in a graph of its own. A value from outside (a proxy of the enclosing
function, a parameter, a buffer, a constant tensor, a size) becomes an input of the inner graph, and an operand of the
operator. Therefore gradients reach it, and the state of the model stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import getitem
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxcore.errors import TraceError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.guided.other_sizes import leaves_of
from fxcore.guided.proxies import ExampleProxy, ExampleTensor, proxy_of
from fxcore.node import Node
from fxcore.tracer import Tracer

# Calls that look into a container. They stay outside, where the container is.
_PARTS = (getitem, len, list)


class Sample(NamedTuple):
    """An input of an inner graph: the example's value, and its computation from a value outside."""

    name: str
    value: Any
    owner: Any = None  # a value outside; None if the operator makes the input
    select: tuple[Any, tuple[Any, ...]] | None = None  # the function, and its further arguments, that give the value
    is_data: bool = False
    has_contents: bool = True
    other: Any = None


class InnerGraph:
    """One function of an operator as a graph, with the values from outside that it takes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graph = Graph()
        self.modules: dict[str, nn.Module] = {}
        self.operands: dict[Node, tuple[Node, ExampleProxy]] = {}  # by the node outside: the input, and its value
        self.local: dict[Any, Any] = {}  # by a node of any graph outside: the argument in this graph
        self.outputs: list[Any] = []
        self.returns_tuple = True  # else its only result
        self.spec: Any = None
        self._last_input: Node | None = None
        self._versions: list[tuple[Node, torch.Tensor, int]] = []

    def add_input(self, name: str, value: Any) -> Node:
        """Add a placeholder behind the others."""
        last = self._last_input
        with self.graph.inserting_before() if last is None else self.graph.inserting_after(last):
            made = self._last_input = self.graph.create_node("placeholder", name, (), {}, name)
        made.target = made.name  # the name may be taken
        if isinstance(value, torch.Tensor) and not value.is_inference():
            self._versions.append((made, value, value._version))
        return made

    def add_operand(self, outside: Node, proxy: ExampleProxy) -> Node:
        """Add a placeholder for a value from outside."""
        made = self.add_input(outside.name, proxy.example)
        self.operands[outside] = made, proxy
        return made

    def take_operands(self, operands: dict[Node, ExampleProxy]) -> None:
        """Take exactly these operands, in their order."""
        for outside, proxy in operands.items():
            if outside in self.operands:
                placeholder = self.operands[outside][0]
                if placeholder is not self._last_input and self._last_input is not None:
                    self._last_input.append(placeholder)
                self._last_input = placeholder
            else:
                self.add_operand(outside, proxy)

    def arrange(self, count: int, *, is_single: bool, has_more: bool = False) -> None:
        """Let the graph return its first `count` results, or the only one as it is; with `has_more`, and the others."""
        self.returns_tuple = not is_single
        output: Any = self.graph.output_node()
        results = output.args[0]
        first = results[0] if is_single else results[:count]
        output.args = ((first, results[count:]) if has_more else first,)

    def written_input(self) -> Node | None:
        """Return the first input that the function wrote in place, or None."""
        return next((node for node, value, version in self._versions if value._version != version), None)


class InnerGraphs:
    """The inner graphs of one trace."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._outermost: Graph = tracer.graph
        self._running: list[InnerGraph] = []
        self._graphs: dict[Graph, InnerGraph] = {}
        self._made_for_guards: set[Node] = set()
        self.paths: dict[nn.Module, str] = {}  # of the modules of inner graphs, in the functions that call them
        self._samples: dict[Node, Sample] = {}
        self._twins: dict[Node, Node] = {}

    @property
    def are_recorded(self) -> bool:
        """Whether an inner graph is being recorded."""
        return bool(self._running)

    def holds(self, node: Node) -> bool:
        """Return whether a node belongs to the trace's graph, or to an inner graph of it."""
        return node.graph is self._outermost or node.graph in self._graphs

    # Recording.

    def record(self, function: Callable[..., Any], samples: Sequence[Any], name: str) -> InnerGraph:
        """Run a function and record it as an inner graph.

        `samples` are Samples for inputs, and other values that are passed as they are. Raises TraceError if the
        function writes an input in place, or uses a value in a way that cannot be an input.
        """
        tracer, inner = self._tracer, InnerGraph(name)
        self._graphs[inner.graph] = inner
        arguments = []
        for each in samples:
            if isinstance(each, Sample):
                node = self._noted(inner.add_input(each.name, each.value), each.value)
                self._samples[node] = each
                each = proxy_of(tracer, node, each.value, each.is_data, each.has_contents, each.other)
            arguments.append(each)
        with self._at([*self._running, inner]), self._layers_entered():
            inner.outputs, inner.spec = pytree.tree_flatten(function(*arguments))
            result = tracer.create_arg(tuple(inner.outputs))
            written = inner.written_input()
            if written is not None:
                raise TraceError(
                    f"the function that becomes {name!r} writes {written.name!r} in place{tracer._place()}\n"
                    "An operator may run its function again, or in another order, so that its inputs must stay. Return "
                    "the new value, or write into a clone()"
                )
            inner.graph.output(result)
        return inner

    @contextmanager
    def _at(self, running: list[InnerGraph]) -> Iterator[None]:
        """Record in the last of these inner graphs, or in the outermost graph."""
        tracer = self._tracer
        before = self._running, tracer.graph
        self._running, tracer.graph = running, running[-1].graph if running else self._outermost
        try:
            yield
        finally:
            self._running, tracer.graph = before

    @contextmanager
    def _layers_entered(self) -> Iterator[None]:
        """Look into layers, so that their parameters become operands."""
        of_tracer = vars(self._tracer)
        is_first = "is_leaf_module" not in of_tracer
        of_tracer.setdefault("is_leaf_module", self._is_leaf)
        try:
            yield
        finally:
            if is_first:
                del of_tracer["is_leaf_module"]

    def _is_leaf(self, module: nn.Module, path: str) -> bool:
        tracer = self._tracer
        if not type(tracer).is_leaf_module(tracer, module, path):
            return False
        if not any(True for _ in (*module.parameters(), *module.buffers())):
            return True
        if Tracer.is_leaf_module(tracer, module, path):
            return False
        raise TraceError(
            f"the module {path!r} is a leaf, and is called{tracer._place()} in the function that becomes "
            f"{self._running[-1].name!r}\nIts parameters must be inputs of that function, so the trace has to look "
            "into the module. Leave it out of leaf_modules, or call it outside of the function"
        )

    # Arguments.

    def graph_of(self, kind: str, target: Any, args: tuple[Any, ...]) -> Graph:
        """Return the graph where a call is recorded. State, and parts of values from outside, are read outside."""
        if kind == "get_attr":
            return self._outermost
        owner = args[0] if args else None
        found: Graph = self._tracer.graph
        if isinstance(owner, ExampleProxy) and (target is getattr or (target in _PARTS and holds_tensors(owner))):
            found = owner.node.graph
        return found

    @contextmanager
    def recording_in(self, graph: Graph) -> Iterator[None]:
        """Record in the graph of a function that runs, or in the outermost graph."""
        graphs = [self._outermost, *(each.graph for each in self._running)]
        if graph not in graphs:
            raise self._escaped("an attribute of a value")
        with self._at(self._running[: graphs.index(graph)]):
            yield

    def argument(self, value: Any) -> Any:
        """Return the argument of a node for a proxy, or for a tensor of the model; both may come from outside."""
        if not isinstance(value, ExampleProxy):
            tensor = value
            with self._at([]):
                value = self._tracer.proxy_of_state(self._tracer.create_arg(tensor), tensor)
        return self._local(len(self._running), value)

    def take_in(self, values: Any) -> None:
        """Make the tensors among values inputs of the running function, before a call can write them."""
        for leaf in leaves_of(values):
            if type(leaf) is ExampleTensor:
                self._local(len(self._running), leaf)

    def _local(self, depth: int, proxy: ExampleProxy) -> Any:
        """Return the node for a proxy in the graph of the function at a depth; depth 0 is the traced function."""
        if depth and (read := self._read_inside(depth, proxy)) is not None:
            return read
        node = proxy.node
        if node.graph is (self._running[depth - 1].graph if depth else self._outermost):
            return node
        if not depth:
            raise self._escaped(f"the value {node.name!r}")
        inner = self._running[depth - 1]
        if node not in inner.local:
            is_operand = isinstance(proxy.example, (torch.Tensor, int))
            inner.local[node] = self._operand(depth, proxy) if is_operand else self._repeated(inner, proxy)
        return inner.local[node]

    def _noted(self, node: Node, value: Any) -> Node:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            self._tracer.with_gradient.add(node)
        return node

    def _read_inside(self, depth: int, proxy: ExampleProxy) -> Node | None:
        """Return a node that reads an attribute, such as a dtype, from a tensor that is an operand."""
        source, inner = vars(proxy)["_source"], self._running[depth - 1]
        if source is None or vars(proxy)["_node"] is not None or isinstance(proxy.example, (torch.Tensor, int)):
            return None
        owner, name = self._local(depth, source[0]), source[1]
        made: Node = inner.local.get((owner, name)) or inner.graph.call_function(getattr, (owner, name))
        inner.local[owner, name] = made
        self._tracer.answers.scalars.add(made)
        return made

    def _operand(self, depth: int, proxy: ExampleProxy) -> Node:
        inner = self._running[depth - 1]
        outside = self._local(depth - 1, proxy)
        if outside is not proxy.node:
            flags = proxy.is_data, proxy.has_contents, proxy.other
            proxy = proxy_of(self._tracer, outside, proxy.example, *flags)
        made = self._noted(inner.add_operand(outside, proxy), proxy.example)
        self._samples[made] = Sample(made.name, proxy.example, proxy)
        return made

    def _repeated(self, inner: InnerGraph, proxy: ExampleProxy) -> Any:
        """Return an argument for a value from outside that cannot be an operand: compute it again from operands."""
        tracer, node = self._tracer, proxy.node
        if holds_tensors(proxy):
            return items_of(proxy, tracer.create_arg)
        source = vars(proxy)["_source"]
        recipe: Any = ("call_function", getattr, source, {}) if source else vars(proxy).get("recipe")
        if recipe is None:
            raise TraceError(
                f"the value {node.name!r} is used{tracer._place()} in the function that becomes {inner.name!r}, and a "
                f"{type(proxy.example).__name__} cannot be an input of it\nCompute it from tensors in the function"
            )
        kind, target, args, kwargs = recipe
        made: Node = tracer.create_node(kind, target, tracer.create_arg(args), tracer.create_arg(kwargs))
        tracer.answers.scalars.add(made)
        return made

    def _escaped(self, value: str) -> TraceError:
        return TraceError(
            f"{value} was made in a function that a higher-order operator calls, and is used outside of it"
            f"{self._tracer._place()}\nReturn it from the function, because only results of the operator leave it"
        )

    # Modules.

    def modules(self, graphs: Sequence[InnerGraph]) -> tuple[list[GraphModule], list[ExampleProxy]]:
        """Return graph modules that take the same operands, and the operands. Their user keeps them."""
        operands = {outside: proxy for inner in graphs for outside, (_, proxy) in inner.operands.items()}
        made = []
        for inner in graphs:
            inner.take_operands(operands)
            called = {str(node.target) for node in inner.graph.nodes if node.op == "call_module"}
            inner.modules.update({path: self._tracer.root.get_submodule(path) for path in called})
            made.append(GraphModule(inner.modules, inner.graph))
            self._keep(made[-1], inner.name)
        return made, list(operands.values())

    def _keep(self, module: GraphModule, name: str) -> None:
        if not self._running:
            self.paths[module] = self._tracer._install(f"{name}_", module)
            return
        holder = self._running[-1].modules
        number = sum(path.rpartition("_")[0] == name for path in holder)
        path = self.paths[module] = f"{name}_{number}"
        holder[path] = module

    # Guards.

    def outermost(self, node: Node) -> Node | None:
        """Return a node of the outermost graph with the value of a node, so that a guard on inputs can compute it.

        In a loop, the value is that of the first run. Return None for a value that an operator makes itself.
        """
        if node.graph is self._outermost:
            return node
        if node not in self._twins:
            with self._at([]):
                made = self._twin_of(node)
            if made is None:
                return None
            self._twins[node] = made
        return self._twins[node]

    def _twin_of(self, node: Node) -> Node | None:
        sample, graph = self._samples.get(node), self._outermost
        if sample is not None:
            owner = None if sample.owner is None else self.outermost(sample.owner.node)
            if sample.select is None or owner is None:
                return owner
            function, more = sample.select
            made = graph.call_function(function, (owner, *more))
        elif node.op == "get_attr":
            made = graph.get_attr(self._tracer._install("_guard_graph", self._graphs[node.graph].modules[node.target]))
        else:
            inputs = {each: self.outermost(each) for each in node.all_input_nodes}
            if None in inputs.values():
                return None
            made = graph.node_copy(node, lambda each: inputs[each] or each)
        if node in self._tracer.answers.scalars:
            self._tracer.answers.scalars.add(made)
        self._made_for_guards.add(made)
        return made

    def remove_twins(self) -> None:
        """Remove the nodes of the outermost graph that only guards needed."""
        for node in reversed(self._outermost.nodes):
            if node in self._made_for_guards and not node.users:
                self._outermost.erase_node(node)


def holds_tensors(proxy: ExampleProxy) -> bool:
    """Return whether a proxy stands for a container that holds more than numbers."""
    value = proxy.example
    return isinstance(value, (list, tuple, dict)) and not isinstance(value, torch.Size)


def items_of(proxy: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a container like the value of a proxy, with its converted items."""
    if isinstance(proxy.example, dict):
        return {key: convert(proxy[key]) for key in proxy.keys()}  # noqa: SIM118 - no dict
    return type(proxy.example)([convert(proxy[index]) for index in range(len(proxy))])
