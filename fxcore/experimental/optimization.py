"""Making a model faster for inference."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from torch import nn

from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import GraphArgumentError, PassError
from fxcore.experimental.mkldnn_layout import (
    MklSubgraph,
    UnionFind,
    extract_subgraph,
    gen_mkl_autotuner,
    mkldnn_map,
    mkldnn_supported,
    mkldnn_supported_unknown,
    modules_to_mkldnn,
    replace_node_module,
    reset_modules,
    use_layout,
    use_mkl_length,
)
from fxcore.graph_module import GraphModule
from fxcore.interpreter import Transformer
from fxcore.node import Argument, Node, Target
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.tracer import Tracer
from fxcore.transforms.fusion.batch_norm import FuseBatchNorm
from fxcore.transforms.identities import FUNCTIONAL_DROPOUTS

__all__ = [
    "MklSubgraph",
    "UnionFind",
    "extract_subgraph",
    "fuse",
    "gen_mkl_autotuner",
    "matches_module_pattern",
    "mkldnn_map",
    "mkldnn_supported",
    "mkldnn_supported_unknown",
    "modules_to_mkldnn",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
    "reset_modules",
    "use_mkl_length",
]


_FUSED = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)  # the layers that torch.fx fuses


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]) -> bool:
    """Return whether `node` calls a module of the second class on the result of a module of the first class."""
    if not node.args:
        return False
    return all(
        isinstance(call, Node) and call.op == "call_module" and type(modules.get(str(call.target))) is expected
        for expected, call in zip(pattern, (node.args[0], node), strict=False)
    )


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Return a graph module with batch normalisation folded into the convolution and linear layers before it.

    `model` must be in eval mode. It is traced unless it is a graph module and `no_trace` is set; then `inplace` also
    replaces the layers in `model` itself. `fxcore.transforms.fusion` fuses more kinds of layers, and reports them. A
    layer with other readers of its result or its weights stays as it is; one that is called several times is fused if
    the same normalisation follows each call.
    """
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    result = FuseBatchNorm(_FUSED, functions=False).call(traced)
    fused: Any = result.graph_module
    if inplace and traced is model:
        for each in result.report.changed:
            set_attribute(traced, each.layer, get_attribute(fused, each.layer))
    return GraphModule(fused, fused.graph if result.modified else copy.deepcopy(fused.graph))


def remove_dropout(model: nn.Module) -> nn.Module:
    """Return a graph module of `model` without `nn.Dropout`, and without active functional dropout.

    torch.fx leaves functional dropout: `F.dropout(x, training=self.training)` in a model that is traced in training
    mode keeps dropping values, also after a later `eval()` (pytorch#68190).
    """
    return _DropoutRemover(symbolic_trace(model)).transform()


class _DropoutRemover(Transformer):
    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.submodules[str(target)], nn.Dropout):
            if len(args) != 1:
                raise GraphArgumentError(f"Expected 1 arg for Dropout, got {len(args)}: {target} is called otherwise")
            return args[0]
        return super().call_module(target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if target in FUNCTIONAL_DROPOUTS and (args[2] if len(args) > 2 else kwargs.get("training")) is True:
            return args[0]
        return super().call_function(target, args, kwargs)


def optimize_for_inference(
    model: nn.Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> nn.Module:
    """Return a faster graph module of `model`, which is in eval mode, for inference on the CPU.

    The steps, unless `pass_config` changes them: `{"conv_bn_fuse": True, "remove_dropout": True,
    "mkldnn_layout_optimize": {"heuristic": use_mkl_length}}`. The heuristic takes a MklSubgraph and
    returns whether to run it in oneDNN's memory layout; False in its place leaves this step out. Values must not be
    changed in place. Raises PassError (a RuntimeError) for a config of another form.
    """
    config = {
        "conv_bn_fuse": True,
        "remove_dropout": True,
        "mkldnn_layout_optimize": {"heuristic": use_mkl_length},
        **(pass_config or {}),
    }
    original = model
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    layout = config["mkldnn_layout_optimize"]
    if layout is False:
        return model
    if not isinstance(layout, dict):
        raise PassError(
            f"mkldnn_layout_optimize config is not a dict: {layout!r}; give {{'heuristic': function}} or False"
        )
    if "heuristic" not in layout:
        raise PassError("Heuristic not found in mkldnn_layout_optimize config; give {'heuristic': function} or False")
    if model is original:
        model = copy.deepcopy(model)  # modules are about to be replaced
    recorder = tracer()
    graph = recorder.trace(copy.deepcopy(model))
    GraphModule(recorder.root, graph)  # the heuristic may run it
    use_layout(graph, dict(model.named_modules()), layout["heuristic"])
    graph.lint()
    return GraphModule(model, graph)
