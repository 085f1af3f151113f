"""Passes over graphs, one a file."""

from __future__ import annotations

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(
    __name__,
    "constant_folding",
    "dead_code",
    "decomposition",
    "dialect",
    "exchange",
    "extraction",
    "fake_tensor_prop",
    "fusion",
    "graph_drawer",
    "graph_manipulation",
    "graph_transform_observer",
    "identities",
    "infra",
    "inlining",
    "instrumentation",
    "operator_support",
    "pass_manager",
    "quantization",
    "shape_prop",
    "split_module",
    "split_utils",
    "splitting",
    "tools_common",
    "utils",
)
