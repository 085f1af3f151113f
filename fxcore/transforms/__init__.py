"""Passes of our own: fusion, quantization, decomposition, costs and others. `fxcore.passes` has torch.fx's list."""

from __future__ import annotations

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(__name__)
