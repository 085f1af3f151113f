"""Integers in place of floating point: static, dynamic or for weights alone, and the measured loss."""

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(__name__)
