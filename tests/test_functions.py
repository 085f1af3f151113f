from __future__ import annotations

import inspect
import unittest

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph import (
    assert_equivalent,
    assert_graph_equal,
    assert_graph_matches_golden,
    assert_ops,
    capture,
    check_transform,
    diff_graphs,
    ops,
    rewrite,
)
from pytest_fxgraph.errors import (
    CaptureError,
    GateError,
    GoldenFormatError,
    GoldenMissingError,
    GoldenVersionError,
    LevelError,
    ReportError,
    SubjectError,
)
from pytest_fxgraph.functions import draw_graph, structural_hash, structurally_equal


@pytest.fixture(autouse=True)
def same_weights_in_every_run():
    """Some draws give a relu nothing but zeros, and a check of zeros is an error."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


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


def test_the_difference_is_that_of_a_level():
    renamed = fxcore.symbolic_trace(Net())
    next(node for node in renamed.graph.nodes if node.op == "call_function").name = "another_name"
    renamed.recompile()

    assert diff_graphs(Net(), renamed).is_empty
    assert not diff_graphs(Net(), renamed, level="exact").is_empty
    assert diff_graphs(Net(), Net(torch.sigmoid), level="signature").is_empty
    with pytest.raises(LevelError, match="there is no such level"):
        diff_graphs(Net(), renamed, level="strict")


def test_the_structural_hash_and_structural_equality_are_of_subjects():
    assert structurally_equal(Net(), fxcore.symbolic_trace(Net()))
    assert structural_hash(Net()) == structural_hash(fxcore.symbolic_trace(Net()))
    assert not structurally_equal(Net(), Net(torch.sigmoid))
    assert structural_hash(Net()) != structural_hash(Net(torch.sigmoid))


def test_graphs_that_differ_are_an_assertion_error_in_words():
    with pytest.raises(AssertionError) as caught:
        assert_graph_equal(Net(), Net(torch.sigmoid))

    lines = str(caught.value).splitlines()
    assert lines[0] == "the obtained graph does not match: torch.relu -> torch.sigmoid"
    assert lines[1].startswith("  tests/test_functions.py:")
    assert lines[2:] == ["  compared at level structure"]


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
    with pytest.raises(GoldenFormatError, match="or rewrite it with update=True") as caught:
        assert_graph_matches_golden(Net(), path)
    assert "--fx" not in str(caught.value)

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


def test_a_mismatch_is_told_in_full_in_the_exception(tmp_path):
    path = tmp_path / "net.yaml"
    assert_graph_matches_golden(Net(), path, update=True)

    with pytest.raises(AssertionError) as caught:
        assert_graph_matches_golden(Net(torch.sigmoid), path)

    words = str(caught.value)
    assert words.splitlines()[0].endswith("net.yaml does not match: torch.relu -> torch.sigmoid")
    assert "run the test once with FXGRAPH_UPDATE=1, or call with update=True" in words
    assert "does not match at level structure" in words


def test_the_advice_of_a_missing_golden_works(tmp_path, monkeypatch, capsys):
    path = tmp_path / "net.yaml"
    with pytest.raises(GoldenMissingError, match=r"there is no golden .*net\.yaml; if the graph is right") as caught:
        assert_graph_matches_golden(Net(), path)
    assert "net.yaml would be" in str(caught.value)

    monkeypatch.setenv("FXGRAPH_UPDATE", "1")
    assert_graph_matches_golden(Net(), path)

    assert capsys.readouterr().out == f"wrote {path}\n"
    monkeypatch.delenv("FXGRAPH_UPDATE")
    assert_graph_matches_golden(Net(), path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", ["0", "yes", "true", " 1"])
def test_another_value_of_the_variable_is_an_error_and_writes_nothing(value, tmp_path, monkeypatch):
    monkeypatch.setenv("FXGRAPH_UPDATE", value)

    with pytest.raises(GateError, match=f"FXGRAPH_UPDATE='{value}' is neither 1 nor empty"):
        assert_graph_matches_golden(Net(), tmp_path / "net.yaml")

    assert not any(tmp_path.iterdir())


def test_several_goldens_lie_beside_one_path_by_name(tmp_path):
    path = tmp_path / "net.yaml"

    assert_graph_matches_golden(Net(), path, name="relu", update=True)
    assert_graph_matches_golden(Net(torch.sigmoid), path, name="a/b", update=True)

    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.a%2Fb.yaml", "net.relu.yaml"]
    assert_graph_matches_golden(Net(), path, name="relu")


def test_a_variant_for_the_running_torch_takes_the_goldens_place(tmp_path):
    path, minor = tmp_path / "net.yaml", ".".join(torch.__version__.split(".")[:2])
    assert_graph_matches_golden(Net(torch.sigmoid), path, update=True)
    assert_graph_matches_golden(Net(), tmp_path / f"net@torch-{minor}.yaml", update=True)

    assert_graph_matches_golden(Net(), path)


def programs(**functions):
    return {name: Net(function) for name, function in functions.items()}


def test_each_of_several_programs_has_a_golden_beside_the_path(tmp_path, capsys):
    path = tmp_path / "net.yaml"

    assert_graph_matches_golden(programs(encode=torch.relu, decode=torch.sigmoid), path, name="small", update=True)

    assert [line.split("/")[-1] for line in capsys.readouterr().out.splitlines()] == [
        "net.small.decode.yaml",
        "net.small.encode.yaml",
    ]
    assert_graph_matches_golden(programs(encode=torch.relu, decode=torch.sigmoid), path, name="small")
    with pytest.raises(AssertionError, match=r"(?s)net\.small\.decode\.yaml does not match.*torch\.tanh"):
        assert_graph_matches_golden(programs(encode=torch.relu, decode=torch.tanh), path, name="small")


def test_a_program_that_vanished_fails_and_one_more_is_missing(tmp_path):
    path = tmp_path / "net.yaml"
    assert_graph_matches_golden(programs(encode=torch.relu, decode=torch.sigmoid), path, update=True)

    with pytest.raises(AssertionError) as gone:
        assert_graph_matches_golden(programs(encode=torch.relu), path)
    with pytest.raises(GoldenMissingError, match=r"there is no golden .*net\.more\.yaml"):
        assert_graph_matches_golden(programs(encode=torch.relu, decode=torch.sigmoid, more=torch.tanh), path)

    assert str(gone.value).splitlines() == [
        f"the program 'decode' is gone, which the golden {tmp_path / 'net.decode.yaml'} holds",
        "  the subject has encode",
        "  if that is right, remove this file",
    ]


def test_an_update_of_several_programs_writes_all_or_none(tmp_path):
    with pytest.raises(SubjectError):
        assert_graph_matches_golden({"decode": Net(), "encode": 3}, tmp_path / "net.yaml", update=True)

    assert not any(tmp_path.iterdir())


def test_options_of_the_fixture_are_those_of_the_function(tmp_path):
    from pytest_fxgraph import FxGolden

    of_fixture = set(inspect.signature(FxGolden.__call__).parameters) - {"self"}

    assert of_fixture <= set(inspect.signature(assert_graph_matches_golden).parameters)


def test_example_inputs_constants_normalization_and_code_do_what_they_do_in_the_fixture(tmp_path):
    path = tmp_path / "net.yaml"
    assert_graph_matches_golden(Net(), path, update=True, example_inputs=torch.ones(2, 4), code="exact")
    assert "float32[2, 3]" in path.read_text()
    assert "code:" not in path.read_text()
    with pytest.raises(AssertionError, match=r"float32\[2, 3\]"):
        assert_graph_matches_golden(Net(), path, example_inputs=torch.ones(5, 4))

    other = tmp_path / "other.yaml"
    assert_graph_matches_golden(lambda x: x.relu() * 0.1, other, update=True)
    assert_graph_matches_golden(lambda x: torch.relu(x) * 0.1, other, normalize=True)
    assert_graph_matches_golden(lambda x: 0.1 * x.relu(), other, commutative=True)
    assert_graph_matches_golden(lambda x: x.relu() * 0.10000000000000002, other, constants="close")
    with pytest.raises(AssertionError):
        assert_graph_matches_golden(lambda x: x.relu() * 0.10000000000000002, other)


def test_the_fixtures_are_there_as_functions():
    def swap(gm):
        for node in gm.graph.nodes:
            if node.target is torch.relu:
                node.target = torch.sigmoid
        gm.recompile()

    assert ops(Net()).count(torch.relu) == 1
    assert len(rewrite(fxcore.symbolic_trace(Net()), lambda x: torch.relu(x), lambda x: x).matched) == 1
    with pytest.raises(AssertionError, match="eager and graph after swap differ"):
        check_transform(swap, Net(), torch.ones(2, 4))
    assert [*inspect.signature(check_transform).parameters][:3] == ["transform", "model", "inputs"]
    assert check_transform.__name__ == "check_transform"


def test_a_model_is_drawn_with_its_shapes(tmp_path):
    draw_graph(Net(), tmp_path / "net.svg", example_inputs=(torch.ones(2, 4),))

    text = (tmp_path / "net.svg").read_text(encoding="utf-8")
    assert "<title>Net</title>" in text
    assert "2\N{MULTIPLICATION SIGN}4" in text
    assert "tests/test_functions.py:" in text


def test_a_wrong_ending_is_refused_before_a_model_is_traced(tmp_path):
    with pytest.raises(ReportError, match=r"cannot draw to .*net\.png: a picture's name ends in \.svg"):
        draw_graph(object(), tmp_path / "net.png")


def test_assert_equivalent_takes_the_options_of_the_fixture():
    """One record of options serves both; of their own they have `graph` and the default of `modes`."""
    from inspect import signature

    from pytest_fxgraph.equivalence.fixture import FxEquivalence

    function, fixture = (dict(signature(each).parameters) for each in (assert_equivalent, FxEquivalence.__call__))

    assert set(fixture) - {"self"} == set(function)
    assert {"samples", "modes", "search", "frontend", "allow_vacuous", "rtol"} <= set(function)
    assert function["modes"].default is None
    model = torch.nn.Linear(4, 2)
    assert_equivalent(model, None, torch.randn(2, 4), samples=2, modes=("eval", "train"), checks="values", sqnr=60)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample'"):
        assert_equivalent(model, None, torch.randn(2, 4), sample=2)


@pytest.mark.parametrize("frontend", ["symbolic", "export", "make_fx"])
def test_a_graph_that_cannot_have_a_break_has_no_golden_of_breaks(frontend, tmp_path):
    subject = capture(Net(), torch.ones(2, 4), frontend=frontend)

    with pytest.raises(LevelError, match="level 'breaks' compares what Dynamo told of a capture, and this is a graph"):
        assert_graph_matches_golden(subject, tmp_path / "net.yaml", level="breaks", update=True)
    assert not [*tmp_path.iterdir()]


def test_a_capture_without_a_graph_has_no_golden(tmp_path):
    subject = capture(nn.Identity(), torch.ones(2), frontend="dynamo")

    with pytest.raises(CaptureError, match="made no graph of it, so there is nothing to compare"):
        assert_graph_matches_golden(subject, tmp_path / "net.yaml", level="breaks", update=True)


def test_a_vacuous_check_is_allowed_where_the_caller_says_so():
    with pytest.raises(ValueError, match="a graph that gives zeros would pass, too"):
        assert_equivalent(lambda x: x * 0, lambda x: x * 0, torch.ones(3))

    assert_equivalent(lambda x: x * 0, lambda x: x * 0, torch.ones(3), allow_vacuous=True)


def test_operators_that_alone_may_be_called_are_asked_for_without_a_fixture():
    assert_ops(nn.Tanh(), only_from=[torch.tanh])

    with pytest.raises(AssertionError, match=r"is not on the list: torch.tanh x1; allowed are torch.neg"):
        assert_ops(nn.Tanh(), only_from=[torch.neg])
