"""An update changes the lines of what is new, and of what reads it; the names of all other nodes stay."""

from __future__ import annotations

import difflib

import pytest

from pytest_fxgraph.command.main import main

GOLDEN = "test_net/test_net.yaml"
BEFORE = "torch.relu(y + 1) + 2"
AFTER = "torch.relu((y + 3) + 1) + 2"
KEPT = """\
-  %add = operator.add(%linear, 1)
+  %add_2 = operator.add(%linear, 3)
+  %add = operator.add(%add_2, 1)
-      add = linear + 1;  linear = None
+      add_2 = linear + 3;  linear = None
+      add = add_2 + 1;  add_2 = None
"""
TRACED = "add_1 = add + 1;  add = None"
AT_BOTH = """
from model import Net


def test_net(fx_golden):
    assert Net() == fx_golden(name="net", level="{first}")
    assert Net() == fx_golden(name="net", level="{second}")
"""
AT_EXACT = """
from model import Net


def test_net(fx_golden):
    assert Net() == fx_golden(level="exact")
"""


def changed(before: bytes, after: bytes) -> str:
    lines = difflib.unified_diff(before.decode().splitlines(True), after.decode().splitlines(True), n=0)
    return "".join(line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---"))


@pytest.fixture
def edited(project):
    """A project whose golden has been written, and whose model has one operator more since."""
    project.model(BEFORE)
    project.update()
    project.model(AFTER)
    return project


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n1", marks=pytest.mark.slow)])
def test_an_update_changes_six_lines_and_the_golden_then_matches_as_it_is(edited, workers):
    before = edited.goldens()[GOLDEN]

    edited.update(workers).assert_outcomes(passed=1)

    kept = edited.goldens()[GOLDEN]
    assert changed(before, kept) == KEPT
    edited.run().assert_outcomes(passed=1)
    edited.update().assert_outcomes(passed=1)
    assert edited.goldens()[GOLDEN] == kept


def test_what_is_accepted_is_what_an_update_writes(edited, monkeypatch):
    monkeypatch.chdir(edited.path)
    before = edited.goldens()[GOLDEN]
    edited.update()
    updated = edited.goldens()[GOLDEN]
    (edited.path / "golden" / GOLDEN).write_bytes(before)

    edited.run("--fx-received").assert_outcomes(failed=1)
    assert main(["accept", "golden"]) == 0

    assert edited.goldens() == {GOLDEN: updated}


def test_the_first_exact_comparison_with_kept_names_says_so_and_one_update_is_enough(edited):
    edited.update()
    edited.test(AT_EXACT)

    result = edited.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*golden/test_net/test_net.yaml does not match: only names differ: update once",
            "*it was last written for another level, at which neither names nor code count",
            "*pytest --fx-update-golden*",
        ]
    )
    edited.update().assert_outcomes(passed=1)
    edited.run().assert_outcomes(passed=1)
    assert TRACED in edited.goldens()[GOLDEN].decode()


def test_another_difference_at_exact_is_told_as_such(edited):
    edited.update()
    edited.test(AT_EXACT)
    edited.model(AFTER.replace("relu", "gelu"))

    result = edited.run()

    result.assert_outcomes(failed=1)
    assert "only names differ" not in result.stdout.str()


def test_a_golden_last_written_for_exact_keeps_traced_names_at_other_levels(project):
    project.model(BEFORE)
    project.test(AT_EXACT)
    project.update()
    assert project.goldens()[GOLDEN].startswith(b"format: 3\nnames: traced\ngraph: |\n")
    project.test()
    project.run().assert_outcomes(passed=1)
    project.model(AFTER)

    project.update().assert_outcomes(passed=1)

    assert TRACED in project.goldens()[GOLDEN].decode()
    assert b"\nnames: traced\n" in project.goldens()[GOLDEN]
    project.test(AT_EXACT)
    project.run().assert_outcomes(passed=1)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("first", "second"), [("structure", "exact"), ("exact", "structure")])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_golden_that_one_test_compares_at_exact_too_is_written_as_traced(project, first, second, is_new):
    project.test(AT_BOTH.format(first=first, second=second))
    if not is_new:
        project.model(BEFORE)
        project.update("--fx-level=structure")
        golden = project.path / "golden/test_net/test_net.net.yaml"
        golden.write_text(golden.read_text().replace("names: traced\n", ""))
    project.model(AFTER)

    project.update().assert_outcomes(passed=1)

    written = project.goldens()["test_net/test_net.net.yaml"]
    assert TRACED in written.decode()
    assert b"\nnames: traced\n" in written
    project.run().assert_outcomes(passed=1)


