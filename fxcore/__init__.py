"""fxcore: symbolic tracing, a graph of six opcodes, and Python code from it; a drop-in for torch.fx."""

import sys

if "torch" not in sys.modules:
    # torch loads device backends at its import, and a backend may import fxcore. This half-made module would lack
    # every name, so the backend gets a module of its own, and Python hands the same module to whoever imports this one.
    _half_made = sys.modules.pop(__name__)
    import torch as _torch  # noqa: F401

    sys.modules.setdefault(__name__, _half_made)

from fxcore import immutable_collections
from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import FxError
from fxcore.graph import CodeGen, Graph
from fxcore.graph_module import GraphModule
from fxcore.guided.answers import assume
from fxcore.guided.diagnosis import diagnose
from fxcore.interpreter import Interpreter, Transformer
from fxcore.lazy_submodules import on_demand
from fxcore.node import Node, has_side_effect, map_arg
from fxcore.proxy import Proxy
from fxcore.subgraph_rewriter import replace_pattern
from fxcore.tracer import Tracer
from fxcore.tracing.placeholders import PH
from fxcore.tracing.wrap import ProxyableClassMeta, wrap

__all__ = [
    "PH",
    "CodeGen",
    "FxError",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "assume",
    "diagnose",
    "has_side_effect",
    "immutable_collections",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

__getattr__ = on_demand(__name__)
