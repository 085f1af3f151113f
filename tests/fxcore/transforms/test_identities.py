"""What gives back what it is given goes; what only sometimes does stays."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.transforms.identities import RemoveIdentities
from pytest_fxgraph import check_transform


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.Identity(), nn.Sequential())
        self.never = nn.Dropout(0.0)

    def forward(self, x):
        y = self.never(self.block(x))
        y = F.dropout(y, 0.3, self.training) + F.dropout(y, 0.0, True)
        return F.alpha_dropout(y) * torch.dropout(y, 0.5, False)


def test_all_identities_of_a_model_in_eval_mode_go():
    result = check_transform(RemoveIdentities(), Net().eval(), (torch.randn(3, 4),))

    assert [node.name for node in result.after.graph.nodes] == ["x", "block_0", "add", "mul", "output"]
    assert list(result.after.state_dict()) == ["block.0.weight", "block.0.bias"]


def test_dropout_that_drops_stays():
    gm = fxcore.symbolic_trace(Net())

    made = RemoveIdentities()(gm).graph_module

    assert "self.block.1" in made.code or 'getattr(self.block, "1")' in made.code
    assert "never" not in made.code
    assert made.code.count("functional.dropout") == 1
    assert "never" in gm.code, "the module that is given stays"


@pytest.mark.parametrize(
    ("arguments", "stays"),
    [((0.0, True), False), ((0.5, True), True), ((0.5, False), False), ((1.0, True), True)],
)
def test_dropout_by_position_goes_by_its_rate_and_mode(arguments, stays):
    made = RemoveIdentities()(fxcore.symbolic_trace(lambda x: torch.dropout(x, *arguments))).graph_module

    assert ("dropout" in made.code) == stays


@pytest.mark.parametrize(
    ("function", "arguments", "keywords", "stays"),
    [
        (F.dropout, (), {}, True),
        (F.dropout, (0.5,), {}, True),
        (F.dropout, (0.0,), {}, False),
        (F.dropout, (0.5, False), {}, False),
        (F.dropout, (0.5, True, False), {}, True),
        (F.dropout, (), {"p": 0.0}, False),
        (F.dropout, (), {"training": False}, False),
        (F.alpha_dropout, (0.5,), {}, False),
        (F.alpha_dropout, (0.5, True), {}, True),
        (F.alpha_dropout, (0.5,), {"training": True}, True),
        (torch.dropout, (0.5,), {"train": False}, False),
        (torch.dropout, (), {"p": 0.5, "train": True}, True),
        (torch.dropout, (0.5, False), {}, False),
        (torch.feature_dropout, (0.5, False), {}, False),
        (torch.ops.aten.dropout.default, (0.5, True), {}, True),
    ],
)
def test_a_function_for_dropout_goes_unless_it_drops(function, arguments, keywords, stays):
    graph = fxcore.Graph()
    graph.output(graph.call_function(function, (graph.placeholder("x"), *arguments), keywords))

    made = RemoveIdentities()(fxcore.GraphModule(nn.Module(), graph)).graph_module

    assert ("dropout" in made.code) == stays


@pytest.mark.parametrize("form", ["exported", "decomposed"])
def test_dropout_of_an_exported_program_goes(form):
    program = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.Dropout()).eval(), (torch.randn(3, 4),))
    gm = fxcore.interop.from_torch(program if form == "exported" else program.run_decompositions())

    made = RemoveIdentities()(gm).graph_module

    assert "dropout" not in made.code


def test_an_identity_with_a_hook_stays():
    model = nn.Sequential(nn.Identity())
    model[0].register_forward_hook(lambda module, args, output: output + 1)
    gm = fxcore.symbolic_trace(model)

    result = RemoveIdentities()(gm)

    assert result.graph_module is gm
    assert not result.modified


def test_a_call_that_stays_has_its_reason():
    model = nn.Sequential(nn.Dropout(0.3), nn.Identity(), nn.ReLU())
    model[1].register_forward_hook(lambda *_: None)

    report = RemoveIdentities()(fxcore.symbolic_trace(model)).report

    assert [str(each) for each in report.left] == [
        "0: it is a dropout in training; call eval() on the model, trace it, and run this pass then",
        "1: it has hooks, which would no longer run",
    ]


def test_a_sequence_with_modules_is_no_identity():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Sequential(nn.ReLU()), nn.Identity()).eval(), leaf_modules=("0",))

    result = RemoveIdentities()(gm)

    assert [node.target for node in result.graph_module.graph.find_nodes(op="call_module")] == ["0"]
    assert not result.report.left


DROPOUTS = [
    (function, name, default)
    for functions, name, default in [
        ((F.dropout, F.dropout1d, F.dropout2d, F.dropout3d), "training", True),
        ((F.alpha_dropout, F.feature_alpha_dropout), "training", False),
        ((torch.dropout, torch.alpha_dropout, torch.feature_dropout, torch.ops.aten.dropout.default), "train", None),
    ]
    for function in functions
]


@pytest.mark.parametrize(("function", "name", "default"), DROPOUTS, ids=lambda each: getattr(each, "__name__", each))
def test_every_spelling_of_dropout_goes_by_its_rate_and_its_mode(function, name, default):
    def stays(*args, **kwargs):
        graph = fxcore.Graph()
        graph.output(graph.call_function(function, (graph.placeholder("x"), *args), kwargs))
        result = RemoveIdentities()(fxcore.GraphModule(nn.Module(), graph))
        return bool(result.graph_module.graph.find_nodes(op="call_function", target=function))

    assert stays(0.5, True)
    assert not stays(0.5, False)
    assert not stays(0.0, True)
    assert stays(p=0.5, **{name: True})
    assert not stays(p=0.5, **{name: False})
    assert not stays(p=0.0, **{name: True})
    if default is not None:
        assert stays() == stays(0.5) == default


@pytest.mark.parametrize(
    "layer", [nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout]
)
def test_every_layer_of_dropout_goes_by_its_rate_and_its_mode(layer):
    assert not RemoveIdentities()(fxcore.symbolic_trace(nn.Sequential(layer(0.5)))).modified
    assert RemoveIdentities()(fxcore.symbolic_trace(nn.Sequential(layer(0.5)).eval())).modified
    assert RemoveIdentities()(fxcore.symbolic_trace(nn.Sequential(layer(0.0)))).modified
