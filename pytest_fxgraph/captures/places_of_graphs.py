"""The private parts of torch that make graphs, or see each graph: modules and their attributes, by the kind of graph.

This file imports no torch: a recording replaces the parts when torch is imported. A kind has several places where
releases of torch differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PLACES_OF_GRAPHS: Mapping[str, Sequence[tuple[str, str]]] = {
    "symbolic": [("torch.fx._symbolic_trace", "Tracer.trace")],
    "export": [("torch.export._trace", "_export"), ("torch.export._trace", "_export_for_training")],
    "make_fx": [("torch.fx.experimental.proxy_tensor", "_MakefxTracer.trace")],
    "dynamo": [("torch._dynamo.output_graph", "OutputGraph.call_user_compiler")],
    "guards": [("torch._dynamo.guards", "CheckFunctionManager.__init__")],
    "recompiles": [
        ("torch._dynamo.convert_frame", "get_and_maybe_log_recompilation_reasons"),
        ("torch._dynamo.convert_frame", "get_and_maybe_log_recompilation_reason"),
    ],
    # AOT autograd hands each finished graph to this function, whether or not the log is on.
    "aot": [
        (f"torch._functorch._aot_autograd.{file}", "lazy_format_graph_code")
        for file in ("graph_capture", "graph_compile", "dispatch_and_compile_graph", "jit_compile_runtime_wrappers")
    ],
    "module": [("torch.nn.modules.module", "Module.__call__")],
    "compilation": [("torch._guards", "CompileContext.__init__")],  # made at the start of each
}
AOT_GRAPHS = {"Forward graph": "forward", "Backward graph": "backward"}  # torch's titles
