"""Operators that come, go or are replaced together with inputs, results and modules."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.functions import diff_graphs

SCORES = "%x = input x\n%a = torch.exp(%x)\n%b = torch.softmax(%a)\nreturn %b"
GRAPHS = {
    "an input that is added to a value": (
        SCORES,
        "%x = input x\n%m = input mask\n%a = torch.exp(%x)\n%c = torch.add(%a, %m)\n%b = torch.softmax(%c)\nreturn %b",
        ["the new input mask is added to exp's output"],
    ),
    "an input with its operators": (
        SCORES,
        "%x = input x\n%w = input w\n%a = torch.exp(%x)\n%c = torch.f(%a, %w)\n%d = torch.g(%c, %w)\n"
        "%b = torch.softmax(%d)\nreturn %b",
        ["2 operators (f, g) inserted after exp with the new input w"],
    ),
    "an input removed with its operator": (
        "%x = input x\n%m = input mask\n%a = torch.exp(%x)\n%c = torch.where(%m, %a)\n"
        "%b = torch.softmax(%c)\nreturn %b",
        SCORES,
        ["torch.where removed after exp with the removed input mask"],
    ),
    "a number in a module of its own": (
        SCORES,
        "%x = input x\n%a = torch.exp(%x)\n%c = torch.mul(%a, 2) @ scale\n%b = torch.softmax(%c)\nreturn %b",
        ["exp's output is multiplied by 2"],
    ),
    "an operand of a list": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n%c = torch.cat([%a, %b])\nreturn %c",
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n%e = torch.cos(%x)\n%c = torch.cat([%a, %b, %e])\n"
        "return %c",
        ["torch.cos added before cat"],
    ),
    "one operator of a module that went": (
        "%x = input x\n%a = torch.f(%x) @ old\n%b = torch.exp(%a)\nreturn %b",
        "%x = input x\n%a = torch.g(%x)\n%c = torch.h(%a)\n%b = torch.exp(%c)\nreturn %b",
        ["f -> 2 operators (g, h)"],
    ),
    "values moved in another way": (
        "%x = input x\n%a = .flatten(%x, 2)\n%b = .transpose(%a, 1, 2)\n%c = torch.exp(%b)\nreturn %c",
        "%x = input x\n%a = .permute(%x, 0, 2, 3, 1)\n%b = .flatten(%a, 1, 2)\n%c = torch.exp(%b)\nreturn %c",
        ["2 operators (flatten, transpose) -> 2 operators (permute, flatten)"],
    ),
    "an operator with a tensor that another operator reads, too": (
        SCORES,
        "%x = input x\n%a = torch.exp(%x)\n%w = get w\n%e = torch.sin(%w)\n%m = torch.mul(%a, %w)\n"
        "%b = torch.softmax(%m)\nreturn (%b, %e)",
        ["2 operators (sin, mul) with w inserted after exp: the graph also returns sin"],
    ),
    "three casts in a row": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%a)\nreturn %b",
        "%x = input x\n%p = .half(%x)\n%a = torch.exp(%p)\n%q = .float(%a)\n%b = torch.sin(%q)\n%r = .half(%b)\n"
        "return %r",
        [".half inserted after sin", "exp is computed between two casts (half, float)"],
    ),
    "a call without a reader on another value": (
        "%x = input x\n%a = torch.exp(%x)\n%p = builtins.print(%a) ! io\n%b = torch.sin(%a)\n%c = torch.cos(%b)\n"
        "return %c",
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%a)\n%c = torch.cos(%b)\n%p = builtins.print(%c) ! io\n"
        "return %c",
        ["print reads cos in place of exp"],
    ),
    "an operator inserted before another that moved": (
        "%x = input x\n%a = torch.exp(%x)\n%r = torch.relu(%a)\n%b = torch.sin(%r)\n%c = torch.cos(%b)\nreturn %c",
        "%x = input x\n%n = torch.neg(%x)\n%a = torch.exp(%n)\n%b = torch.sin(%a)\n%c = torch.cos(%b)\n"
        "%r = torch.relu(%c)\nreturn %r",
        ["relu moved from after exp to after cos", "torch.neg inserted after input x"],
    ),
    "two operators moved together": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%a)\n%c = torch.cos(%b)\n%d = torch.tan(%c)\nreturn %d",
        "%x = input x\n%c = torch.cos(%x)\n%a = torch.exp(%c)\n%b = torch.sin(%a)\n%d = torch.tan(%b)\nreturn %d",
        ["cos moved from after sin to before exp"],
    ),
    "an argument between a removed and an inserted operator": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.f(%a, 1)\n%c = torch.sin(%b)\nreturn %b",
        "%x = input x\n%d = torch.cos(%x)\n%a = torch.exp(%d)\n%b = torch.f(%a, 2)\nreturn %b",
        ["torch.cos inserted after input x", "torch.f argument 2: 1 -> 2", "torch.sin removed after f"],
    ),
    "a view between a removed and an inserted operator": (
        "%x = input x\n%a = torch.exp(%x)\n%b = .view(%a, 1)\n%c = torch.cos(%b)\nreturn %c",
        "%x = input x\n%b = .view(%x, 2)\n%d = torch.sin(%b, 3)\n%c = torch.cos(%d)\nreturn %c",
        [".view argument 1: 1 -> 2", "torch.exp removed after input x", "torch.sin inserted after view"],
    ),
    "a check of a cast after an inserted operator": (
        SCORES,
        "%x = input x\n%n = torch.neg(%x)\n%a = torch.exp(%n)\n%c = aten._assert_tensor_metadata.default(%a)\n"
        "%t = aten.to.dtype(%a, 1)\n%b = torch.softmax(%t)\nreturn %b",
        ["aten.to inserted after exp", "torch.neg inserted after input x"],
    ),
    "a check of a cast": (
        SCORES,
        "%x = input x\n%a = torch.exp(%x)\n%c = aten._assert_tensor_metadata.default(%a)\n%t = aten.to.dtype(%a, 1)\n"
        "%b = torch.softmax(%t)\nreturn %b",
        ["aten.to inserted after exp"],
    ),
    "a cast to the dtype of another value": (
        SCORES,
        '%x = input x\n%a = torch.exp(%x)\n%d = builtins.getattr(%x, "dtype")\n%t = .to(%a, %d)\n'
        "%b = torch.softmax(%t)\nreturn %b",
        [".to inserted after exp"],
    ),
    "casts around an operator": (
        SCORES,
        "%x = input x\n%a = torch.exp(%x)\n%f = .float(%a)\n%b = torch.softmax(%f)\n%h = .half(%b)\nreturn %h",
        ["softmax is computed between two casts (float, half)"],
    ),
    "casts around an operator removed": (
        "%x = input x\n%a = torch.exp(%x)\n%f = .float(%a)\n%b = torch.softmax(%f)\n%h = .half(%b)\nreturn %h",
        SCORES,
        ["softmax is no longer computed between two casts (float, half)"],
    ),
    "two casts apart": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.softmax(%a)\n%c = torch.sin(%b)\nreturn %c",
        "%x = input x\n%f = .float(%x)\n%a = torch.exp(%f)\n%b = torch.softmax(%a)\n%h = .half(%b)\n"
        "%c = torch.sin(%h)\nreturn %c",
        [".float inserted after input x", ".half inserted after softmax"],
    ),
    "another result with other values and its operator": (
        "%x = input x : float32[2]\n%a = torch.exp(%x) : float32[2]\nreturn %a : float32[2]",
        "%x = input x : float32[2]\n%a = torch.exp(%x) : float32[2]\n%b = torch.sin(%a) : float32[3]\n"
        "return (%a, %b) : (float32[2], float32[3])",
        ["torch.sin added after exp: the graph also returns sin"],
    ),
    "a new input whose name begins another name": (
        "%mask = input mask\n%a = torch.exp(%mask)\nreturn %a",
        "%mask = input mask\n%m = input m\n%c = torch.mul(%mask, %m)\n%a = torch.exp(%c)\nreturn %a",
        ["input mask is multiplied by the new input m"],
    ),
    "another result with other values": (
        "%x = input x : float32[2]\n%a = torch.exp(%x) : float32[2]\nreturn %a : float32[2]",
        "%x = input x : float32[2]\n%a = torch.exp(%x) : float32[2]\nreturn (%a, %x) : (float32[2], float32[2])",
        ["the graph also returns x"],
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_one_edit_has_one_line(name):
    before, after, words = GRAPHS[name]

    difference = compare_documents(document(before), document(after))

    assert sorted(edit.text for edit in difference.edits) == words
    assert not difference.rest


def test_an_operator_in_whose_place_a_quantized_module_runs_is_a_quantization():
    quantized = document(
        SCORES.replace("torch.exp(%x)", "self.q(%x)"), modules=(ModuleRecord("q", "torch.ao.nn.quantized.ReLU6"),)
    )

    (edit,) = compare_documents(document(SCORES), quantized).edits

    assert (edit.kind, edit.text) == ("quantized", "torch.exp -> quantized ReLU6")


def test_an_edit_with_a_new_input_is_another_cause_than_the_same_edit_without():
    before = document(SCORES.replace("%x = input x", "%x = input x\n%m = input mask"))
    without, after = (document(GRAPHS["an input that is added to a value"][n]) for n in (0, 1))

    keys = {compare_documents(graph, after).edits[0].key for graph in (without, before)}

    assert len(keys) == 2


class Gate(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return self.scale * torch.sigmoid(self.mix(x))


class Layers(nn.Module):
    def __init__(self, activation: nn.Module | None) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.act = activation
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        return self.last(F.gelu(x) if self.act is None else self.act(x))


def test_a_new_module_in_place_of_an_operator_is_named():
    difference = diff_graphs(Layers(None), Layers(Gate(4)))

    assert [edit.text for edit in difference.edits] == ["gelu -> module act (3 operators (Linear, sigmoid, mul))"]


def test_an_operator_in_place_of_a_module_is_named():
    difference = diff_graphs(Layers(Gate(4)), Layers(None))

    assert [edit.text for edit in difference.edits] == ["module act (3 operators (Linear, sigmoid, mul)) -> gelu"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("torch.add(%a, 2)", "2 is added to exp's output"),
        ("torch.add(2, %a)", "2 is added to exp's output"),
        ("torch.add(%a, %x)", "input x is added to exp's output"),
        ("torch.add(%a, %s)", "the result of sin is added to exp's output"),
        ("torch.add(%a, 2, alpha=3)", "torch.add inserted after exp"),
        ("torch.add(%a, 2, 3)", "torch.add inserted after exp"),
        ("torch.mul(%a, %a)", "torch.mul inserted after exp"),
        ("torch.add(%a)", "torch.add inserted after exp"),
        ("torch.f(%a)\n%c = torch.mul(%c_in, 2)", "2 operators (f, mul) inserted after exp"),
    ],
)
def test_the_other_operand_is_told_if_there_is_one(call, words):
    name = "c_in" if "\n" in call else "c"
    before = SCORES.replace("%a =", "%s = torch.sin(%x)\n%a =").replace("return %b", "return (%b, %s)")
    after = before.replace("%b =", f"%{name} = {call}\n%b =").replace("softmax(%a)", "softmax(%c)")

    difference = compare_documents(document(before), document(after))

    assert [edit.text for edit in difference.edits] == [words]


class Post(nn.Module):
    """Two layers with norms before or behind the sums."""

    def __init__(self, is_behind: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(4)
        self.mix = Gate(4)
        self.norm2 = nn.LayerNorm(4)
        self.leave = nn.Linear(4, 4)
        self.is_behind = is_behind

    def forward(self, x):
        if self.is_behind:
            x = self.norm1(x + self.mix(x))
            return self.norm2(x + self.leave(x))
        x = x + self.mix(self.norm1(x))
        return x + self.leave(self.norm2(x))


def test_modules_that_moved_are_no_replacements():
    difference = diff_graphs(Post(False), Post(True))

    assert [edit.text for edit in difference.edits] == [
        "norm1 moved from before mix to before leave",
        "norm2 moved from before leave to before the output",
    ]


class Optional(nn.Module):
    def __init__(self, has_gate: bool) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.gate = Gated() if has_gate else None

    def forward(self, x):
        x = self.first(x)
        return torch.exp(x if self.gate is None else self.gate(x))


class Gated(Gate):
    def __init__(self) -> None:
        super().__init__(4)

    def forward(self, x):
        return x * super().forward(x)


def test_a_removed_module_is_named_whatever_its_last_operator():
    difference = diff_graphs(Optional(True), Optional(False))

    assert [edit.text for edit in difference.edits] == [
        "module gate (4 operators (Linear, sigmoid, mul)) with the parameter scale[4] removed after first"
    ]


def chain(names: str):
    """Return a document in which each operator reads the one before it."""
    operators = names.split()
    values = ["x", *operators]
    lines = [f"%{name} = torch.{name}(%{before})" for name, before in zip(operators, values, strict=False)]
    return document("\n".join(["%x = input x", *lines, f"return %{values[-1]}"]))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("neg exp sin cos", "exp neg sin cos", "exp moved from after to before neg"),
        ("exp neg sin cos", "neg exp sin cos", "neg moved from after to before exp"),
        ("exp neg sin cos tan", "exp sin cos neg tan", "neg moved from after exp to after cos"),
        ("exp sin cos neg tan", "exp neg sin cos tan", "neg moved from after cos to after exp"),
        ("exp sin cos neg tan", "neg exp sin cos tan", "neg moved from after cos to before exp"),
        ("neg abs exp sin", "exp neg abs sin", "exp moved from after abs to before neg"),
    ],
)
def test_an_operator_that_moved_is_told_with_both_places(before, after, words):
    assert [edit.text for edit in compare_documents(chain(before), chain(after)).edits] == [words]


W = "%x = input x\n%w = get w\n"


@pytest.mark.parametrize(
    ("before", "after", "edits"),
    [
        # results that only one graph has belong to the region that makes them
        (
            "%x = input x\n%a = self.b(%x) @ q\n%b = .relu(%a)\nreturn %b",
            "%x = input x\n%b = .relu(%x)\nreturn (%b, %b)",
            [("removed", "module b removed after input x"), ("output", "the graph returns 2 values in place of 1")],
        ),
        (
            f"{W}return (%w, %w)",
            "%x = input x\n%p = .permute(%x, 2)\nreturn (%x, %x)",
            [
                ("removed", "w removed"),
                ("transpose", ".permute added after input x"),
                ("output", "the graph returns (w, w) -> (x, x)"),
            ],
        ),
        (
            f"{W}return (%w, %x)",
            "%x = input x\n%a = torch.exp(%x)\nreturn (%x, %x)",
            [
                ("removed", "w removed: the graph returns (w, x) -> (x, x)"),
                ("inserted", "torch.exp added after input x"),
            ],
        ),
        # several operators for one
        (
            "%x = input x\n%a = torch.cat([%x, %x])\n%b = .to(%a, 2)\nreturn %b",
            "%x = input x\n%a = .float(%x)\nreturn %a",
            [("replaced", "2 operators (cat, to) -> float")],
        ),
        (
            "%x = input x\n%a = torch.sin(%x)\nreturn %a",
            "%x = input x\n%a = torch.sin(%x)\n%b = torch.exp(%a) @ z\n%c = torch.cos(%b) @ z\nreturn %c",
            [("inserted", "module z (2 operators (exp, cos)) inserted after sin")],
        ),
        # a module of both graphs, and a part of a module
        (
            "%x = input x\n%a = torch.tan(%x) @ z\nreturn %a",
            "%x = input x\n%a = torch.exp(%x) @ z\n%b = torch.cos(%a) @ z\nreturn %b",
            [("replaced", "tan -> 2 operators (exp, cos)")],
        ),
        (
            "%x = input x\n%a = torch.sin(%x)\n%b = torch.tan(%a)\nreturn %b",
            "%x = input x\n%a = torch.sin(%x)\n%c = torch.exp(%a) @ z\n%d = torch.cos(%c) @ z\n%b = torch.tan(%d)\n"
            "%e = torch.abs(%b) @ z\nreturn %e",
            [("inserted", "2 operators (exp, cos) inserted after sin"), ("inserted", "torch.abs inserted after tan")],
        ),
        # the last operator tells the operand
        (
            "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%a)\nreturn %b",
            "%x = input x\n%a = torch.exp(%x)\n%k = torch.cos(%a)\n%b = torch.sin(%k)\n%m = torch.mul(%b, %k)\n"
            "return %m",
            [("inserted", "sin's output is multiplied by the result of cos")],
        ),
        (
            "%x = input x\n%a = torch.exp(%x)\n%b = torch.mul(%a, 2)\nreturn %b",
            "%x = input x\n%a = torch.exp(%x)\nreturn %a",
            [("removed", "exp's output is no longer multiplied by 2")],
        ),
        # two casts before an operator
        (
            SCORES,
            "%x = input x\n%a = torch.exp(%x)\n%f = .float(%a)\n%g = .half(%f)\n%b = torch.softmax(%g)\n"
            "%h = .double(%b)\nreturn %h",
            [("cast", "softmax is computed between two casts (half, double)")],
        ),
        # before calls of both graphs
        (
            "%x = input x\n%w = get w @ q\n%a = .permute(%w, 2)\n%b = .view(%w, 1)\nreturn %b",
            "%x = input x\n%a = .permute(%x, 2)\n%c = self.s.0(%a) @ q\n%b = .view(%x, 1)\nreturn %b",
            [
                ("transpose", ".permute removed before view"),
                ("block", "block s.0 is new: module 0"),
                ("transpose", ".permute added after input x"),
            ],
        ),
        (
            f"{W}%a = self.a(%w)\n%b = torch.mul(%w, 2)\nreturn %b",
            "%x = input x\n%a = self.a(%x)\n%b = torch.mul(%x, 2)\nreturn %b",
            [("removed", "w removed before 2 operators (module a, mul)")],
        ),
        # another spelling reads the same values
        (
            "%x = input x\n%a = torch.exp(%x)\nreturn %a",
            "%x = input x\n%c = torch.sin(%x)\n%w = get w\n%a = torch.mul(%w, %w)\nreturn %a",
            [("replaced", "torch.exp -> torch.mul"), ("inserted", "torch.sin added after input x")],
        ),
        (
            "%x = input x\n%a = torch.relu(%x)\nreturn (%a, %x)",
            "%x = input x\n%a = .relu(%x)\nreturn (%a, %x)",
            [("spelling", "torch.relu -> .relu (normalize=True makes them equal)")],
        ),
        (
            "%x = input x\n%a = torch.relu(%x)\nreturn %a",
            "%x = input x\n%a = torch.add(%x, %x)\nreturn %a",
            [("replaced", "torch.relu -> torch.add")],
        ),
        # kinds of operators
        (
            "%x = input x\n%n = .to(%x, 1)\n%a = torch.exp(%x)\nreturn %a",
            "%x = input x\n%n = .permute(%x, 1)\nreturn %x",
            [
                ("cast", ".to removed after input x"),
                ("removed", "torch.exp removed after input x"),
                ("transpose", ".permute added after input x"),
            ],
        ),
        (
            "%x = input x\n%a = .relu(%x)\nreturn %a",
            "%x = input x\n%a = .relu(%x)\n%b = torch.exp(%a) @ z\n%c = .half(%b) @ q\nreturn %c",
            [("inserted", "2 operators (exp, half) inserted after relu")],
        ),
        # no edge
        (
            "%x = input x\n%a = torch.exp(%x) @ q\n%b = torch.sin(%x)\n%c = .to(%a, 1)\nreturn %c",
            "%x = input x\n%a = torch.exp(%x) @ q\n%k = torch.sin(%a)\n%c = .to(%k, 1)\nreturn %c",
            [("removed", "torch.sin removed after input x"), ("inserted", "torch.sin inserted after q")],
        ),
        # one call of a module among the operands of a list
        (
            "%x = input x\n%a = torch.exp(%x)\n%c = torch.cat([%a])\nreturn %c",
            "%x = input x\n%a = torch.exp(%x)\n%e = self.gate(%x)\n%c = torch.cat([%a, %e])\nreturn %c",
            [("inserted", "gate (module gate) added before cat")],
        ),
        # a name of an operator with two overloads
        (
            "%x = input x\n%a = aten.add.Tensor(%x, 1)\nreturn %a",
            "%x = input x\n%a = aten.add.Scalar(%x, 2)\nreturn %a",
            [("argument", "aten.add aten.add.Tensor -> aten.add.Scalar")],
        ),
    ],
)
def test_an_edit_has_its_kind(before, after, edits):
    difference = compare_documents(document(before), document(after))

    assert sorted((edit.kind, edit.text) for edit in difference.edits) == sorted(edits)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            "%a = torch.f(%x)\n%b = torch.g(%a)",
            "%a = torch.g(%x)\n%b = torch.f(%a)",
            ["g moved from after to before f"],
        ),
        # a neighbour takes part in one move
        (
            "%a = torch.f(%x)\n%c = torch.g(%a)\n%b = torch.f(%c)",
            "%a = torch.g(%x)\n%c = torch.f(%a)\n%b = torch.g(%c)",
            ["g moved from after to before f", "torch.f -> torch.g"],
        ),
        (
            "%p = torch.h(%x)\n%a = torch.f(%x)\n%b = torch.g(%p, %a)",
            "%p = torch.k(%x)\n%a = torch.g(%x)\n%b = torch.f(%p, %a)",
            ["g moved from after to before f", "torch.h -> torch.k"],
        ),
        # no exchange
        (
            "%a = torch.f(%x)\n%b = torch.g(%a)",
            "%a = torch.g(%x)\n%b = torch.h(%a)",
            ["torch.f -> torch.g", "torch.g -> torch.h"],
        ),
        (
            "%a = aten.f.one(%x)\n%b = aten.f.two(%a)",
            "%a = aten.f.two(%x)\n%b = aten.f.one(%a)",
            ["aten.f aten.f.one -> aten.f.two", "aten.f aten.f.two -> aten.f.one"],
        ),
    ],
)
def test_neighbours_that_look_replaced_by_each_other_moved(monkeypatch, before, after, words):
    # Graphs that are too unlike for an order pair place by place.
    monkeypatch.setattr("pytest_fxgraph.compare.alignment.common_subsequence", lambda *_: None)
    monkeypatch.setattr("pytest_fxgraph.compare.alignment.anchors", lambda *_: ())

    difference = compare_documents(*(document(f"%x = input x\n{text}\nreturn %b") for text in (before, after)))

    assert sorted(edit.text for edit in difference.edits) == words


def test_a_module_that_moved_is_told_as_seen_from_the_module_around_it():
    graphs = [nn.Sequential(OrderedDict(body=Post(is_behind))) for is_behind in (False, True)]

    assert next(edit.text for edit in diff_graphs(*graphs).edits) == "norm1 moved from before mix to before leave"


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (f"{W}return (%w, %x)", "%x = input x\nreturn (%x, %x)", "removed"),
        ("%x = input x\nreturn %x", f"{W}return %w", "added"),
    ],
)
def test_a_tensor_without_operators_is_told_with_its_kind_and_shape(before, after, word):
    state = (StateRecord("w", "parameter", "float32[2]"),)

    difference = compare_documents(*(document(text, state=state * ("%w" in text)) for text in (before, after)))

    assert f"the parameter w[2] {word}" in " ".join(edit.text for edit in difference.edits)
