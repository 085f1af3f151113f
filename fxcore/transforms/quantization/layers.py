"""The layers that can be quantized, and the user's choice of layers that stay in floating point."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.ao.nn.intrinsic as nni
import torch.ao.nn.intrinsic.quantized as nniq
import torch.ao.nn.quantized as nnq
import torch.ao.nn.quantized.reference as nnr
from torch import nn

from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.nodes.shared_storage import SharedStorage
from fxcore.transforms.fusion.calls import TRANSPOSED, has_hooks, is_read_inside
from fxcore.transforms.fusion.report import Left
from fxcore.transforms.quantization.observers import MakeObserver

__all__ = ["QUANTIZED", "REFERENCE", "Skip", "core_of", "reference_of"]

# A layer of torch -> the one that keeps its weight in floating point with a scale, and quantizes it as it runs.
REFERENCE: Mapping[type[nn.Module], Any] = {
    nn.Linear: nnr.Linear,
    nn.Conv1d: nnr.Conv1d,
    nn.Conv2d: nnr.Conv2d,
    nn.Conv3d: nnr.Conv3d,
    nn.ConvTranspose1d: nnr.ConvTranspose1d,
    nn.ConvTranspose2d: nnr.ConvTranspose2d,
    nn.ConvTranspose3d: nnr.ConvTranspose3d,
}
# Joined with an activation: the layer is the first part.
_JOINED = (nni.LinearReLU, nni.ConvReLU1d, nni.ConvReLU2d, nni.ConvReLU3d)
# A reference layer, or the module that it is part of -> the one that computes with integers.
QUANTIZED: Mapping[type[nn.Module], Any] = {
    nnr.Linear: nnq.Linear,
    nnr.Conv1d: nnq.Conv1d,
    nnr.Conv2d: nnq.Conv2d,
    nnr.Conv3d: nnq.Conv3d,
    nnr.ConvTranspose1d: nnq.ConvTranspose1d,
    nnr.ConvTranspose2d: nnq.ConvTranspose2d,
    nnr.ConvTranspose3d: nnq.ConvTranspose3d,
    nni.LinearReLU: nniq.LinearReLU,
    nni.ConvReLU1d: nniq.ConvReLU1d,
    nni.ConvReLU2d: nniq.ConvReLU2d,
    nni.ConvReLU3d: nniq.ConvReLU3d,
}


@dataclass(frozen=True)
class Skip:
    """Layers that stay in floating point, named by path, glob or class."""

    paths: tuple[str, ...] = ()
    types: tuple[type[nn.Module], ...] = ()

    def reason(self, path: str, module: nn.Module) -> str | None:
        """Return the reason to skip a layer, or None."""
        for pattern in self.paths:
            if fnmatchcase(path, pattern):
                return f"its path is skipped by {pattern!r}"
        core = core_of(module)
        found = [kind for kind in self.types if isinstance(module, kind) or isinstance(core, kind)]
        return f"layers of class {found[0].__name__} are skipped" if found else None


def core_of(module: nn.Module) -> nn.Module:
    """Return the layer with the weight. A layer may be joined with an activation in a sequence."""
    return module[0] if type(module) in _JOINED else module  # type: ignore[index]  # a joined layer is a sequence


def layers_to_quantize(gm: GraphModule, skip: Skip) -> tuple[list[Node], list[Left]]:
    """Return the calls of layers to quantize, and all other layers with the reason to leave them."""
    found: list[Node] = []
    left: list[Left] = []
    storage = SharedStorage(gm.graph.nodes, gm)
    for node in gm.graph.find_nodes(op="call_module"):
        module = get_attribute(gm, str(node.target))
        core: Any = core_of(module)
        if type(core) not in REFERENCE:
            continue
        reason = reason_to_stay(str(node.target), gm, skip) or _reason_against(node, core, storage)
        if reason is None:
            found.append(node)
        else:
            left.append(Left(str(node.target), reason))
    return found, left


def reason_to_stay(path: str, gm: GraphModule, skip: Skip) -> str | None:
    """Return the reason for every kind of quantization to leave the layer at `path` in floating point, or None."""
    layer: Any = get_attribute(gm, path)
    reason = skip.reason(path, layer)
    if reason is not None:
        return reason
    if has_hooks(layer) or has_hooks(core_of(layer)):
        return "it has hooks, which would see other values, or none"
    if is_read_inside(path, gm):
        return "the graph reads its weights itself"
    return None


def _reason_against(node: Node, core: Any, storage: SharedStorage) -> str | None:
    if core.weight.dtype is not torch.float32:
        return f"its weight is of {core.weight.dtype}; only that of torch.float32 is quantized"
    if getattr(core, "padding_mode", "zeros") != "zeros":
        return f"it pads by {core.padding_mode!r}, and quantized layers pad by zeros alone"
    if len(node.args) != 1 or not isinstance(node.args[0], Node):
        return "it is not called with one value"
    value = node.args[0]
    written = storage.writers_after(value)
    if any(writer < node for writer in written):
        return f"what it takes is written to before, by {written[0].name}"
    if written and (not value.op.startswith("call_") or storage.made_before(value)):
        return f"what it takes is written to by {written[0].name}, which others may see"
    return None


def reference_of(module: nn.Module, make_observer: MakeObserver) -> nn.Module:
    """Return a layer that computes with the quantized weight. `module` stays unchanged and shares its weight."""
    core: Any = core_of(module)
    observer = make_observer()
    if isinstance(core, TRANSPOSED) and hasattr(observer, "ch_axis"):
        observer.ch_axis = 1  # the axis of output channels
    observer(core.weight)
    scale, zero_point = observer.calculate_qparams()
    parameters = {"qscheme": _affine(observer.qscheme), "dtype": observer.dtype, "scale": scale}
    parameters["zero_point"] = zero_point
    if observer.qscheme in (torch.per_channel_affine, torch.per_channel_symmetric):
        parameters["axis"] = observer.ch_axis
    else:
        parameters["scale"], parameters["zero_point"] = float(scale), int(zero_point)
    made: nn.Module = REFERENCE[type(core)].from_float(core, parameters)
    if core is not module:
        joined: Any = copy.copy(module)
        joined._modules = {**module._modules, "0": made}
        made = joined
    return made.train(module.training)


def _affine(scheme: torch.qscheme) -> torch.qscheme:
    symmetric = {
        torch.per_tensor_symmetric: torch.per_tensor_affine,
        torch.per_channel_symmetric: torch.per_channel_affine,
    }
    return symmetric.get(scheme, scheme)
