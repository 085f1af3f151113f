from __future__ import annotations

import sys

import pytest

from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore

TRACE = "torch.fx.symbolic_trace(Small())"


def test_the_summary_counts_kinds_tests_and_left_out_graphs(record):
    record(f"""
        def test_a():
            {TRACE}
            {TRACE}
        def test_b():
            torch.export.export(Small(), (torch.ones(2, 4),))
        def test_c():
            tracer = torch.fx.Tracer()
            tracer.create_arg = lambda value: value
            tracer.trace(lambda x: tracer.create_proxy("call_function", torch.neg, (object(),), {{}}))
    """)
    record.result.stdout.fnmatch_lines(
        ["recorded 3 graphs of 2 tests in kept: 2 symbolic, 1 export; 1 left out (see kept/index)"]
    )


def test_the_run_of_a_command_names_no_folder(record, monkeypatch):
    monkeypatch.setenv("FXGRAPH_IS_OF_COMMAND", "1")
    record(f"""
        def test_a(monkeypatch):
            {TRACE}
            monkeypatch.setattr(torch.fx.Tracer, "create_arg", lambda tracer, value: value)
            torch.fx.symbolic_trace(lambda x: x.add(object()))
    """)
    record.result.stdout.fnmatch_lines(["recorded 1 graph of 1 test: 1 symbolic; 1 left out"])
    record("def test_a():\n    pass")
    record.result.stdout.fnmatch_lines(["recorded no graph: no test traced, exported or compiled a model, and*"])


def test_a_run_without_graphs_is_told_the_reason_and_the_next_step(record):
    record("def test_a():\n    pass")
    record.result.stdout.fnmatch_lines(
        [
            "recorded no graph in kept: no test traced, exported or compiled a model, and no test called an nn.Module; "
            "check that the run has the tests of your models"
        ]
    )
    record("def test_a():\n    Small()(torch.ones(2, 4))", "--fx-record-kinds", "symbolic,export")
    record.result.stdout.fnmatch_lines(
        [
            "recorded no graph in kept: no test traced, exported or compiled a model; add module to "
            "--fx-record-kinds, which traces the modules that tests call"
        ]
    )


def test_the_chosen_kinds_alone_are_kept(graphs_of):
    body = f"{TRACE}\ntorch.export.export(Small(), (torch.ones(2, 4),))"
    assert graphs_of(body, "--fx-record-kinds", "export, make_fx") == [("export", "Small")]


def test_graphs_of_imports_and_shared_fixtures_belong_to_no_test(record):
    recording = record(f"""
        at_import = {TRACE}

        @pytest.fixture(scope="session")
        def of_session():
            return torch.fx.symbolic_trace(Small(5))

        @pytest.fixture(scope="module")
        def of_module(of_session):
            return torch.fx.symbolic_trace(Small(6))

        @pytest.fixture
        def own():
            return torch.fx.symbolic_trace(Small(7))

        def test_a(of_module, own):
            pass
    """)
    counts = {name: [each.order for each in test.graphs] for name, test in recording.tests.items()}
    assert counts == {"": [0, 1], "test_suite.py": [0], "test_suite.py::test_a": [0]}
    assert recording.interrupted == []


def test_a_record_has_the_line_of_the_user(pytester, record):
    pytester.makepyfile(helper="import torch.fx\ndef traced(model):\n    return torch.fx.symbolic_trace(model)\n")
    recording = record("""
        from helper import traced
        def test_it():
            traced(Small())
    """)
    [graph] = recording.tests["test_suite.py::test_it"].graphs
    assert graph.line == "helper.py:3"


def test_the_run_has_versions_platform_and_arguments_and_no_commit_outside_a_repository(record):
    [run] = record("def test_a():\n    pass", "-k", "test_a").runs
    assert {"torch", "python", "platform", "plugin"} == set(run.environment)
    assert list(run.arguments)[-2:] == ["-k", "test_a"]


def test_a_rerun_counts_once(record):
    pytest.importorskip("pytest_rerunfailures")
    recording = record(
        f"""
        attempts = []
        def test_it():
            {TRACE}
            attempts.append(1)
            if len(attempts) == 2:
                torch.fx.symbolic_trace(lambda x: x)
            assert len(attempts) == 2
        """,
        *("--reruns", "2"),
    )
    test = recording.tests["test_suite.py::test_it"]
    assert (test.outcome, [each.order for each in test.graphs]) == ("passed", [0, 1])


