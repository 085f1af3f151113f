"""The dialects that passes of other libraries speak, and the graph of a model in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

import fxcore

Dialect = Literal["fxcore", "torch.fx", "make_fx", "export", "edge"]
Pass = Callable[[Any], Any]


def graph_in(dialect: Dialect, model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Return the graph of a model in a dialect, as users of the dialect make it."""
    if dialect == "fxcore":
        return fxcore.symbolic_trace(model)
    if dialect == "torch.fx":
        return torch.fx.symbolic_trace(model)
    if dialect == "make_fx":
        from torch.fx.experimental.proxy_tensor import make_fx

        with torch.no_grad():
            return make_fx(model)(*inputs)
    exported = torch.export.export(model, inputs, strict=False)
    if dialect == "export":
        return exported
    from executorch.exir import EdgeCompileConfig, to_edge

    return to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def adapted(dialect: Dialect, step: Pass) -> Pass:
    """Return a pass for graphs of the dialect: a pass of torch.fx gets a graph of fxcore through `interop`."""
    if dialect != "fxcore":
        return step

    def through_torch(graph_module: fxcore.GraphModule) -> Any:
        made = step(fxcore.interop.to_torch(graph_module))
        made = getattr(made, "graph_module", made)
        return fxcore.interop.from_torch(made) if isinstance(made, torch.fx.GraphModule) else made

    return through_torch
