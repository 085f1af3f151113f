"""A run that ends says which goldens are unused, and removes those and no others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.gate.collection import CollectionRecord
from pytest_fxgraph.gate.run_end import RunEnd, run_record
from pytest_fxgraph.gate.session import GoldenSession
from pytest_fxgraph.goldens.renamed import graph_digest
from pytest_fxgraph.report.outcome import Outcome

ASKED, UNUSED = "golden/test_a/test_x.yaml", "golden/test_a/test_y.yaml"
OF_A_FILE_NOT_RUN = "golden/test_b/test_z.yaml"


@pytest.fixture
def config(tmp_path):
    for golden in (ASKED, UNUSED, OF_A_FILE_NOT_RUN):
        (tmp_path / golden).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / golden).write_text("format: 2\nnodes: []\n", encoding="utf-8")
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).touch()
    options: dict[str, Any] = {"fx_golden_dir": "golden", "fx_unused": "fail", "fx_report": []}
    return SimpleNamespace(
        stash=pytest.Stash(),
        rootpath=tmp_path,
        inipath=None,
        options=options,
        getoption=lambda name, default=None: options.get(name, default),
        args_source=pytest.Config.ArgsSource.TESTPATHS,
        invocation_params=SimpleNamespace(dir=tmp_path, args=()),
    )


@pytest.fixture
def collected(config):
    """A record of a run in which all of one file ran."""
    record = CollectionRecord(config)
    record.add({"found": {"test_a.py": ("", "test_x")}, "ended": {"test_a.py": ("", "test_x")}, "failed": {}})
    return record


class Terminal:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.newlines = 0  # that were asked for
        self.colours: dict[str, str] = {}  # by line

    def ensure_newline(self) -> None:
        self.newlines += 1

    def write_line(self, line: str, **colours: bool) -> None:
        self.lines.append(line)
        self.colours[line] = " ".join(name for name, is_on in colours.items() if is_on)


def end(config, collected) -> tuple[int, list[str]]:
    """End a run that asked for one golden; return its exit status and its lines above the summary."""
    status, lines = end_with_summary(config, collected)
    return status, lines[:-1]


def end_with_summary(config, collected) -> tuple[int, list[str]]:
    goldens = GoldenSession(config)
    goldens.results["test_a.py::test_x", ASKED] = "matched"
    session, terminal, run_end = SimpleNamespace(exitstatus=pytest.ExitCode.OK), Terminal(), RunEnd(goldens, collected)
    run_end.pytest_sessionfinish(session, session.exitstatus)
    run_end.pytest_terminal_summary(terminal)
    return session.exitstatus, terminal.lines


def test_an_unused_golden_is_named_and_fails_a_run_that_should_have_none(config, collected):
    assert end(config, collected) == (
        pytest.ExitCode.TESTS_FAILED,
        [
            "fx: no test asked for 1 golden; if they are not needed, add --fx-prune-golden to this command",
            f"fx: unused {UNUSED}",
            "fx: the run fails, as no test asked for 1 golden (--fx-unused=fail)",
        ],
    )


def test_a_golden_that_was_removed_is_not_unused_any_more(config, collected):
    config.options["fx_prune_golden"] = True

    assert end(config, collected) == (pytest.ExitCode.OK, [f"fx: removed {UNUSED}"])
    assert not (config.rootpath / UNUSED).exists()
    assert (config.rootpath / ASKED).exists()
    assert (config.rootpath / OF_A_FILE_NOT_RUN).exists()


def test_only_a_report_names_goldens_that_cannot_be_judged(config, collected):
    assert run_record(config, collected, [ASKED], 0).others == {UNUSED: "test_a.py"}

    config.options["fx_report"] = ["report.json"]

    assert run_record(config, collected, [ASKED], 0).others == {UNUSED: "test_a.py", OF_A_FILE_NOT_RUN: "test_b.py"}


def test_a_golden_that_cannot_be_removed_is_an_error_and_stays_unused(config, collected, monkeypatch):
    config.options["fx_prune_golden"] = True

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)

    status, lines = end(config, collected)

    assert status == pytest.ExitCode.TESTS_FAILED
    path = config.rootpath / UNUSED
    assert f"fx: cannot remove {path}: permission denied; give permission, or remove it yourself" in lines
    assert f"fx: unused {UNUSED}" in lines
    assert f"fx: removed {UNUSED}" not in lines


def test_a_job_summary_that_cannot_be_written_is_an_error(config, collected, monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    config.options.update(fx_report=["report.md"], fx_unused="ignore")

    status, lines = end(config, collected)

    assert status == pytest.ExitCode.TESTS_FAILED
    assert lines[:2] == [
        "fx: wrote the report report.md",
        f"fx: cannot write the job summary {tmp_path}: is a directory; make room or give permission",
    ]


@pytest.mark.parametrize("is_one_file", [True, False])
def test_a_golden_of_other_case_is_used_where_the_file_system_makes_both_one_file(config, collected, is_one_file):
    other = config.rootpath / ASKED.replace("test_x", "Test_X")
    if is_one_file:
        other.hardlink_to(config.rootpath / ASKED)
    else:
        other.write_bytes((config.rootpath / ASKED).read_bytes())

    others = run_record(config, collected, [ASKED], 0).others

    assert (ASKED.replace("test_x", "Test_X") in others) is not is_one_file


def test_a_golden_without_a_file_is_no_file_of_another_case(config, collected):
    (config.rootpath / ASKED).rename(config.rootpath / ASKED.replace("test_x", "Test_X"))

    assert ASKED.replace("test_x", "Test_X") in run_record(config, collected, [ASKED], 0).others


@pytest.mark.parametrize(
    ("unused", "summary"),
    [
        ("fail", "fx: 1 golden matched, 1 unused"),
        ("warn", "fx: 1 golden matched, 1 unused"),
        ("ignore", "fx: 1 golden matched"),
    ],
)
def test_the_summary_counts_unused_goldens_unless_they_are_ignored(config, collected, unused, summary):
    config.options["fx_unused"] = unused

    assert end_with_summary(config, collected)[1][-1] == summary


@pytest.mark.parametrize(
    ("status", "option", "finished"),
    [
        (pytest.ExitCode.OK, None, True),
        (pytest.ExitCode.TESTS_FAILED, None, True),
        (pytest.ExitCode.INTERRUPTED, None, False),
        (pytest.ExitCode.INTERNAL_ERROR, None, False),
        (pytest.ExitCode.USAGE_ERROR, None, False),
        (pytest.ExitCode.OK, "collectonly", False),
        (pytest.ExitCode.OK, "setuponly", False),
    ],
)
def test_a_run_is_finished_if_its_tests_ran_and_nothing_broke_it_off(config, collected, status, option, finished):
    config.options[option] = True

    assert run_record(config, collected, (), status).finished is finished


@pytest.fixture
def summary(config):
    """Return a function that prints the summary of a run with results, outcomes and written goldens."""
    config.options |= {"fx_unused": "ignore", "fx_received": False}
    config.verbosity = 0
    config.get_verbosity = lambda: config.verbosity

    def printed(results=(), outcomes=(), **written) -> Terminal:
        goldens, terminal = GoldenSession(config), Terminal()
        goldens.results = {("test_a.py::test_x", str(number)): each for number, each in enumerate(results)}
        goldens.outcomes = [*outcomes]
        for name, paths in written.items():
            setattr(goldens, name, paths)
        RunEnd(goldens, None).pytest_terminal_summary(terminal)
        return terminal

    return printed


@pytest.mark.parametrize(
    ("results", "colour"),
    [
        (["matched"], "green"),
        (["matched", "written"], "yellow"),
        (["written"], "yellow"),
        (["matched", "mismatch"], "red"),
        (["written", "missing"], "red"),
        (["refused"], "red"),
    ],
)
def test_the_summary_has_the_colour_of_its_worst_result(summary, results, colour):
    terminal = summary(results)

    assert [terminal.colours[line] for line in terminal.lines] == [colour]


def test_a_run_without_goldens_prints_no_summary(summary):
    assert summary().lines == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("written", "fx: wrote 21 goldens; -v names them"),
        ("written_received", "fx: wrote 21 received files; -v names them"),
    ],
)
def test_up_to_20_written_files_are_named_and_more_are_counted(config, summary, name, words):
    paths = [f"golden/{number}.yaml" for number in range(21)]

    assert summary(**{name: paths[:20]}).lines[:20] == [f"fx: wrote {path}" for path in paths[:20]]
    assert summary(**{name: paths}).lines[0] == words

    config.verbosity = 1
    assert summary(**{name: paths}).lines[:21] == [f"fx: wrote {path}" for path in paths]


def differing(golden: str, cluster: str = "", **facts: Any) -> Outcome:
    facts = {"command": f"pytest {golden}", "headline": f"headline of {golden}", **facts}
    return Outcome("test_a.py::test_x", golden, "structure", "mismatch", cluster=cluster, **facts)


def test_a_cause_of_several_goldens_is_told_once_the_most_frequent_first(summary):
    outcomes = [
        *(differing(f"a{number}", "seldom") for number in range(2)),
        *(differing(f"b{number}", "many", inline={} if number == 0 else None) for number in range(3)),
        *(differing("b1", "many"), differing("c", "alone"), differing("d"), differing("e")),
    ]

    lines = summary(outcomes=outcomes).lines

    assert lines == [
        "fx: 3 goldens differ in the same way (cluster many): headline of b0",
        "fx: 2 goldens differ in the same way (cluster seldom): headline of a0",
        "fx: accept the 2 golden files of cluster many with: pytest --fx-received; "
        "fxgraph accept --golden-dir golden --cluster many",
    ]


def test_a_cause_of_inline_goldens_alone_has_no_command(summary):
    outcomes = [
        *(differing(f"a{number}", "inline", inline={}) for number in range(3)),
        *(differing(f"b{number}", "files") for number in range(2)),
    ]

    lines = summary(outcomes=outcomes).lines

    assert lines[-1].startswith("fx: accept the 2 golden files of cluster files with: ")
    assert len(summary(outcomes=outcomes[:3]).lines) == 1


@pytest.mark.parametrize(
    ("outcomes", "line"),
    [
        ([differing("a", is_alone=True)], "fx: next, if the new graph is right: pytest a"),
        ([differing("a", is_alone=False)], "fx: next, if all graphs of the test are right: pytest a"),
        (
            [differing("a"), differing("b")],
            "fx: next, look at each and decide: pytest --fx-received; fxgraph review --golden-dir golden",
        ),
        (
            [differing("a", inline={}), differing("b", inline={}), differing("c", command="")],
            "fx: next, if all graphs are right: pytest --fx-update-golden",
        ),
        (
            [differing("a", inline={}), differing("b")],
            "fx: next, look at each and decide: pytest --fx-received; fxgraph review --golden-dir golden",
        ),
        ([differing("a", command=""), differing("b", command="")], None),
        ([differing("a", command=""), differing("b")], "fx: next, if the new graph is right: pytest b"),
        ([Outcome("t", "a", "structure", "matched")], None),
    ],
)
def test_the_next_step_is_the_one_that_most_open_goldens_need(summary, outcomes, line):
    assert summary(outcomes=outcomes).lines == ([] if line is None else [line])


def test_what_is_missing_is_written_by_one_command(summary):
    outcomes = [Outcome("t", name, "structure", "missing", command=f"pytest {name}") for name in "ab"]

    assert summary(outcomes=outcomes).lines == [
        "fx: next, write what is missing: pytest --fx-update-golden --fx-update-only new"
    ]


@pytest.mark.parametrize("is_received", [True, False])
def test_inline_goldens_have_a_command_each_where_received_files_are_kept(config, summary, is_received):
    config.options["fx_received"] = is_received
    outcomes = [
        differing("a", inline={}),
        differing("a2", inline={}, command="pytest a"),
        differing("b"),
        differing("c", inline={}, command=""),
    ]

    told = [line for line in summary(outcomes=outcomes).lines if "inline goldens" in line]

    assert (
        told
        == ["fx: nothing is received for inline goldens; accept all goldens of the test with: pytest a"] * is_received
    )


@pytest.mark.parametrize(("count", "more"), [(5, []), (8, ["fx: and 3 more clusters"])])
def test_five_causes_are_told_and_more_are_counted(summary, count, more):
    outcomes = [differing(f"{name}{number}", f"cluster{number}") for number in range(count) for name in "ab"]

    lines = summary(outcomes=outcomes).lines

    assert [line for line in lines if "in the same way" in line] == [
        f"fx: 2 goldens differ in the same way (cluster cluster{number}): headline of a{number}" for number in range(5)
    ]
    assert lines[5:-1] == more


@pytest.mark.parametrize(
    ("status", "others_passed", "finished"),
    [(pytest.ExitCode.OK, True, True), (pytest.ExitCode.TESTS_FAILED, True, True), (pytest.ExitCode.OK, False, False)],
)
def test_goldens_are_judged_if_the_tests_passed_on_all_other_ranks(config, collected, status, others_passed, finished):
    goldens, told = GoldenSession(config), []
    goldens.results["test_a.py::test_x", ASKED] = "matched"

    def gather(*, has_passed):
        told.append(has_passed)
        return others_passed

    goldens.gather = gather  # type: ignore[method-assign]
    config.options["fx_unused"] = "warn"
    run_end, terminal = RunEnd(goldens, collected), Terminal()
    run_end.pytest_sessionfinish(SimpleNamespace(exitstatus=status), status)  # type: ignore[arg-type]
    run_end.pytest_terminal_summary(terminal)

    assert told == [status == pytest.ExitCode.OK]
    assert (f"fx: unused {UNUSED}" in terminal.lines) is finished


RENAMED = "golden/test_a/test_new.yaml"


@pytest.mark.parametrize(
    ("facts", "finished", "line"),
    [
        ({"status": "missing"}, True, f"fx: {RENAMED} is missing, and {UNUSED}, for which no test asks"),
        ({"status": "missing"}, False, None),
        ({"status": "updated", "update": "new"}, True, None),  # nobody wrote it
        ({"status": "mismatch"}, True, None),
    ],
)
def test_a_missing_golden_whose_graph_an_unused_golden_holds_is_told(config, collected, facts, finished, line):
    config.options["fx_unused"] = "ignore"
    goldens, terminal = GoldenSession(config), Terminal()
    text = encode(document("%x = input x\nreturn %x"))
    (config.rootpath / UNUSED).write_text(text, encoding="utf-8")
    digest = graph_digest(text, "structure")
    goldens.results["test_a.py::test_x", ASKED] = "matched"
    goldens.outcomes = [Outcome("test_a.py::test_new", RENAMED, "structure", graph_digest=digest, **facts)]
    config.hook = SimpleNamespace(pytest_fxgraph_report_section=lambda outcomes: ["", None, "of a hook\n"])
    status = pytest.ExitCode.OK if finished else pytest.ExitCode.INTERRUPTED

    run_end = RunEnd(goldens, collected)
    run_end.pytest_sessionfinish(SimpleNamespace(exitstatus=status), status)  # type: ignore[arg-type]
    run_end.pytest_terminal_summary(terminal)

    assert [each[: len(line or "")] for each in terminal.lines if "is missing" in each] == [line][: line is not None]
    assert terminal.lines[0] == "of a hook"


@pytest.mark.parametrize(("report", "is_told"), [("report.md", True), ("report.json", False)])
def test_a_markdown_report_is_added_to_the_job_summary_and_the_run_says_so(
    config, collected, monkeypatch, tmp_path, report, is_told
):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    config.options.update(fx_report=[report], fx_unused="ignore")

    _, lines = end(config, collected)

    assert ("fx: added the report to the job summary" in lines) is is_told
    assert (tmp_path / "summary.md").exists() is is_told


def test_without_a_job_summary_a_report_is_added_to_none(config, collected, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    config.options.update(fx_report=["report.md"], fx_unused="ignore")

    assert end(config, collected)[1] == ["fx: wrote the report report.md"]


@pytest.mark.parametrize(
    ("written", "errors", "is_begun"),
    [([], [], False), (["a.yaml"], [], True), ([], ["cannot"], True), (["a.yaml"], ["cannot"], True)],
)
def test_lines_begin_on_a_line_of_their_own_and_errors_are_red(summary, written, errors, is_begun):
    terminal = summary(written=written, errors=errors)

    assert bool(terminal.newlines) is is_begun
    assert terminal.colours == {f"fx: wrote {path}": "" for path in written} | {f"fx: {each}": "red" for each in errors}


@pytest.mark.parametrize(("report", "beginning"), [("a.md", "## Graphs"), ("a.html", "<!"), ("a.json", "{")])
def test_the_name_of_a_report_decides_about_its_form(config, collected, report, beginning):
    config.options.update(fx_report=[report], fx_unused="ignore")

    end(config, collected)

    assert (config.rootpath / report).read_text(encoding="utf-8").lower().startswith(beginning.lower())


@pytest.mark.parametrize("has_paths", [False, True])
@pytest.mark.parametrize("reports", [[], ["report.json"]])
def test_a_run_with_paths_says_so_and_reports_all_goldens(config, collected, has_paths, reports):
    if has_paths:
        config.args_source = pytest.Config.ArgsSource.ARGS
    config.options["fx_report"] = reports

    record = run_record(config, collected, [ASKED], 0)

    assert record.had_path_arguments is has_paths
    assert (OF_A_FILE_NOT_RUN in record.others) is bool(reports)
    assert UNUSED in record.others


@pytest.mark.parametrize("is_ours", [False, True])
def test_test_files_that_are_gone_are_those_of_goldens_below_rootdir(config, collected, tmp_path, is_ours):
    (tmp_path / "test_b.py").unlink()
    if not is_ours:
        config.rootpath = tmp_path / "project"
        config.rootpath.mkdir()
        (config.rootpath / "test_a.py").touch()
        config.options["fx_golden_dir"] = "../golden"

    assert run_record(config, collected, (), 0).gone == (("test_b.py",) if is_ours else ())


@pytest.mark.parametrize("lacking", [[], ["test_a.py::test_x"]])
def test_goldens_are_kept_where_only_tests_that_lack_theirs_stand_in_the_way(config, lacking):
    record = CollectionRecord(config)
    record.add(
        {"found": {"test_a.py": ("", "test_x")}, "ended": {"test_a.py": ("",)}, "failed": {"test_a.py": ("test_x",)}}
    )

    assert bool(run_record(config, record, [], 1, lacking).others) is bool(lacking)


def test_a_golden_in_no_folder_of_a_test_file_is_nobody_s(config, collected):
    (config.rootpath / "golden/top.yaml").write_text("format: 2\nnodes: []\n", encoding="utf-8")
    config.options["fx_report"] = ["report.json"]

    assert {*run_record(config, collected, [ASKED], 0).others} == {UNUSED, OF_A_FILE_NOT_RUN}
