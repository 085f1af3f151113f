"""The passes of torch.fx, under its file names."""

from __future__ import annotations

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(
    __name__,
    "dialect",
    "fake_tensor_prop",
    "graph_drawer",
    "graph_manipulation",
    "graph_transform_observer",
    "infra",
    "operator_support",
    "pass_manager",
    "shape_prop",
    "split_module",
    "split_utils",
    "tools_common",
    "utils",
)
