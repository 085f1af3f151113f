"""Golden files and equivalence checks for PyTorch FX graphs, as a pytest plugin.

The functions serve unittest users and scripts. Tests under pytest use the fixtures; the types of the fixtures are here
for annotations. Errors are in `pytest_fxgraph.errors`. A name is imported on its first use, because pytest imports this
package in every run and must not import torch.
"""

from __future__ import annotations

import atexit
import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_fxgraph.captures.capture import Capture as Capture
    from pytest_fxgraph.captures.stages import FxStages as FxStages
    from pytest_fxgraph.captures.tracing import FxTrace as FxTrace
    from pytest_fxgraph.captures.train_step import TrainStep as TrainStep
    from pytest_fxgraph.captures.ways import FxCapture as FxCapture
    from pytest_fxgraph.equivalence.fixture import FxEquivalence as FxEquivalence
    from pytest_fxgraph.functions import assert_equivalent as assert_equivalent
    from pytest_fxgraph.functions import assert_graph_equal as assert_graph_equal
    from pytest_fxgraph.functions import assert_graph_matches_golden as assert_graph_matches_golden
    from pytest_fxgraph.functions import assert_ops as assert_ops
    from pytest_fxgraph.functions import capture as capture
    from pytest_fxgraph.functions import capture_ranks as capture_ranks
    from pytest_fxgraph.functions import check_transform as check_transform
    from pytest_fxgraph.functions import diff_graphs as diff_graphs
    from pytest_fxgraph.functions import ops as ops
    from pytest_fxgraph.functions import rewrite as rewrite
    from pytest_fxgraph.functions import structural_hash as structural_hash
    from pytest_fxgraph.functions import structurally_equal as structurally_equal
    from pytest_fxgraph.gate.fixture import FxGolden as FxGolden
    from pytest_fxgraph.gate.table_fixture import FxTable as FxTable
    from pytest_fxgraph.graph_difference import Difference as Difference
    from pytest_fxgraph.operator_queries import FxOps as FxOps
    from pytest_fxgraph.ranks.fixture import FxRanks as FxRanks
    from pytest_fxgraph.transform.fixture import FxTransform as FxTransform
    from pytest_fxgraph.transform.result import TransformResult as TransformResult
    from pytest_fxgraph.transform.rewriting import FxRewrite as FxRewrite

# Public name to the file that defines it.
_HOME = {
    **dict.fromkeys(("assert_equivalent", "assert_graph_equal", "assert_graph_matches_golden"), "functions"),
    **dict.fromkeys(("assert_ops", "capture", "check_transform", "diff_graphs", "ops", "rewrite"), "functions"),
    **dict.fromkeys(("capture_ranks", "structural_hash", "structurally_equal"), "functions"),
    "Capture": "captures.capture",
    "Difference": "graph_difference",
    "FxCapture": "captures.ways",
    "FxEquivalence": "equivalence.fixture",
    "FxGolden": "gate.fixture",
    "FxOps": "operator_queries",
    "FxRanks": "ranks.fixture",
    "FxRewrite": "transform.rewriting",
    "FxStages": "captures.stages",
    "FxTable": "gate.table_fixture",
    "FxTrace": "captures.tracing",
    "FxTransform": "transform.fixture",
    "TrainStep": "captures.train_step",
    "TransformResult": "transform.result",
}
__version__ = "0.2.0"
__all__ = sorted(_HOME)


class _PlainImport:
    """Finds the files of both packages ahead of pytest's hook, which rewrites the asserts of installed plugins.

    The hook reads byte code from an open file, object by object. Python's own loader saves 10 % of the instructions of
    a run with one golden, and half of the cost for a run without goldens.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path) if name.startswith(("pytest_fxgraph.", "fxcore.")) else None


_FINDERS = [type(finder).__name__ for finder in sys.meta_path]
if "AssertionRewritingHook" in _FINDERS:
    sys.meta_path.insert(_FINDERS.index("AssertionRewritingHook"), _PlainImport)

    @atexit.register  # because a finder that is left there makes the exit of Python 2 ms longer
    def _remove_finder() -> None:
        if _PlainImport in sys.meta_path:
            sys.meta_path.remove(_PlainImport)


if not TYPE_CHECKING:  # With a module `__getattr__`, a type checker would accept every name.

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
        return getattr(importlib.import_module(f"pytest_fxgraph.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
