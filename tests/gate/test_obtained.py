"""The obtained graph of a comparison: its texts, its difference from a golden, and the words for both."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from pytest_fxgraph import hookspecs
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument, without_computed_contents
from pytest_fxgraph.errors import DocumentError
from pytest_fxgraph.gate.obtained import GoldenOptions, Hooks, ObtainedGraph, runs_examples
from pytest_fxgraph.report.outcome import Terms, Told


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


class Other(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) + 1


def obtained(
    subject: object | None = None, level: str = "structure", hooks: Hooks | None = None, **options: object
) -> ObtainedGraph:
    given: GoldenOptions = options  # type: ignore[assignment]  # a test names the options of its row
    return ObtainedGraph(subject or Model(), given, Terms(level=level), hooks or Hooks())


def told(graph: ObtainedGraph, golden: GraphDocument, *, is_drawn: bool = False, has_variants: bool = False) -> Told:
    command = "pytest --fx-update-golden"
    return graph.told(golden, "golden/a.yaml", command, is_alone=True, is_drawn=is_drawn, has_variants=has_variants)


@pytest.mark.parametrize(
    ("options", "is_run"),
    [
        ({}, False),
        ({"example_inputs": None}, False),
        ({"example_inputs": ()}, True),
        ({"example_inputs": torch.ones(2)}, True),
        ({"example_kwargs": {}}, False),
        ({"example_kwargs": {"x": torch.ones(2)}}, True),
    ],
)
def test_a_graph_runs_where_examples_are_given(options, is_run):
    assert runs_examples(options) is is_run
    if is_run and options["example_kwargs" if "example_kwargs" in options else "example_inputs"] != ():
        assert obtained(**options).document.nodes[0].value == "float32[2]"


def test_a_graph_without_examples_has_no_shapes():
    assert {node.value for node in obtained().document.nodes} == {None}


@pytest.mark.parametrize("level", ["structure", "exact"])
def test_a_new_text_matches_its_graph_and_another_graph_does_not(level):
    graph = obtained(level=level)

    assert graph.matches(graph.new_text)
    assert not graph.differs_from(graph.read(graph.new_text, "a.yaml"))
    assert not obtained(Other(), level).matches(graph.new_text)
    assert obtained(Other(), level).differs_from(decode(graph.new_text, "a.yaml"))


@pytest.mark.parametrize(
    ("code", "level", "functions"),
    [
        (None, "structure", ["N", "forward"]),
        ("folded", "structure", ["N", "forward"]),
        ("always", "structure", ["forward"]),
        ("exact", "structure", []),
        ("exact", "exact", ["forward"]),
    ],
)
def test_the_option_decides_about_the_code_in_a_golden(code, level, functions):
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(4)))

    text = obtained(blocks, level, code=code).new_text

    assert [line.split()[1].partition("(")[0] for line in text.splitlines() if "def " in line] == functions


def test_names_alone_differ_at_level_exact():
    golden = decode(obtained().new_text, "a.yaml")
    renamed = encode(replace(golden, code=""))
    graph = obtained(level="exact")

    assert graph.another_level(renamed, decode(renamed, "a.yaml")) == "it holds no generated code: update once"
    assert graph.another_level(graph.new_text, decode(graph.new_text, "a.yaml")) is None
    assert obtained().another_level(renamed, decode(renamed, "a.yaml")) is None
    assert obtained(Other(), "exact").another_level(renamed, decode(renamed, "a.yaml")) is None


def test_a_mismatch_is_told_with_its_clusters_and_the_lines_of_the_source():
    golden = decode(obtained().new_text, "a.yaml")

    plain, drawn = (told(obtained(Other()), golden, is_drawn=is_drawn) for is_drawn in (False, True))

    assert plain.headline == "torch.relu -> torch.sigmoid"
    assert plain.lines[0] == f"golden/a.yaml does not match: {plain.headline}"
    assert (plain.graphs, plain.sources) == ((), ())
    assert drawn[:6] == plain[:6]
    assert any("return torch.sigmoid(x) + 1" in source for source in drawn.sources)
    assert [decode(text, "a.yaml").nodes[1].target for text in drawn.graphs] == ["torch.relu", "torch.sigmoid"]
    assert "return torch.sigmoid(x) + 1" in plain.section


def test_a_golden_with_variants_names_the_torch_that_may_have_changed_the_graph(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.report.text.other_torch_remark", lambda *_: "the remark")
    golden = decode(obtained().new_text, "a.yaml")

    with_remark, without = (told(obtained(Other()), golden, has_variants=each) for each in (True, False))

    assert with_remark.section == f"{without.section}\nthe remark"
    assert "the remark" in "".join(with_remark.lines)
    assert "the remark" not in "".join(without.lines)


def test_other_names_match_a_golden_unless_names_count():
    text = obtained().new_text

    renamed = text.replace("%relu", "%active")

    assert renamed != text
    assert obtained().matches(renamed)
    assert not obtained(level="exact").matches(renamed)
    assert "names: traced" in obtained(level="exact").new_text
    assert "names: traced" not in text


def test_an_older_golden_without_the_contents_of_computed_buffers_matches():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("shift", torch.arange(3.0), persistent=False)

        def forward(self, x):
            return x + self.shift

    graph = obtained(Shifted())
    older = encode(without_computed_contents(decode(graph.new_text, "a.yaml")))

    assert older != graph.new_text
    assert graph.matches(older)
    assert not graph.matches(obtained().new_text)


def test_a_test_has_the_hooks_that_somebody_implements():
    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)
    item: Any = SimpleNamespace(ihook=manager.hook)
    assert Hooks.of_test(item) == Hooks(None, None, [])

    for name in ("first", "second"):
        manager.register(Conftest(name))
    hooks = Hooks.of_test(item)

    assert hooks.adapt is not None
    assert hooks.own_name is not None
    assert (hooks.adapt("subject"), hooks.own_name("target")) == ("second subject", "second target")
    assert [each.function(document=None) for each in hooks.normalizers] == ["second", "first"]


class Conftest:
    """A plugin of a user; the last one registered answers first."""

    def __init__(self, name: str):
        self.name = name

    @pytest.hookimpl
    def pytest_fxgraph_adapt(self, obj):
        return f"{self.name} {obj}"

    @pytest.hookimpl
    def pytest_fxgraph_target_name(self, target):
        return f"{self.name} {target}"

    @pytest.hookimpl
    def pytest_fxgraph_normalize(self, document):
        return self.name


def test_hooks_of_a_test_change_the_document_before_anything_is_compared():
    class Implementation:
        argnames = ("document",)

        @staticmethod
        def function(document):
            return replace(document, notes=("seen",)) if not document.notes else None

    graph = obtained(hooks=Hooks(normalizers=(Implementation, Implementation)))

    assert graph.document.notes == ("seen",)
    assert graph.document.code  # a hook may read the code
    assert not obtained().document.code
    assert obtained(level="exact").document.code


def test_a_hook_that_makes_no_document_of_a_document_is_named():
    hook = SimpleNamespace(argnames=("document",), function=lambda document: "a text")

    with pytest.raises(DocumentError, match="fxgraph_normalize gave 'a text'; expected a GraphDocument, or None"):
        obtained(hooks=Hooks(normalizers=(hook,)))


def test_hooks_adapt_subjects_and_name_functions():
    graph = obtained(
        "the model",
        hooks=Hooks(
            adapt=lambda subject: Model() if subject == "the model" else None,
            own_name=lambda target: "mine" if target is torch.relu else None,
        ),
    )

    assert [node.target for node in graph.document.nodes][1] == "mine"


def test_the_program_is_noted_and_freed_memory_is_gone():
    graph = ObtainedGraph(Model(), {}, Terms(), Hooks(), "decode")
    assert graph.document.notes == ("program: decode",)
    assert len(graph.picture()) == 1
    assert "relu" in graph.section("golden/a.yaml")

    graph.free()

    assert vars(graph) == {}


def test_a_hook_decides_about_the_code_of_a_new_golden():
    class Implementation:
        argnames = ("document",)

        @staticmethod
        def function(document):
            return replace(document, code="def changed(self): ...\n")

    for level in ("structure", "exact"):
        assert "def changed(self)" in obtained(level=level, hooks=Hooks(normalizers=(Implementation,))).new_text
