"""Tracing code that a graph module was pickled as, to have its graph again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from fxcore.code_pickle import CodeOnlyModule, CodePickle
from fxcore.graph_module import GraphModule
from fxcore.tracer import Tracer


def retrace(forward: Callable[..., Any], body: dict[str, Any]) -> nn.Module:
    """Return a graph module with the attributes in `body` whose graph is that of `forward`.

    `body` may name the class of tracer to use (`_tracer_cls`), arguments for it (`_tracer_extras`), the class name of
    the result (`_graphmodule_cls_name`) and stack traces of nodes (`_graphmodule_graph_node_meta_stack_trace`).
    """
    body = dict(body)
    stack_traces = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    tracer_class = body.get("_tracer_cls") or Tracer
    # Tracing takes forward from the class.
    root = type("CodeOnlyModule", (CodeOnlyModule,), {"forward": forward})(body)
    # The code calls what was a leaf when it was first traced.
    keeps_modules = type("KeepModules", (tracer_class,), {"is_leaf_module": lambda self, module, path: True})
    graph = keeps_modules().trace(root, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = tracer_class
    for node in graph.nodes:
        if stack_traces.get(node.name) is not None:
            node.stack_trace = stack_traces[node.name]
    made = GraphModule(root, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


CodePickle.retrace = staticmethod(retrace)
