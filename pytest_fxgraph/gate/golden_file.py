"""Golden files as places of the pipeline: the files of a test, and the files that scripts name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath

import pytest
import torch

from fxcore.graph import gc_paused
from pytest_fxgraph.captures.subjects import programs_of
from pytest_fxgraph.errors import GoldenError, GoldenNameError, GoldenWriteError
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.collection import has_case_collision
from pytest_fxgraph.gate.commands import accepting_command
from pytest_fxgraph.gate.comparison import Place, TestPlace, compare, vanished_lines
from pytest_fxgraph.gate.launched_rank import LAUNCHED_RANK
from pytest_fxgraph.gate.obtained import GoldenOptions, Hooks, ObtainedGraph, options_in_test, runs_examples
from pytest_fxgraph.gate.paths import (
    golden_layout,
    golden_store,
    shown,
    shown_test_file,
    started_in,
    within_folder,
)
from pytest_fxgraph.goldens import files
from pytest_fxgraph.goldens.layout import nearest_with, walk_project
from pytest_fxgraph.goldens.program_set import joined_error, vanished_programs
from pytest_fxgraph.goldens.renamed import graph_digest, may_belong
from pytest_fxgraph.goldens.store import GoldenStore, rank_variants
from pytest_fxgraph.report.outcome import Outcome, Told
from pytest_fxgraph.report.printable import printable_line
from pytest_fxgraph.settings import is_worker, wants_update

_MOST_FOLDERS = 20_000

# Paths of files with a golden's name, by the names of folder and file.
_Index = dict[tuple[str, str], list[Path]]
_INDEX = pytest.StashKey[_Index]()


class GoldenFiles:
    """Compares the subjects of one attempt of a test with the golden files of the test."""

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt) -> None:
        self._item = item
        self._attempt = attempt
        self._store = golden_store(item.config)

    def compare(self, subject: object, options: GoldenOptions) -> Exception | None:
        """Compare and keep the outcome; return the error to raise, None where the test may go on.

        Raises SubjectError, CaptureError or DocumentError for a subject that cannot be written down, and
        GoldenNameError for a name that no golden may have.
        """
        self._attempt.compared("fx_golden")
        if options.get("name") is None:
            self._attempt.unnamed += 1
        hooks = Hooks.of_test(self._item)
        programs = programs_of(subject)
        if programs is None or (hooks.adapt is not None and hooks.adapt(subject) is not None):
            return self._compare(subject, options, hooks)
        errors = [self._compare(program, options, hooks, name) for name, program in programs.items()]
        if not wants_update(self._item.config, "changed"):
            gone = vanished_programs(self._store, lambda program: self._base(options.get("name"), program), programs)
            errors += [self._vanished(program, place, options, programs) for program, place in gone.items()]
        return joined_error(errors)

    def _compare(
        self, subject: object, options: GoldenOptions, hooks: Hooks, program: str | None = None
    ) -> Exception | None:
        base = self._base(options.get("name"), program)
        options, terms = options_in_test(options, self._item)
        # The garbage collector would go through the documents once, for a fortieth of the time. A model that runs on
        # examples leaves garbage of its own, so that the collector has to run then.
        with nullcontext() if runs_examples(options) else gc_paused():
            obtained = ObtainedGraph(subject, options, terms, hooks, program)
            place = TestFile(self._item, self._attempt, self._serving(base), obtained)
            outcome = Outcome(str(self._item.nodeid), place.shown, terms.level, "matched", terms=terms.to_dict())
            try:
                return compare(place, obtained, outcome)
            finally:
                obtained.free()

    def _vanished(
        self, program: str, place: PurePosixPath, options: GoldenOptions, programs: Iterable[str]
    ) -> Exception:
        golden = shown(place, self._item.config)
        command = f"{accepting_command(self._item)} --fx-prune-golden"
        lines = vanished_lines(program, golden, programs, f"remove its golden: {command}")
        level = options_in_test(options, self._item)[1].level
        outcome = Outcome(str(self._item.nodeid), golden, level, "mismatch", command=command)
        self._attempt.outcomes.append(replace(outcome, **Told(lines[0], lines)._asdict()))
        return AssertionError("\n".join(lines))

    def _base(self, name: str | None, program: str | None) -> PurePosixPath:
        """Return the path of the golden for every version of torch."""
        item = self._item
        callspec = getattr(item, "callspec", None)
        return files.golden_path(
            shown_test_file(item.path, item.config.rootpath),
            [node.name for node in item.listchain() if isinstance(node, pytest.Class)],
            getattr(item, "originalname", None) or item.name,
            None if callspec is None else callspec.id,
            name,
            position=self._attempt.unnamed,
            program=program,
            has_case_collision=has_case_collision(item),
            is_beside=golden_layout(item.config).is_beside,
        )

    def _serving(self, base: PurePosixPath) -> PurePosixPath:
        """Return the variant for the torch, the platform and the rank that run, where there is one, else the base."""
        place = self._serving_all_ranks(base)
        launched = self._item.config.stash.get(LAUNCHED_RANK, None)
        if launched is None:
            return place
        served = rank_variants(self._store, place)
        # An accepted file of one rank stands beside the variant that the rank shared with others before.
        own = [(len(ranks), variant) for variant, ranks in served.items() if launched.rank in ranks]
        return min(own)[1] if own else place

    def _serving_all_ranks(self, base: PurePosixPath) -> PurePosixPath:
        texts = self._attempt.texts  # empty, unless the run updates goldens
        with suppress(GoldenNameError):  # a place outside the folder is refused where it is read
            for place in files.variant_paths(base, str(torch.__version__), has_cuda=torch.cuda.is_available())[:-1]:
                if (texts and shown(place, self._item.config) in texts) or self._store.exists(place):
                    return place
        return base


class TestFile(TestPlace):
    """A golden file of a test."""

    has_variants = True

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt, path: PurePosixPath, obtained: ObtainedGraph) -> None:
        super().__init__(shown(path, item.config), item, attempt)
        self._store, self._path, self._obtained = golden_store(item.config), path, obtained
        if obtained.terms.level == "exact":
            self._keep_traced_names()

    @property
    def is_alone(self) -> bool:  # type: ignore[override]  # the base class has a fixed answer
        """Whether the test has no other golden: it compared none before, and no file has the name of one."""
        folder, own = self._path.parent, files.base_path(self._path)
        beginning = own.name.removesuffix(files.SUFFIX).split(".")[0]
        try:
            names = os.listdir(self._store.root / folder)
        except OSError:  # no golden is there yet
            names = []
        others = {files.base_path(folder / name) for name in names if name.startswith(beginning)} - {own}
        return super().is_alone and not any(may_belong(each, str(self._item.nodeid)) for each in others)

    def read(self) -> str:
        """Return the text that this test is about to write, else the text of the file."""
        scheduled = self.attempt.texts.get(self.shown)
        return self._store.read(self._path) if scheduled is None else scheduled

    def may_write(self, update: str) -> bool:
        """Return whether the run updates goldens like this one.

        Raises GoldenWriteError if the test has compared another graph with the golden: one of the two would be lost.
        """
        if not super().may_write(update):
            return False
        others = [document for *key, document in self.attempt.matched if key == [self.shown, self._obtained.terms]]
        if self._written in self.attempt.texts or any(map(self._obtained.differs_from, others)):
            advice = "give one of the two a name of its own: fx_golden(name=...)"
            raise GoldenWriteError(f"cannot write {self._written}: this test compares two graphs with it; {advice}")
        return True

    def schedule(self, outcome: Outcome) -> Outcome:
        """Have the text written to this file, or to the variant if the run updates variants."""
        written = self._written
        self.attempt.texts[written] = outcome.new_text or ""
        self.attempt.traced_texts[written] = self._obtained.traced_text
        if written == self.shown:
            return outcome
        return self._with_digest_of_file(replace(outcome, golden=written))

    def keep_match(self, outcome: Outcome, text: str) -> None:
        """Keep the outcome. A worker adds the digest of the golden, for the controller's copy may be another one."""
        if super().may_write("changed"):  # a later graph may want to write the golden
            self.attempt.matched.append((self.shown, self._obtained.terms, self._obtained.document))
        super().keep_match(self.with_digest(outcome, text) if is_worker(self._item.config) else outcome, text)

    def missing_lines(self, command: str, reason: str) -> tuple[str, ...]:
        """Describe the missing golden, and a golden of the test that lies elsewhere."""
        return (
            f"there is no golden {printable_line(self.shown)}",
            *goldens_elsewhere(self._item, self._path),
            f"look at the graph below, then write the goldens of this test: {command}",
        )

    def with_digest(self, outcome: Outcome, text: str | None) -> Outcome:
        """Note the digest of the golden's text in the outcome."""
        if text is None:
            return self._with_digest_of_file(outcome)
        return replace(outcome, expected_digest=files.golden_digest(text.encode("utf-8", "surrogatepass")))

    def with_graph(self, outcome: Outcome, text: str) -> Outcome:
        """Note the graph of a missing golden, and the variant that another torch version would write."""
        variant = files.variant_suffix(str(torch.__version__))
        return replace(outcome, graph_digest=graph_digest(text, outcome.level), variant=variant)

    def with_received(self, outcome: Outcome, text: Callable[[], str]) -> Outcome:
        """Note the text that an update would write, under --fx-received."""
        if not self._item.config.getoption("fx_received"):
            return outcome
        self.attempt.traced_texts[outcome.golden] = self._obtained.traced_text
        return replace(outcome, received=text())

    @property
    def _written(self) -> str:
        """The file that an update writes."""
        config = self._item.config
        if not config.getoption("fx_update_variant"):
            return self.shown
        return shown(files.variant_path(files.base_path(self._path), str(torch.__version__)), config)

    def _with_digest_of_file(self, outcome: Outcome) -> Outcome:
        with suppress(GoldenError):  # no file, or a file that nobody can replace
            digest = self._store.digest(within_folder(outcome.golden, self._item.config))
            return replace(outcome, expected_digest=digest)
        return outcome

    def _keep_traced_names(self) -> None:
        """Give a golden its traced names, for a test that compares one graph at level `exact` and another level."""
        attempt, golden, text = self.attempt, self.shown, self._obtained.traced_text
        if attempt.traced_texts.get(golden) != text:
            return
        if golden in attempt.texts:
            attempt.texts[golden] = text
        for place, outcome in enumerate(attempt.outcomes):
            if outcome.golden == golden and outcome.new_text is not None:
                attempt.outcomes[place] = replace(outcome, new_text=text)
            elif outcome.golden == golden and outcome.received is not None:
                attempt.outcomes[place] = replace(outcome, received=text)


