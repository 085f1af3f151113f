"""Each kind of edit in a model of a few lines: its words, its places, and nothing left over."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fixtures.documents import document
from fixtures.edited_models import Words
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord
from pytest_fxgraph.functions import diff_graphs

LINEAR = "%x = input x\n%a = self.fc(%x) @ fc\n%b = torch.relu(%a)\nreturn %b"
# Both graphs as texts, and the words of the edits.
GRAPHS = {
    "an operator replaced": (LINEAR, LINEAR.replace("relu", "tanh"), ["torch.relu -> torch.tanh"]),
    "an operator inserted": (
        LINEAR,
        "%x = input x\n%a = self.fc(%x)\n%d = torch.dropout(%a, 0.1, True)\n%b = torch.relu(%d)\nreturn %b",
        ["torch.dropout inserted after fc"],
    ),
    "an operator removed": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.relu(%a)\n%c = torch.neg(%b)\nreturn %c",
        "%x = input x\n%a = torch.exp(%x)\n%c = torch.neg(%a)\nreturn %c",
        ["torch.relu removed after exp"],
    ),
    "a number added": (
        "%x = input x\n%a = torch.exp(%x)\nreturn %a",
        "%x = input x\n%a = torch.exp(%x)\n%b = operator.add(%a, 1)\nreturn %b",
        ["1 is added to exp's output"],
    ),
    "an input added to a value": (
        "%x = input x\n%a = torch.exp(%x)\nreturn %a",
        "%x = input x\n%a = torch.exp(%x)\n%b = operator.add(%a, %x)\nreturn %b",
        ["input x is added to exp's output"],
    ),
    "a value no longer divided": (
        "%x = input x\n%a = torch.exp(%x)\n%b = operator.truediv(%a, 8.0)\nreturn %b",
        "%x = input x\n%a = torch.exp(%x)\nreturn %a",
        ["exp's output is no longer divided by 8.0"],
    ),
    "an operator nobody reads": (
        LINEAR,
        LINEAR.replace("return", "%p = builtins.print(%b) ! io\nreturn"),
        ["print added after relu"],
    ),
    "an operator moved": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.relu(%a)\n%c = torch.neg(%b)\n%d = torch.sin(%c)\nreturn %d",
        "%x = input x\n%a = torch.exp(%x)\n%c = torch.neg(%a)\n%d = torch.sin(%c)\n%b = torch.relu(%d)\nreturn %b",
        ["relu moved from after exp to after sin"],
    ),
    "a cast": (
        LINEAR,
        "%x = input x\n%a = self.fc(%x)\n%h = .half(%a)\n%b = torch.relu(%h)\nreturn %b",
        [".half inserted after fc"],
    ),
    "another spelling": (
        LINEAR,
        LINEAR.replace("torch.relu(%a)", ".relu(%a)"),
        ["torch.relu -> .relu (normalize=True makes them equal)"],
    ),
    "another argument": (
        "%x = input x\n%a = torch.softmax(%x, dim=1)\nreturn %a",
        "%x = input x\n%a = torch.softmax(%x, dim=2)\nreturn %a",
        ["torch.softmax dim 1 -> 2"],
    ),
    "another argument without a name": (
        "%x = input x\n%a = operator.getitem(%x, 0)\nreturn %a",
        "%x = input x\n%a = operator.getitem(%x, 1)\nreturn %a",
        ["getitem argument 2: 0 -> 1"],
    ),
    "two operators in the other order": (
        "%x = input x\n%a = torch.sqrt(%x)\n%b = operator.add(%a, 1)\n%c = torch.relu(%b)\nreturn %c",
        "%x = input x\n%a = operator.add(%x, 1)\n%b = torch.sqrt(%a)\n%c = torch.relu(%b)\nreturn %c",
        ["add moved from after to before sqrt"],
    ),
    "operators that only take values apart": (
        "%x = input x\n%a = torch.relu(%x)\nreturn %a",
        "%x = input x\n%s = .size(%x)\n%n = operator.getitem(%s, 0)\n%a = torch.relu(%x)\nreturn %a",
        ["2 operators (size, getitem) added after input x"],
    ),
    "items of a list exchanged": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.cat([%x, %a], 1)\nreturn %b",
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.cat([%a, %x], 1)\nreturn %b",
        ["torch.cat input operands exchanged, [x, exp] -> [exp, x]"],
    ),
    "one output more under a key": (
        LINEAR.replace("return %b", 'return {"out": %b}'),
        LINEAR.replace("return %b", 'return {"out": %b, "low": %a}'),
        ['the graph also returns "low": fc'],
    ),
    "one output more with its operators": (
        '%x = input x\n%a = torch.relu(%x)\nreturn {"out": %a}',
        '%x = input x\n%a = torch.relu(%x)\n%b = torch.exp(%a)\n%c = torch.sin(%b)\nreturn {"out": %a, "share": %c}',
        ['2 operators (exp, sin) added after relu: the graph also returns "share": sin'],
    ),
    "one output less with its operators": (
        '%x = input x\n%a = torch.relu(%x)\n%b = torch.exp(%a)\n%c = torch.sin(%b)\nreturn {"out": %a, "share": %c}',
        '%x = input x\n%a = torch.relu(%x)\nreturn {"out": %a}',
        ['2 operators (exp, sin) removed after relu: the graph no longer returns "share": sin'],
    ),
    "the length of inputs without modules": (
        "%x = input x : float32[2, 3]\n%a = torch.relu(%x) : float32[2, 3]\nreturn %a",
        "%x = input x : float32[2, 6]\n%a = torch.relu(%x) : float32[2, 6]\nreturn %a",
        ["size 3 -> 6 everywhere"],
    ),
    "operands exchanged": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n%c = operator.sub(%a, %b)\nreturn %c",
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n%c = operator.sub(%b, %a)\nreturn %c",
        ["sub operands exchanged: exp, sin -> sin, exp"],
    ),
    "another value read": (
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n%c = operator.sub(%a, %b)\nreturn %c",
        "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n%c = operator.sub(%a, %x)\nreturn %c",
        ["sub reads x in place of sin"],
    ),
    "random draws exchanged": (
        "%x = input x\n%a = torch.rand_like(%x) ! random\n%b = torch.bernoulli(%x) ! random\nreturn (%a, %b)",
        "%x = input x\n%b = torch.bernoulli(%x) ! random\n%a = torch.rand_like(%x) ! random\nreturn (%a, %b)",
        ["torch.rand_like moved: first of its kind -> after bernoulli"],
    ),
    "an input added": (LINEAR, LINEAR.replace("input x\n", "input x\n%m = input mask\n"), ["input mask added"]),
    "an input renamed": (LINEAR, LINEAR.replace("input x\n", "input image\n"), ["input x renamed to image"]),
    "a default": (LINEAR, LINEAR.replace("input x\n", "input x = None\n"), ["input x: default nothing -> None"]),
    "one output more": (LINEAR, LINEAR.replace("return %b", "return (%b, %a)"), ["the graph also returns fc"]),
    "one output less": (LINEAR.replace("return %b", "return (%b, %a)"), LINEAR, ["the graph no longer returns fc"]),
    "other keys": (
        LINEAR.replace("return %b", 'return {"out": %b}'),
        LINEAR.replace("return %b", 'return {"logits": %b}'),
        ['the graph returns {"out": relu} -> {"logits": relu}'],
    ),
    "the batch": (
        "%x = input x : float32[2, 3]\n%a = torch.relu(%x) : float32[2, 3]\nreturn %a",
        "%x = input x : float32[4, 3]\n%a = torch.relu(%x) : float32[4, 3]\nreturn %a",
        ["batch 2 -> 4 everywhere"],
    ),
    "the dtype": (
        "%x = input x : float32[2, 3]\n%a = torch.relu(%x) : float32[2, 3]\nreturn %a",
        "%x = input x : bfloat16[2, 3]\n%a = torch.relu(%x) : bfloat16[2, 3]\nreturn %a",
        ["float32 -> bfloat16 everywhere"],
    ),
    "the batch and an operator": (
        "%x = input x : float32[2, 3]\n%a = torch.relu(%x) : float32[2, 3]\nreturn %a",
        "%x = input x : float32[4, 3]\n%a = torch.tanh(%x) : float32[4, 3]\nreturn %a",
        ["batch 2 -> 4", "torch.relu -> torch.tanh"],
    ),
}


def told(difference: Difference) -> list[str]:
    """Return the words of all edits, which have to explain everything."""
    assert difference.rest == ()
    return sorted(edit.text for edit in difference.edits)


@pytest.mark.parametrize("name", GRAPHS)
def test_an_edit_of_a_graph_has_its_words(name):
    expected, obtained, words = GRAPHS[name]
    modules = (ModuleRecord("fc", "torch.nn.Linear"),) if "self.fc" in expected else ()

    difference = compare_documents(document(expected, modules=modules), document(obtained, modules=modules))

    assert told(difference) == words


class Norm(nn.Module):
    """A norm that is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Layer(nn.Module):
    def __init__(self, norm: nn.Module | None = None, name: str = "norm") -> None:
        super().__init__()
        self.name = name
        self.add_module(name, norm or nn.LayerNorm(8))
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(self.get_submodule(self.name)(x))


