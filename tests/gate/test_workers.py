from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_fxgraph.gate.collection import CollectionRecord
from pytest_fxgraph.gate.paths import STARTED_IN
from pytest_fxgraph.gate.workers import Controller, Worker, check_remote_golden
from pytest_fxgraph.goldens.files import golden_digest
from pytest_fxgraph.report.outcome import Outcome

OUTCOME = Outcome("test_a.py::test_x", "golden/test_a/test_x.yaml", "structure", "matched")
TEXT = "format: 2\n"
DIGEST = golden_digest(TEXT.encode())


@pytest.fixture
def config(tmp_path):
    return SimpleNamespace(stash=pytest.Stash(), rootpath=tmp_path, getoption={"fx_golden_dir": "golden"}.get)


def report(popen=False, chdir=None):
    spec = SimpleNamespace(popen=popen, chdir=chdir)
    return SimpleNamespace(worker_id="gw7", node=SimpleNamespace(gateway=SimpleNamespace(spec=spec)))


def golden(config):
    path = config.rootpath / OUTCOME.golden
    path.parent.mkdir(parents=True)
    path.write_text(TEXT, encoding="utf-8")


def test_the_same_golden_on_both_machines_is_right(config):
    golden(config)

    assert check_remote_golden(replace(OUTCOME, expected_digest=DIGEST), report(), config) is None


def test_no_golden_on_either_machine_is_right(config):
    assert check_remote_golden(OUTCOME, report(), config) is None


@pytest.mark.parametrize("where", [report(popen=True), SimpleNamespace()])
def test_a_worker_in_the_same_folder_is_not_asked(config, where):
    golden(config)

    assert check_remote_golden(OUTCOME, where, config) is None


def test_a_golden_that_already_holds_what_is_to_be_written_is_right(config):
    golden(config)
    outcome = replace(OUTCOME, status="updated", update="changed", expected_digest="0" * 64, new_text=TEXT)

    assert check_remote_golden(outcome, report(), config) is None
    assert check_remote_golden(replace(outcome, new_text="other"), report(), config) is not None


@pytest.mark.parametrize(
    ("is_here", "digest", "reason"),
    [
        (True, None, "it has no copy of it, and one lies here"),
        (True, "0" * 64, "its copy is not the one here"),
        (False, "0" * 64, "its copy is not here"),
    ],
)
@pytest.mark.parametrize("where", [report(), report(popen=True, chdir="elsewhere")])
def test_another_golden_is_named_with_its_worker(config, is_here, digest, reason, where):
    if is_here:
        golden(config)

    assert check_remote_golden(replace(OUTCOME, expected_digest=digest), where, config) == (
        f"cannot trust what gw7 says of golden/test_a/test_x.yaml: {reason}; bring both machines to one revision"
    )


def test_a_worker_is_told_where_pytest_was_started():
    folders = SimpleNamespace(invocation_params=SimpleNamespace(dir=Path("/root/sub")), rootpath=Path("/root"))
    node = SimpleNamespace(workerinput={}, config=folders)

    Controller(None).pytest_configure_node(node)

    assert node.workerinput == {STARTED_IN: "sub"}


def test_what_a_worker_collected_arrives_and_a_crashed_worker_sends_nothing():
    sent, received = CollectionRecord(SimpleNamespace()), CollectionRecord(SimpleNamespace())
    sent.found["test_a.py"] = {"", "test_x"}
    session = SimpleNamespace(config=SimpleNamespace(workeroutput={}))

    Worker(sent).pytest_sessionfinish(session)
    Controller(received).pytest_testnodedown(SimpleNamespace(workeroutput=session.config.workeroutput))
    Controller(received).pytest_testnodedown(SimpleNamespace())
    Controller(None).pytest_testnodedown(SimpleNamespace(workeroutput=session.config.workeroutput))

    assert received.to_dict() == sent.to_dict()


def test_a_hook_of_xdist_may_be_implemented_where_xdist_is_not_loaded(pytester):
    pytester.makeconftest(
        "import pytest\n\n@pytest.hookimpl(optionalhook=True)\ndef pytest_configure_node(node): ...\n"
    )
    pytester.makepyfile("def test_x(): ...\n")

    result = pytester.inline_run("-p", "no:xdist", "-p", "no:randomly", "-p", "no:hypothesispytest")

    assert result.ret == 0
    result.assertoutcome(passed=1)


def test_a_golden_that_cannot_be_read_here_is_no_word_against_the_worker(config):
    (config.rootpath / OUTCOME.golden).mkdir(parents=True)

    assert check_remote_golden(OUTCOME, report(), config) is None


def test_a_golden_that_holds_the_workers_new_text_already_is_trusted(config):
    golden(config)
    updated = replace(OUTCOME, status="updated", new_text=TEXT, expected_digest=None)

    assert check_remote_golden(updated, report(), config) is None
