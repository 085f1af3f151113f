"""Golden files and equivalence checks for PyTorch FX graphs, as a pytest plugin.

The functions are for unittest users and scripts; tests under pytest use the fixtures, whose types are here, too. Names
are resolved when they are first asked for: importing this package, as pytest does in every run, must not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_fxgraph.captures.capture import Break as Break
    from pytest_fxgraph.captures.capture import Capture as Capture
    from pytest_fxgraph.captures.capture import Guard as Guard
    from pytest_fxgraph.captures.capture import Recompile as Recompile
    from pytest_fxgraph.captures.capture_fixture import FxCapture as FxCapture
    from pytest_fxgraph.captures.stages import FxStages as FxStages
    from pytest_fxgraph.captures.stages import Stages as Stages
    from pytest_fxgraph.captures.trace_fixture import FxTrace as FxTrace
    from pytest_fxgraph.choices import Check as Check
    from pytest_fxgraph.choices import ConstantForm as ConstantForm
    from pytest_fxgraph.choices import Level as Level
    from pytest_fxgraph.compare.difference import Change as Change
    from pytest_fxgraph.compare.difference import Difference as Difference
    from pytest_fxgraph.equivalence.fixture import FxEquivalence as FxEquivalence
    from pytest_fxgraph.equivalence.mismatch import EagerError as EagerError
    from pytest_fxgraph.equivalence.mismatch import MismatchError as MismatchError
    from pytest_fxgraph.equivalence.mismatch import UncomparableError as UncomparableError
    from pytest_fxgraph.equivalence.mismatch import VacuousCheckError as VacuousCheckError
    from pytest_fxgraph.errors import CaptureError as CaptureError
    from pytest_fxgraph.errors import ChoiceError as ChoiceError
    from pytest_fxgraph.errors import DocumentError as DocumentError
    from pytest_fxgraph.errors import GateError as GateError
    from pytest_fxgraph.errors import GoldenError as GoldenError
    from pytest_fxgraph.errors import GoldenFormatError as GoldenFormatError
    from pytest_fxgraph.errors import GoldenMissingError as GoldenMissingError
    from pytest_fxgraph.errors import GoldenNameError as GoldenNameError
    from pytest_fxgraph.errors import GoldenVersionError as GoldenVersionError
    from pytest_fxgraph.errors import GoldenWriteError as GoldenWriteError
    from pytest_fxgraph.errors import InputsError as InputsError
    from pytest_fxgraph.errors import LevelError as LevelError
    from pytest_fxgraph.errors import ReportError as ReportError
    from pytest_fxgraph.errors import SubjectError as SubjectError
    from pytest_fxgraph.functions import assert_equivalent as assert_equivalent
    from pytest_fxgraph.functions import assert_graph_equal as assert_graph_equal
    from pytest_fxgraph.functions import assert_graph_matches_golden as assert_graph_matches_golden
    from pytest_fxgraph.functions import assert_ops as assert_ops
    from pytest_fxgraph.functions import capture as capture
    from pytest_fxgraph.functions import check_transform as check_transform
    from pytest_fxgraph.functions import diff_graphs as diff_graphs
    from pytest_fxgraph.functions import draw_graph as draw_graph
    from pytest_fxgraph.functions import ops as ops
    from pytest_fxgraph.functions import rewrite as rewrite
    from pytest_fxgraph.gate.fixture import FxGolden as FxGolden
    from pytest_fxgraph.gate.table_fixture import FxTable as FxTable
    from pytest_fxgraph.operator_patterns import TargetError as TargetError
    from pytest_fxgraph.operator_queries import FxOps as FxOps
    from pytest_fxgraph.operator_queries import OpsQuery as OpsQuery
    from pytest_fxgraph.report.outcome import Outcome as Outcome
    from pytest_fxgraph.transform.fixture import FxTransform as FxTransform
    from pytest_fxgraph.transform.result import TransformResult as TransformResult
    from pytest_fxgraph.transform.rewriting import FxRewrite as FxRewrite
    from pytest_fxgraph.transform.rewriting import RewriteResult as RewriteResult
    from pytest_fxgraph.transform.rewriting import explain_match as explain_match

# By the file that defines them.
_NAMES = {
    "functions": (
        *("assert_equivalent", "assert_graph_equal", "assert_graph_matches_golden", "assert_ops"),
        *("capture", "check_transform", "diff_graphs", "draw_graph", "ops", "rewrite"),
    ),
    "choices": ("Check", "ConstantForm", "Level"),
    "compare.difference": ("Change", "Difference"),
    "equivalence.fixture": ("FxEquivalence",),
    "equivalence.mismatch": ("EagerError", "MismatchError", "UncomparableError", "VacuousCheckError"),
    "errors": (
        *("CaptureError", "ChoiceError", "DocumentError", "GateError", "GoldenError", "GoldenFormatError"),
        *("GoldenMissingError", "GoldenNameError", "GoldenVersionError", "GoldenWriteError", "InputsError"),
        *("LevelError", "ReportError", "SubjectError"),
    ),
    "gate.fixture": ("FxGolden",),
    "operator_patterns": ("TargetError",),
    "operator_queries": ("FxOps", "OpsQuery"),
    "report.outcome": ("Outcome",),
    "captures.capture": ("Break", "Capture", "Guard", "Recompile"),
    "captures.capture_fixture": ("FxCapture",),
    "transform.rewriting": ("FxRewrite", "RewriteResult", "explain_match"),
    "captures.trace_fixture": ("FxTrace",),
    "captures.stages": ("FxStages", "Stages"),
    "gate.table_fixture": ("FxTable",),
    "transform.fixture": ("FxTransform",),
    "transform.result": ("TransformResult",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
__version__ = "0.2.0"
__all__ = sorted(_HOME)


if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
        return getattr(importlib.import_module(f"pytest_fxgraph.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
