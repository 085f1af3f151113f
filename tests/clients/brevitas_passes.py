"""Passes of brevitas, which trace with brevitas' own copy of torch.fx."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from tests.clients.case import transform
from tests.clients.dialects import Pass
from tests.clients.harm import Harm, dropped, scaled

SYMBOLIC = ("fxcore", "torch.fx")


def brevitas_pass(place: str, name: str, *before: tuple[str, str]) -> Pass:
    """Return a pass that brevitas applies to its own trace of a graph, after the passes that must come first."""

    def step(graph_module: torch.fx.GraphModule) -> Any:
        made = importlib.import_module("brevitas.fx").symbolic_trace(graph_module)
        for module, kind in (*before, (place, name)):
            made = getattr(importlib.import_module(f"brevitas.graph.{module}"), kind)().apply(made)
        return made

    return step


def preprocessed(graph_module: torch.fx.GraphModule) -> Any:
    return importlib.import_module("brevitas.graph.quantize").preprocess_for_quantize(graph_module, equalize_iters=5)


def enter(place: str, name: str, model: str, harm: Harm, named: str, *before: tuple[str, str], **options: Any) -> None:
    """Enter a pass of brevitas in both symbolic dialects."""
    transform("brevitas", name, model, brevitas_pass(place, name, *before), harm, named, SYMBOLIC, **options)


enter("fixed_point", "MergeBatchNorm", "conv norm", scaled("conv.bias"), "conv2d")
enter("standardize", "DuplicateSharedStatelessModule", "spelled", dropped("ReLU", 1), "relu")
enter("standardize", "MeanMethodToAdaptiveAvgPool2d", "conv norm", dropped("relu"), "relu")
transform(
    "brevitas",
    "preprocess_for_quantize",
    "conv norm",
    preprocessed,
    dropped("ReLU"),
    "relu",
    SYMBOLIC,
)
