"""The parts of passes: base class, manager, partitioner."""

from __future__ import annotations

from fxcore.lazy_submodules import on_demand

__getattr__ = on_demand(__name__)
