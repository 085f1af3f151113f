"""The gate without pytest's fixtures and options: functions for unittest users and scripts."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import torch

from pytest_fxgraph.arguments import check_options, shows_options
from pytest_fxgraph.budget import allowances_of
from pytest_fxgraph.captures.shapes import shapes_recorded
from pytest_fxgraph.captures.subjects import programs_of, to_graph_module, to_graph_with_operators
from pytest_fxgraph.captures.ways import FxCapture
from pytest_fxgraph.choices import ConstantForm, Level
from pytest_fxgraph.compare.levels import compare_documents, comparison_at
from pytest_fxgraph.compare.structural_hash import structural_hash as hash_of_structure
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.generated_code import Graphs, with_code
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.formats import drawn_text, ending_of
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.options import CALL_DEFAULTS, ParallelOptions
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.comparison import compare, vanished_lines
from pytest_fxgraph.gate.golden_file import ScriptFile
from pytest_fxgraph.gate.obtained import GoldenOptions, Hooks, ObtainedGraph
from pytest_fxgraph.goldens.files import encoded_name, variant_paths
from pytest_fxgraph.goldens.program_set import joined_error, vanished_programs
from pytest_fxgraph.goldens.store import GoldenStore, write_whole
from pytest_fxgraph.graph_difference import Difference
from pytest_fxgraph.operator_patterns import name_of_target
from pytest_fxgraph.operator_queries import FxOps, OpsQuery
from pytest_fxgraph.ranks.fixture import FxRanks
from pytest_fxgraph.report.outcome import Outcome, Terms
from pytest_fxgraph.report.printable import printable_line
from pytest_fxgraph.report.text import short_lines
from pytest_fxgraph.transform.fixture import FxTransform
from pytest_fxgraph.transform.rewriting import FxRewrite
from pytest_fxgraph.vacuity import refuse_nothing_asked

if TYPE_CHECKING:
    from typing_extensions import Unpack

UPDATE_VARIABLE = "FXGRAPH_UPDATE"
_REMEDY = f"if the graph is right, run the test once with {UPDATE_VARIABLE}=1, or call with update=True"

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _as_function(kind: type[Any], call: Callable[Concatenate[Any, _P], _R], name: str) -> Callable[_P, _R]:
    """Return the fixture of a kind as a function, with the defaults and without the user's hooks."""

    @functools.wraps(call)
    def function(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        __tracebackhide__ = True
        return call(kind(), *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    signature = inspect.signature(call)
    function.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])  # type: ignore[attr-defined]  # read by inspect
    return function


capture = _as_function(FxCapture, FxCapture.__call__, "capture")
capture_ranks = _as_function(FxRanks, FxRanks.__call__, "capture_ranks")
check_transform = _as_function(FxTransform, FxTransform.__call__, "check_transform")
ops = _as_function(FxOps, FxOps.__call__, "ops")
rewrite = _as_function(FxRewrite, FxRewrite.__call__, "rewrite")


def diff_graphs(expected: Any, obtained: Any, *, level: Level = "structure") -> Difference:
    """Compare two subjects at a level and return the difference. It is empty for equal graphs.

    A subject is any object that a fixture takes: a module or function to trace, or a graph. Raises SubjectError for
    anything else, CaptureError if a module cannot be traced, LevelError for an unknown level.
    """
    comparison_at(level)
    documents = _document_of(expected), _document_of(obtained)
    return Difference.between(compare_documents(*documents, level=level), *documents)


def structural_hash(subject: Any) -> str:
    """Return 64 hex digits that are equal for subjects without a difference at level `structure`.

    Trace or capture both subjects alike: shapes that only one graph records change its hash, but are no difference at
    level `structure`. Floats of buffers outside the state dict count by their first four digits. Raises SubjectError
    and CaptureError as `diff_graphs` does.
    """
    return hash_of_structure(_document_of(subject))


def structurally_equal(expected: Any, obtained: Any) -> bool:
    """Return whether level `structure` finds no difference between two subjects. Raises as `diff_graphs` does."""
    return diff_graphs(expected, obtained).is_empty


