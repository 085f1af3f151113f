from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_fxgraph.gate.commands import accepting_command, decide, run_again
from pytest_fxgraph.gate.paths import STARTED_IN

ROOT = Path("/root/project")


def run(folder=None, started_in=ROOT, options=None, **fields):
    """Return the config of a run that was started in a folder, with --fx-golden-dir and other options or without."""
    given = {"fx_golden_dir": folder, **(options or {})}
    arguments = fields.pop("arguments", ())
    return SimpleNamespace(
        stash=pytest.Stash(),
        rootpath=ROOT,
        invocation_params=SimpleNamespace(dir=started_in, args=arguments),
        inipath=fields.pop("inipath", None),
        getoption=lambda key, default=None: given.get(key, default),
        getini=lambda key: "",
        **fields,
    )


def command(inside, config, file="tests/test_a.py"):
    return accepting_command(SimpleNamespace(config=config, path=ROOT / file, nodeid=f"{file}{inside}"))


@pytest.mark.parametrize(
    "inside",
    ["", "::TestB::test_c", "::" + "x" * 300, "::test_c[a b]", "::test_c['\"$(rm)]", "::test_c[a::b/..]", "::test_c[]"],
)
def test_the_command_names_the_test_and_no_other_quoted_for_a_shell(inside):
    assert shlex.split(command(inside, run())) == ["pytest", "--fx-update-golden", f"tests/test_a.py{inside}"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_what_a_terminal_would_obey_is_escaped_in_a_form_that_shells_read():
    inside = "::test_c[a\n::error::b'\\\x1b]"

    printed = command(inside, run())

    assert "\n" not in printed
    assert "\x1b" not in printed
    echoed = subprocess.run(["bash", "-c", f"printf %s {printed.split(' ', 2)[2]}"], capture_output=True, check=True)
    assert echoed.stdout.decode() == f"tests/test_a.py{inside}"


@pytest.mark.parametrize("file", ["-a.py", "@a.py"])
def test_a_file_is_not_taken_for_an_option_or_a_file_of_arguments(file):
    assert command("::test_c", run(), file) == f"pytest --fx-update-golden ./{file}::test_c"


def test_of_a_file_whose_name_pytest_cannot_read_the_folder_is_named():
    assert command("::test_c", run(), "tests/a[1]/test_a.py") == "pytest --fx-update-golden tests"


def test_the_command_repeats_what_decides_about_tests_and_files():
    options = {"rootdir": "..", "inifilename": "own.ini", "override_ini": ["a=b c", "d=e"], "fx_level": "exact"}

    assert command("::test_c", run("my goldens", options=options)) == (
        "pytest --fx-update-golden --rootdir .. -c own.ini -o 'a=b c' -o d=e --fx-golden-dir 'my goldens' "
        "--fx-level exact tests/test_a.py::test_c"
    )


@pytest.mark.parametrize(
    "config",
    [
        run(started_in=ROOT / "tests", inipath=ROOT / "tox.ini"),
        run(workerinput={STARTED_IN: "tests"}, started_in=Path("/elsewhere"), inipath=ROOT / "tox.ini"),
    ],
    ids=["here", "on a worker"],
)
def test_the_command_can_be_pasted_where_pytest_was_started(config):
    assert command("::test_c", config) == "pytest --fx-update-golden test_a.py::test_c"


def test_without_an_ini_file_the_command_names_a_rootdir_that_pytest_would_not_find():
    told = command("::test_c", run(started_in=ROOT / "tests"))

    assert told == "pytest --fx-update-golden --rootdir .. test_a.py::test_c"
    assert "--rootdir" not in command("::test_c", run())  # the common folder of this one and the test's


@pytest.mark.parametrize(
    ("arguments", "again"),
    [
        ((), "pytest --fx-received"),
        (("tests", "-k", "a b"), "pytest --fx-received tests -k 'a b'"),
        (("--fx-update-golden", "--fx-update-only", "new", "tests"), "pytest --fx-received tests"),
        (("--fx-update-only=new", "--fx-prune-golden", "-x"), "pytest --fx-received -x"),
    ],
)
def test_a_run_is_repeated_with_its_arguments_but_other_options_for_goldens(arguments, again):
    assert run_again(run(arguments=arguments), "--fx-received") == again


def test_a_decision_runs_the_tests_first_unless_the_run_has_received_files():
    assert decide(run(), "review") == "pytest --fx-received; fxgraph review"
    assert decide(run(options={"fx_received": True}), "accept", "--cluster", "3f") == "fxgraph accept --cluster 3f"


@pytest.mark.parametrize(
    ("config", "option"),
    [
        (run(options={"fx_received": True}), ""),
        (run(started_in=ROOT / "tests", inipath=ROOT / "tox.ini", options={"fx_received": True}), ""),
        (run(started_in=ROOT / "tests", options={"fx_received": True}), " --golden-dir ../golden"),
        (
            run(started_in=ROOT.parent, inipath=ROOT / "tox.ini", options={"fx_received": True}),
            " --golden-dir project/golden",
        ),
        (run("other", options={"fx_received": True}), " --golden-dir other"),
        (run("beside", options={"fx_received": True}), " --golden-dir beside"),
        (run(options={"fx_received": True, "rootdir": "."}), " --golden-dir golden"),
        (run(options={"fx_received": True, "override_ini": ["strict=1"]}), ""),
    ],
)
def test_the_command_is_told_where_goldens_lie_if_it_does_not_find_them(config, option):
    assert decide(config, "accept") == f"fxgraph accept{option}"


def test_a_test_on_another_drive_is_named_in_full(monkeypatch):
    def refuse(path, start):
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr("os.path.relpath", refuse)

    assert command("::test_c", run()) == f"pytest --fx-update-golden {ROOT}/tests/test_a.py::test_c"


@pytest.mark.parametrize(
    ("options", "file", "named"),
    [
        ({}, None, "--rootdir .. "),
        ({}, "setup.py", ""),
        ({"rootdir": "."}, None, "--rootdir . "),
    ],
)
def test_a_rootdir_is_named_once_and_only_if_pytest_would_find_another(tmp_path, options, file, named):
    if file:
        (tmp_path / file).touch()
    config = run(started_in=tmp_path / "tests", options=options)
    config.rootpath = tmp_path

    told = accepting_command(SimpleNamespace(config=config, path=tmp_path / "tests/test_a.py", nodeid="a::test_c"))

    assert told == f"pytest --fx-update-golden {named}test_a.py::test_c"


def test_strictness_is_not_repeated_but_other_settings_are():
    options = {"override_ini": ["strict_markers=1", "pythonpath=src"], "inifilename": "strict.ini"}

    assert command("::test_c", run(options=options)) == (
        "pytest --fx-update-golden -c strict.ini -o pythonpath=src tests/test_a.py::test_c"
    )
