"""A change of a model is noticed and named, whatever part it touches."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from fxcore.state.changes import MISSING, Change
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.change_words import settings_in_words, words_of


def _write(model: Any) -> None:
    with torch.no_grad():
        model.lin.weight.zero_()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_write, "parameter lin.weight has other values"),
        (lambda model: setattr(model.lin, "weight", nn.Parameter(torch.ones(1))), "lin.weight is another tensor"),
        (lambda model: delattr(model, "bn"), "parameter bn.weight is gone"),
        (lambda model: model.register_buffer("more", torch.zeros(1)), "more is new"),
        (lambda model: setattr(model.bn, "eps", 0.5), "bn.eps was 1e-05 and is 0.5"),
        (lambda model: model.bn.eval(), "bn.training was True and is False"),
        (lambda model: setattr(model, "act", nn.GELU()), "module act was ReLU and is GELU"),
        (lambda model: model.lin.weight.requires_grad_(False), "parameter lin.weight has requires_grad=False now"),
        (lambda model: model.act.register_forward_hook(print), "act._forward_hooks holds something else"),
        (lambda model: setattr(model.act, "forward", torch.neg), "act.forward was replaced"),
        (lambda model: setattr(model, "_cache", object()), "_cache is new"),
    ],
)  # fmt: skip
def test_each_change_is_named_and_undone(change, words):
    model = nn.Module()
    model.lin, model.bn, model.act = nn.Linear(1, 1), nn.BatchNorm1d(1), nn.ReLU()
    snapshot = Snapshot(model)
    snapshot.include_classes(model)
    assert snapshot.changes() == []

    change(model)
    found = words_of(snapshot.changes())
    snapshot.restore()

    assert any(words in sentence for sentence in found)
    assert snapshot.changes() == []


@dataclasses.dataclass
class Config:
    """Settings that a model refers to."""

    eps: float = 1e-5
    sizes: list[int] = dataclasses.field(default_factory=lambda: [1, 2])


class Slotted:
    """Has no __dict__."""

    __slots__ = ("unset", "width")

    def __init__(self):
        self.width = 3


class Rich(nn.Module):
    """Holds things in all kinds of attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2)
        self.config = Config()
        self.table = {"mean": torch.zeros(2), "inner": {"k": [1, 2]}}
        self.ordered = OrderedDict(one=1, two=2)
        self.hidden = [nn.Linear(2, 2), SimpleNamespace(norm=nn.BatchNorm1d(2))]
        self.names, self.last = {"a"}, deque([1], maxlen=3)
        self.pair = (1, [2])
        self.slotted = Slotted()
        self.array = np.zeros((2, 2))
        self.large = 1
        self.back = [self]


def _no_grad(change):
    def changed(model):
        with torch.no_grad():
            change(model)

    return changed


def _set_gradient(model):
    model.conv.weight.grad = torch.ones_like(model.conv.weight)


def _to_channels_last(model):
    model.conv.weight.data = model.conv.weight.data.contiguous(memory_format=torch.channels_last)


def _insert_again(model):
    conv = model.conv
    del model.conv
    model.conv = conv


def _insert_weight_again(model):
    weight = model.conv.weight
    del model.conv.weight
    model.conv.weight = weight


