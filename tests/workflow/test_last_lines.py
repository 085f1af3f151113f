"""The last lines of a run are read in five seconds: what became of the goldens, why, and what to do now."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

MANY = """
import pytest
import torch


@pytest.mark.parametrize("number", range({count}))
def test_many(fx_golden, number):
    assert (lambda x: {body}) == fx_golden
"""


def last_lines(result) -> list[str]:
    """Return what a run says of goldens, beginning with what was written."""
    return [line for line in result.outlines if line.startswith("fx: ")]


def test_a_golden_that_differs_is_counted_and_the_command_that_accepts_it_is_named(project):
    project.update()
    project.model("torch.sigmoid(y)")

    assert last_lines(project.run()) == [
        "fx: next, if the new graph is right: pytest --fx-update-golden test_net.py::test_net",
        "fx: 1 golden differs",
    ]


def test_goldens_that_differ_in_one_way_are_one_line_and_one_command(project):
    project.test(MANY.format(count=3, body="torch.neg(x) + 1"))
    project.update()
    project.test(MANY.format(count=3, body="torch.abs(x) + 1"))

    clusters, accept, counts = last_lines(project.run())

    assert clusters.startswith("fx: 3 goldens differ in the same way (cluster ")
    assert clusters.endswith("): abs_1: torch.neg -> torch.abs")
    assert accept.startswith("fx: accept the goldens of a cluster with: pytest --fx-received, then fxgraph accept")
    assert counts == "fx: 3 goldens differ"


def test_goldens_that_differ_in_several_ways_are_to_be_reviewed(project):
    project.test(MANY.format(count=2, body="torch.neg(x) + number"))
    project.update()
    project.test(MANY.format(count=2, body="(torch.abs, torch.exp)[number](x) + number"))

    assert last_lines(project.run()) == [
        "fx: next, look at each and decide: pytest --fx-received, then fxgraph review",
        "fx: 2 goldens differ",
    ]
    assert last_lines(project.run("--fx-received"))[-2:] == [
        "fx: read them with `fxgraph diff`, accept them with `fxgraph accept`, or do both with `fxgraph review`",
        "fx: 2 goldens differ",
    ]


def test_missing_goldens_are_written_by_one_command_that_changes_nothing_else(project):
    project.test(MANY.format(count=2, body="torch.neg(x) + number"))

    assert last_lines(project.run()) == [
        "fx: next, write what is missing: pytest --fx-update-golden --fx-update-only new",
        "fx: 2 goldens missing",
    ]


def test_unused_goldens_are_counted_with_the_others(project):
    project.test(MANY.format(count=2, body="torch.neg(x) + number"))
    project.update()
    project.test(MANY.format(count=1, body="torch.neg(x) + number"))

    assert last_lines(project.run())[-1] == "fx: 1 golden matched, 1 unused"
    assert last_lines(project.run("--fx-unused=ignore")) == ["fx: 1 golden matched"]


def test_many_files_that_were_written_are_counted_and_v_names_them(project):
    project.test(MANY.format(count=21, body="torch.neg(x) + number"))

    assert last_lines(project.update()) == ["fx: wrote 21 goldens; -v names them", "fx: 21 goldens written"]
    project.test(MANY.format(count=21, body="torch.abs(x) + number"))
    assert len(last_lines(project.update("-v"))) == 22


def test_the_counts_have_the_colour_of_what_is_worst(project, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert "\x1b[31mfx: 1 golden missing" in project.run("--color=yes").stdout.str()
    assert "\x1b[33mfx: 1 golden written" in project.update("--color=yes").stdout.str()
    assert "\x1b[32mfx: 1 golden matched" in project.run("--color=yes").stdout.str()


# What pytest knows of a terminal; a real one takes a process of its own.
TERMINAL = """
import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reporter.isatty = (lambda: True) if callable(reporter.isatty) else True
"""


def test_lines_of_source_are_links_on_a_terminal(project, monkeypatch):
    project.update()
    project.model("torch.sigmoid(y)")
    project.write("conftest.py", TERMINAL)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    shown = project.run("--fx-hyperlinks=edit://{path}:{line}", "--fx-report=fx.json").stdout.str()

    link = f"\x1b]8;;edit://{project.path.as_posix()}/model.py:13\x1b\\model.py:13\x1b]8;;\x1b\\: return"
    assert link in shown
    assert "\\u001b" not in (project.path / "fx.json").read_text()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
def test_a_real_terminal_gets_links(project):
    project.update()
    project.model("torch.sigmoid(y)")

    assert "\x1b]8;;" in run_on_a_terminal(project, {"TERM": "xterm-256color", "FORCE_HYPERLINK": "1"})


def test_elsewhere_there_are_no_links(project, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    project.update()
    project.model("torch.sigmoid(y)")

    assert "\x1b]8" not in project.run("--color=yes", "--fx-hyperlinks=always").stdout.str()


@pytest.mark.parametrize("form", ["sometimes", "", "x{path}\x1b]8;;"])
def test_another_choice_of_links_is_refused(project, form):
    result = project.run(f"--fx-hyperlinks={form}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--fx-hyperlinks: expected auto, always, never, or a form such as *"])


def run_on_a_terminal(project, environment) -> str:
    """Run the tests with a pseudo terminal as output, and return what it got."""
    import pty

    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:hypothesispytest", "-p", "no:xdist"]
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "GITHUB_ACTIONS")}
    process = subprocess.Popen(command, cwd=project.path, stdout=terminal, stderr=terminal, env={**kept, **environment})
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(controller, 65_536)
        except OSError:  # Linux says so that nobody writes any more
            break
        if not part:
            break
        shown += part
    os.close(controller)
    assert process.wait() == 1
    return shown.decode()
