"""Several runs of one commit, compared: the graphs that differ, and the setting that makes them differ."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.child_run import record_in_child
from pytest_fxgraph.replay.comparison import Replay, compare_recordings
from pytest_fxgraph.report.printable import counted, first_lines, listed
from pytest_fxgraph.report.text import headline

SETTINGS = ("hash seed", "threads", "test order", "folder order", "temporary folder", "variables")
UNSET = "the time, an address, a random number or a file of an earlier run: it differs under equal settings"
TOGETHER = "several settings together, or chance"
_MOST_PLACES, _MOST_EDITS = 5, 3
_PLUGIN = ("-p", "pytest_fxgraph.replay.repeated_run")


@dataclass(frozen=True)
class RunSettings:
    """The settings of one run. Settings that do not vary have the values of the first run."""

    number: int  # 0 for the first run
    varied: Collection[str]
    variables: Mapping[str, str]  # that the user varies

    def environment(self, scratch: Path) -> dict[str, str]:
        """Return the environment of the run."""
        temporary = scratch / f"t{self._of('temporary folder')}"
        temporary.mkdir(exist_ok=True)
        orders = [order for order, name in (("tests", "test order"), ("folders", "folder order")) if self._of(name) % 2]
        return {
            **os.environ,
            "PYTHONHASHSEED": str(self._of("hash seed")),
            "OMP_NUM_THREADS": str(self._of("threads") + 1),
            "TMPDIR": str(temporary),
            "FXGRAPH_REVERSED": ",".join(orders),
            **(self.variables if self._of("variables") % 2 else {}),
        }

    def words(self) -> str:
        """Return the settings in words."""
        order = [f"{name} reversed" for name in ("test order", "folder order") if self._of(name) % 2]
        set_here = [f"{name}={value}" for name, value in self.variables.items() if self._of("variables") % 2]
        threads = counted(self._of("threads") + 1, "thread")
        return ", ".join([f"hash seed {self._of('hash seed')}", threads, *order, *set_here])

    def _of(self, name: str) -> int:
        return self.number if name in self.varied else 0


@dataclass
class UnstableGraph:
    """A graph, or a test, that differs between runs."""

    place: str
    words: str  # of its first difference
    run: int  # that differs from run 1
    causes: list[str] = field(default_factory=list)


class Repetition:
    """Runs a suite several times and compares each run with the first one."""

    def __init__(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        folder: Path,
        scratch: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._arguments, self._variables, self._folder, self._scratch = arguments, variables, folder, scratch
        self._tell = tell
        self._settings = [name for name in SETTINGS if variables or name != "variables"]
        self._runs = 0
        self._first: Recording
        self._unstable: dict[tuple[str, int], UnstableGraph] = {}  # by test and place in the test
        self.unknown: list[str] = []

    def run(self, number: int) -> None:
        """Run `number` times. Then find the cause of each difference, by runs that vary one setting.

        Raises RecordingError if a run leaves no whole recording.
        """
        self._first = self._record(RunSettings(0, (), self._variables))
        for place in range(1, number):
            self._compare(RunSettings(place, self._settings, self._variables))
        for varied in ((), *((name,) for name in self._settings)):
            if all(each.causes for each in self._unstable.values()):
                break
            self._tell(f"looking for the cause: {f'other {varied[0]}' if varied else 'the same settings again'}")
            for key in self._compare(RunSettings(1, varied, self._variables)):
                causes = self._unstable[key].causes
                causes += [varied[0] if varied else UNSET] if UNSET not in causes else []
        for each in self._unstable.values():
            each.causes = each.causes or [TOGETHER]

    @property
    def unstable(self) -> list[UnstableGraph]:
        """The graphs that differ between the runs."""
        return [*self._unstable.values()]

    def lines(self) -> Iterator[str]:
        """Yield the answer as text: the graphs of one cause and one edit together."""
        graphs = sum(len(test.graphs) for test in self._first.tests.values())
        tests = sum(1 for test in self._first.tests.values() if test.outcome)
        number = len(self._unstable)
        differ = f"{number:,} differ{'s' * (number == 1)}" if number else "the same in all runs"
        yield f"{self._runs} runs, {counted(tests, 'test')}, {counted(graphs, 'graph')}: {differ}"
        grouped: dict[tuple[str, ...], dict[str, list[str]]] = {}
        for each in self._unstable.values():
            grouped.setdefault(tuple(each.causes), {}).setdefault(each.words, []).append(each.place)
        for causes, edits in grouped.items():
            yield ""
            yield f"depends on: {', '.join(causes)}"
            for words, places in edits.items():
                yield from first_lines([f"  {place}" for place in places], _MOST_PLACES, "  and {} more")
                yield f"    {words}"
        yield from self.unknown

    def _record(self, settings: RunSettings) -> Recording:
        self._runs += 1
        self._tell(f"run {self._runs}: {settings.words()}")
        place = str(self._scratch / f"r{self._runs}")
        environment = settings.environment(self._scratch)
        child = record_in_child(place, [*_PLUGIN, *self._arguments], folder=self._folder, environment=environment)
        if child.problem:
            raise RecordingError(f"cannot tell whether the runs are the same: in run {self._runs}, {child.problem}")
        recording = Recording.read(RecordingStore(place))
        if recording.cut_off:
            raise RecordingError(
                f"cannot tell whether the runs are the same: run {self._runs} was cut off in "
                f"{listed(recording.cut_off, 3)}; its output may name the reason"
            )
        if not any(test.graphs for test in recording.tests.values()):
            raise RecordingError(
                f"cannot tell whether the runs are the same: run {self._runs} made no graph that was kept; "
                "--fx-record-kinds module traces the models of suites that run eagerly"
            )
        return recording

    def _compare(self, settings: RunSettings) -> set[tuple[str, int]]:
        """Compare another run with the first one; return the graphs that differ."""
        replay = compare_recordings(self._first, self._record(settings))
        self.unknown += [
            f"cannot tell about {test}: {before} in run 1, {after} in run {self._runs}"
            for test, before, after in replay.other_outcomes
        ]
        found: set[tuple[str, int]] = set()
        for test, order, shown, words in self._differences(replay):
            found.add((test, order))
            self._unstable.setdefault((test, order), UnstableGraph(shown, words, self._runs))
        return found

    def _differences(self, replay: Replay) -> Iterator[tuple[str, int, str, str]]:
        """Yield test, place in the test, place in words, and difference of each graph that differs."""
        alone = "in run 1 alone", f"in run {self._runs} alone"
        for changed in replay.changed.values():
            edits = [edit.text for edit in changed.difference.edits] or [headline(changed.difference)]
            words = f"run {self._runs}: {listed(edits, _MOST_EDITS, '; ')}"
            yield from ((place.test, place.record.order, str(place), words) for place in changed.places)
        for places, words in zip((replay.vanished, replay.new), alone, strict=True):
            yield from ((place.test, place.record.order, str(place), words) for place in places)
        for fact in replay.facts:
            words = f"run {self._runs}: {fact.name} {fact.before} -> {fact.after}"
            yield fact.place.test, fact.place.record.order, str(fact.place), words
        for tests, words in zip((replay.vanished_tests, replay.new_tests), alone, strict=True):
            yield from ((test, 0, test or "(outside any test)", words) for test in tests)
