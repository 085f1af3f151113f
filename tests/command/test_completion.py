from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from pytest_fxgraph.choices import LEVELS
from pytest_fxgraph.command.main import main

COMMANDS = ["show", "diff", "draw", "cost", "accept", "review", "unused", "report", "upgrade", "completion"]

# What bash does when the tab key is pressed: the words and the place in them, then the function.
PRESS_TAB = """
eval "$1"
shift
complete -p fxgraph > /dev/null || exit 3
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_fxgraph
printf '%s\\n' "${COMPREPLY[@]}"
"""


def printed(capsys, shell: str) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def offered(capsys):
    """What bash offers for a command line whose last word is not finished."""
    bash = shutil.which("bash")
    if bash is None or sys.platform == "win32":
        pytest.skip("there is no bash")
    script = printed(capsys, "bash")

    def offer(*words: str) -> list[str]:
        command = [bash, "--norc", "-c", PRESS_TAB, "bash", script, "fxgraph", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    return offer


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_takes_the_script_and_every_command_is_in_it(capsys, shell):
    script = printed(capsys, shell)

    assert all(name in script for name in COMMANDS)
    if shutil.which(shell) and sys.platform != "win32":
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ([""], [*COMMANDS, "--help", "--version"]),
        (["u"], ["unused", "upgrade"]),
        (["--v"], ["--version"]),
        (["show", "--"], ["--help", "--code", "--full", "--color"]),
        (["diff", "--color", ""], ["auto", "always", "never"]),
        (["diff", "--level", "e"], ["exact"]),
        (["diff", "--level", "="], list(LEVELS)),
        (["diff", "--level", "=", "c"], ["cost"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["show", "gol"], []),  # bash offers files
        (["draw", "-o", "d"], []),
        (["paint", "--"], []),
    ],
    ids=" ".join,
)
def test_bash_offers_commands_options_and_their_values(offered, words, offers):
    assert sorted(offered(*words)) == sorted(offers)


def test_zsh_and_fish_say_what_a_choice_is_for(capsys):
    assert "'--check[write nothing\\: read each golden" in printed(capsys, "zsh")
    assert "-l level -x -a 'exact structure ops signature cost breaks'" in printed(capsys, "fish")
    assert ":DIR:_files -/'" in printed(capsys, "zsh")


def test_another_shell_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])

    assert "choose from" in capsys.readouterr().err