class ScriptFile(Place):
    """A golden file at a path that a script names. The script writes it at once, therefore nobody runs a command."""

    tells_all = True

    def __init__(self, path: Path, attempt: GoldenAttempt, *, is_update: bool, remedy: str) -> None:
        super().__init__(str(path), attempt)
        self._path, self._is_update, self._remedy = path, is_update, remedy

    def read(self) -> str:
        """Return the text of the file."""
        return GoldenStore(self._path.parent).read(self._path.name)

    def may_write(self, update: str) -> bool:
        """Return whether the call updates goldens."""
        return self._is_update

    def schedule(self, outcome: Outcome) -> Outcome:
        """Have the text written once all goldens of the call are compared."""
        self.attempt.texts[self.shown] = outcome.new_text or ""
        return outcome

    def in_own_words(self, error: GoldenError) -> GoldenError:
        """Return the error with the call's own way to update in place of pytest's option."""
        return type(error)(str(error).replace("pytest --fx-update-golden", "update=True"))

    def way_to_accept(self) -> tuple[str, str]:
        """Return the advice to update, as there is no command."""
        return "", self._remedy

    def missing_lines(self, command: str, reason: str) -> tuple[str, ...]:
        """Describe the missing golden."""
        return (f"there is no golden {printable_line(self.shown)}; {reason}",)


