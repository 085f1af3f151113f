"""The parts of passes: base class, manager, partitioner."""

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(__name__)
