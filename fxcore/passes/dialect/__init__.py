"""Passes for graphs of one family of operators."""

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(__name__)
