"""Every command that a run or a report prints can be pasted, and does exactly what the words beside it say."""

from __future__ import annotations

import html
import io
import json
import linecache
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from pytest_fxgraph import capture
from pytest_fxgraph.command.main import main

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.{operator}(x) + 1


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return torch.neg(self.net(x))


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, {width})

    def forward(self, x):
        return torch.{operator}(self.linear(x))


def broken(x):
    {statement}
    return torch.{operator}(x)
"""
RIGHT = NET.format(operator="relu", width=3, statement="pass")
OTHER = NET.format(operator="sigmoid", width=5, statement="print(1)")
NAMED = """
import pytest
import torch
from net import Net, Outer


@pytest.mark.parametrize("n", [1, 2])
def test_param(n, fx_golden):
    assert Net() == fx_golden


def test_names(fx_golden):
    fx_golden.check(Net(), name="a")
    fx_golden.check(Outer(), name="b")


def test_two(fx_golden):
    assert Outer() == fx_golden
    assert Net() == fx_golden


def test_inline(fx_golden):
    assert Net() == fx_golden.inline()


def test_file_and_inline(fx_golden):
    fx_golden.check(Net())
    fx_golden.check(Net(), level="exact", name="letters")


def test_ops(fx_golden):
    assert Net() == fx_golden(level="ops")


def test_same(fx_golden):
    assert (lambda x: torch.abs(x)) == fx_golden


@pytest.mark.{mark}
def test_expected_to_fail(fx_golden):
    assert Net() == fx_golden
"""
MORE = """
import torch
from net import Deep, Net, broken


def test_cost(fx_golden):
    assert Deep() == fx_golden(level="cost", example_inputs=torch.ones(2, 4))


def test_cost_again(fx_golden):
    assert Deep() == fx_golden(level="cost", example_inputs=torch.ones(2, 4))


def test_row(fx_table):
    assert Deep() == fx_table(example_inputs=torch.ones(2, 4))


def test_row_again(fx_table):
    assert Deep() == fx_table(example_inputs=torch.ones(2, 4))


def test_breaks(fx_capture, fx_golden):
    assert fx_capture(broken, torch.ones(2)) == fx_golden(level="breaks")


def test_net(fx_golden):
    assert Net() == fx_golden
"""
NEW = """

def test_new(fx_golden):
    fx_golden.check(Net(), name="first")
    fx_golden.check(Deep(), name="second")
"""
REPORTS = [f"--fx-report=r.{kind}" for kind in ("md", "json", "html")]
COMMAND = r"(?P<command>(?:pytest --fx-[a-z]|fxgraph (?:accept|diff|show|review)\b)[^`\n<\"]*)"
PRINTED = re.compile(rf"{COMMAND}(?:`(?: \((?P<behind>[^)]*)\))?)?")


class Printed(NamedTuple):
    """A command, and the number of goldens that its words name: None for all of one test, 0 for none."""

    command: str
    count: int | None


def printed_in(text: str) -> Iterator[Printed]:
    """Find commands with the words in the same line, in Markdown also behind them; the words may be a line above."""
    lines = html.unescape(text.replace("%0A", "\n").replace("\\n", "\n").replace("\\|", "|")).split("\n")
    for above, line in zip(["", *lines], lines, strict=False):
        end = 0
        for found in PRINTED.finditer(line):
            words = f"{line[end : found.start()] or above} {found['behind'] or ''}"
            end, command = found.end(), found["command"].strip()
            yield Printed(command, named_goldens(words if words.strip(' E"') else above, command))


def named_goldens(words: str, command: str) -> int | None:
    if "fxgraph" in command and "--cluster" not in command and "accept its rows" not in words:
        return 0
    if re.search(r"(of|in) (this|the|its) test|accept its rows", words):
        return None
    numbers = re.findall(r"(\d+) goldens?", words)
    return int(numbers[-1]) if numbers else 1


class Tried:
    """A project that is back in its first state before each command."""

    def __init__(self, project, monkeypatch, keep: Path) -> None:
        self._project, self._monkeypatch, self._keep = project, monkeypatch, keep
        self.path = project.path
        shutil.copytree(self.path, keep)

    def effect_of(self, command: str) -> set[str]:
        """Run a command in the first state, and return the names of the goldens that it wrote."""
        before, folder = self._goldens(self._keep), Path.cwd()
        for path in self.path.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self._keep, self.path, dirs_exist_ok=True)
        self._monkeypatch.chdir(folder)  # it was removed
        for part in command.split("; "):
            program, *arguments = shlex.split(part)
            if program == "pytest":
                linecache.clearcache()
                assert self._project.run(*arguments).ret in (0, 1), part
            else:
                self._monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
                assert main(arguments) in (0, 1), part
        after = self._goldens(self.path)
        return {name for name in after if after[name] != before.get(name)} | (before.keys() - after.keys())

    @staticmethod
    def _goldens(folder: Path) -> dict[str, str]:
        """Return the text of each golden: a file, a row of a table, or the file of a test that holds it."""
        found: dict[str, str] = {}
        for path in (each for each in folder.rglob("*.yaml") if not each.name.endswith(".received.yaml")):
            name, text = path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")
            rows = re.findall(r"(?m)^- \{row: (\w+).*", text)
            texts = {f"{name}[{row}]": line for row, line in zip(rows, re.findall(r"(?m)^- .*", text), strict=False)}
            found.update(texts if text.startswith("table:") else {name: text})
        return {**found, "inline": (folder / "tests/test_named.py").read_text(encoding="utf-8")}


@pytest.fixture(scope="module")
def compiler():
    """Import torch's compiler outside of the runs, because it cannot be imported twice."""
    capture(torch.neg, torch.ones(2))


