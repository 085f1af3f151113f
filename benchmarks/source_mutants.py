"""Change one token of the sources at a time, and see whether the tests notice.

    python -m benchmarks.source_mutants --count 100 --seed 0 --jobs 2 --out mutants.json
    python -m benchmarks.source_mutants --list --package fxcore
    python -m benchmarks.source_mutants --only fxcore/node.py::120:8:compare

A mutant is one small change in a copy of the tree: a comparison, `and` or `or`, a condition, a whole number, a truth
value, `break` or `continue`, the star of an argument. The checkout itself is never changed. Each mutant meets groups of
tests, and the first that fails ends its run: the file that mirrors the source, other files that import the source, the
folder of the mirror, then tests/differential, tests/workflow and tests/trust. With `--reached FILE` the groups are the
tests that reach the changed line, after a run of the suite with pytest-cov:

    python -m pytest --cov=fxcore --cov=pytest_fxgraph --cov-context=test --cov-report=

At most 1,000 of these tests run, chosen by chance. A line that the file does not know meets the usual groups. A group
that exceeds its time limit has noticed the mutant. At the end, the tests that noticed something run without any mutant:
a mutant is DOUBTFUL if its test fails there, too. The exit status is 1 if a mutant survived or is doubtful.

The same seed chooses the same mutants for as long as the sources stay the same. Read every survivor: it is a missing
test, needless code, or a change that no caller can see.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coverage import CoverageData

ROOT = Path(__file__).parent.parent
PACKAGES = ("fxcore", "pytest_fxgraph")
GROUP_LIMIT = 900  # seconds
_SAMPLES = 100, 1000  # tests that reach a line
_MEMORY_LIMIT = 24 << 30  # bytes of address space: a mutant that allocates without end must not take the machine down
_PASSED, _NOTHING_COLLECTED = 0, 5  # exit statuses of pytest
_BROAD = {
    "fxcore": ("tests/differential", "tests/trust", "tests/workflow"),
    "pytest_fxgraph": ("tests/workflow", "tests/trust", "tests/differential"),
}
_SWAPPED = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
_NEGATED_WHEN_SWAPPED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_LARGEST_NUMBER = 100
_STATEMENT_LINES = 10
# These names, decorators and keywords change nothing that a test can see. `zip(strict=True)` finds our own bugs alone.
_UNSEEN_NAMES = ("__all__", "__slots__", "__tracebackhide__")  # the last one hides our frames in a failure's traceback
_UNSEEN_DECORATORS = ("dataclass", "lru_cache")
_UNSEEN_KEYWORDS = (("zip", "strict"), ("field", "repr"))


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the text from `start` to `end` becomes `after`."""

    path: str
    line: int
    column: int
    kind: str
    before: str
    after: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.path}::{self.line}:{self.column}:{self.kind}"

    def applied(self, source: str) -> str:
        """Return the source with the change in it."""
        return source[: self.start] + self.after + source[self.end :]


@dataclass(frozen=True)
class Result:
    """What became of a mutant; `test` is the first that failed, None if it survived, "" where pytest named none."""

    mutant: Mutant
    test: str | None
    group: tuple[str, ...] = ()  # the paths that pytest was given when it noticed
    reason: str = ""
    seconds: float = 0.0
    is_doubtful: bool = False

    @property
    def verdict(self) -> str:
        if self.test is None:
            return "SURVIVED"
        word = "DOUBTFUL" if self.is_doubtful else "noticed"
        return f"{word} by {self.test or ' '.join(self.group)} ({self.reason})"

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.mutant.before, self.mutant.after))
        return f"{self.mutant}  `{before[:60]}` -> `{after[:60]}`  {self.verdict}"


