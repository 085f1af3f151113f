"""`fxgraph completion`: the script comes from shtab, and an absent shtab is an error that names the extra."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from pytest_fxgraph.command.main import main

VERBS = ("show", "diff", "draw", "accept", "review", "report", "completion")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_the_shell_takes_the_script_and_every_verb_is_in_it(capsys, shell):
    pytest.importorskip("shtab")

    assert main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS)
    if shell != "tcsh" and shutil.which(shell) and sys.platform != "win32":
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_levels_files_and_folders_are_completed_as_such(capsys):
    pytest.importorskip("shtab")
    main(["completion", "zsh"])

    script = capsys.readouterr().out
    assert ":(exact structure ops signature cost breaks kernels)" in script
    assert ":_files -/" in script
    assert ":_files" in script.replace(":_files -/", "")


def test_without_the_library_the_error_names_the_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)

    assert main(["completion", "bash"]) == 2

    error = capsys.readouterr().err
    assert error.startswith("fxgraph: cannot write completions: the library shtab is not installed; pip install ")
    assert '"pytest-fxgraph[completion]"' in error


def test_another_shell_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "ksh"])

    assert "choose from" in capsys.readouterr().err
