"""The folder that `to_folder` writes refuses what the graph refuses."""

from __future__ import annotations

import copy
import importlib
import sys

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import fxcore
from fxcore.errors import GuardError
from fxcore.guard_checks.guards_file import written_guards

pytestmark = pytest.mark.filterwarnings("ignore:Was not able to save")


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, *rest, guards=None):
        self.calls.add_(1)
        if x.shape[0] > 2 and guards is None:
            x = x * 2
        x = torch.cond(x.sum() > 0, lambda x: self.layer(x), lambda x: self.layer(x) + 1, (x,))
        x = checkpoint(lambda x: self.layer(x).sin(), x)  # a function of fxcore in the code
        return x + 1 if fxcore.assume(x.max() < 5) else x


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def write(module):
        module.to_folder(tmp_path / "written", "Again")
        return importlib.import_module("written").Again().train(module.training)

    yield write
    for name in ("written", "written.module"):
        sys.modules.pop(name, None)


def test_the_written_module_refuses_the_calls_that_the_graph_refuses(written):
    example = torch.rand(3, 4)
    module = fxcore.symbolic_trace(Branches(), example_inputs=example)
    again = written(module)

    for call in ((example,), (-example,)):
        torch.testing.assert_close(again(*call), module(*call))
    for call, told in (
        (((torch.rand(2, 4),), {}), r"x\.shape\[0\] > 2: it is False"),
        (((example,), {"guards": 1}), r"guards is None: it is 1"),
    ):
        with pytest.raises(GuardError, match=told):
            again(*call[0], **call[1])
    assert again.calls == 2
    assert torch.equal(copy.deepcopy(again)(example), module(example))


def test_a_written_module_checks_guards_of_inner_values_before_it_runs(written):
    module = fxcore.symbolic_trace(Branches(), example_inputs=torch.rand(3, 4))
    again = written(module)
    with torch.no_grad():
        for each in (module, again):
            each.layer.bias.fill_(torch.nan)

    for each in (module, again):
        with pytest.raises(GuardError, match=r"max.*it is False"):
            each(torch.rand(3, 4))
        assert each.calls == 0


def test_a_module_whose_guards_are_not_enforced_is_written_without_them(written, tmp_path):
    module = fxcore.symbolic_trace(Branches(), example_inputs=torch.rand(3, 4), enforce_guards=False)
    again = written(module)

    x = torch.rand(2, 4)
    assert torch.equal(again(x), module(x))
    assert not (tmp_path / "written" / "forward.guards.pt").exists()


def test_a_written_module_with_guards_is_compiled(written):
    module = fxcore.symbolic_trace(Branches(), example_inputs=torch.rand(3, 4))
    compiled = torch.compile(written(module), backend="eager")

    x = torch.rand(3, 4)
    torch.testing.assert_close(compiled(x), module(x))
    with pytest.raises(GuardError, match="it is False"):
        compiled(torch.rand(2, 4))


class OfRows(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 2 else x


class OfStars(nn.Module):
    def forward(self, x, *rest, scale=1, **named):
        return x * scale if x.shape[0] > 2 else x


@pytest.mark.parametrize(
    ("model", "names", "call"),
    [
        (OfRows(), (), "guards.check(self, x)"),
        (OfRows(), ("guards", "guards_"), "guards__.check(self, x)"),
        (OfStars(), (), "guards.check(self, x, *rest, scale=scale, **named)"),
    ],
)
def test_the_check_takes_each_argument_of_the_forward_and_is_its_first_statement(model, names, call, tmp_path):
    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.ones(3))

    code, definitions = written_guards(graph_module.graph, tmp_path, graph_module.code, names)

    lines = code.splitlines()
    (start,) = (index for index, line in enumerate(lines) if line.startswith("def forward("))
    assert lines[start + 1] == f"    {call}"
    assert [*lines[: start + 1], *lines[start + 2 :]] == graph_module.code.splitlines()
    assert definitions[1].startswith(f"{call.partition('.')[0]} = GuardsFile(r'")


def test_a_trace_of_a_written_module_has_its_guards_if_there_is_an_example(written):
    again = written(fxcore.symbolic_trace(OfRows(), example_inputs=torch.ones(3)))

    with_example = fxcore.symbolic_trace(again, example_inputs=torch.ones(4))
    without = fxcore.symbolic_trace(again)

    assert [str(guard) for guard in with_example.graph.guards] == ["x.shape[0] > 2"]
    assert [[node.name for node in each.graph.nodes] for each in (with_example, without)] == [
        ["x", "mul", "output"]
    ] * 2
