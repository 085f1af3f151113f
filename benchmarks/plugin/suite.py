"""Test files that check one model's graph against a golden, many times, with each tool.

Other tools store what a test hands them. "nodes" hands over the graph as its users print it; "same facts" adds what a
golden of ours holds beside: configuration and training flag of the called modules, shapes and dtypes of the state.
"""

from __future__ import annotations

from dataclasses import dataclass

TESTS = 100
MODELS = ("mobilenetv2", "gpt_like")

_HEAD = """
import pytest
from fixtures.catalog import CATALOG

MODEL = CATALOG["{model}"].build().eval()
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

_FACTS = """
import torch.fx

def called(graph_module):
    paths = dict.fromkeys([node.target for node in graph_module.graph.nodes if node.op == "call_module"])
    return [(path, graph_module.get_submodule(path)) for path in paths]

def state(graph_module):
    return [*graph_module.named_parameters(), *graph_module.named_buffers()]
"""

_TEXT_OF_NODES = """
import torch.fx

@each
def test_graph(number, snapshot):
    graph_module = torch.fx.symbolic_trace(MODEL)
    assert str(graph_module.graph) + graph_module.code == snapshot
"""

_TEXT_OF_FACTS = (
    _FACTS
    + """
@each
def test_graph(number, snapshot):
    graph_module = torch.fx.symbolic_trace(MODEL)
    lines = [f"{path}: {module!r} training={module.training}" for path, module in called(graph_module)]
    lines += [f"{name}: {value.dtype}{list(value.shape)} {value.requires_grad}" for name, value in state(graph_module)]
    assert "\\n".join([str(graph_module.graph), *lines, graph_module.code]) == snapshot
"""
)

_ROW = """
def row(node):
    kwargs = {key: str(value) for key, value in node.kwargs.items()}
    target, args = str(node.target), [str(arg) for arg in node.args]
    return {"name": node.name, "op": node.op, "target": target, "args": args, "kwargs": kwargs}
"""

_DATA_OF_NODES = (
    """
import torch.fx
"""
    + _ROW
    + """
@each
def test_graph(number, data_regression):
    graph = torch.fx.symbolic_trace(MODEL).graph
    data_regression.check({"nodes": [row(node) for node in graph.nodes]})
"""
)

_DATA_OF_FACTS = (
    _FACTS
    + _ROW
    + """
@each
def test_graph(number, data_regression):
    graph_module = torch.fx.symbolic_trace(MODEL)
    modules = [
        {"path": path, "module": repr(module), "training": module.training} for path, module in called(graph_module)
    ]
    tensors = [
        {"path": name, "value": f"{value.dtype}{list(value.shape)}", "requires_grad": value.requires_grad}
        for name, value in state(graph_module)
    ]
    nodes = [row(node) for node in graph_module.graph.nodes]
    data_regression.check({"nodes": nodes, "modules": modules, "state": tensors, "code": graph_module.code})
"""
)


@dataclass(frozen=True)
class Suite:
    """One tool: what it is called, the module it needs, its plugins by entry point, its tests, and how it writes."""

    tool: str
    module: str
    plugins: tuple[str, ...]
    tests: str
    update: tuple[str, ...] = ()
    target: float | None = None  # how many times as long it is to take

    def source(self, model: str) -> str:
        """Return the test file for a model of the catalog."""
        return _HEAD.format(tests=TESTS, model=model) + self.tests


EMPTY = Suite("empty tests", "pytest", (), _EMPTY)
OURS = Suite("pytest-fxgraph", "pytest_fxgraph", ("fxgraph",), _PLUGIN, ("--fx-update-golden",))
_REGRESSIONS = ("regressions", "pytest-datadir")
OTHERS = (
    Suite("torch.fx + syrupy, nodes", "syrupy", ("syrupy",), _TEXT_OF_NODES, ("--snapshot-update",), 3),
    Suite("torch.fx + syrupy, same facts", "syrupy", ("syrupy",), _TEXT_OF_FACTS, ("--snapshot-update",), 3),
    Suite(
        "torch.fx + pytest-regressions, nodes",
        "pytest_regressions",
        _REGRESSIONS,
        _DATA_OF_NODES,
        ("--force-regen",),
        12,
    ),
    Suite(
        "torch.fx + pytest-regressions, same facts",
        "pytest_regressions",
        _REGRESSIONS,
        _DATA_OF_FACTS,
        ("--force-regen",),
        12,
    ),
)
