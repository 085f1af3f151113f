"""Passes and recipes of opt_einsum_fx, torchvision, timm, onnx2torch and torch.onnx."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.clients.case import Recipe, equivalence, fixture_of, golden, operators, transform
from tests.clients.harm import dropped, scaled

SYMBOLIC = ("fxcore", "torch.fx")


def einsums_in_order(graph_module: torch.fx.GraphModule) -> Any:
    from opt_einsum_fx import optimize_einsums_full

    return optimize_einsums_full(graph_module, fixture_of("einsums")[1])


def rewritten(name: str) -> Callable[[torch.fx.GraphModule], Any]:
    """Return a pass of opt_einsum_fx that takes and returns a graph."""

    def step(graph_module: torch.fx.GraphModule) -> Any:
        import opt_einsum_fx

        return torch.fx.GraphModule(graph_module, getattr(opt_einsum_fx, name)(graph_module.graph))

    return step


EINSUMS = "opt-einsum-fx"
transform(
    EINSUMS,
    "optimize_einsums_full",
    "einsums",
    einsums_in_order,
    scaled("second"),
    "tensordot",
    SYMBOLIC,
    checks=("values", "dtype"),
)
transform(EINSUMS, "fuse_scalars", "einsums", rewritten("fuse_scalars"), scaled("first"), "einsum", SYMBOLIC)


def extracted(node: str) -> Recipe:
    """Return a recipe that makes a feature extractor of torchvision, for one node."""

    def recipe(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
        from torchvision.models.feature_extraction import create_feature_extractor

        return create_feature_extractor(model, {node: "features"})

    return recipe


def features_of_timm(node: str) -> Recipe:
    """Return a recipe that makes a feature extractor of timm, for one node."""

    def recipe(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
        from timm.models._features_fx import create_feature_extractor

        return create_feature_extractor(model, [node])

    return recipe


def relu_is_called(query: Any) -> None:
    query.in_order(nn.Conv2d, nn.BatchNorm2d, F.relu)
    query.absent(nn.Linear)


def through_onnx(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Export to ONNX and convert back."""
    import onnx
    from onnx2torch import convert

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, file := io.BytesIO(), dynamo=False, opset_version=13)
    return convert(onnx.load_from_string(file.getvalue()))


def decomposed_for_onnx(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Return the program from which torch.onnx makes the ONNX model, after its own decompositions."""
    return torch.onnx.export(model, inputs, dynamo=True, verbose=False).exported_program


VISION = "torchvision"
for features, library in ((extracted, VISION), (features_of_timm, "timm")):
    name = "create_feature_extractor"
    golden(
        library,
        name,
        "conv norm",
        features("relu"),
        "`bn` in place of `relu`",
        "relu",
        "torch.fx",
        spoilt=features("bn"),
    )
    operators(
        library,
        name,
        "conv norm",
        features("relu"),
        relu_is_called,
        "`bn` in place of `relu`",
        "relu",
        "torch.fx",
        spoilt=features("bn"),
    )
equivalence("onnx2torch", "convert", "linears", through_onnx, dropped("ReLU"), "relu", "torch.fx")
equivalence("onnx2torch", "convert", "spelled", through_onnx, scaled("weight"), "conv", "torch.fx")
equivalence(
    "onnxscript", "torch.onnx.export", "conv norm", decomposed_for_onnx, scaled("bn.bias"), "batch_norm", "export"
)
golden(
    "onnxscript", "torch.onnx.export", "activations", decomposed_for_onnx, dropped("hardswish"), "hardswish", "export"
)