class Repeated(nn.Module):
    def __init__(self, times: int) -> None:
        super().__init__()
        self.layer = Layer()
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = self.layer(x)
        return x


class Heads(nn.Module):
    """Three projections, or one for all three."""

    def __init__(self, *, fuses: bool) -> None:
        super().__init__()
        names = {"qkv": 24} if fuses else {"q": 8, "k": 8, "v": 8}
        self.projections = nn.ModuleDict({name: nn.Linear(8, width) for name, width in names.items()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "qkv" in self.projections:
            q, k, v = self.projections["qkv"](x).chunk(3, -1)
        else:
            q, k, v = (self.projections[name](x) for name in "qkv")
        return F.scaled_dot_product_attention(q, k, v)


class Pair(nn.Module):
    """A norm and a layer under given names."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        for name, module in zip(names, (nn.LayerNorm(8), nn.Linear(8, 8)), strict=True):
            self.add_module(name, module)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            x = self.get_submodule(name)(x)
        return x


class Positions(nn.Module):
    def __init__(self, *, adds: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.position = nn.Embedding(4, 8)
        self.adds = adds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = self.embed(x)
        return torch.relu(words + self.position(x) if self.adds else words)


class Beside(nn.Module):
    """Adds the output of a module, if there is one."""

    def __init__(self, extra: nn.Module | None) -> None:
        super().__init__()
        self.embed, self.extra = nn.Linear(8, 8), extra

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.embed(x)
        return torch.relu(y if self.extra is None else y + self.extra(x))


class Either(nn.Module):
    """Calls both layers of one class, and one of them again."""

    def __init__(self, last: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.get_submodule(self.last)(torch.relu(self.second(torch.relu(self.first(x)))))


def layers(count: int = 3, **options: object) -> nn.Module:
    return nn.Sequential(*(Layer(**options) for _ in range(count)))  # type: ignore[arg-type]


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    model[0].requires_grad_(False)
    return model


def row(*modules: nn.Module) -> nn.Module:
    return nn.Sequential(*modules)


MODELS = {
    "a block added": (lambda: layers(2), lambda: layers(3), ["block 2 is new (2 equal blocks -> 3)"], [["2"]]),
    "a block of another kind removed": (
        lambda: row(Layer(), Heads(fuses=False), Layer()),
        lambda: row(Layer(), Layer()),
        [
            "block 1 is gone: 4 operators (Linear, scaled_dot_product_attention)",
            "module renumbered 2 -> 1: checkpoints no longer load (2.norm.weight, 2.norm.bias and 2 more)",
        ],
        [["1"], [""]],
    ),
    "a module run less often": (
        lambda: Repeated(3),
        lambda: Repeated(2),
        ["3 operators (LayerNorm, Linear, add) run 3 -> 2 times"],
        [["layer"]],
    ),
    "one operator for many": (
        lambda: row(Layer(Norm()), Layer(Norm())),
        lambda: layers(2),
        ["6 operators (pow, mean, add, ...) -> LayerNorm"],
        [["0", "1"]],
    ),
    "many operators for some": (
        lambda: Heads(fuses=False),
        lambda: Heads(fuses=True),
        ["3 Linear -> 5 operators (qkv, chunk, getitem)"],
        [[""]],
    ),
    "a layer put into a row": (
        lambda: row(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)),
        lambda: row(nn.Linear(8, 8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 4)),
        [
            "modules renumbered 1 -> 2, 2 -> 3: checkpoints with 2.weight, 2.bias no longer load",
            "nn.Dropout inserted after Linear",
        ],
        [[""], [""]],
    ),
    "a class in place of another": (
        lambda: row(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU()),
        lambda: row(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU()),
        ["nn.ReLU -> nn.GELU"],
        [["1", "3"]],
    ),
    "a module renamed in each block": (
        lambda: layers(2),
        lambda: layers(2, name="ln"),
        ["module renamed norm -> ln: checkpoints with norm.weight, norm.bias no longer load"],
        [["0", "1"]],
    ),
    "a configuration": (
        lambda: row(nn.Conv2d(3, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 3)),
        lambda: row(nn.Conv2d(3, 3, 3, stride=2), nn.ReLU(), nn.Conv2d(3, 3, 3, stride=2)),
        ["nn.Conv2d stride (1, 1) -> (2, 2)"],
        [["0", "2"]],
    ),
    "several modules renamed in each block": (
        lambda: row(Pair("norm", "fc"), Pair("norm", "fc")),
        lambda: row(Pair("ln", "out"), Pair("ln", "out")),
        ["modules renamed norm -> ln and 1 more: checkpoints no longer load"],
        [["0", "1"]],
    ),
    "an embedding no longer added": (
        lambda: Positions(adds=True),
        lambda: Positions(adds=False),
        ["the output of position (nn.Embedding) is no longer added to embed's output"],
        [[""]],
    ),
    "a new module beside another": (
        lambda: Beside(None),
        lambda: Beside(Pair("norm", "fc")),
        ["the output of extra (2 operators (LayerNorm, Linear)) is added to embed's output"],
        [[""]],
    ),
    "another module of the same class": (
        lambda: Either("first"),
        lambda: Either("second"),
        ["nn.Linear first -> second"],
        [[""]],
    ),
    "no bias": (
        lambda: row(nn.Linear(8, 8)),
        lambda: row(nn.Linear(8, 8, bias=False)),
        ["nn.Linear bias True -> False"],
        [["0"]],
    ),
    "the width": (
        lambda: row(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)),
        lambda: row(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)),
        ["size 16 -> 32 everywhere"],
        [[""]],
    ),
    "the width of one layer": (
        lambda: row(nn.Linear(8, 10)),
        lambda: row(nn.Linear(8, 100)),
        ["nn.Linear out_features 10 -> 100"],
        [["0"]],
    ),
    "tensors frozen": (
        lambda: row(nn.Linear(8, 8), nn.ReLU()),
        frozen,
        ["requires_grad True -> False"],
        [["0.weight", "0.bias"]],
    ),
    "weights untied": (
        lambda: Words(ties=True),
        lambda: Words(ties=False),
        ["head.weight no longer shares storage with embed.weight"],
        [["head.weight"]],
    ),
    "weights tied": (
        lambda: Words(ties=False),
        lambda: Words(ties=True),
        ["head.weight now shares storage with embed.weight"],
        [["head.weight"]],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_edit_of_a_model_has_its_words_and_places(name):
    build, build_other, words, places = MODELS[name]

    difference = diff_graphs(build().eval(), build_other().eval())

    assert told(difference) == words
    edits = sorted(difference.edits, key=lambda edit: edit.text)
    assert [[site.where for site in edit.sites] for edit in edits] == places


@pytest.mark.parametrize(("times", "other_times"), [(3, 2), (2, 4)])
def test_runs_of_a_module_name_the_nodes_that_are_gone_or_new(times, other_times):
    (edit,) = diff_graphs(Repeated(times).eval(), Repeated(other_times).eval()).edits
    (site,) = edit.sites

    more = 3 * abs(times - other_times)
    assert edit.text == f"3 operators (LayerNorm, Linear, add) run {times} -> {other_times} times"
    assert (site.where, len(site.expected), len(site.obtained)) == (
        *("layer",),
        *((more, 0) if times > other_times else (0, more)),
    )


def test_quantized_modules_are_one_edit():
    linear = "%x = input x\n%a = self.fc(%x)\nreturn %a"
    kinds = "torch.nn.Linear", "torch.ao.nn.quantized.dynamic.Linear"

    difference = compare_documents(*(document(linear, modules=(ModuleRecord("fc", kind),)) for kind in kinds))

    assert [(edit.kind, edit.text) for edit in difference.edits] == [("quantized", "nn.Linear -> quantized Linear")]


def test_a_batch_that_changed_in_a_traced_model_is_one_edit_with_no_other():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    graphs = [trace(model, example_inputs=(torch.zeros(batch, 8),)) for batch in (2, 4)]

    assert told(diff_graphs(*graphs)) == ["batch 2 -> 4 everywhere"]


FINDINGS = {
    "a break gone": (
        ["break: item in forward: y = x.item()"],
        [],
        "one graph break fewer, which is better: accept it: item in forward: y = x.item()",
    ),
    "a break added": (
        [],
        ["break: item in forward: y = x.item()"],
        "one graph break more: item in forward: y = x.item()",
    ),
    "a break moved": (
        ["break: item in forward: y = x.item()"],
        ["break: item in helper: y = x.item()"],
        "graph break moved from forward to helper: item",
    ),
    "guards of equal blocks": (
        [],
        [f"guard: layers.{n}.scale == 2" for n in range(3)],
        "one guard more: layers.*.scale == 2",
    ),
    "a guard": (["guard: k == 2"], ["guard: k == 3"], None),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_of_a_capture_has_its_words(name):
    notes, obtained_notes, words = FINDINGS[name]

    difference = compare_documents(document(LINEAR, notes=tuple(notes)), document(LINEAR, notes=tuple(obtained_notes)))

    assert told(difference) == ([words] if words else ["one guard fewer: k == 2", "one guard more: k == 3"])


def test_an_edit_inside_of_an_inner_graph_names_its_path():
    inner = "%x = input x\n%a = torch.{}(%x) @ block\nreturn %a"
    outer = "%x = input x\n%a = self.branch(%x)\nreturn %a"
    graphs = [
        document(outer, modules=(ModuleRecord("branch", "GraphModule", graph=document(inner.format(operator))),))
        for operator in ("relu", "tanh")
    ]

    difference = compare_documents(*graphs)

    assert told(difference) == ["torch.relu -> torch.tanh"]
    assert difference.edits[0].sites[0] == ("branch/block", ("branch/a",), ("branch/a",))


@pytest.mark.parametrize("times", [1, 200])
def test_neighbours_that_took_each_others_place_are_a_move_in_a_graph_of_any_length(times):
    graphs = []
    for operators in (["exp", "sqrt", "neg"], ["exp", "neg", "sqrt"]):
        calls = [f"%a{n + 1} = torch.{operator}(%a{n})" for n, operator in enumerate(operators * times)]
        graphs.append(document("\n".join(["%a0 = input x", *calls, f"return %a{len(calls)}"])))

    difference = compare_documents(*graphs)

    assert told(difference) == ["neg moved from after to before sqrt"]
    assert len(difference.edits[0].sites) == times


def test_a_long_difference_tells_all_places_of_an_edit():
    names = [f"a{n}" for n in range(250)]
    calls = [
        "\n".join(f"%{name} = torch.{operator}(%{read})" for name, read in zip(names, ["x", *names], strict=False))
        for operator in ("relu", "tanh")
    ]

    difference = compare_documents(*(document(f"%x = input x\n{each}\nreturn %a249") for each in calls))

    assert difference.omitted
    assert [(edit.text, len(edit.sites)) for edit in difference.edits] == [("torch.relu -> torch.tanh", 250)]