class _Finder(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source
        self._lines = source.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self.mutants: list[Mutant] = []

    # What is left alone.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave words alone."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave the words of errors alone."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave the annotation alone, and see the value."""
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """Leave the annotation alone."""

    def visit_Assign(self, node: ast.Assign) -> None:
        """Leave `__all__`, `__slots__` and `__tracebackhide__` alone."""
        if not any(isinstance(target, ast.Name) and target.id in _UNSEEN_NAMES for target in node.targets):
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Leave the returned type alone, and what only `repr` calls."""
        if node.name != "__repr__":
            self._visit_all([*_seen_decorators(node), node.args, *node.body])

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the name that ast looks for

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Leave the options of dataclasses alone."""
        self._visit_all([*_seen_decorators(node), *node.bases, *node.body])

    # What is changed.

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        """Negate the condition, but never the one of imports for types alone."""
        if "TYPE_CHECKING" not in self._text(node.test):
            self._negate(node.test)
            self.generic_visit(node)

    visit_While = visit_IfExp = visit_If  # noqa: N815

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Negate the conditions."""
        for condition in node.ifs:
            self._negate(condition)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Swap each operator."""
        for before, operator, after in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self._swap_operator("compare", operator, before, after)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Swap each `and` and `or`."""
        for before, after in zip(node.values, node.values[1:], strict=False):
            self._swap_operator("bool", node.op, before, after)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Flip truth values, and go one up or down from small numbers."""
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int) and abs(node.value) <= _LARGEST_NUMBER:
            step = 1 if (node.lineno + node.col_offset) % 2 or not node.value else -1
            self._add("number", node, str(node.value + step))

    def visit_Break(self, node: ast.Break) -> None:
        """Go on instead."""
        self._add("jump", node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        """Stop instead."""
        self._add("jump", node, "break")

    def visit_Call(self, node: ast.Call) -> None:
        """Hand starred arguments over as one; leave keywords without effect alone."""
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self._add("star", argument, self._text(argument.value))
        called = self._text(node.func)
        seen = [keyword for keyword in node.keywords if (called, keyword.arg) not in _UNSEEN_KEYWORDS]
        self._visit_all([node.func, *node.args, *seen])

    # Positions.

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _negate(self, condition: ast.expr) -> None:
        if isinstance(condition, ast.Compare) and isinstance(condition.ops[0], _NEGATED_WHEN_SWAPPED):
            return
        if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            self._add("condition", condition, f"({self._text(condition.operand)})")
        else:
            self._add("condition", condition, f"(not ({self._text(condition)}))")

    def _swap_operator(self, kind: str, operator: ast.AST, before: ast.expr, after: ast.expr) -> None:
        old, new = _SWAPPED[type(operator)]
        start, end = self._span(before)[1], self._span(after)[0]
        # Between the two stand the operator, brackets, line ends and comments.
        between = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), self._source[start:end])
        found = re.search(rf"(?<![\w<>=!]){re.escape(old)}(?![\w<>=])".replace(r"\ ", r"\s+"), between)
        if found is not None:
            self._add_span(kind, start + found.start(), start + found.end(), new)

    def _add(self, kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        self._add_span(kind, *self._span(node), after)

    def _add_span(self, kind: str, start: int, end: int, after: str) -> None:
        before = self._source[:start]
        line, column = before.count("\n") + 1, start - (before.rfind("\n") + 1)
        self.mutants.append(Mutant(self._path, line, column, kind, self._source[start:end], after, start, end))

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end]

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None  # nodes that were parsed have one
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column_in_bytes: int) -> int:
        text = self._lines[line - 1].encode()[:column_in_bytes].decode()
        return self._starts[line - 1] + len(text)


def _seen_decorators(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.expr]:
    return [each for each in node.decorator_list if not any(name in ast.unparse(each) for name in _UNSEEN_DECORATORS)]


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return the mutants of one file, in the order of the text."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.mutants, key=lambda mutant: (mutant.start, mutant.kind))


