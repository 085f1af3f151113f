"""Integers in place of floating point: calibrated, dynamic or for weights alone, and how much is lost by it."""

from __future__ import annotations

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(
    __name__, "dynamic", "layers", "lowering", "observers", "quantization_error", "static", "weight_only"
)
