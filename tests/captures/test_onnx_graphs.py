"""The graphs of `.onnx` files: read without running anything, compared, counted, and refused in words."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pytest_fxgraph import diff_graphs, ops, structural_hash
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.errors import ArchiveError


@pytest.fixture(scope="module")
def onnx():
    return pytest.importorskip("onnx")


@pytest.fixture
def saved(onnx, tmp_path):
    """Save a model of six operators, one of them with two graphs inside, and return its path."""
    from onnx import TensorProto, helper, numpy_helper

    def save(name="model.onnx", operator="Relu", axis=1, inner="Neg"):
        def branch(name, operator):
            made = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4])
            return helper.make_graph([helper.make_node(operator, ["r"], [name])], name, [], [made])

        branches = {"then_branch": branch("t", inner), "else_branch": branch("e", "Abs")}
        nodes = [
            helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=1),
            helper.make_node(operator, ["y"], ["r"]),
            helper.make_node("Reshape", ["r", "shape"], ["z"]),
            helper.make_node("Split", ["z"], ["first", "second"], axis=axis, num_outputs=2),
            helper.make_node("Add", ["first", "second"], ["q"]),
            helper.make_node("If", ["decides"], ["i"], **branches),
        ]
        inputs = [("x", TensorProto.FLOAT, [2, 3]), ("decides", TensorProto.BOOL, [])]
        outputs = [("q", TensorProto.FLOAT, ["rows", "columns"]), ("i", TensorProto.FLOAT, [2, 4])]
        weights = {
            "fc.weight": np.ones((4, 3), "f4"),
            "fc.bias": np.zeros(4, "f4"),
            "shape": np.array([2, -1]),
        }
        graph = helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info(*each) for each in inputs],
            [helper.make_tensor_value_info(*each) for each in outputs],
            [numpy_helper.from_array(value, name) for name, value in weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        path = tmp_path / name
        onnx.save(model, path)
        return path

    return save


def test_operators_are_functions_weights_buffers_and_small_whole_numbers_lists(saved):
    text = str(to_graph_module(saved()).graph)

    assert "onnx_Gemm" in to_graph_module(saved()).code
    assert "args = (%relu, [2, -1])" in text
    assert "kwargs = {axis: 1, num_outputs: 2}" in text
    assert [name for name, _ in to_graph_module(saved()).named_buffers()] == ["fc.weight", "fc.bias"]


def test_values_have_the_shapes_that_onnx_infers(saved):
    nodes = {node.name: node for node in to_graph_module(saved()).graph.nodes}

    assert tuple(nodes["gemm"].meta["val"].shape) == (2, 4)
    assert nodes["gemm"].meta["val"].dtype.is_floating_point


def test_equal_files_are_equal_and_an_edit_is_named(saved):
    before, same = saved("a.onnx"), saved("b.onnx")

    assert diff_graphs(before, str(same)).is_empty
    assert structural_hash(before) == structural_hash(same)
    for edit, told in ({"operator": "Sigmoid"}, "onnx.Relu -> onnx.Sigmoid"), ({"axis": 0}, "axis 1 -> 0"):
        assert told in diff_graphs(before, saved("c.onnx", **edit)).text()
    assert "onnx.Neg -> onnx.Exp" in diff_graphs(before, saved("c.onnx", inner="Exp")).text()


def test_operators_are_counted_by_their_name(saved):
    assert ops(saved()).count("onnx.Relu") == 1
    assert ops(saved()).count("onnx.A*") == 2  # Add, and Abs of a branch


def test_the_operators_have_no_effects_but_draws_of_random_numbers(saved):
    def effects(path):
        return {node.effects for node in build_document(to_graph_module(path)).nodes}

    assert effects(saved()) == {()}
    assert effects(saved(operator="Bernoulli")) == {(), ("random",)}


def test_the_graph_does_not_run(saved):
    import torch

    with pytest.raises(ArchiveError, match=r"cannot run onnx.Gemm: .*run the file by onnxruntime"):
        to_graph_module(saved())(torch.ones(2, 3), torch.tensor(True))


def test_a_file_that_is_no_model_is_refused(onnx, tmp_path):
    (tmp_path / "model.onnx").write_text("no model")

    with pytest.raises(ArchiveError, match=r"cannot read .*model.onnx: onnx .* does not read it: "):
        to_graph_module(tmp_path / "model.onnx")


def test_without_the_package_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)

    with pytest.raises(ArchiveError, match=r"pip install 'pytest-fxgraph\[onnx\]'"):
        to_graph_module(tmp_path / "model.onnx")
