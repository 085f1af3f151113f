"""Every guard of Dynamo on the user's data is among `Capture.guards`: a change of the value compiles anew."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

import fixtures.dynamo  # noqa: F401  before any test: Dynamo cannot be imported a second time
from pytest_fxgraph import capture
from pytest_fxgraph.errors import InputsError

X = torch.ones(2, 2)
TABLE: dict[str, Any] = {"factor": 3, "steps": [1, 2]}
NUMBER = 4


@dataclasses.dataclass
class Config:
    depth: int = 2


@dataclasses.dataclass
class OtherConfig:
    depth: int = 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.items = [1, 2]
        self.d = {"a": 2.0}
        self.cfg = Config()
        self.mode = "add"
        self._hidden = 5
        self.nothing = None

    def forward(self, x, option=None):
        for item in self.items:
            x = x + item
        x = x * self.d["a"] * self.cfg.depth * TABLE["factor"] * NUMBER
        for step in TABLE["steps"]:
            x = x + step
        x = x + 1 if self.mode == "add" else x
        x = x + self._hidden if self.nothing is None else x
        return self.inner(x + option["z"] if option else x)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sizes = (1, 2)
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x) * self.sizes[1]


def set_global(name, value):
    globals()[name] = value


CHANGES = {
    "items[0] == 1": lambda net: net.items.__setitem__(0, 7),
    "len(items) == 2": lambda net: net.items.append(3),
    "d['a'] == 2.0": lambda net: net.d.update(a=3.0),
    "cfg.depth == 2": lambda net: setattr(net.cfg, "depth", 3),
    "mode == 'add'": lambda net: setattr(net, "mode", "keep"),
    "_hidden == 5": lambda net: setattr(net, "_hidden", 6),
    "global TABLE['factor'] == 3": lambda net: TABLE.update(factor=4),
    "global TABLE['steps'][1] == 2": lambda net: TABLE["steps"].__setitem__(1, 9),
    "len(global TABLE['steps']) == 2": lambda net: TABLE["steps"].append(3),
    "global NUMBER == 4": lambda net: set_global("NUMBER", 5),
    "inner.sizes == (1, 2)": lambda net: setattr(net.inner, "sizes", (1, 3)),
}


@pytest.fixture(autouse=True)
def _globals_as_they_were():
    table, number = {"factor": TABLE["factor"], "steps": [*TABLE["steps"]]}, NUMBER
    yield
    TABLE.clear()
    TABLE.update(table)
    set_global("NUMBER", number)


def texts(found):
    return [guard.text for guard in found.guards]


@pytest.mark.parametrize("guard", CHANGES)
def test_a_change_of_a_guarded_value_compiles_anew(guard):
    net = Net().eval()

    found = capture(net, (X,), calls=[((X,), {}, lambda: CHANGES[guard](net))])

    assert guard in texts(found)
    (recompile,) = found.recompiles
    assert recompile.call == 2
    assert recompile.guard.replace("self._modules['inner']", "inner").replace("self.", "") == guard.partition(" ==")[0]


def test_a_call_without_a_change_compiles_nothing():
    assert capture(Net().eval(), (X,), calls=[((X,), {}, lambda: None), ((X,), {})]).recompiles == []


def test_parts_of_arguments_are_guards():
    found = capture(Net().eval(), (X, {"z": 1}), calls=[((X, {"z": 2}), {})])

    assert {"option['z'] == 1", "len(option) == 1"} & set(texts(found))
    assert [each.obtained for each in found.recompiles] == ["2"]


def test_an_object_of_another_class_is_another_type():
    net = Net().eval()

    found = capture(net, (X,), calls=[((X,), {}, lambda: setattr(net, "cfg", OtherConfig()))])

    assert len(found.recompiles) == 1


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):
        x = x + self.calls
        self.calls += 1
        return x


def test_the_obtained_value_of_a_recompile_is_the_value_at_the_call():
    net = Counting()

    found = capture(net, (X,), calls=[((X,), {})])

    assert [(each.expected, each.obtained) for each in found.recompiles] == [("0", "1")]
    assert net.calls == 0


def test_attributes_that_a_call_changed_are_restored():
    net = Net().eval()

    capture(net, (X,), calls=[((X,), {}, lambda: setattr(net, "mode", "keep"))])

    assert net.mode == "add"


def test_guards_on_data_inside_are_no_part_of_a_golden():
    notes = capture(Net().eval(), (X,)).as_graph_module().meta["fxgraph_capture_notes"]

    assert "guard: mode == 'add'" in notes
    assert not any("len(" in note or "global" in note or "d['a']" in note for note in notes)


@pytest.mark.parametrize("call", [((X,), {}, 3), ((X,), {}, None, None), (X, {}, print)])
def test_a_call_with_a_third_part_that_is_no_function_is_refused(call):
    with pytest.raises(InputsError, match=r"calls: expected \(args, kwargs\).* a function as third part"):
        capture(Net(), (X,), calls=[call])