def all_mutants(root: Path, packages: Sequence[str] = PACKAGES) -> list[Mutant]:
    """Return the mutants of all files of the packages, sorted by path and place."""
    paths = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
    return [
        mutant
        for path in paths
        for mutant in mutants_of(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    ]


def mirror_of(path: str) -> str:
    """Return the test that mirrors a source file: tests/goldens/test_store.py for pytest_fxgraph/goldens/store.py."""
    package, _, inside = path.partition("/")
    folder, _, name = inside.rpartition("/")
    return "/".join(part for part in ("tests", "" if package == "pytest_fxgraph" else package, folder) if part) + (
        f"/test_{name}"
    )


def importers_of(path: str, root: Path) -> list[str]:
    """Return the test files that name the module of a source file, those in the fewest folders first."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = module.rpartition(".")
    patterns = [rf"\b{re.escape(module)}\b"]
    if package:
        patterns.append(rf"from {re.escape(package)} import .*\b{re.escape(name)}\b")
    names = re.compile("|".join(patterns))
    found = [test for test in (root / "tests").rglob("test_*.py") if names.search(test.read_text(encoding="utf-8"))]
    return sorted(
        (test.relative_to(root).as_posix() for test in found if "speed" not in test.parts),
        key=lambda it: (it.count("/"), it),
    )


def groups_of(path: str, root: Path, *, near: bool = False) -> list[tuple[str, ...]]:
    """Return the groups of tests that a mutant of a file meets, nearest first."""
    mirror = mirror_of(path)
    folder = os.path.dirname(mirror)
    broad = _BROAD[path.partition("/")[0]]
    importers = tuple(
        each for each in importers_of(path, root) if each != mirror and not each.startswith((*broad, folder + "/"))
    )
    if folder == "tests":  # the plugin's root: its tests stand beside the folders
        beside = tuple(sorted(test.relative_to(root).as_posix() for test in (root / "tests").glob("test_*.py")))
    else:
        beside = (folder,)
    groups = [(mirror,), importers, beside, *((each,) for each in broad if not near)]
    there = [tuple(each for each in paths if (root / each).exists()) for paths in groups]
    return [paths for paths in there if paths]


def reaching_groups(mutant: Mutant, reached: CoverageData, usual: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the file that mirrors the source, then two samples of the tests that reach the line of a mutant."""
    contexts = reached.contexts_by_lineno(str(ROOT / mutant.path))  # coverage.py keeps absolute paths
    lines = sorted(line for line in contexts if mutant.line - _STATEMENT_LINES < line <= mutant.line)
    # A line within a statement may have no entry of its own.
    tests = sorted({context.rpartition("|")[0] for line in lines[-1:] for context in contexts[line]} - {""})
    if not tests:
        return usual
    # The whole file: coverage.py knows neither newer tests nor other processes.
    mirror = [paths for paths in usual[:1] if paths == (mirror_of(mutant.path),)]
    samples = [tuple(random.Random(0).sample(tests, min(size, len(tests)))) for size in _SAMPLES]
    return [*mirror, *dict.fromkeys(samples)]


def copied_tree(root: Path, destination: Path) -> Path:
    """Copy what git knows, or would add, and compile it so that a changed file is never taken for its old self."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (root / name).is_file():
            place = destination / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, place)
    # By hash, not by time and size: within a second, `==` and `!=` would look the same.
    compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *PACKAGES, "tests"]
    subprocess.run(compiling, cwd=destination, check=True, stdout=subprocess.DEVNULL)
    return destination


def run_pytest(tree: Path, paths: Sequence[str], limit: float, *, stop_at_first: bool = True) -> tuple[str, list[str]]:
    """Run tests in a copy of the tree; return why they failed ("" if they passed) and the ids of those that did."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly"]
    chosen_tests = Path(f"{tree}-tests")
    chosen_tests.write_text("\n".join(paths) + "\n", encoding="utf-8")  # a command line has room for few of them
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "400"}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*command, *(["-x"] if stop_at_first else []), f"--basetemp={tree}-tmp", f"@{chosen_tests}"],
            cwd=tree,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if hasattr(resource, "prlimit"):
            resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return f"time limit of {limit:g} s", []
        finally:
            # Also what the tests started and left behind. A group that is gone has nothing left to end.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status in (_PASSED, _NOTHING_COLLECTED):
            return "", []
        output.seek(0)
        text = output.read().decode(errors="replace")
    failed = re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", text, re.MULTILINE)
    return f"exit status {status}", failed


def run_mutant(mutant: Mutant, tree: Path, *, near: bool = False, reached: CoverageData | None = None) -> Result:
    """Apply a mutant in a copy of the tree, run its groups of tests, or the near ones, until one fails, and undo it."""
    groups = groups_of(mutant.path, tree, near=near)
    if reached is not None:
        groups = reaching_groups(mutant, reached, groups)
    place = tree / mutant.path
    source = place.read_text(encoding="utf-8")
    start = time.monotonic()
    place.write_text(mutant.applied(source), encoding="utf-8")
    try:
        for paths in groups:
            reason, failed = run_pytest(tree, paths, GROUP_LIMIT)
            if reason:
                return Result(mutant, failed[0] if failed else "", paths, reason, time.monotonic() - start)
    finally:
        place.write_text(source, encoding="utf-8")
    return Result(mutant, None, seconds=time.monotonic() - start)


