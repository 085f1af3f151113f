"""Golden files and equivalence checks for PyTorch FX graphs, as a pytest plugin.

The functions are for unittest users and scripts; tests under pytest use the fixtures. Names are resolved when they are
first asked for: importing this package, as pytest does in every run, must not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_fxgraph.assertions import assert_equivalent as assert_equivalent
    from pytest_fxgraph.assertions import assert_graph_equal as assert_graph_equal
    from pytest_fxgraph.assertions import assert_graph_matches_golden as assert_graph_matches_golden
    from pytest_fxgraph.assertions import assert_ops as assert_ops
    from pytest_fxgraph.assertions import diff_graphs as diff_graphs

__all__ = ["assert_equivalent", "assert_graph_equal", "assert_graph_matches_golden", "assert_ops", "diff_graphs"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module("pytest_fxgraph.assertions"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
