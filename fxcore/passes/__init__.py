"""The passes of torch.fx, under its file names."""

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(__name__)
