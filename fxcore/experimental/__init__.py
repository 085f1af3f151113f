"""Optimisations and normal forms, under the names that torch.fx.experimental gives them."""

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(__name__)
