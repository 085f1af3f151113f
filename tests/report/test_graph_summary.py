"""A graph that nobody has seen yet is told on one screen."""

from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.model import ModuleRecord
from pytest_fxgraph.report.graph_summary import MOST_LINES, summary_section

GOLDEN = "golden/test_net/test_net.yaml"


def summary(*lines: str) -> list[str]:
    return summary_section(document("\n".join(lines)), golden=GOLDEN).split("\n")


def chain(count: int, scope: str = "", inputs: int = 1) -> list[str]:
    lines = [f"%n{i} = input n{i}" for i in range(inputs)]
    places = [scope.format(i) for i in range(count)]
    calls = [
        f"%m{i} = f{i}(%{f'm{i - 1}' if i else 'n0'}){f' @ {place}' if place else ''}" for i, place in enumerate(places)
    ]
    return [*lines, *calls, f"return %m{count - 1}"]


def test_a_small_graph_is_shown_whole():
    assert summary("%x = input x", "%a = torch.relu(%x)", "return %a") == [
        f"{GOLDEN} would be",
        "input x",
        "%a = torch.relu(%x)",
        "return %a",
    ]


def test_layers_that_are_alike_are_one_line():
    layers = [f"%{name}{i} = torch.{name}(%x) @ layers.{i}" for i in range(50) for name in ("relu", "neg", "exp")]
    odd = [f"%odd{i} = f{i}(%x)" for i in range(9)]

    lines = summary("%x = input x", *layers, *odd, "return %x")

    assert "block x50: layers.0 .. layers.49" in lines or (
        "  layers.0 .. layers.49: 3 nodes each, torch.relu, torch.neg, torch.exp" in lines
    )


@pytest.mark.parametrize("scope", ["", "a.b{}.c", "a.{}.b", "part{}"])
@pytest.mark.parametrize("inputs", [1, 300])
@pytest.mark.parametrize("count", [1, 17, 18, 19, 20, 500])
def test_there_are_never_more_lines_than_a_screen_holds(count, scope, inputs):
    lines = summary(*chain(count, scope, inputs))

    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) < 200
    assert lines[-1].startswith(("return", "a run with --fx-received writes all of it"))


def test_modules_that_are_not_alike_are_told_apart_as_deep_as_there_is_room():
    lines = summary(*chain(30, "outer.part{}"))

    assert lines[0] == f"{GOLDEN} would be a graph of 32 nodes"
    assert "  outer: 30 nodes, f0, f1, f2, f3 and 26 more operators" in lines


def test_a_large_graph_is_told_by_modules_three_names_deep_to_the_letter():
    inputs = [f"%n{number} = input n{number}" for number in range(5)]
    first = [f"%a{number} = torch.relu(%n0) @ net.enc.first.deep" for number in range(3)]
    second = [f"%{name} = torch.{name}(%n0) @ net.enc.second" for name in ("neg", "exp", "sin", "cos", "tan", "tanh")]
    layers = [f"%l{number} = torch.abs(%n0) @ net.layers.{number}" for number in range(4)]
    rest = ["%w = get scale", *(f"%r{number} = torch.log(%w)" for number in range(3))]

    assert summary(*inputs, *first, *second, *layers, *rest, "return %r2") == [
        f"{GOLDEN} would be a graph of 23 nodes",
        *("  input n0", "  input n1", "  input n2", "  and 2 more inputs"),
        "  net.enc.first: 3 nodes, torch.relu x3",
        "  net.enc.second: 6 nodes, torch.neg, torch.exp, torch.sin, torch.cos and 2 more operators",
        "  net.layers.0 .. net.layers.3: 1 node each, torch.abs",
        "  scale: 1 node, scale",
        "  3 nodes, torch.log x3",
        "  return %r2",
        "a run with --fx-received writes all of it beside the golden",
    ]


@pytest.mark.parametrize(
    ("modules", "lines"),
    [
        (12, ["  m.a.0: 1 node, f0", "  m.a.1: 1 node, f1"]),
        (13, ["  m.a: 13 nodes, f0, f1, f2, f3 and 9 more operators", "  return %m12"]),
    ],
)
def test_more_than_12_groups_are_told_one_level_higher(modules, lines):
    told = summary(*chain(modules, "m.a.{}", inputs=9))

    assert told[5:7] == lines


def test_two_layers_share_a_line_and_four_operators_are_named():
    names = ("relu", "relu", "neg", "exp", "sin")
    layers = [
        f"%{name}_{i}_{place} = torch.{name}(%x) @ layers.{i}" for i in (0, 1) for place, name in enumerate(names)
    ]
    rest = [f"%r{number} = torch.log(%x) @ net" for number in range(12)]

    lines = summary("%x = input x", *layers, *rest, "return %r1")

    assert "  layers.0, layers.1: 5 nodes each, torch.relu x2, torch.neg, torch.exp, torch.sin" in lines


def test_a_call_of_a_module_has_the_name_of_its_class():
    lines = ["%x = input x", *(f"%a{number} = self.fc(%x)" for number in range(20)), "return %a1"]
    modules = (ModuleRecord("fc", "torch.nn.Linear"),)

    told = summary_section(document("\n".join(lines), modules=modules), golden=GOLDEN).split("\n")

    assert "  fc: 20 nodes, Linear x20" in told


def test_a_graph_of_many_outermost_modules_is_one_line():
    lines = summary(*chain(30, "part{}"))

    assert "  30 nodes, f0, f1, f2, f3 and 26 more operators" in lines
