"""The end of a run: it judges and prunes unused goldens, and writes reports and the summary."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pytest_fxgraph import settings
from pytest_fxgraph.errors import GateError, ReportError
from pytest_fxgraph.gate.collection import CollectionRecord
from pytest_fxgraph.gate.commands import decide, run_again
from pytest_fxgraph.gate.paths import golden_layout, golden_store, shown, started_in, within_folder
from pytest_fxgraph.gate.session import GoldenSession
from pytest_fxgraph.goldens.files import base_path, begins_like_a_golden, is_received
from pytest_fxgraph.goldens.renamed import RenamedGoldens, UnusedGolden, may_belong
from pytest_fxgraph.goldens.store import GoldenStore, write_whole
from pytest_fxgraph.goldens.unused import judged_files, unused_goldens
from pytest_fxgraph.report.json_report import RunReport, json_text
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import counted, first_lines, printable_line
from pytest_fxgraph.report.run_record import RunRecord

_MOST_CLUSTERS = 5
_MOST_WRITTEN = 20  # files that are named one by one; -v names all
_BROKEN_OFF = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)


class RunEnd:
    """Closes a run. Lives in the main process alone, under pytest-xdist the controller."""

    def __init__(self, goldens: GoldenSession, collected: CollectionRecord | None) -> None:
        self._goldens = goldens
        self._collected = collected  # None if no option asks for unused goldens
        self._config = goldens.config
        self._sections: list[str] = []  # texts of hooks
        self._unused: list[str] = []
        self._removed: list[str] = []
        self._renamed: list[str] = []  # sentences on renamed tests
        self._reports: list[str] = []  # where they are
        self._annotations: list[str] = []  # commands for GitHub
        self._errors: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        """Judge, prune and report. A run fails if one of these steps fails."""
        goldens, lacking, record = self._goldens, self._goldens.lacking(), None
        have_all_passed = goldens.gather(has_passed=exitstatus == pytest.ExitCode.OK)
        if self._collected is not None and goldens.is_writer:
            record = run_record(self._config, self._collected, goldens.asked(), exitstatus, lacking)
            # A test that failed on another rank alone may have goldens there that it did not ask for.
            record = record if have_all_passed else replace(record, finished=False)
        goldens.finish(record)
        self._sections = self._sections_of_hooks()
        if record is not None:
            self._unused = unused_goldens([record]) if record.finished else []
            if record.finished and goldens.new():
                self._follow_renamed(record, lacking)
            if self._config.getoption("fx_prune_golden"):
                self._prune()
            if self._config.getoption("fx_report"):
                self._write_reports(record)
        if self._unused and self._unused_setting() == "fail":
            count = counted(len(self._unused), "golden")
            self._errors.append(f"the run fails, as no test asked for {count} ({settings.UNUSED_GOLDENS.option}=fail)")
        if session.exitstatus == pytest.ExitCode.OK and (self._errors or goldens.errors):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the texts of hooks, unused goldens, the paths of reports and the results of the goldens."""
        lines = [line for section in self._sections for line in section.split("\n")]
        if self._config.getoption("fx_prune_golden") or self._unused_setting() != "ignore":
            lines += [f"fx: {line}" for line in self._unused_lines()]
        lines += [f"fx: {line}" for line in self._reports]
        _tell(lines, self._errors, terminalreporter)
        goldens = self._goldens
        written = [*goldens.written, *goldens.written_inline]
        lines = [*self._written_lines(written, "golden"), *self._written_lines(goldens.written_received, "")]
        clusters = self._cluster_lines()
        lines += [*self._renamed, *clusters, *self._next_lines(has_told_clusters=bool(clusters))]
        if self._config.getoption("fx_received"):
            lines += first_lines(self._inline_lines(), _MOST_CLUSTERS, "and {} more tests with inline goldens")
        _tell([f"fx: {line}" for line in lines], goldens.errors, terminalreporter)
        _tell([f"fx table: {line}" for line in goldens.told_rows], [], terminalreporter)
        if goldens.results:
            _tell([f"fx: {self._summary()}"], [], terminalreporter, **self._colour())
        for command in self._annotations:
            terminalreporter.write_line(command)  # as it is: GitHub obeys it

    def _summary(self) -> str:
        return self._goldens.summary(0 if self._unused_setting() == "ignore" else len(self._told_unused()))

    def _colour(self) -> dict[str, bool]:
        """Return the markup of the summary: the colour of its worst result."""
        results = set(self._goldens.results.values())
        if results <= {"matched"}:
            return {"green": True}
        return {"yellow" if results <= {"matched", "written"} else "red": True}

    def _written_lines(self, paths: Sequence[str], what: str) -> list[str]:
        """Name the files that were written, or count them if they are many and nobody asked for their names."""
        if len(paths) <= _MOST_WRITTEN or self._config.get_verbosity() > 0:
            return [f"wrote {path}" for path in paths]
        return [f"wrote {len(paths)} {f'{what}s' if what else 'received files'}; -v names them"]

    def _next_lines(self, *, has_told_clusters: bool) -> list[str]:
        """Return the next step: the step that most open goldens need."""
        goldens = self._goldens
        if goldens.written_received:
            accept, review = (decide(self._config, verb) for verb in ("accept", "review"))
            return [f"list them with `{accept}`, look at each and decide with `{review}`"]
        failed = [outcome for outcome in goldens.outcomes if outcome.status not in ("matched", "updated")]
        commands = {outcome.command for outcome in failed if outcome.command}
        if len(commands) == 1:
            right = "the new graph is" if all(outcome.is_alone for outcome in failed) else "all graphs of the test are"
            return [f"next, if {right} right: {commands.pop()}"]
        if commands and {outcome.status for outcome in failed} == {"missing"}:
            command = run_again(self._config, "--fx-update-golden", "--fx-update-only", "new")
            return [f"next, write what is missing: {command}"]
        if has_told_clusters or not commands:
            return []
        if all(outcome.inline is not None for outcome in failed if outcome.command):  # nothing is received to review
            return [f"next, if all graphs are right: {run_again(self._config, '--fx-update-golden')}"]
        return [f"next, look at each and decide: {decide(self._config, 'review')}"]

    def _inline_lines(self) -> list[str]:
        """Return the command of each test with an inline golden that differs, because nothing is received for it."""
        inline = [outcome for outcome in self._goldens.outcomes if outcome.inline is not None and outcome.command]
        commands = dict.fromkeys(outcome.command for outcome in inline)
        return [
            f"nothing is received for inline goldens; accept all goldens of the test with: {each}" for each in commands
        ]

    def _unused_setting(self) -> str:
        return str(settings.value_of_config(settings.UNUSED_GOLDENS, self._config))

    def _sections_of_hooks(self) -> list[str]:
        if not self._goldens.outcomes:
            return []
        hook = self._config.hook.pytest_fxgraph_report_section
        return [str(text).rstrip() for text in hook(outcomes=tuple(self._goldens.outcomes)) if text]

    def _prune(self) -> None:
        layout = golden_layout(self._config)
        for golden in self._unused:
            path = within_folder(golden, self._config)
            folder = layout.top_folder(path)
            try:
                # Begin at the golden folder: empty folders below it go, too. Folders above it are the user's.
                GoldenStore(layout.root / folder).remove(path.relative_to(folder))
                self._removed.append(golden)
            except (GateError, OSError) as error:
                self._errors.append(str(error))
        self._unused = [golden for golden in self._unused if golden not in self._removed]

    def _follow_renamed(self, record: RunRecord, lacking: set[str]) -> None:
        """Name the unused goldens with the graphs of missing goldens; copy them where the run has written new ones.

        A test without its golden fails early, before it reaches its other goldens. Those are named after the test, so
        that they can be told from goldens that no test uses. Nothing is written or removed for this reason alone.
        """
        layout = golden_layout(self._config)
        certain = [within_folder(golden, self._config) for golden in self._unused]
        likely = unused_goldens([_with_ended(record, lacking)])
        unused = [
            golden
            for golden in (within_folder(golden, self._config) for golden in likely)
            if not any(may_belong(golden, nodeid) for nodeid in lacking)
        ]
        to_copy, to_name = RenamedGoldens(layout, certain), RenamedGoldens(layout, unused)
        for outcome in self._goldens.new():
            golden = within_folder(outcome.golden, self._config)
            is_written = outcome.golden in self._goldens.written
            source = (to_copy if is_written else to_name).source_of(golden, outcome)
            if source is not None and is_written:
                self._copy(source, golden)
            elif source is not None and outcome.status == "missing":
                old = shown(source.base, self._config)
                self._renamed.append(
                    f"{outcome.golden} is missing, and {old}, for which no test asks, holds this very graph: if the "
                    "test was renamed, --fx-update-golden copies it, and --fx-prune-golden then removes the old one"
                )

    def _copy(self, source: UnusedGolden, golden: PurePosixPath) -> None:
        store = golden_store(self._config)
        try:
            for old, new in source.copies(golden):
                store.copy(old, new)
                self._renamed.append(f"{shown(new, self._config)} is a copy of {shown(old, self._config)}")
        except (GateError, OSError) as error:
            self._errors.append(str(error))

    def _cluster_lines(self) -> list[str]:
        """Tell a cause that many goldens have in common, once."""
        goldens: dict[str, dict[str, Outcome]] = {}
        for outcome in self._goldens.outcomes:
            if outcome.cluster:
                goldens.setdefault(outcome.cluster, {}).setdefault(outcome.golden, outcome)
        shared = sorted((each for each in goldens.items() if len(each[1]) > 1), key=lambda each: -len(each[1]))
        told = [
            f"{len(outcomes)} goldens differ in the same way (cluster {key}): {next(iter(outcomes.values())).headline}"
            for key, outcomes in shared
        ]
        lines = first_lines(told, _MOST_CLUSTERS, "and {} more clusters")
        for key, outcomes in shared:
            in_files = [each for each in outcomes.values() if each.inline is None]
            if in_files:
                command = decide(self._config, "accept", "--cluster", key)
                lines.append(f"accept the {counted(len(in_files), 'golden file')} of cluster {key} with: {command}")
                break
        return lines

    def _write_reports(self, record: RunRecord) -> None:
        from pytest_fxgraph.gate import build_service  # here: most runs write no report
        from pytest_fxgraph.gate.environment import environment_of_run

        goldens, paths = self._goldens, self._config.getoption("fx_report")
        sections = tuple(self._sections)
        report = RunReport(self._summary(), record, goldens.outcomes, self._unused, sections, goldens.failures)
        accept = decide(self._config, "accept", "--cluster")
        environment = environment_of_run(self._config.rootpath)
        report = replace(report, strips=goldens.strips(), environment=environment, accept=accept)
        for path in paths:
            self._write_report(report, path)
        if build_service.on_github():
            self._annotations = build_service.annotation_lines(report, goldens.places, self._config)
            try:
                is_wanted = any(path.endswith(".md") for path in paths)
                if is_wanted and build_service.append_job_summary(report) is not None:
                    self._reports.append("added the report to the job summary")
            except ReportError as error:
                self._errors.append(str(error))

    def _write_report(self, report: RunReport, path: str) -> None:
        try:
            text = self._report_text(report, path)
            write_whole(Path(self._config.invocation_params.dir, path), text, "report", shown_as=path)
            self._reports.append(f"wrote the report {path}")
        except ReportError as error:
            self._errors.append(str(error))

    def _report_text(self, report: RunReport, path: str) -> str:
        from pytest_fxgraph.gate import build_service

        if path.endswith(build_service.CODE_QUALITY):
            return build_service.code_quality(report, self._goldens.places, self._config)
        if path.endswith(".json"):
            return json_text(report)
        if path.endswith(".md"):
            from pytest_fxgraph.draw.run_markdown import run_markdown  # here: pictures are read from YAML

            return run_markdown(report)
        from pytest_fxgraph.draw.run_page import run_page

        return run_page(report, Path(started_in(self._config)))

    def _told_unused(self) -> list[str]:
        # A received file of a test that is gone disturbs nobody: git ignores it, and prune removes it.
        return [golden for golden in self._unused if not is_received(PurePosixPath(golden))]

    def _unused_lines(self) -> list[str]:
        lines = [f"removed {golden}" for golden in self._removed]
        unused = self._told_unused()
        if unused:
            count = counted(len(unused), "golden")
            lines.append(f"no test asked for {count}; if they are not needed, add --fx-prune-golden to this command")
            lines += [f"unused {golden}" for golden in unused]
        return lines


