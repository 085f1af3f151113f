"""Quantizers of torchao, executorch, nncf and optimum-quanto, right and with a lost or wrong quantization."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.clients.case import GAP_OF_LENGTH, GAP_OF_ROUNDING, Recipe, equivalence, golden, operators
from tests.clients.harm import argument, dropped


def exported(model: nn.Module, inputs: tuple[Any, ...]) -> torch.fx.GraphModule:
    return torch.export.export(model, inputs, strict=False).module()  # type: ignore[return-value]  # a GraphModule


def in_float(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Return the model itself: the quantization is lost."""
    return model


def in_float_exported(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    return exported(model, inputs)


def by_torchao(config: str, **settings: Any) -> Recipe:
    """Return `quantize_(model, config)` for the linear layers of a model."""

    def recipe(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
        from torchao import quantization

        quantization.quantize_(model, getattr(quantization, config)(**settings))
        return model

    return recipe


def exported_after(recipe: Recipe) -> Recipe:
    """Return a recipe whose result is exported."""
    return lambda model, inputs: torch.export.export(recipe(model, inputs), inputs, strict=False)


def by_pt2e(*, is_per_channel: bool = True, is_dynamic: bool = False, folds: bool = True) -> Recipe:
    """Return prepare, calibrate and convert of torchao's pt2e with the XNNPACK quantizer."""

    def recipe(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        prepared = observed(model, inputs, is_per_channel=is_per_channel, is_dynamic=is_dynamic)
        prepared(*inputs)
        return convert_pt2e(prepared, fold_quantize=folds)

    return recipe


def observed(
    model: nn.Module, inputs: tuple[Any, ...], *, is_per_channel: bool = True, is_dynamic: bool = False
) -> torch.fx.GraphModule:
    """Return the exported model with the observers of the XNNPACK quantizer."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=is_per_channel, is_dynamic=is_dynamic)
    quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(config)
    return prepare_pt2e(exported(model, inputs), quantizer)  # type: ignore[no-any-return]


def by_x86(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Quantize for Inductor on x86."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(exported(model, inputs), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


def by_nncf(**settings: Any) -> Recipe:
    """Return nncf.quantize of the exported model, calibrated with the inputs."""

    def recipe(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
        import nncf

        return nncf.quantize(exported(model, inputs), nncf.Dataset([inputs[0]]), subset_size=1, **settings)

    return recipe


def compressed_by_nncf(mode: str = "INT8_ASYM") -> Recipe:
    """Return nncf.compress_weights of the exported model."""

    def recipe(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
        import nncf

        return nncf.compress_weights(exported(model, inputs), mode=getattr(nncf.CompressWeightsMode, mode))

    return recipe


def by_quanto(bits: str) -> Recipe:
    """Return the model with weights of optimum-quanto, exported."""

    def recipe(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
        from optimum import quanto

        quanto.quantize(model, weights=getattr(quanto, bits))
        quanto.freeze(model)
        return torch.export.export(model, inputs, strict=False)

    return recipe


def inputs_are_quantized(query: Any) -> None:
    """Fail for a graph whose convolution reads floats that were never quantized."""
    query.in_order("quantized_decomposed.quantize_per_tensor*", "quantized_decomposed.dequantize_per_tensor*")


AO, XNN = "torchao", "executorch"
INT8, INT8_DYNAMIC = by_torchao("Int8WeightOnlyConfig"), by_torchao("Int8DynamicActivationInt8WeightConfig")
LOST = "the quantization is lost"

golden(AO, "Int8WeightOnlyConfig", "linears", INT8, LOST, "first.weight", "fxcore", spoilt=in_float)
golden(
    AO,
    "Int8DynamicActivationInt8WeightConfig",
    "linears",
    INT8_DYNAMIC,
    "weights alone",
    "act_quant_kwargs",
    "fxcore",
    spoilt=INT8,
)
golden(
    AO,
    "Int8WeightOnlyConfig",
    "linears",
    exported_after(INT8),
    LOST,
    "first.weight",
    "export",
    spoilt=exported_after(in_float),
)
equivalence(
    AO,
    "Int8WeightOnlyConfig",
    "linears",
    exported_after(INT8),
    dropped("sigmoid"),
    "ran sigmoid",
    "export",
    sqnr=30.0,
)
equivalence(
    AO,
    "Int8DynamicActivationInt8WeightConfig",
    "linears",
    exported_after(INT8_DYNAMIC),
    dropped("sigmoid"),
    "ran sigmoid",
    "export",
    sqnr=30.0,
    gap=GAP_OF_ROUNDING,
)

equivalence(
    AO,
    "prepare_pt2e, convert_pt2e",
    "conv norm",
    by_pt2e(),
    argument("dequantize_per_tensor", 1, 0.5),
    "dequantize_per_tensor",
    "export",
    sqnr=15.0,
    gap=GAP_OF_LENGTH,
)
golden(
    AO,
    "prepare_pt2e, convert_pt2e",
    "conv norm",
    by_pt2e(),
    "per tensor in place of per channel",
    "per_channel",
    "export",
    spoilt=by_pt2e(is_per_channel=False),
)
golden(
    AO,
    "convert_pt2e, fold_quantize",
    "conv norm",
    by_pt2e(),
    "weights stay float",
    "quantize_per_channel",
    "export",
    spoilt=by_pt2e(folds=False),
)
golden(AO, "X86InductorQuantizer", "conv norm", by_x86, LOST, "quantize_per_tensor", "export", spoilt=in_float_exported)
equivalence(
    AO,
    "X86InductorQuantizer",
    "conv norm",
    by_x86,
    dropped("relu"),
    "ran relu",
    "export",
    sqnr=15.0,
)
operators(
    XNN,
    "XNNPACKQuantizer",
    "conv norm",
    by_pt2e(),
    inputs_are_quantized,
    LOST,
    "quantize_per_tensor",
    "export",
    spoilt=in_float_exported,
)
golden(
    XNN,
    "XNNPACKQuantizer",
    "linears",
    by_pt2e(is_dynamic=True),
    "static in place of dynamic",
    "choose_qparams",
    "export",
    spoilt=by_pt2e(),
)
equivalence(XNN, "XNNPACKQuantizer", "joins", by_pt2e(), dropped("cat"), "cat", "export", sqnr=15.0)

equivalence(
    "nncf",
    "quantize",
    "conv norm",
    by_nncf(),
    argument("dequantize_per_tensor", 1, 0.5),
    "dequantize_per_tensor_default",
    "export",
    sqnr=15.0,
)
golden("nncf", "quantize", "conv norm", by_nncf(), LOST, "quantize_per_tensor", "export", spoilt=in_float_exported)
equivalence(
    "nncf",
    "compress_weights",
    "linears",
    compressed_by_nncf(),
    dropped("sigmoid"),
    "ran sigmoid",
    "export",
    sqnr=30.0,
)
golden(
    "nncf",
    "compress_weights",
    "linears",
    compressed_by_nncf(),
    "symmetric in place of asymmetric",
    "symmetric",
    "export",
    spoilt=compressed_by_nncf("INT8_SYM"),
)

equivalence(
    "optimum-quanto",
    "quantize, freeze",
    "linears",
    by_quanto("qint8"),
    dropped("sigmoid"),
    "ran sigmoid",
    "export",
    sqnr=30.0,
)
golden(
    "optimum-quanto",
    "quantize, freeze",
    "linears",
    by_quanto("qint8"),
    "4 bits in place of 8",
    "first.weight",
    "export",
    spoilt=by_quanto("qint4"),
)
