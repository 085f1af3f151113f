from __future__ import annotations

import unittest

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph import assert_equivalent, assert_graph_equal, assert_graph_matches_golden, assert_ops, diff_graphs
from pytest_fxgraph.errors import (
    GateError,
    GoldenFormatError,
    GoldenMissingError,
    GoldenVersionError,
    LevelError,
    SubjectError,
)


class Net(nn.Module):
    def __init__(self, function=torch.relu):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.function = function

    def forward(self, x):
        return self.function(self.linear(x))


def test_equal_graphs_have_an_empty_difference():
    assert diff_graphs(Net(), fxcore.symbolic_trace(Net())).is_empty


def test_a_difference_says_what_changed():
    difference = diff_graphs(Net(), Net(torch.sigmoid))

    assert [(change.expected, change.obtained) for change in difference.changes] == [("torch.relu", "torch.sigmoid")]


def test_graphs_that_differ_are_an_assertion_error_in_words():
    with pytest.raises(AssertionError) as caught:
        assert_graph_equal(Net(), Net(torch.sigmoid))

    lines = str(caught.value).splitlines()
    assert lines[0].startswith("the obtained graph does not match: ")
    assert "torch.relu" in str(caught.value)
    assert "torch.sigmoid" in str(caught.value)
    assert lines[-1] == "  compared at level structure"
    assert len(lines) <= 6


def test_levels_and_loosenings_are_passed_on():
    def one(x, y):
        return x + y

    def other(x, y):
        return y + x

    assert_graph_equal(one, other, commutative=True)
    assert_graph_equal(one, other, level="ops")
    with pytest.raises(AssertionError):
        assert_graph_equal(one, other)


def test_a_level_that_does_not_exist_is_refused_before_anything_is_traced():
    with pytest.raises(LevelError, match="vague"):
        assert_graph_equal(None, None, level="vague")


def test_what_is_no_subject_is_refused():
    with pytest.raises(SubjectError, match=r"an object of builtins\.int is no subject"):
        assert_graph_equal(1, 2)


def test_a_golden_from_its_writing_to_its_update(tmp_path):
    path = tmp_path / "goldens" / "net.yaml"
    with pytest.raises(GoldenMissingError, match=r"net\.yaml"):
        assert_graph_matches_golden(Net(), path)

    assert_graph_matches_golden(Net(), path, update=True)
    written = path.read_bytes()
    assert_graph_matches_golden(Net(), path)

    with pytest.raises(AssertionError, match=r"update=True"):
        assert_graph_matches_golden(Net(torch.sigmoid), path)
    assert path.read_bytes() == written

    assert_graph_matches_golden(Net(torch.sigmoid), path, update=True)
    assert path.read_bytes() != written
    assert_graph_matches_golden(Net(torch.sigmoid), str(path))


def test_an_update_keeps_the_names_of_the_golden_unless_it_is_for_level_exact(tmp_path):
    path = tmp_path / "net.yaml"
    assert_graph_matches_golden(lambda x: torch.relu(x + 1), path, update=True)

    assert_graph_matches_golden(lambda x: torch.relu((x + 3) + 1), path, update=True)

    assert "    add_1 = x + 3;  x = None\n" in path.read_text()
    assert_graph_matches_golden(lambda x: torch.relu((x + 3) + 1), path)
    assert_graph_matches_golden(lambda x: torch.relu((x + 3) + 1), path, level="exact", update=True)
    assert "    add = x + 3;  x = None\n" in path.read_text()
    assert "\nnames: traced\n" in path.read_text()


def test_a_golden_that_matches_is_left_as_it_is(tmp_path):
    path = tmp_path / "net.yaml"
    assert_graph_matches_golden(Net(), path, update=True)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    as_it_is = path.read_bytes()

    assert_graph_matches_golden(Net(), path, update=True)

    assert path.read_bytes() == as_it_is


def test_a_spoilt_golden_is_refused_and_can_be_rewritten(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text("name: ci\n")
    with pytest.raises(GoldenFormatError):
        assert_graph_matches_golden(Net(), path)

    assert_graph_matches_golden(Net(), path, update=True)

    assert_graph_matches_golden(Net(), path)


def test_a_golden_of_a_newer_format_is_never_rewritten(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text("format: 99\n")

    with pytest.raises(GoldenVersionError, match="99"):
        assert_graph_matches_golden(Net(), path, update=True)

    assert path.read_text() == "format: 99\n"


def test_a_model_and_a_graph_that_compute_the_same_are_equivalent():
    model = Net()

    assert_equivalent(model, fxcore.symbolic_trace(model), torch.randn(2, 4), grads=True)


def test_a_graph_that_computes_something_else_is_named():
    model = Net()
    graph = fxcore.symbolic_trace(model)
    relu = next(node for node in graph.graph.nodes if node.op == "call_function")
    relu.target = torch.sigmoid
    graph.recompile()

    with pytest.raises(AssertionError, match="output"):
        assert_equivalent(model, graph, torch.randn(2, 4))


class TestInUnittest(unittest.TestCase):
    def test_the_functions_are_plain_assertions(self):
        with self.assertRaisesRegex(self.failureException, "torch.sigmoid"):  # noqa: PT027  # it is what this is about
            assert_graph_equal(Net(), Net(torch.sigmoid))


def test_operators_are_asked_for_without_a_fixture():
    def model(x):
        return torch.relu(x).sum()

    assert_ops(model, count={torch.relu: 1, "sum": 1}, absent=[torch.sigmoid], in_order=[torch.relu, "sum"])

    with pytest.raises(AssertionError, match=r"torch\.relu is called 1 times, expected 2"):
        assert_ops(model, count={torch.relu: 2})
    with pytest.raises(AssertionError, match=r"torch\.relu must be absent"):
        assert_ops(model, absent=[torch.relu])
    with pytest.raises(GateError, match="assert_ops was asked nothing"):
        assert_ops(model)
