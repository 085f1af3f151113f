"""Single operations on a graph of many nodes, where torch.fx is partly written in C++."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.library import Library
from benchmarks.subjects import Identity, chain_graph
from benchmarks.task import Task

NODES = 10_000


@dataclass(frozen=True)
class Operation:
    """An operation, done `units` times in one run, and the ratio over torch.fx that it is to reach."""

    name: str
    target: float
    task: Callable[..., Task]  # of a library and, where the operation has a size, of a number of nodes
    units: int = NODES


def _create(library: Library, size: int = NODES) -> Task:
    return Task(lambda _: chain_graph(library, size))


def _insert(library: Library, size: int = NODES) -> Task:
    def run(graph: Any) -> None:
        for node in list(graph.nodes)[1:-1]:
            with graph.inserting_after(node):
                graph.call_function(operator.neg, (node,))

    return Task(run, lambda: chain_graph(library, size))


def _insert_and_replace(library: Library, size: int = NODES) -> Task:
    def run(graph: Any) -> None:
        for node in list(graph.nodes)[1:-1]:
            with graph.inserting_after(node):
                added = graph.call_function(operator.neg, (node,))
            node.replace_all_uses_with(added, lambda user, added=added: user is not added)

    return Task(run, lambda: chain_graph(library, size))


def _iterate(library: Library, size: int = NODES) -> Task:
    graph = chain_graph(library, size)
    return Task(lambda _: [None for _ in graph.nodes])


def _map_arg(library: Library, size: int = NODES) -> Task:
    nodes = list(chain_graph(library, size).nodes)
    map_arg = library.fx.node.map_arg
    return Task(lambda _: [map_arg(node.args, _itself) for node in nodes])


def _itself(value: Any) -> Any:
    return value


def _set_arguments(library: Library, size: int = NODES) -> Task:
    nodes = list(chain_graph(library, size).nodes)

    def run(_: Any) -> None:
        for node in nodes:
            node.args = node.args

    return Task(run)


def _set_target(library: Library, size: int = NODES) -> Task:
    nodes = list(chain_graph(library, size).nodes)[1:-1]

    def run(_: Any) -> None:
        for node in nodes:
            node.target = operator.add

    return Task(run)


def _replace_uses(library: Library, size: int = NODES) -> Task:
    def prepare() -> tuple[Any, Any]:
        graph = library.fx.Graph()
        first, second = graph.placeholder("first"), graph.placeholder("second")
        for _ in range(size):
            graph.call_function(operator.neg, (first,))
        return first, second

    return Task(lambda pair: pair[0].replace_all_uses_with(pair[1]), prepare)


def _find(library: Library, size: int = NODES) -> Task:
    graph = chain_graph(library, size)
    return Task(lambda _: graph.find_nodes(op="call_function", target=operator.add))


def _erase(library: Library, size: int = NODES) -> Task:
    def run(graph: Any) -> None:
        for node in reversed(list(graph.nodes)):
            graph.erase_node(node)

    return Task(run, lambda: chain_graph(library, size))


def _dead_code(library: Library, size: int = NODES) -> Task:
    def prepare() -> Any:
        graph = library.fx.Graph()
        value = graph.placeholder("x")
        for _ in range(size):
            value = graph.call_function(operator.neg, (value,))
        graph.output(None)
        return graph

    return Task(lambda graph: graph.eliminate_dead_code(), prepare)


def _graph_copy(library: Library, size: int = NODES) -> Task:
    graph = chain_graph(library, size)
    return Task(lambda _: library.fx.Graph().graph_copy(graph, {}))


def _format(library: Library, size: int = NODES) -> Task:
    nodes = list(chain_graph(library, size).nodes)
    return Task(lambda _: [node.format_node() for node in nodes])


def _identity(library: Library, size: int = 1) -> Task:
    module = Identity()
    return Task(lambda _: library.fx.symbolic_trace(module))


# A ratio of 0.5 is "within twice torch's C++".
OPERATIONS = (
    Operation("create_node", 1, _create),
    Operation("insert", 1, _insert),
    Operation("insert + replace uses", 1, _insert_and_replace),
    Operation("iterate", 0.5, _iterate),
    Operation("map_arg", 0.5, _map_arg),
    Operation("set args", 0.5, _set_arguments),
    Operation("set target", 1, _set_target),
    Operation("replace uses, per user", 0.5, _replace_uses),
    Operation("find_nodes", 0.5, _find),
    Operation("erase_node", 1, _erase),
    Operation("dead code", 1, _dead_code),
    Operation("graph_copy", 1, _graph_copy),
    Operation("format_node", 1, _format),
    Operation("symbolic_trace of x -> x, whole", 10, _identity, units=1),
)