@pytest.mark.slow
def test_a_printed_command_does_what_is_printed(project, monkeypatch, tmp_path_factory):
    try_all(project, monkeypatch, tmp_path_factory, ".", ["tests/test_named.py"])


@pytest.mark.slow
@pytest.mark.parametrize("has_ini", [True, False])
@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        pytest.param(".", ["tests"], id="root"),
        pytest.param(".", ["--fx-received", "tests"], id="received"),
        pytest.param("tests/sub", ["..", "-q"], id="subfolder"),
        pytest.param("tests/sub", ["--fx-received", ".."], id="received in a subfolder"),
        pytest.param(".", ["--fx-golden-dir=other", "tests"], id="another golden folder"),
        pytest.param(".", ["-n2", "tests"], id="workers", marks=pytest.mark.long),
    ],
)
def test_a_command_runs_where_it_was_printed(
    compiler, project, monkeypatch, tmp_path_factory, folder, arguments, has_ini
):
    if not has_ini:
        (project.path / "tox.ini").unlink()
    try_all(project, monkeypatch, tmp_path_factory, folder, arguments)


def try_all(project, monkeypatch, tmp_path_factory, folder: str, arguments: list[str]) -> None:
    """Record goldens, change the models, and compare each printed command with its words."""
    keep = tmp_path_factory.mktemp("keep") / "project"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    project.write("tests/conftest.py", f"import sys; sys.path.insert(0, {str(project.path)!r})")  # workers need it
    project.write("net.py", RIGHT)
    project.write("tests/test_named.py", NAMED.format(mark="fx()"))
    project.write("tests/sub/test_more.py", MORE)
    monkeypatch.chdir(project.path / folder)
    assert project.update(*[each for each in arguments if each != "--fx-received"]).ret == 0
    project.write("net.py", OTHER)
    named = (project.path / "tests/test_named.py").read_text(encoding="utf-8")
    project.write("tests/test_named.py", named.replace("fx()", "xfail"))
    project.write("tests/sub/test_more.py", MORE + NEW)

    linecache.clearcache()
    result = project.run(*REPORTS, *arguments)
    texts = {kind: (Path.cwd() / f"r.{kind}").read_text(encoding="utf-8") for kind in ("md", "json", "html")}
    data = json.loads(texts["json"])
    # A key says of these commands whether they write one golden, and that the key of a cluster follows.
    texts["json"] = re.sub(r'"(accept|command)": .*', "", texts["json"])
    texts["html"] = re.sub(r'aria-label="Copy [^"]*"', "", texts["html"])  # the button beside a command names it again
    printed = {name: {*printed_in(text)} for name, text in {"terminal": result.stdout.str(), **texts}.items()}
    printed["json"] |= {
        Printed(each["command"], 1 if each["is_alone"] else None) for each in data["outcomes"] if each["command"]
    }

    assert all(len(found) > 3 for found in printed.values()), printed
    tried = Tried(project, monkeypatch, keep)
    wrong = []
    effects: dict[str, set[str]] = {}
    for where, found in printed.items():
        for command, count in sorted(found, key=str):
            if command not in effects:
                effects[command] = tried.effect_of(command)
            is_right = len(effects[command]) > 0 if count is None else len(effects[command]) == count
            wrong += [] if is_right else [(where, command, count, sorted(effects[command]))]
    assert not wrong, "\n".join(map(str, wrong))
