"""The commands that a run prints. Each can be pasted where the user's pytest was started."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxgraph.choices import BESIDE
from pytest_fxgraph.gate.launched_rank import LAUNCHED_RANK
from pytest_fxgraph.gate.paths import golden_layout, slashed_path, started_in
from pytest_fxgraph.report.printable import printable_line
from pytest_fxgraph.settings import FRONTEND, GOLDEN_DIR, LEVEL

# Options by pytest's name for them.
_REPEATED = (
    ("rootdir", "--rootdir"),
    ("inifilename", "-c"),
    ("override_ini", "-o"),
    (GOLDEN_DIR.key, GOLDEN_DIR.option),
    (LEVEL.key, LEVEL.option),
    (FRONTEND.key, FRONTEND.option),
)
_OF_UPDATES = ("--fx-update-golden", "--fx-update-variant", "--fx-received", "--fx-prune-golden")
_ONLY = "--fx-update-only"


def accepting_command(item: pytest.Item) -> str:
    """Return the command that writes the goldens of this test and of no other, quoted for a shell."""
    repeated = [*_repeated_options(item.config), *_rootdir_of(item)]
    options = [part for option, value in repeated for part in (option, _quoted(value))]
    return " ".join([_pytest(item.config), "--fx-update-golden", *options, _quoted(_target(item))])


def _pytest(config: pytest.Config) -> str:
    """Return the words that start pytest; a launch of several ranks starts as many again."""
    launched = config.stash.get(LAUNCHED_RANK, None)
    return "pytest" if launched is None else f"{launched.command} pytest"


def _rootdir_of(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Yield the rootdir, if pytest finds another for this test alone: without an ini file, it is the common folder."""
    config, folder = item.config, started_in(item.config)
    if config.inipath is not None or config.getoption("rootdir") or (config.rootpath / "setup.py").is_file():
        return
    if Path(os.path.commonpath([folder, item.path.parent])) != config.rootpath:
        yield "--rootdir", slashed_path(config.rootpath, folder)


def run_again(config: pytest.Config, *options: str) -> str:
    """Return the command that runs the tests of this run with other options for goldens."""
    return " ".join([_pytest(config), *options, *map(_quoted, _arguments(config))])


def decide(config: pytest.Config, verb: str, *arguments: str) -> str:
    """Return the command `fxgraph VERB` for the received files of this run. It runs the tests first, if they have to
    write these files.
    """
    command = " ".join(["fxgraph", verb, *map(_quoted, [*_golden_dir(config), *arguments])])
    return command if config.getoption("fx_received") else f"{run_again(config, '--fx-received')}; {command}"


def accept_file(config: pytest.Config, golden: PurePosixPath) -> str:
    """Return the command that accepts the received file of one golden, given by its path in the golden folder."""
    path = slashed_path(golden_layout(config).root / golden, started_in(config))
    return f"fxgraph accept {_quoted(path)}"


def _arguments(config: pytest.Config) -> Iterator[str]:
    """Yield the arguments of the run, without the options that write goldens."""
    given = iter(map(str, config.invocation_params.args))
    for word in given:
        if word == _ONLY:
            next(given, None)
        elif word not in _OF_UPDATES and not word.startswith(f"{_ONLY}="):
            yield word


def _golden_dir(config: pytest.Config) -> list[str]:
    """Return the option with which `fxgraph` finds the goldens of this run, if it does not find them by itself."""
    layout, folder = golden_layout(config), started_in(config)
    is_given = any(
        option in ("--rootdir", "-c", GOLDEN_DIR.option) or value.startswith(GOLDEN_DIR.key)
        for option, value in _repeated_options(config)
    )
    has_place = config.inipath is not None and Path(folder).is_relative_to(config.rootpath)
    if not is_given and (has_place or Path(folder) == config.rootpath):
        return []
    return ["--golden-dir", BESIDE if layout.is_beside else slashed_path(layout.root, folder)]


def _repeated_options(config: pytest.Config) -> Iterator[tuple[str, str]]:
    """Yield the options of this run that the command needs to find the same tests, files and differences."""
    for name, option in _REPEATED:
        given = config.getoption(name, None)
        values = [str(value) for value in (given if isinstance(given, list) else [given]) if value]
        # pytest 9 keeps --strict-markers of addopts among them; strictness finds no other tests and no other files.
        yield from ((option, value) for value in values if not (option == "-o" and value.startswith("strict")))


def _target(item: pytest.Item) -> str:
    file = slashed_path(item.path, started_in(item.config))
    if "[" in file:  # pytest takes the rest for parameters, so name the nearest folder that it can read
        return os.path.dirname(file.partition("[")[0]) or "."
    _, colons, inside = str(item.nodeid).partition("::")
    # An option begins with a dash, a file of arguments with an at sign.
    return f"{'./' if file.startswith(('-', '@')) else ''}{file}{colons}{inside}"


def _quoted(text: str) -> str:
    """Quote a text for a shell, on one line: control characters become escapes that bash, zsh and ksh read."""
    if printable_line(text) == text:
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printable_line(escaped)}'"
