"""What `from pytest_fxgraph import ...` gives: every name is there, typed, and a wrong one is refused by mypy."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import pytest_fxgraph

PROMISED = (
    *(
        "Capture",
        "Difference",
        "FxCapture",
        "FxEquivalence",
        "FxGolden",
        "FxOps",
        "FxRanks",
        "FxRewrite",
        "FxStages",
        "FxTable",
    ),
    *("FxTrace", "FxTransform", "TrainStep", "TransformResult"),
    *("assert_equivalent", "assert_graph_equal", "assert_graph_matches_golden", "assert_ops", "diff_graphs"),
    *("capture", "capture_ranks", "check_transform", "ops", "rewrite", "structural_hash", "structurally_equal"),
)

RIGHT = """
from pytest_fxgraph import Difference, FxEquivalence, FxGolden, FxOps, FxRewrite, FxTrace, FxTransform
from pytest_fxgraph import check_transform, diff_graphs, ops, rewrite, assert_graph_equal
from pytest_fxgraph import structural_hash, structurally_equal
import torch

def test_net(fx_golden: FxGolden, fx_trace: FxTrace, fx_ops: FxOps, fx_equivalence: FxEquivalence,
             fx_transform: FxTransform, fx_rewrite: FxRewrite) -> None:
    graph = fx_trace(torch.nn.Linear(1, 1), leaf_modules=(torch.nn.Linear,))
    assert graph == fx_golden(level="exact", constants="close")
    fx_equivalence(graph, torch.ones(1), modes=("eval", "train"))
    counted: int = fx_ops(graph, recursive=False).count("aten.*")
    difference: Difference = diff_graphs(graph, graph)
    names: tuple[str, ...] = check_transform(print, graph, torch.ones(1), grads=True).passes
    text: str = rewrite(graph, lambda x: torch.relu(x), lambda x: x).explain()
    assert_graph_equal(graph, graph, level="ops")
    same: bool = structurally_equal(graph, graph) and structural_hash(graph) == structural_hash(graph)
"""
WRONG = {
    "from pytest_fxgraph import FxGoldne": "has no attribute",
    "from pytest_fxgraph import assert_graph_equal\nassert_graph_equal(1, 2, level='vague')": "Literal['vague']",
    "from pytest_fxgraph import FxGolden\ndef f(g: FxGolden) -> None:\n    g(level='vague')": "Literal['vague']",
    "from pytest_fxgraph import check_transform\ncheck_transform(print, 1, 2, grad=True)": "grad",
    "from pytest_fxgraph import FxTrace\ndef f(t: FxTrace) -> int:\n    return t(1)": "GraphModule",
}


def test_the_package_has_the_promised_names_and_no_others():
    assert tuple(pytest_fxgraph.__all__) == tuple(sorted(PROMISED))


@pytest.mark.parametrize("name", PROMISED)
def test_a_public_name_is_there(name):
    assert name in pytest_fxgraph.__all__
    assert name in dir(pytest_fxgraph)
    assert getattr(pytest_fxgraph, name).__class__ is not type(pytest)  # not a file of that name


def test_a_name_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(AttributeError, match=r"has no attribute 'FxGoldne'; it has .*FxGolden"):
        importlib.import_module("pytest_fxgraph").FxGoldne  # noqa: B018


def mypy(text, folder):
    pytest.importorskip("mypy")
    file = folder / "test_typed.py"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500).stdout


@pytest.mark.long
def test_tests_that_name_the_types_pass_mypy(tmp_path):
    assert "Success: no issues found" in mypy(RIGHT, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("text", WRONG)
def test_mistakes_fail_mypy(text, tmp_path):
    assert WRONG[text] in mypy(text + "\n", tmp_path)
