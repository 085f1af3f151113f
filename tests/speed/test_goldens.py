"""A golden that matches costs no parsing, no source lines and few steps a node; counted, not timed."""

from __future__ import annotations

import operator
import sys

import pytest
from torch import nn

import fxcore
from fixtures.call_counts import added_calls
from pytest_fxgraph.captures.subjects import to_readable_graph
from pytest_fxgraph.document import text_reader
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.functions import assert_graph_matches_golden

CONFTEST = """
import yaml

calls, parse = [], yaml.parse

def counted(*args, **kwargs):
    calls.append(1)
    return parse(*args, **kwargs)

yaml.parse = counted

def pytest_terminal_summary(terminalreporter):
    yaml.parse = parse
    terminalreporter.write_line(f"parsed {len(calls)} times")
"""

TEST = """
from torch import nn

def test_net(fx_golden):
    assert nn.Sequential(nn.Linear(2, 3), nn.ReLU()) == fx_golden
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run a project with one golden, which has been written, in this process."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_net=TEST)
    options = ("-p", "no:randomly", "-p", "no:hypothesispytest")
    pytester.runpytest_inprocess(*options, "--fx-update-golden").assert_outcomes(passed=1)
    return lambda: pytester.runpytest_inprocess(*options)


def chain(length):
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for index in range(length):
        value = graph.call_function(operator.add, (value, index % 7))
    graph.output(value)
    return fxcore.GraphModule({}, graph)


def layers(count):
    return nn.Sequential(*[nn.Linear(2, 2) for _ in range(count)])


def test_a_golden_that_matches_to_the_byte_is_never_parsed(run):
    result = run()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["parsed 0 times"])


def test_a_golden_with_other_names_of_nodes_is_never_parsed(run, pytester):
    golden = pytester.path / "golden" / "test_net" / "test_net.yaml"
    golden.write_text(golden.read_text().replace("%_0 ", "%first ").replace("%_0)", "%first)"))

    result = run()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["parsed 0 times"])


def test_a_golden_that_matches_by_structure_is_parsed_once(run, pytester):
    golden = pytester.path / "golden" / "test_net" / "test_net.yaml"
    golden.write_text("# a note\n" + golden.read_text())

    result = run()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["parsed 1 times"])


def test_a_golden_that_differs_is_parsed_once(run, pytester):
    golden = pytester.path / "golden" / "test_net" / "test_net.yaml"
    golden.write_text(golden.read_text().replace("out_features=3", "out_features=4"))

    result = run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["parsed 1 times"])


@pytest.mark.parametrize("level", ["structure", "ops", "signature"])
def test_the_function_does_not_parse_a_golden_that_matches(tmp_path, monkeypatch, level):
    golden = tmp_path / "layers.yaml"
    assert_graph_matches_golden(layers(2), golden, update=True)
    golden.write_text(golden.read_text().replace("%_0 ", "%first ").replace("%_0)", "%first)"))

    monkeypatch.delattr("pytest_fxgraph.document.decoding.decode")

    assert_graph_matches_golden(layers(2), golden, level=level)


def test_a_node_is_written_down_in_few_calls():
    assert added_calls(chain, build_document) < 36


def test_a_layer_is_written_down_in_few_calls():
    def work(traced):
        build_document(traced.root, graph=traced.graph, sources=False)

    assert added_calls(lambda count: to_readable_graph(layers(count)), work) < 56


def test_a_node_is_encoded_in_few_calls():
    # One of them belongs to folding, which asks for the module path of each node.
    assert added_calls(lambda length: build_document(chain(length)), encode) < 6


def test_a_node_is_decoded_in_a_bounded_number_of_calls():
    assert added_calls(lambda length: encode(build_document(chain(length))), lambda text: decode(text, "golden")) < 110


def test_a_class_of_layers_is_looked_at_once_in_a_process(monkeypatch):
    build_document(fxcore.symbolic_trace(layers(1)))
    looks = []
    monkeypatch.setattr("inspect.signature", lambda function: looks.append(function))

    build_document(fxcore.symbolic_trace(layers(3)))

    assert nn.Linear.__init__ not in looks


def test_the_margin_of_a_section_is_measured_once_and_not_for_each_line(monkeypatch):
    lengths = []

    def counted_min(values, **options):
        lengths.append(len(values := list(values)))
        return min(values, **options)

    monkeypatch.setattr(text_reader, "min", counted_min, raising=False)

    decode(encode(build_document(chain(500))), "golden.yaml")

    assert lengths.count(502) <= 2  # the graph, and its code