def _change_class(model):
    model.conv.__class__ = type("Other", (nn.Conv2d,), {})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: setattr(model.config, "eps", 0.1), "config.eps was 1e-05 and is 0.1"),
        (lambda model: model.config.sizes.append(3), "config.sizes[2] was missing and is 3"),
        (lambda model: model.table["mean"].add_(1), "attribute table['mean'] has other values"),
        (lambda model: model.table["inner"]["k"].__setitem__(0, 5), "table['inner']['k'][0] was 1 and is 5"),
        (lambda model: model.table["inner"].clear(), "table['inner']['k'] was [1, 2] and is missing"),
        (lambda model: model.ordered.move_to_end("one"), "ordered was ['one', 'two'] and is ['two', 'one']"),
        (_no_grad(lambda model: model.hidden[0].weight.add_(1)), "parameter hidden[0].weight has other values"),
        (lambda model: model.hidden[1].norm.eval(), "hidden[1].norm.training was True and is False"),
        (lambda model: setattr(model.hidden[1], "norm", nn.ReLU()), "hidden[1].norm holds something else"),
        (lambda model: model.names.add("b"), "names was {'a'} and is"),
        (lambda model: model.last.append(2), "last[1] was missing and is 2"),
        (lambda model: model.pair[1].append(2), "pair[1][1] was missing and is 2"),
        (lambda model: setattr(model.slotted, "width", 4), "slotted.width was 3 and is 4"),
        (lambda model: setattr(model.slotted, "unset", 4), "slotted.unset was missing and is 4"),
        (lambda model: model.array.fill(2), "array has other values"),
        (lambda model: setattr(model, "array", np.zeros((2, 2))), "array holds something else"),
        (lambda model: setattr(model, "large", 10**5000), "large was 1 and is <int of 16610 bits>"),
        (_set_gradient, "parameter conv.weight has a gradient now"),
        (lambda model: model.bn.weight.grad.add_(1), "parameter bn.weight has another gradient"),
        (lambda model: setattr(model.bn.weight, "grad", None), "parameter bn.weight has no gradient any more"),
        (lambda model: model.conv.weight.register_hook(print), "parameter conv.weight has other tensor hooks"),
        (lambda model: model.bn.bias.register_hook(print), "parameter bn.bias has other tensor hooks"),
        (lambda model: model.bn.bias._backward_hooks.clear(), "parameter bn.bias has other tensor hooks"),
        (
            lambda model: model.conv.weight.register_post_accumulate_grad_hook(print),
            "parameter conv.weight has other hooks after its gradient",
        ),
        (_to_channels_last, "parameter conv.weight has strides (18, 1, 6, 2) now, and had (18, 9, 3, 1)"),
        (_insert_again, "the modules of the model are in another order: conv, bn became bn, conv"),
        (_insert_weight_again, "the parameters of conv are in another order: weight, bias became bias, weight"),
        (lambda model: model.bn._buffers.update(running_mean=model.bn._buffers.pop("running_mean")),
         "the buffers of bn are in another order: running_mean, running_var, num_batches_tracked became"),
        (_change_class, "the class of conv was Conv2d and is Other"),
        (lambda model: parametrize.register_parametrization(model.conv, "weight", nn.Identity()),
         "the class of conv was Conv2d and is ParametrizedConv2d"),
        (lambda model: setattr(Rich, "forward", print), "Rich.forward, of the class, is"),
        (lambda model: setattr(nn.Conv2d, "forward", torch.relu), "Conv2d.forward, of the class, is another function"),
        (lambda model: setattr(nn.Module, "train", lambda module, mode: module), "Module.train, of the class"),
    ],
)  # fmt: skip
def test_what_attributes_lead_to_and_what_tensors_carry_is_named_and_undone(change, words):
    model: Any = Rich()
    model.bn.weight.grad, model.bn.bias.grad = torch.ones(2), torch.ones(2)
    model.bn.bias.register_hook(abs)
    before = (
        list(model.state_dict()),
        repr(model),
        model.config.sizes.copy(),
        list(model.ordered),
        vars(nn.Conv2d).copy(),
    )
    snapshot = Snapshot(model)
    snapshot.include_classes(model)
    assert snapshot.changes() == []

    change(model)
    found = words_of(snapshot.changes())
    snapshot.restore()

    assert any(words in sentence for sentence in found) if words else found == []
    assert snapshot.changes() == []
    assert before == (
        list(model.state_dict()),
        repr(model),
        model.config.sizes,
        list(model.ordered),
        vars(nn.Conv2d).copy(),
    )
    assert model.conv.weight.is_contiguous()
    assert list(model.bn.bias._backward_hooks.values()) == [abs]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("x", "held", "a", "b"), "x was 'a' and is 'b'"),
        (("x", "held", [1], [1]), None),  # they print alike
        (("x", "held", [1, 2], (1,)), "x was [1, 2] and is (1,)"),
        (("x", "held", MISSING, 3), "x was missing and is 3"),
        (("x", "held", 3, MISSING), "x was 3 and is missing"),
        (("x", "held", int, 3), "x was int and is 3"),
        (("x", "held", [_no_grad], 3), "x holds something else"),
        (("x", "held", MISSING, _no_grad), "x is new"),
        (("x", "held", _no_grad, MISSING), "x is gone"),
        (("x", "held", 3, _no_grad), "x holds something else"),
        (("x", "held", len, 3), "x holds something else"),
        (("net.forward", "held", MISSING, _no_grad), "net.forward was replaced"),
        (("forward", "held", MISSING, _no_grad), "forward was replaced"),
        (("t", "held", torch.ones(1), torch.ones(1), "attribute"), "attribute t is another tensor"),
        (("t", "held", torch.ones(1), MISSING, "attribute"), "attribute t is gone"),
        (("t", "held", MISSING, torch.ones(1), "attribute"), "attribute t is new"),
        (("t", "held", torch.ones(1), 3, "attribute"), "attribute t holds something else"),
        (("t", "held", MISSING, _no_grad, "attribute"), "t is new"),
        (("t", "held", MISSING, torch.ones(1), "buffer"), "buffer t is new"),
        (("m", "held", nn.ReLU(), nn.ReLU(), "module"), "module m is another ReLU"),
        (("m", "held", MISSING, nn.ReLU(), "module"), "module m was missing and is ReLU"),
        (("", "class", nn.ReLU, nn.GELU), "the class of the model was ReLU and is GELU"),
        (("N.train", "function", len, MISSING), "N.train, of the class, is gone"),
        (("", "order", list("abcdef"), list("bacdef"), "buffer"),
         "the buffers of the model are in another order: a, b, c, d, e became b, a, c, d, e"),
        (("x", "order", ["a", "b"], ["b", "a"]), "x was ['a', 'b'] and is ['b', 'a']"),
        (("the mode", "setting", "on", "off", "setting"), "the mode (on -> off)"),
        (("g", "values", 1, 2, "generator"), None),
        (("w", "grad", torch.ones(1), torch.ones(1), "parameter"), "parameter w has another gradient"),
    ],
)  # fmt: skip
def test_a_change_has_a_sentence(change, words):
    assert words_of([Change(*change)]) == ([] if words is None else [words])


def test_settings_are_told_by_name():
    changes = [Change("x", "held", 1, 2), Change("the mode", "setting", "on", "off", "setting")]

    assert settings_in_words(changes) == {"the mode": "on -> off"}
