"""Passes of executorch, on the edge dialect, applied as its users apply them."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch.fx.passes.infra.pass_manager import PassManager

from tests.clients.case import GAP_OF_LENGTH, GAP_OF_SHAPES, transform
from tests.clients.dialects import Dialect, Pass
from tests.clients.harm import Harm, argument, dropped, replaced, scaled, swapped


def on_manager(place: str, name: str, *arguments: Any) -> Pass:
    """Return `manager.transform([Pass()])` for a pass of a module of executorch."""

    def step(manager: Any) -> Any:
        kind = getattr(importlib.import_module(f"executorch.{place}"), name)
        return manager.transform([kind(*arguments)])

    return step


def on_program(place: str, name: str) -> Pass:
    """Return a pass that needs its exported program, run as the XNNPACK backend runs it."""

    def step(manager: Any) -> Any:
        kind = getattr(importlib.import_module(f"executorch.{place}"), name)
        return manager.transform([kind(manager.exported_program())])

    return step


def edge(place: str, name: str, model: str, harm: Harm, named: str, *arguments: Any, **options: Any) -> None:
    """Enter a pass that is made without the program."""
    transform("executorch", name, model, on_manager(place, name, *arguments), harm, named, ["edge"], **options)


def program(place: str, name: str, model: str, harm: Harm, named: str, **options: Any) -> None:
    """Enter a pass that is made of the program."""
    transform("executorch", name, model, on_program(place, name), harm, named, ["edge"], **options)


def aten(
    place: str,
    name: str,
    model: str,
    harm: Harm,
    named: str,
    dialects: tuple[Dialect, ...] = ("export", "make_fx"),
    **options: Any,
) -> None:
    """Enter a pass that runs before the edge dialect, on the module of an exported program."""

    def step(graph_module: torch.fx.GraphModule) -> Any:
        kind = getattr(importlib.import_module(f"executorch.{place}"), name)
        return PassManager([kind()])(graph_module)

    transform("executorch", name, model, step, harm, named, dialects, **options)


NO_RELU, SUB_SWAPPED = dropped("relu"), swapped("sub")
TRANSFORMS, XNNPACK, EXIR = "backends.transforms", "backends.xnnpack._passes", "exir.passes"

program(
    f"{TRANSFORMS}.fuse_batch_norm_with_conv",
    "FuseBatchNormWithConvPass",
    "conv norm",
    argument("convolution", 4, [1, 1]),
    "convolution",
)
program(f"{XNNPACK}.fuse_batch_norm", "FuseBatchNormPass", "conv norm", scaled("conv_bias"), "convolution.default")
edge(f"{TRANSFORMS}.mean_to_sum_div", "MeanToSumDiv", "conv norm", argument("full", 1, 7), "eager ran aten_mean_dim")
edge(f"{TRANSFORMS}.addmm_mm_to_linear", "AddmmToLinearTransform", "linears", NO_RELU, "relu.default")
edge(f"{XNNPACK}.convert_to_linear", "ConvertToLinearPass", "linears", NO_RELU, "relu.default")
edge(f"{TRANSFORMS}.remove_clone_ops", "RemoveCloneOpsTransform", "nested", NO_RELU, "relu.default")
program(
    f"{TRANSFORMS}.convert_conv1d_to_conv2d_pass",
    "ConvertConv1dToConv2dPass",
    "one dimension",
    NO_RELU,
    "relu.default",
)
program(
    f"{XNNPACK}.conv1d_unsqueeze_pass",
    "Conv1dUnsqueezePass",
    "one dimension",
    NO_RELU,
    "relu.default",
)
edge(
    f"{TRANSFORMS}.fuse_view_copy",
    "FuseViewCopyTransform",
    "views",
    replaced("abs", "neg"),
    "abs.default",
    gap=GAP_OF_SHAPES,
)
edge(
    f"{TRANSFORMS}.view_copy_to_squeeze_unsqueeze",
    "ViewCopyToSqueezeUnsqueezePass",
    "views",
    dropped("tanh"),
    "tanh.default",
)
edge(
    f"{TRANSFORMS}.replace_squeeze_unsqueeze_with_view",
    "ReplaceSqueezeAndUnsqueezeWithViewPass",
    "views",
    dropped("exp"),
    "exp",
)
edge(f"{TRANSFORMS}.fuse_cascaded_view_ops", "FuseCascadedViewOps", "views", dropped("abs"), "abs.default")
edge(
    f"{TRANSFORMS}.fuse_transpose_or_permute_op_pairs_pass",
    "FuseTransposeOrPermuteOpPairsPass",
    "views",
    NO_RELU,
    "relu.default",
)
edge(
    f"{TRANSFORMS}.remove_permutes_around_elementwise_ops",
    "RemovePermutesAroundElementwiseOps",
    "views",
    NO_RELU,
    "relu.default",
)
program(f"{XNNPACK}.decompose_batch_norm", "DecomposeBatchNorm", "norms", NO_RELU, "relu.default")
edge(f"{XNNPACK}.decompose_cat", "DecomposeConcatenate", "many parts", SUB_SWAPPED, "sub.Tensor")
edge(
    f"{XNNPACK}.remove_noop_expand_copy_pass",
    "RemoveNoopExpandCopyPass",
    "copies",
    dropped("sigmoid"),
    "sigmoid.default",
)
edge(f"{EXIR}.cse_pass", "CSEPass", "copies", SUB_SWAPPED, "sub.Tensor")
edge(f"{EXIR}.const_prop_pass", "ConstPropPass", "structures", replaced("gt", "lt"), "gt.Scalar")
edge(f"{EXIR}.memory_format_ops_pass", "DimOrderOpsRevertPass", "copies", SUB_SWAPPED, "sub.Tensor", gap=GAP_OF_LENGTH)

aten(
    f"{EXIR}.prune_empty_tensors_pass",
    "PruneEmptyTensorsPass",
    "many parts",
    SUB_SWAPPED,
    "sub.Tensor",
)
aten(
    f"{EXIR}.replace_broken_ops_with_function_ops_pass",
    "ReplaceBrokenOpsWithFunctionalOpsPass",
    "views",
    NO_RELU,
    "relu.default",
)
aten(
    f"{TRANSFORMS}.decompose_sdpa",
    "DecomposeScaledDotProductAttention",
    "scaled dot product",
    dropped("softmax"),
    "scaled_dot_product_attention",
    ("export",),  # make_fx has decomposed it
    may_change="val",  # strides of the attention's readers
)
