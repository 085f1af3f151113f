"""Layers that do the work of their neighbours: batch norm folded into them, activations joined to them."""

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(__name__)