def draw_graph(
    subject: Any,
    path: str | os.PathLike[str],
    *,
    example_inputs: Any = None,
    example_kwargs: Mapping[str, Any] | None = None,
    is_full: bool = False,
) -> None:
    """Draw the graph of a subject to a file: `.svg`, `.html`, `.mmd` or `.dot`, as `fxgraph draw` draws goldens.

    With example inputs, shapes stand at the edges; with `is_full`, nothing is folded. Raises ReportError for another
    ending or a file that cannot be written, and SubjectError or CaptureError where `diff_graphs` raises them.
    """
    ending_of(os.fspath(path))  # a wrong ending is refused before a model is traced
    module = to_graph_module(subject, example_inputs=example_inputs, example_kwargs=example_kwargs)
    graphs: Graphs = {}
    with shapes_recorded(module, example_inputs, example_kwargs):
        document = build_document(module, sources=True, graphs=graphs)
    title = type(subject).__name__ if not inspect.isfunction(subject) else subject.__name__
    text = drawn_text(with_code(document, graphs), os.fspath(path), title=title, is_full=is_full)
    write_whole(Path(path), text, "picture")


def assert_graph_equal(
    expected: Any,
    obtained: Any,
    *,
    level: Level = "structure",
    commutative: bool = False,
    normalize: bool = False,
    constants: ConstantForm = "exact",
) -> None:
    """Compare two subjects at a level: "exact", "structure", "ops" or "signature".

    With `commutative`, the order of the operands of commutative operators does not count; with `normalize`, neither
    does the spelling of an operator; with `constants="close"`, floats may differ by rounding. Raises AssertionError if
    they differ, naming what does, LevelError for another level, and SubjectError or CaptureError where `diff_graphs`
    raises them.
    """
    __tracebackhide__ = True
    comparison_at(level)  # a wrong level is refused before two models are traced
    documents = _document_of(expected), _document_of(obtained)
    difference = compare_documents(
        *documents, level=level, commutative=commutative, normalize=normalize, constants=constants
    )
    if not difference.is_empty:
        raise AssertionError("\n".join(short_lines(difference, golden="the obtained graph")))


@shows_options(GoldenOptions)
def assert_graph_matches_golden(
    subject: Any, path: str | os.PathLike[str], *, update: bool = False, **options: Unpack[GoldenOptions]
) -> None:
    """Compare a subject with the golden file at `path`, as the fixture `fx_golden` does with its options.

    `name` stands for the file `<stem>.<name>.yaml` beside `path`, and a variant for the torch that runs takes the
    golden's place. Each of several programs has a file, `<stem>.<program>.yaml`; a golden without its program fails.
    With `update`, or FXGRAPH_UPDATE=1 in the environment, goldens that are missing or do not match are written instead,
    all of them or none; each write is printed. A golden that matches stays as it is.

    Raises AssertionError with all that differs, GoldenMissingError if there is no golden, GoldenFormatError if it
    cannot be read, GoldenWriteError if it cannot be written, GateError for another value of FXGRAPH_UPDATE, and
    otherwise the errors of `assert_graph_equal`.
    """
    __tracebackhide__ = True
    check_options(options, GoldenOptions, "assert_graph_matches_golden")
    terms = Terms(
        options.get("level") or "structure",
        bool(options.get("commutative")),
        bool(options.get("normalize")),
        options.get("constants") or "exact",
        allowances_of(options.get("budget")),
    )
    comparison_at(terms.level)
    is_update = update or _is_update_asked()
    attempt = GoldenAttempt()

    def place_of(program: str | None = None) -> Path:
        return _place_of(Path(path), options.get("name"), program)

    def compared(program: str | None, graph: Any) -> Exception | None:
        obtained = ObtainedGraph(graph, options, terms, Hooks(), program)
        place = ScriptFile(place_of(program), attempt, is_update=is_update, remedy=_REMEDY)
        return compare(place, obtained, Outcome("", place.shown, terms.level, "matched"))

    programs = programs_of(subject)
    errors = [compared(*each) for each in ({None: subject} if programs is None else programs).items()]
    if programs is not None and not is_update:
        store = GoldenStore(place_of(next(iter(programs))).parent)
        gone = vanished_programs(store, lambda program: PurePosixPath(place_of(program).name), programs)
        lines = (
            vanished_lines(program, str(store.root / golden), programs, "remove this file")
            for program, golden in gone.items()
        )
        errors += [AssertionError("\n  ".join(each)) for each in lines]
    error = joined_error(errors)
    if error is not None:
        raise error
    for outcome in attempt.outcomes:
        if outcome.new_text is not None:
            place = Path(outcome.golden)
            GoldenStore(place.parent).write(place.name, outcome.new_text)
            print(f"wrote {printable_line(outcome.golden)}")