@pytest.mark.slow
def test_workers_record_and_the_controller_tells(pytester, head, plain):
    pytest.importorskip("xdist")
    pytester.makepyfile(test_suite=head + f"@pytest.mark.parametrize('n', range(4))\ndef test_it(n):\n    {TRACE}\n")
    result = pytester.runpytest_subprocess(*plain, "--fx-record", "kept", "-n", "2")
    result.stdout.fnmatch_lines(["recorded 4 graphs of 4 tests in kept: 4 symbolic"])
    recording = Recording.read(RecordingStore(str(pytester.path / "kept")))
    assert {run.worker for run in recording.runs} == {"gw0", "gw1"}
    assert len([name for name in recording.tests if name]) == 4
    assert not recording.cut_off
    assert len(list((pytester.path / "kept" / "graphs").iterdir())) == 1


@pytest.mark.slow
def test_a_killed_run_is_cut_off_in_the_test_that_ran(pytester, head, plain):
    pytester.makepyfile(
        test_suite=head
        + f"""
def test_first():
    {TRACE}
def test_killed():
    import os, signal
    {TRACE}
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    pytester.runpytest_subprocess(*plain, "--fx-record", "kept")
    recording = Recording.read(RecordingStore(str(pytester.path / "kept")))
    assert len(recording.cut_off) == 1
    assert recording.interrupted == ["test_suite.py::test_killed"]
    assert {name: test.outcome for name, test in recording.tests.items()} == {
        "test_suite.py::test_first": "passed",
        "test_suite.py::test_killed": "",
    }
    assert len(recording.tests["test_suite.py::test_first"].graphs) == 1


def test_unittest_and_another_folder_are_recorded(record, tmp_path):
    recording = record(f"""
        import os, unittest
        class TestIt(unittest.TestCase):
            def test_it(self):
                os.chdir({str(tmp_path)!r})
                {TRACE}
    """)
    assert len(recording.tests["test_suite.py::TestIt::test_it"].graphs) == 1


def test_an_error_reads_as_in_a_run_without_a_recording(pytester, head, plain):
    pytester.makepyfile(
        test_suite=head
        + """
class Wrong(nn.Module):
    def forward(self, x):
        try:
            return x.missing
        except AttributeError as error:
            raise ValueError("an own error") from error
def test_call():
    Wrong()(torch.ones(2))
def test_trace():
    torch.fx.symbolic_trace(lambda x: 1 if x else 2)
import unittest
class TestIt(unittest.TestCase):
    def test_it(self):
        Wrong()(torch.ones(2))
"""
    )
    shown = []
    for arguments in ((), ("--fx-record", "kept")):
        result = pytester.runpytest_inprocess(*plain, "--tb=native", *arguments)
        result.assert_outcomes(failed=3)
        lines = [line for line in result.outlines if not line.startswith(("recorded ", "====="))]
        shown.append(lines)
    assert shown[0] == shown[1]


@pytest.mark.sampled(every=4, start=2)
@pytest.mark.parametrize(
    "line",
    [
        "torch.fx.symbolic_trace(lambda x: 1 if x else 2)",
        "make_fx(lambda x: x.missing)(torch.ones(2))",
        "torch.export.export(torch.ones(2), ())",
        "torch.compile(Small(), backend=refuse)(torch.ones(2, 4))",
    ],
)
def test_an_error_at_import_reads_as_in_a_run_without_a_recording(pytester, head, plain, line):
    refuse = "def refuse(graph_module, inputs):\n    raise ValueError('refused')\n"
    pytester.makepyfile(test_suite=f"{head}\nfrom torch.fx.experimental.proxy_tensor import make_fx\n{refuse}{line}\n")
    shown = []
    for arguments in ((), ("--fx-record", "kept")):
        result = pytester.runpytest_inprocess(*plain, *arguments)
        result.assert_outcomes(errors=1)
        shown.append([line for line in result.outlines if not line.startswith(("recorded ", "====="))])
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--fx-record-kinds", "export"),
            "--fx-record-kinds: expected together with --fx-record, which it narrows",
        ),
        (("--fx-record-seeded",), "--fx-record-seeded: expected together with --fx-record, whose tests it seeds"),
        (
            ("--fx-record", "kept", "--fx-record-kinds", "export,jit"),
            "--fx-record-kinds: there is no kind 'jit'; choose from fixture, symbolic, export, dynamo, aot, make_fx, "
            "module",
        ),
    ],
)
def test_options_without_effect_are_refused(pytester, plain, arguments, message):
    result = pytester.runpytest_inprocess(*plain, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_a_run_that_imports_no_torch_imports_none_for_a_recording(pytester, plain):
    pytester.makepyfile("import sys\ndef test_it():\n    assert 'torch' not in sys.modules\n")
    result = pytester.run(sys.executable, "-m", "pytest", *plain, "--fx-record", "kept")
    result.stdout.fnmatch_lines(["recorded no graph in kept:*"])
    result.assert_outcomes(passed=1)