# Where else a missing golden may lie: another rootdir, or another folder, is a common reason. The whole repository is
# looked through, once a run, and only if a golden is missing.


def goldens_elsewhere(item: pytest.Item, golden: PurePosixPath) -> Iterator[str]:
    """Yield a line that names a golden of this test in another place, if there is one; `golden` is the missing one."""
    config = item.config
    top = nearest_with(config.rootpath, ".git", ".hg", ".svn") or config.rootpath
    if _INDEX not in config.stash:
        config.stash[_INDEX] = _index(top)
    missing = golden_layout(config).root / golden
    for path in config.stash[_INDEX].get(_key(missing), ()):
        if path != missing and _is_of_test(path, item.path, top) and files.begins_like_a_golden(path):
            place = os.path.relpath(path, started_in(config)).replace(os.sep, "/")
            yield f"  but there is {printable_line(place)}; is the rootdir right, {config.rootpath}?"
            return


def _index(top: Path) -> _Index:
    index: _Index = {}
    for folder, _, names in islice(walk_project(top), _MOST_FOLDERS):
        for name in names:
            if name.endswith(files.SUFFIX) and not files.is_received(PurePosixPath(name)):
                path = Path(folder, name)
                index.setdefault(_key(path), []).append(path)
    return index


def _key(path: Path) -> tuple[str, str]:
    # The digest in a name depends on where rootdir is.
    return path.parent.name, path.name.removesuffix(files.SUFFIX).partition("~")[0]


def _is_of_test(golden: Path, test: Path, top: Path) -> bool:
    """Tell whether a golden can be one of a test file, for some rootdir and some golden folder, and not of another's.

    Its folder is the path of its test file, if one leaves the golden folder out, wherever in it that may be.
    """
    parts = golden.relative_to(top).parent.parts
    own = Path(os.path.relpath(test.with_suffix("") if test.suffix == ".py" else test, top)).parts
    places = [(start, end) for start in range(len(parts)) for end in range(start + 1, len(parts))]
    tested = {parts[:start] + parts[end:] for start, end in places}
    if own in tested:
        return True
    # Another test file uses a golden of the same name: the golden is not this test's.
    return not any(Path(top, *each[:-1], each[-1] + ".py").exists() for each in tested)
