"""--fx-received keeps what a failed test received beside its golden, for `fxgraph accept`."""

from __future__ import annotations

import io

import pytest

from pytest_fxgraph.command.main import main

RECEIVED = "test_net/test_net.received.yaml"


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n1", marks=pytest.mark.slow)])
def test_recorded_broken_received_accepted(project, monkeypatch, workers):
    project.update()
    project.model("torch.sigmoid(y)")
    before = project.goldens()

    result = project.run("--fx-received", workers)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["fx: wrote golden/test_net/test_net.received.yaml", "fx: list them with `fxgraph accept`, *"]
    )
    assert project.goldens().keys() == {*before, RECEIVED}
    assert project.goldens()["test_net/test_net.yaml"] == before["test_net/test_net.yaml"]
    monkeypatch.chdir(project.path)
    assert main(["accept", "golden"]) == 0
    assert project.goldens().keys() == before.keys()
    project.run(workers).assert_outcomes(passed=1)


def test_without_the_flag_nothing_is_received(project):
    project.update()
    project.model("torch.sigmoid(y)")
    before = project.goldens()

    project.run()

    assert project.goldens() == before


def test_a_golden_that_is_missing_is_received(project, monkeypatch):
    project.run("--fx-received").assert_outcomes(failed=1)
    assert list(project.goldens()) == [RECEIVED]
    monkeypatch.chdir(project.path)

    assert main(["accept", "golden/test_net/test_net.yaml"]) == 0

    project.run().assert_outcomes(passed=1)


@pytest.mark.sampled(every=3, start=1)
@pytest.mark.parametrize("ruin", [b"format: 1\nnodes: 3\n", b"\xff\xfe", b""])
def test_a_golden_that_is_ruined_can_be_replaced(project, monkeypatch, ruin):
    project.write("golden/test_net/test_net.yaml", "").write_bytes(ruin)

    project.run("--fx-received").assert_outcomes(failed=1)

    monkeypatch.chdir(project.path)
    assert main(["accept", "golden"]) == 0
    project.run().assert_outcomes(passed=1)


def test_what_a_newer_release_wrote_is_left_to_it(project):
    project.write("golden/test_net/test_net.yaml", "format: 99\n")

    project.run("--fx-received").assert_outcomes(failed=1)

    assert list(project.goldens()) == ["test_net/test_net.yaml"]


def test_a_passing_test_removes_its_own_and_no_other(project):
    project.test(name="test_other.py")
    project.update()
    project.model("torch.sigmoid(y)")
    project.run("--fx-received")
    project.model()

    project.run("test_net.py").assert_outcomes(passed=1)
    assert RECEIVED in project.goldens()
    project.run("--fx-received", "test_net.py").assert_outcomes(passed=1)

    assert sorted(project.goldens()) == [
        "test_net/test_net.yaml",
        "test_other/test_net.received.yaml",
        "test_other/test_net.yaml",
    ]


def test_a_golden_that_changed_since_is_not_replaced(project, monkeypatch, capsys):
    project.update()
    project.model("torch.sigmoid(y)")
    project.run("--fx-received")
    project.model("torch.tanh(y)")
    project.update()
    written = project.goldens()["test_net/test_net.yaml"]
    monkeypatch.chdir(project.path)

    assert main(["accept", "golden"]) == 2

    assert "is no longer the golden that it was compared with" in capsys.readouterr().err
    assert project.goldens()["test_net/test_net.yaml"] == written


def test_an_expected_failure_is_no_offer(project):
    project.test(
        "import pytest\nfrom model import Net\n\n@pytest.mark.xfail\ndef test_net(fx_golden):\n"
        "    assert Net() == fx_golden\n"
    )

    project.run("--fx-received").assert_outcomes(xfailed=1)

    assert project.goldens() == {}


def test_what_was_received_is_never_collected(project):
    project.run("--fx-received")
    project.write("golden/test_net/conftest.py", "")

    result = project.run("--collect-only", "-q", "golden")

    result.stdout.no_fnmatch_line("*received*")


def test_a_folder_that_cannot_be_written_is_told(project):
    project.write("golden/test_net", "a file where a folder has to be")

    result = project.run("--fx-received")

    result.stdout.fnmatch_lines(["fx: cannot write the golden file *test_net.received.yaml: *"])


def test_several_of_one_test_are_received_together(project):
    project.test(
        "import torch\n\n\ndef test_net(fx_golden):\n    fx_golden.check(lambda x: torch.neg(x), name='a')\n"
        "    fx_golden.check(lambda x: torch.abs(x), name='b')\n"
    )

    project.run("--fx-received")

    assert sorted(project.goldens()) == ["test_net/test_net.a.received.yaml", "test_net/test_net.b.received.yaml"]


@pytest.mark.parametrize("level", ["ops", "exact"])
def test_accept_and_the_run_name_one_cause_at_the_level_of_the_test(project, monkeypatch, capsys, level):
    project.test(f"""
import pytest, torch

def relu(x): return torch.relu(x) + 1

@pytest.mark.parametrize("name", ["first", "second"])
@pytest.mark.fx(level={level!r})
def test_net(fx_golden, name):
    assert relu == fx_golden
""")
    project.update()
    test = project.path / "test_net.py"
    test.write_text(test.read_text().replace("torch.relu(x) + 1", "torch.sigmoid(x) + 1.5"))
    told = project.run("--fx-received").stdout.str()
    monkeypatch.chdir(project.path)

    main(["accept"])

    line = next(line for line in told.splitlines() if "2 goldens differ in the same way" in line)
    key, headline = line.split("(cluster ")[1].split("): ")
    listed = capsys.readouterr().out
    assert f"1  {key}  2 goldens: {headline}" in listed
    monkeypatch.setattr("sys.stdin", io.StringIO("d\nq\n"))
    main(["review"])
    assert f"does not match at level {level}" in capsys.readouterr().out