def test_what_is_received_is_as_traced_where_one_test_compares_at_exact_too(project, monkeypatch):
    monkeypatch.chdir(project.path)
    project.test(
        AT_BOTH.format(first="structure", second="exact").replace(
            "assert Net() == fx_golden(", "fx_golden.check(Net(), "
        )
    )
    project.model(BEFORE)
    project.update()
    golden = project.path / "golden/test_net/test_net.net.yaml"
    golden.write_text(golden.read_text().replace("names: traced\n", ""))
    project.model(AFTER)

    project.run("--fx-received").assert_outcomes(failed=1)
    assert main(["accept", "golden"]) == 0

    project.run().assert_outcomes(passed=1)
    assert TRACED in golden.read_text()


HANDED_OVER = """
import operator
import torch, {library} as fx
from torch import nn

class Inner(nn.Module):
    def forward(self, x):
        return {inner}

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = fx.symbolic_trace(Inner())

class Tracer(fx.Tracer):
    def is_leaf_module(self, module, path):
        return True

class Calling(Outer):
    def forward(self, x):
        return self.inner({outer}) + 2

def test_net(fx_golden):
    model = Calling()
    graph = Tracer().trace(model)
    subject = fx.GraphModule(model, graph)
    before = [node.name for node in graph.nodes], [node.name for node in model.inner.graph.nodes], subject.code
    assert subject == fx_golden
    names = [node.name for node in graph.nodes], [node.name for node in model.inner.graph.nodes]
    assert before == (*names, subject.code)
"""


@pytest.mark.parametrize("library", ["fxcore", "torch.fx"])
def test_graphs_of_either_library_and_those_inside_are_written_from_renamed_copies(project, library):
    project.test(HANDED_OVER.format(library=library, inner="x + 1", outer="x * 5"))
    project.update()
    before = project.goldens()[GOLDEN]
    project.test(HANDED_OVER.format(library=library, inner="(x + 3) + 1", outer="(x * 4) * 5"))

    project.update().assert_outcomes(passed=1)

    after = changed(before, project.goldens()[GOLDEN])
    assert after.count("\n") == 12
    assert "+          add_1 = x + 3;  x = None\n" in after
    assert "+      mul_1 = x * 4;  x = None\n" in after
    project.run().assert_outcomes(passed=1)


HOOK = """
from dataclasses import replace

def pytest_fxgraph_normalize(document):
    return replace(document, code=document.code.upper())
"""


def test_code_that_a_hook_wrote_keeps_the_names_that_are_in_it(project):
    project.pytester.makeconftest(HOOK)
    project.model(BEFORE)
    project.update()
    project.model(AFTER)

    project.update().assert_outcomes(passed=1)

    text = project.goldens()[GOLDEN].decode()
    assert TRACED.upper() in text
    assert "%add_1 = operator.add(%add, 1)" in text
    project.run().assert_outcomes(passed=1)


def test_the_variant_for_a_version_of_torch_has_the_names_of_what_was_compared(edited):
    before = edited.goldens()[GOLDEN]

    edited.update("--fx-update-variant").assert_outcomes(passed=1)

    (variant,) = (text for name, text in edited.goldens().items() if name != GOLDEN)
    assert changed(before, variant) == KEPT
    edited.run().assert_outcomes(passed=1)
