"""None, written, passes, differs, updated, passes: the life of a golden."""

from __future__ import annotations

import pytest


def test_a_golden_from_its_first_writing_to_its_update(project):
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*golden/test_net/test_net.yaml*", "*pytest --fx-update-golden test_net.py::test_net*", "fx: 1 golden missing"]
    )
    assert not (project.path / "golden").exists()

    result = project.update()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: wrote golden/test_net/test_net.yaml", "fx: 1 golden written"])
    first = project.goldens()
    assert list(first) == ["test_net/test_net.yaml"]

    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: 1 golden matched"])
    assert project.goldens() == first

    project.model("torch.sigmoid(y)")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*AssertionError*torch.relu*torch.sigmoid*", "*pytest --fx-update-golden test_net.py::test_net*"]
    )
    result.stdout.fnmatch_lines(["*- fx golden golden/test_net/test_net.yaml -*"])
    result.stdout.fnmatch_lines(["fx: 1 golden differs"])
    assert project.goldens() == first

    result = project.update()
    result.assert_outcomes(passed=1)
    second = project.goldens()
    assert second != first

    result = project.run()
    result.assert_outcomes(passed=1)
    assert project.goldens() == second


@pytest.mark.parametrize("is_ci", [True, False])
def test_the_words_are_the_same_with_and_without_ci(project, monkeypatch, is_ci):
    monkeypatch.setenv("CI", "true") if is_ci else monkeypatch.delenv("CI", raising=False)
    project.update()
    project.model("torch.sigmoid(y)")

    result = project.run()

    result.stdout.fnmatch_lines(["E*AssertionError*torch.relu*torch.sigmoid*", "E*pytest --fx-update-golden*"])


def test_renaming_a_variable_needs_no_update(project):
    project.update()
    written = project.goldens()
    project.write("model.py", (project.path / "model.py").read_text().replace("y", "hidden_value"))

    result = project.update()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: 1 golden matched"])
    assert project.goldens() == written


def test_the_reflected_order_compares_too(project):
    project.test("from model import Net\n\ndef test_net(fx_golden):\n    assert fx_golden == Net()\n")
    project.update()
    project.model("torch.sigmoid(y)")

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*torch.relu*torch.sigmoid*"])


def test_a_run_without_the_fixtures_says_nothing_about_goldens(project):
    project.test("def test_nothing():\n    pass\n")

    result = project.run()

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("fx:*")


def test_a_graph_without_a_golden_can_be_looked_at_before_it_is_written(project):
    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*there is no golden golden/test_net/test_net.yaml",
            "E*look at the graph below, then write the goldens of this test: "
            "pytest --fx-update-golden test_net.py::test_net",
            "*- fx golden golden/test_net/test_net.yaml -*",
            "golden/test_net/test_net.yaml would be",
            "*%linear = self.linear(%x)*",
            "*%relu = torch.relu(%linear)*",
        ]
    )
