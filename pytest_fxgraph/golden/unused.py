"""Goldens that no test asked for: found, told and, if asked, removed once the run is over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxgraph.golden.collection import CollectionRecord
from pytest_fxgraph.golden.files import begins_like_a_golden, file_tested_by, goldens_below
from pytest_fxgraph.golden.files import is_received
from pytest_fxgraph.golden.files import base_path
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.golden.paths import golden_root, shown, within_folder
from pytest_fxgraph.report.run_record import RunRecord
from pytest_fxgraph.golden.judgement import judged_files, unused_goldens

_BROKEN_OFF = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)


def run_record(
    config: pytest.Config, census: CollectionRecord, asked: Collection[str], exitstatus: int | pytest.ExitCode
) -> RunRecord:
    """Write down what the run saw, together with the goldens on disk that it did not ask for.

    Those that cannot be judged are of interest to reports alone, which are merged with others.
    """
    others = _other_goldens(config, asked)
    # Other projects may keep goldens in a folder outside of this one, and their test files are not here.
    is_ours = golden_root(config).resolve().is_relative_to(config.rootpath.resolve())
    files = set(others.values()) if is_ours else set()
    ran = exitstatus not in _BROKEN_OFF and not config.getoption("collectonly", False)
    record = RunRecord(
        had_path_arguments=config.args_source is pytest.Config.ArgsSource.ARGS,
        finished=ran and not config.getoption("setuponly", False),
        found=_sorted(census.found),
        ended=_sorted(census.ended),
        failed=_sorted(census.failed),
        asked=tuple(sorted(asked)),
        gone=tuple(sorted(file for file in files if not Path(config.rootpath, file).exists())),
    )
    if not config.getoption("fx_report"):
        judged = judged_files([record])
        others = {golden: file for golden, file in others.items() if file in judged}
    root = golden_root(config)
    ours = {golden: file for golden, file in others.items() if begins_like_a_golden(root / golden)}
    return replace(record, others={shown(golden, config): file for golden, file in ours.items()})


def _other_goldens(config: pytest.Config, asked: Collection[str]) -> dict[PurePosixPath, str]:
    """Map what is named like a golden and was not asked for to the test file that it is named for."""
    used = _FilesInUse(asked, config)
    files: dict[PurePosixPath, str | None] = {}  # by folder, of which there are few
    others: dict[PurePosixPath, str] = {}
    for golden in goldens_below(golden_root(config)):
        if golden.parent not in files:
            files[golden.parent] = file_tested_by(golden, config.rootpath)
        file = files[golden.parent]
        if file is not None and golden not in used:
            others[golden] = file
    return others


class _FilesInUse:
    """The goldens that were asked for, and with each its variants and what was received for it."""

    def __init__(self, asked: Collection[str], config: pytest.Config) -> None:
        self._root = golden_root(config)
        self._bases = {base_path(within_folder(golden, config)) for golden in asked}
        self._folded = {str(base).casefold(): base for base in self._bases}

    def __contains__(self, golden: PurePosixPath) -> bool:
        base = base_path(golden)
        if base in self._bases:
            return True
        # Where case does not count, a file may have kept the name under which its test was born.
        alike = self._folded.get(str(base).casefold())
        return alike is not None and _is_one_file(self._root / base, self._root / alike)


def _is_one_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


class GoldenUsage:
    """What came out about unused goldens, as the summary tells it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.unused: list[str] = []
        self.removed: list[str] = []
        self.errors: list[str] = []

    def judge(self, record: RunRecord) -> None:
        """Find the unused goldens of this run alone; a run that was broken off has none."""
        self.unused = unused_goldens([record]) if record.finished else []

    def prune(self) -> None:
        """Remove them."""
        from pytest_fxgraph.golden.store import GoldenStore  # here, as it imports yaml

        store = GoldenStore(golden_root(self._config))
        for golden in self.unused:
            try:
                store.remove(within_folder(golden, self._config))
                self.removed.append(golden)
            except (GateError, OSError) as error:
                self.errors.append(str(error))
        self.unused = [golden for golden in self.unused if golden not in self.removed]

    def lines(self) -> list[str]:
        """Tell what was removed, or what could be."""
        lines = [f"removed {golden}" for golden in self.removed]
        # What was received for a test that is gone is in nobody's way: git ignores it, and prune takes it along.
        unused = [golden for golden in self.unused if not is_received(PurePosixPath(golden))]
        if unused:
            count = f"{len(unused)} golden{'s' if len(unused) > 1 else ''}"
            lines.append(f"no test asked for {count}; if they are not needed, add --fx-prune-golden to this command")
            lines += [f"unused {golden}" for golden in unused]
        return lines


def _sorted(part: dict[str, set[str]]) -> dict[str, tuple[str, ...]]:
    return {file: tuple(sorted(part[file])) for file in sorted(part)}