def _tell(lines: list[str], errors: list[str], terminalreporter: Any, **markup: bool) -> None:
    if lines or errors:
        terminalreporter.ensure_newline()
    for line in lines:
        terminalreporter.write_line(printable_line(line), **markup)
    for error in errors:
        terminalreporter.write_line(printable_line(f"fx: {error}"), red=True)


def run_record(
    config: pytest.Config,
    collected: CollectionRecord,
    asked: Collection[str],
    exitstatus: int | pytest.ExitCode,
    lacking: Collection[str] = (),
) -> RunRecord:
    """Record the tests of the run, and the goldens on disk that the run did not ask for.

    Goldens that this run cannot judge are kept for the report, because reports of several runs are merged. They are
    also kept if only the tests `lacking` their goldens stand in the way.
    """
    has_path_arguments = config.args_source is pytest.Config.ArgsSource.ARGS
    # A run with paths judges the files that it collected. A report is judged together with other reports.
    is_narrow = has_path_arguments and not config.getoption("fx_report")
    others = _other_goldens(config, asked, collected.found if is_narrow else None)
    # Other projects may keep goldens in a folder outside of this one, and their test files are not here.
    root = golden_layout(config).root
    is_ours = root.resolve().is_relative_to(config.rootpath.resolve())
    files = set(others.values()) if is_ours else set()
    parts = collected.to_dict()
    ran = exitstatus not in _BROKEN_OFF and not config.getoption("collectonly", False)
    record = RunRecord(
        had_path_arguments=has_path_arguments,
        finished=ran and not config.getoption("setuponly", False),
        found=parts["found"],
        ended=parts["ended"],
        failed=parts["failed"],
        asked=tuple(sorted(asked)),
        gone=tuple(sorted(file for file in files if not Path(config.rootpath, file).exists())),
    )
    if not config.getoption("fx_report"):
        judged = judged_files([record]) | judged_files([_with_ended(record, lacking)])
        others = {golden: file for golden, file in others.items() if file in judged}
    ours = {golden: file for golden, file in others.items() if begins_like_a_golden(root / golden)}
    return replace(record, others={shown(golden, config): file for golden, file in ours.items()})


