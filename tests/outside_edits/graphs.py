"""Harmful edits of branches, nested graphs, exports, sizes and layouts."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.outside_edits.edit import changes, functions, models, t


class Configured(nn.Module):
    def __init__(self, depth: int = 2, residual: bool = True, activation: Any = F.relu, share: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
        if share:
            self.layers[1] = self.layers[0]
        self.residual, self.activation = residual, activation

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            y = self.activation(layer(x))
            x = x + y if self.residual else y
        return x


class Reversed(Configured):
    def forward(self, x: Tensor) -> Tensor:
        for layer in reversed(self.layers):
            x = x + self.activation(layer(x))
        return x


class TrainingBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.training else x * 3


models(
    "branches",
    {
        "Depth": (Configured, lambda: Configured(3)),
        "OtherBranch": (Configured, lambda: Configured(residual=False)),
        "ActivationByArgument": (Configured, lambda: Configured(activation=torch.tanh)),
        "LayersReversed": (Configured, Reversed),
        "LayersShared": (Configured, lambda: Configured(share=True)),
        "BranchOfTraining": (TrainingBranch, lambda: TrainingBranch().eval()),
    },
)


def choose(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


EXPORT = {"frontend": "export", "example_inputs": (t(3, 4),)}

functions(
    "exports",
    {
        "BranchesExchanged": (choose, lambda x: torch.cond(x.sum() > 0, torch.cos, torch.sin, (x,))),
        "BranchEdited": (choose, lambda x: torch.cond(x.sum() > 0, torch.sin, lambda v: v.cos() * 2, (x,))),
        "Condition": (choose, lambda x: torch.cond(x.sum() >= 0, torch.sin, torch.cos, (x,))),
        "ExportedConstant": (lambda x: x * 2, lambda x: x * 3),
        "ExportedType": (lambda x: x.double().sum(), lambda x: x.sum()),
        "ExportedAxis": (lambda x: x.softmax(-1), lambda x: x.softmax(0)),
        "ExportedWriteLost": (lambda x: x.add_(1) * 1, lambda x: (x + 1) * 1),
    },
    **EXPORT,
)

changes(
    "exports",
    lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.GELU()),
    {
        "ExportedDropoutRate": lambda model: setattr(model[2], "p", 0.3),
        "ExportedEps": lambda model: setattr(model[1], "eps", 1e-3),
        "ExportedGelu": lambda model: setattr(model[3], "approximate", "tanh"),
        "ExportedInEval": lambda model: model.eval(),
        "ExportedFrozen": lambda model: model[0].requires_grad_(False),
        "ExportedBiasLost": lambda model: setattr(model[0], "bias", None),
    },
    **EXPORT,
)

functions(
    "shapes",
    {
        "ReshapedBySizes": (lambda x: x.reshape(4, 3), lambda x: x.reshape(6, 2)),
        "ExpandedFurther": (lambda x: x[None].expand(2, 3, 4), lambda x: x[None].expand(5, 3, 4)),
        "SizeOfAnotherAxis": (lambda x: x / x.shape[0], lambda x: x / x.shape[1]),
        "RangeOfAnotherAxis": (lambda x: x.sum() + x.size(0), lambda x: x.sum() + x.size(1)),
    },
    example_inputs=(t(3, 4),),
)


def quantized(scale: float = 0.1, zero_point: int = 0, dtype: torch.dtype = torch.qint8) -> Any:
    return lambda x: torch.quantize_per_tensor(x, scale, zero_point, dtype).dequantize()


class Dynamic(nn.Sequential):
    """A model whose linear layer runs in 8 bits, or no longer does."""

    def __init__(self, dtype: torch.dtype | None = torch.qint8) -> None:
        super().__init__(nn.Linear(4, 4), nn.ReLU())
        self.chosen = dtype

    def made(self) -> Any:
        from torch.ao.quantization import quantize_dynamic

        if self.chosen is None:
            return nn.Sequential(*self)
        return quantize_dynamic(nn.Sequential(*self), {nn.Linear}, dtype=self.chosen)


functions(
    "quantised",
    {
        "Scale": (quantized(), quantized(scale=0.2)),
        "ZeroPoint": (quantized(), quantized(zero_point=3)),
        "UnsignedForSigned": (quantized(), quantized(dtype=torch.quint8)),
        "QuantisationLost": (quantized(), lambda x: x * 1),
        "FakeQuantisedBits": (
            lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
            lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7),
        ),
    },
)
models(
    "quantised",
    {
        "DynamicLost": (lambda: Dynamic().made(), lambda: Dynamic(None).made()),
    },
)
if "fbgemm" in torch.backends.quantized.supported_engines:  # other engines have no packed halves
    models("quantised", {"DynamicInHalf": (lambda: Dynamic().made(), lambda: Dynamic(torch.float16).made())})
