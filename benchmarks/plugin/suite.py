"""Test files that check one model's graph against a golden, 200 times, with each tool."""

from __future__ import annotations

from dataclasses import dataclass

TESTS = 200

_HEAD = """
import pytest
from fixtures.catalog import CATALOG

MODEL = CATALOG["mobilenetv2"].build().eval()
each = pytest.mark.parametrize("number", range({tests}))
"""

_EMPTY = """
@each
def test_graph(number):
    assert MODEL is not None
"""

_PLUGIN = """
@each
def test_graph(number, fx_golden):
    assert MODEL == fx_golden
"""

_SYRUPY = """
import torch.fx

@each
def test_graph(number, snapshot):
    graph_module = torch.fx.symbolic_trace(MODEL)
    assert str(graph_module.graph) + graph_module.code == snapshot
"""

_REGRESSIONS = """
import torch.fx

def row(node):
    return {"name": node.name, "op": node.op, "target": str(node.target), "args": [str(arg) for arg in node.args]}

@each
def test_graph(number, data_regression):
    graph = torch.fx.symbolic_trace(MODEL).graph
    data_regression.check({"nodes": [row(node) for node in graph.nodes]})
"""


@dataclass(frozen=True)
class Suite:
    """One tool: what it is called, the module it needs, its tests, and the option that writes its goldens."""

    tool: str
    module: str
    tests: str
    update: tuple[str, ...]

    @property
    def source(self) -> str:
        """The test file."""
        return _HEAD.format(tests=TESTS) + self.tests


SUITES = (
    Suite("no golden", "pytest", _EMPTY, ()),
    Suite("pytest-fxgraph", "pytest_fxgraph", _PLUGIN, ("--fx-update-golden",)),
    Suite("torch.fx + syrupy", "syrupy", _SYRUPY, ("--snapshot-update",)),
    Suite("torch.fx + pytest-regressions", "pytest_regressions", _REGRESSIONS, ("--force-regen",)),
)