def _with_ended(record: RunRecord, nodeids: Collection[str]) -> RunRecord:
    """Return a record with some failed tests as tests that ran to their end."""
    ended, failed = dict(record.ended), dict(record.failed)
    for nodeid in nodeids:
        file, _, inside = nodeid.partition("::")
        ended[file] = (*ended.get(file, ()), inside)
        failed[file] = tuple(each for each in failed.get(file, ()) if each != inside)
    return replace(record, ended=ended, failed=failed)


def _other_goldens(
    config: pytest.Config, asked: Collection[str], test_files: Collection[str] | None
) -> dict[PurePosixPath, str]:
    """Map each file that is named like a golden, and that no test asked for, to the test file of its name.

    `test_files` limits the search to the goldens of these files; None searches all.
    """
    layout = golden_layout(config)
    bases = {base_path(within_folder(golden, config)) for golden in asked}
    folded = {str(base).casefold(): base for base in bases}
    files: dict[PurePosixPath, str | None] = {}  # by folder, because there are few folders
    others: dict[PurePosixPath, str] = {}
    for golden in layout.goldens(test_files):
        if golden.parent not in files:
            files[golden.parent] = layout.file_tested_by(golden)
        file, base = files[golden.parent], base_path(golden)
        if file is None or base in bases:
            continue
        # Where case does not count, a file may have kept the first name of its test.
        alike = folded.get(str(base).casefold())
        if alike is None or not _is_one_file(layout.root / base, layout.root / alike):
            others[golden] = file
    return others


def _is_one_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
