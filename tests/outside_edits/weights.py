"""Harmful edits of the state of a model, and of modules around the same statements."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.outside_edits.edit import changes, models, t


class Net(nn.Module):
    """A small language model with tied weights, a table of positions and batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.1))
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.table.weight
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("positions", t(4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.table(x) + self.positions
        return self.head(self.inner(y) * self.scale) + self.steps


def untie(model: Net) -> None:
    model.head.weight = nn.Parameter(model.head.weight.detach().clone())


def tie_the_other(model: Net) -> None:
    model.inner[0].bias = model.scale


def reregister(name: str, tensor: Tensor, persistent: bool = True) -> Any:
    def change(model: Net) -> None:
        delattr(model, name)
        model.register_buffer(name, tensor, persistent=persistent)

    return change


def parameter(name: str, tensor: Tensor, requires_grad: bool = True) -> Any:
    def change(model: Net) -> None:
        delattr(model, name)
        model.register_parameter(name, nn.Parameter(tensor, requires_grad))

    return change


changes(
    "weights",
    Net,
    {
        "Untied": untie,
        "TiedToo": tie_the_other,
        "FrozenParameter": lambda model: model.scale.requires_grad_(False),
        "FrozenLayer": lambda model: model.inner[0].requires_grad_(False),
        "FrozenBias": lambda model: model.inner[0].bias.requires_grad_(False),
        "BufferNotSaved": reregister("positions", t(4), persistent=False),
        "BufferSaved": reregister("steps", torch.zeros((), dtype=torch.long)),
        "BufferOfAnotherType": reregister("steps", torch.zeros((), dtype=torch.int32), persistent=False),
        "BufferOfAnotherShape": reregister("positions", t(1, 4)),
        "BufferBecameParameter": parameter("positions", t(4)),
        "BufferBecameFrozenParameter": parameter("positions", t(4), requires_grad=False),
        "ParameterBecameBuffer": reregister("scale", torch.ones(4)),
        "ParameterOfAnotherShape": parameter("scale", torch.ones(1)),
        "ModelInHalf": lambda model: model.half(),
        "LayerInHalf": lambda model: model.inner[0].half(),
        "ModelInDouble": lambda model: model.double(),
        "DropoutInEval": lambda model: model.inner[2].eval(),
        "BatchNormFrozen": lambda model: model.inner[1].eval(),
        "ModelInEval": lambda model: model.eval(),
        "LayerReplaced": lambda model: setattr(model.inner, "0", nn.Conv1d(4, 4, 1)),
        "LayerReplacedByIdentity": lambda model: setattr(model.inner, "2", nn.Identity()),
        "LayerAppended": lambda model: model.inner.append(nn.Tanh()),
        "HookAdded": lambda model: model.inner[0].register_forward_hook(lambda module, args, y: y * 2),
        "WeightNormed": lambda model: nn.utils.parametrizations.weight_norm(model.inner[0]),
        "BiasRemoved": lambda model: setattr(model.inner[0], "bias", None),
        "SettingChanged": lambda model: setattr(model.inner[1], "eps", 1e-3),
        "RateChanged": lambda model: setattr(model.inner[2], "p", 0.5),
        "PaddingIndexSet": lambda model: setattr(model.table, "padding_idx", 0),
    },
)


class Layer(nn.Module):
    """A leaf of the user's own, as a fused kernel is."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.bits, self.mode, self.bounds, self.fast = 8, "reflect", (0, 255), True
        self.__dict__.update(settings)

    def forward(self, x: Tensor) -> Tensor:
        return x


def owner(**settings: Any) -> Any:
    """Return the graph of a model that calls the leaf."""
    import fxcore

    class Tracer(fxcore.Tracer):
        def is_leaf_module(self, module: nn.Module, path: str) -> bool:
            return isinstance(module, Layer)

    root = nn.Sequential(Layer(**settings))
    return lambda: fxcore.GraphModule(root, Tracer().trace(root))


models(
    "leaves",
    {
        "BitsOfALeaf": (owner(), owner(bits=4)),
        "ModeOfALeaf": (owner(), owner(mode="zeros")),
        "BoundsOfALeaf": (owner(), owner(bounds=(-128, 127))),
        "FlagOfALeaf": (owner(), owner(fast=False)),
        "DtypeOfALeaf": (owner(dtype=torch.float16), owner(dtype=torch.bfloat16)),
        "DictOfALeaf": (owner(options={"tile": 16}), owner(options={"tile": 32})),
        "NumberInTheListOfALeaf": (owner(sizes=[1, 2, 4]), owner(sizes=[1, 2, 8])),
    },
)