def _place_of(path: Path, *names: str | None) -> Path:
    """Return the golden of a name and of a program, or its variant for the torch that runs if there is one."""
    for name in names:
        if name is not None:
            path = path.with_name(f"{path.stem}.{encoded_name(name)}{path.suffix}")
    variants = variant_paths(path, str(torch.__version__), has_cuda=torch.cuda.is_available())
    return next((variant for variant in variants if variant.exists()), path)


def _is_update_asked() -> bool:
    """Tell whether the environment asks for an update."""
    value = os.environ.get(UPDATE_VARIABLE, "")
    if value not in ("", "1"):
        raise GateError(f"{UPDATE_VARIABLE}={value!r} is neither 1 nor empty; set it to 1 to have goldens written")
    return value == "1"


@shows_options(ParallelOptions, **{**CALL_DEFAULTS, "modes": None, "batch": False, "timeout": 60.0})
def assert_equivalent(
    model: Any, graph: Any, inputs: Any, *, kwargs: Mapping[str, Any] | None = None, **options: Unpack[ParallelOptions]
) -> None:
    """Run a model and a graph on the same inputs; compare outputs, changed inputs, state and, with `grads`, gradients.

    `inputs` is a tuple of positional arguments, or one tensor. The options are the options of `fx_equivalence`. Without
    `modes`, both run in the mode, train or eval, that they are in. A module or function given as `graph` runs as it is;
    for None the model is traced. With `ranks` and `build`, the model is compared with a parallel program as in
    `fx_equivalence`, and `graph` is None. Both are left as they were. Raises AssertionError if they differ, with
    statistics and the first node that differs, InputsError for inputs of another form, and ChoiceError for a wrong
    check.
    """
    __tracebackhide__ = True
    if options.get("ranks") is not None:
        compare: Callable[..., object] = FxEquivalence()
        compare(model, inputs, graph=graph, kwargs=kwargs, **options)
        return
    FxEquivalence().assert_equivalent(model, graph, inputs, kwargs, options)


def assert_ops(
    subject: Any,
    *,
    count: Mapping[Any, int] | None = None,
    absent: Iterable[Any] = (),
    in_order: Iterable[Any] = (),
    only_from: Iterable[Any] | None = None,
) -> None:
    """Check the operators that the graph of a subject calls.

    `count` says how often each of some targets is called, `absent` which never, `in_order` which one after the other,
    `only_from` the only ones that may be. Targets are functions, classes of modules, names of methods, and globs such
    as "aten.batch_norm*". Raises AssertionError if the graph calls others, naming them, and VacuousCheckError
    if nothing is asked or a target names no operator of the graph.
    """
    __tracebackhide__ = True
    targets, forbidden, sequence = dict(count or {}), tuple(absent), tuple(in_order)
    asked = (*targets, *forbidden, *sequence) if only_from is None else (only_from,)
    refuse_nothing_asked("assert_ops", asked, "say count=, absent=, in_order= or only_from=")
    operators = OpsQuery(to_graph_with_operators(subject))
    for target, expected in targets.items():
        obtained = operators.count(target)
        if obtained != expected:
            raise AssertionError(
                f"{name_of_target(target)} is called {obtained} times, expected {expected}; "
                f"the graph calls {operators.summary()}"
            )
    if forbidden:
        operators.absent(*forbidden)
    if sequence:
        operators.in_order(*sequence)
    if only_from is not None:
        operators.only_from(only_from)


def _document_of(subject: Any) -> GraphDocument:
    return build_document(to_graph_module(subject))