def run_all(
    mutants: Sequence[Mutant], jobs: int, *, near: bool = False, reached: CoverageData | None = None
) -> Iterator[Result]:
    """Yield the result of each mutant as it comes, then again those that turn out to be doubtful."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: queue.Queue[Path] = queue.Queue()
        for number in range(max(1, min(jobs, len(mutants)))):
            trees.put(copied_tree(ROOT, Path(folder, str(number))))

        def run(mutant: Mutant) -> Result:
            tree = trees.get()
            try:
                return run_mutant(mutant, tree, near=near, reached=reached)
            finally:
                trees.put(tree)

        results = []
        with ThreadPoolExecutor(jobs) as pool:
            for future in as_completed([pool.submit(run, mutant) for mutant in mutants]):
                results.append(future.result())
                yield results[-1]
        yield from doubtful(results, trees.get())


def coverage_data(path: Path) -> CoverageData:
    """Read the lines that each test reached."""
    from coverage import CoverageData  # an option's need alone

    data = CoverageData(basename=str(path))
    data.read()
    return data


def doubtful(results: Sequence[Result], tree: Path) -> Iterator[Result]:
    """Yield the results whose tests fail, or take too long, in a tree without any mutant."""
    tests = sorted({result.test for result in results if result.test})
    failing = run_pytest(tree, tests, 4 * GROUP_LIMIT, stop_at_first=False)[1] if tests else []
    groups = {result.group for result in results if result.test == ""}
    failing_groups = {group for group in groups if run_pytest(tree, group, GROUP_LIMIT)[0]}
    for result in results:
        if result.test in failing or (result.test == "" and result.group in failing_groups):
            yield replace(result, is_doubtful=True)


def chosen(mutants: list[Mutant], count: int, seed: int, only: Sequence[str] = ()) -> list[Mutant]:
    """Choose mutants by their names, or as many as asked for by chance; raises ValueError for an unknown name."""
    if only:
        by_name = {str(mutant): mutant for mutant in mutants}
        unknown = [name for name in only if name not in by_name]
        if unknown:
            raise ValueError(f"no mutant is called {', '.join(unknown)}; --list shows all")
        return [by_name[name] for name in only]
    return random.Random(seed).sample(mutants, min(count, len(mutants)))


def summary(results: Sequence[Result]) -> str:
    """Sum results up in a line."""
    noticed = [result for result in results if result.test is not None and not result.is_doubtful]
    share = 100 * len(noticed) / max(1, len(results))
    return f"{len(noticed)} of {len(results)} mutants noticed ({share:.0f} %)"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser("python -m benchmarks.source_mutants", description=about, epilog=rest)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--count", type=int, default=100, help="how many mutants to choose by chance (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="what chance begins from (default 0)")
    parser.add_argument("--package", help="change only files of this package or folder: fxcore, fxcore/matching")
    parser.add_argument(
        "--near", action="store_true", help="leave out differential, workflow and trust: faster, not final"
    )
    parser.add_argument("--reached", type=Path, metavar="FILE", help="the .coverage file of a run with contexts")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutants run at a time (default 2)")
    parser.add_argument("--only", action="append", default=[], metavar="PATH::LINE:COLUMN:KIND", help="run this mutant")
    parser.add_argument("--out", type=Path, help="write the results to this JSON file, after each mutant")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants, all with --count 0; run nothing")
    options = parser.parse_args(arguments)
    mutants = all_mutants(ROOT, (options.package,) if options.package else PACKAGES)
    if not mutants:
        parser.error(f"there are no sources in {options.package}; the packages are {', '.join(PACKAGES)}")
    try:
        picked = chosen(mutants, options.count or len(mutants), options.seed, options.only)
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        for mutant in picked:
            print(f"{mutant}  `{' '.join(mutant.before.split())}` -> `{' '.join(mutant.after.split())}`")
        return 0
    results: dict[Mutant, Result] = {}
    reached = coverage_data(options.reached) if options.reached else None
    for result in run_all(picked, options.jobs, near=options.near, reached=reached):
        results[result.mutant] = result
        print(f"{len(results):3d} {result.seconds:5.0f} s  {result}", flush=True)
        if options.out:
            data = [asdict(each) | {"verdict": each.verdict} for each in results.values()]
            options.out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(summary(list(results.values())))
    return int(any(result.test is None or result.is_doubtful for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
