"""Options, ini keys and the `fx` marker. No other file reads them. The nearest place wins:

argument > closest marker > command line > ini > default

A setting that belongs to one test has no command-line option, because a value for a whole run would hide in a script.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fxgraph import choices

if TYPE_CHECKING:
    from pytest_fxgraph.arguments import NumberByPath

    _Form = tuple[str, Callable[[Any], Any]]  # a right value in words, and its parser, which raises ValueError

UPDATE_ONLY = ("new", "changed")
UNUSED = ("warn", "fail", "ignore")
REPORTS = (".html", ".md", ".json")


class Setting:
    """One setting, with every place where a user can set it."""

    # A plain class, because a named tuple or dataclass would cost every run of pytest a millisecond.
    def __init__(
        self,
        name: str,  # keyword of the fixture and of the marker
        default: Any,
        form: tuple[str, Callable[[Any], Any]],  # see _Form
        help_text: str = "",  # with it, the setting is an ini key as well
        metavar: str | None = None,  # with it, the setting is a command-line option as well
        on_marker: bool = True,
    ) -> None:
        self.name, self.default, (self.form, self.parse) = name, default, form
        self.help, self.metavar, self.on_marker = help_text, metavar, on_marker
        self.option = "--fx-" + name.replace("_", "-")  # for example `--fx-golden-dir`
        self.key = "fx_" + name  # in the ini file, and in pytest's options: `fx_golden_dir`

    def read(self, value: object, place: str) -> Any:
        """Return the parsed value. Raise pytest.UsageError for another form; the message names the place."""
        try:
            return self.parse(value)
        except ValueError as error:
            from pytest_fxgraph.errors import ChoiceError

            reason = error if isinstance(error, ChoiceError) else f"expected {self.form}, got {value!r}"
            raise pytest.UsageError(f"{place}: {reason}") from None


def _one_of(*words: str) -> _Form:
    def parse(value: object) -> object:
        if not isinstance(value, str) or value not in words:
            raise ValueError
        return value

    return "one of " + ", ".join(words), parse


def _yes_or_no(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _true_or_false(value: object) -> bool:
    words = {"true": True, "false": False}
    if not isinstance(value, bool) and not (isinstance(value, str) and value.lower() in words):
        raise ValueError
    return value if isinstance(value, bool) else words[str(value).lower()]


def _number(value: object, kind: type[int] | type[float] = float) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, kind)):
        raise ValueError
    number = kind(value)
    if not 0 <= number < math.inf:
        raise ValueError
    return number


def _between(low: float, high: float) -> Callable[[object], float]:
    def parse(value: object) -> float:
        number = _number(value)
        if not low < number < high:
            raise ValueError
        return number

    return parse


def _allowances(value: Any) -> object:
    from pytest_fxgraph.budget import allowances_of

    return allowances_of(value)


def _number_by_path(value: object) -> NumberByPath:
    """Read a number, a dict from path to number, or a text like `output[0]=1e-3, *.logits=1e-2`."""
    if isinstance(value, str) and "=" in value:
        entries = [entry.rpartition("=") for entry in value.replace("\n", ",").split(",") if entry.strip()]
        value = {glob.strip(): text.strip() for glob, _, text in entries}
    if not isinstance(value, Mapping):
        return _number(value)
    if not value or not all(isinstance(glob, str) and glob for glob in value):
        raise ValueError
    return {glob: _number(each) for glob, each in value.items()}


def _checks(value: object) -> tuple[str, ...]:
    """Read the names of checks: one name, a list, or a text with commas."""
    if isinstance(value, str):
        value = [name.strip() for name in value.replace("\n", ",").split(",") if name.strip()]
    if not isinstance(value, Iterable):
        raise ValueError
    chosen = choices.checks_named(value)
    return tuple(check for check in choices.CHECKS if check in chosen)


def _ranks(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError
    return value


def _mesh_sizes(value: Any) -> Any:
    for size in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else (0,):
        _ranks(size)
    return value


def _folder(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value


_WHOLE: _Form = ("a whole number that is not negative", lambda value: _number(value, int))
_SWITCH: _Form = ("true or false", _true_or_false)
_FLAG: _Form = ("True or False", _yes_or_no)
_LISTED = ", ".join

LEVEL = Setting(
    "level",
    "structure",
    _one_of(*choices.LEVELS),
    f"level at which graphs are compared with their goldens: {_LISTED(choices.LEVELS)} (default: structure)",
    "LEVEL",
)
BUDGET = Setting("budget", None, ("a dict of allowances by cost", _allowances))
RTOL = Setting(
    "rtol",
    None,
    ("a number that is not negative, such as 1e-5, or such numbers by path", _number_by_path),
    "relative tolerance of fx_equivalence and fx_transform (default: by dtype, as torch.testing)",
)
ATOL = Setting(
    "atol",
    None,
    ("a number that is not negative, such as 1e-8, or such numbers by path", _number_by_path),
    "absolute tolerance of fx_equivalence and fx_transform (default: by dtype, as torch.testing)",
)
SQNR = Setting(
    "sqnr",
    None,
    ("a number of decibels above 0, such as 40", _between(0, math.inf)),
    "signal to noise that outputs have to reach, instead of a tolerance for each element (default: none)",
)
COSINE = Setting(
    "cosine",
    None,
    ("a number between 0 and 1, such as 0.999", _between(0, 1)),
    "cosine that outputs have to reach, instead of a tolerance for each element (default: none)",
)
CHECKED = Setting(
    "checks",
    None,
    ("names of " + _LISTED(choices.CHECKS), _checks),
    f"checks of fx_equivalence and fx_transform besides structure and shape: {_LISTED(choices.CHECKS)} (default: all)",
)
FP64_REFERENCE = Setting(
    "fp64_reference",
    False,
    _SWITCH,
    "whether a run of the model in double precision judges values that differ (default: false)",
)
SEED = Setting("seed", 0, _WHOLE, "seed from which fx_equivalence and fx_transform draw (default: 0)", "NUMBER")
STRICT_INPUTS = Setting(
    "strict_inputs",
    False,
    _SWITCH,
    "whether fx_equivalence and fx_transform refuse a graph that no longer reads an input (default: false)",
)
SEARCH = Setting(
    "search",
    0,
    _WHOLE,
    "other inputs that fx_equivalence and fx_transform try in search of a difference; needs hypothesis (default: 0)",
)
SEARCH_SECONDS = Setting(
    "search_seconds",
    60.0,
    ("a number of seconds above 0", _between(0, math.inf)),
    "seconds after which the searches of one call end (default: 60)",
)
SEARCH_VALUES = Setting(
    "search_values",
    "all",
    _one_of(*choices.SEARCH_VALUES_NAMED),
    "floats that a search tries: all, or finite, without NaN and infinities (default: all)",
)
ALLOW_VACUOUS = Setting(
    "allow_vacuous",
    False,
    _SWITCH,
    "whether fx_equivalence and fx_transform pass a check that no wrong graph could fail (default: false)",
)
GOLDEN_DIR = Setting(
    "golden_dir",
    "golden",
    ("the path of a folder", _folder),
    "folder of the golden files, relative to rootdir; beside: golden/ in each test file's folder (default: golden)",
    "DIR",
    on_marker=False,
)
UNUSED_GOLDENS = Setting(
    "unused",
    "warn",
    _one_of(*UNUSED),
    "what to do about goldens that no test asked for: warn, fail or ignore (default: warn)",
    "{" + ",".join(UNUSED) + "}",
    on_marker=False,
)
COMMUTATIVE = Setting("commutative", False, _FLAG)
NORMALIZE = Setting("normalize", False, _FLAG)
CONSTANT_FORM = Setting(
    "constants",
    "exact",
    _one_of(*choices.CONSTANT_FORMS),
    f"how floats in arguments and constant tensors are compared: {_LISTED(choices.CONSTANT_FORMS)} (default: exact)",
    "FORM",
)
CODE = Setting(
    "code",
    "folded",
    _one_of(*choices.CODE_FORMS),
    "how a golden holds the generated code: folded along with its blocks, always whole, or at level exact alone "
    "(default: folded)",
)
FRONTEND = Setting(
    "frontend",
    "symbolic",
    _one_of(*choices.FRONTENDS),
    f"how a module becomes a graph: {_LISTED(choices.FRONTENDS)} (default: symbolic)",
    "NAME",
)

WORLD_SIZE = Setting("world_size", None, ("a whole number of ranks from 1 on", _ranks))
MESH = Setting("mesh", None, ("sizes by the names of dimensions, or a tuple of sizes", _mesh_sizes))

# The settings of the fixtures that compare eager with a graph.
NUMERIC = (
    *(RTOL, ATOL, SEED, SQNR, COSINE, CHECKED, FP64_REFERENCE),
    *(STRICT_INPUTS, SEARCH, SEARCH_SECONDS, SEARCH_VALUES, ALLOW_VACUOUS),
)
_SETTINGS = (
    *(GOLDEN_DIR, UNUSED_GOLDENS, LEVEL, RTOL, ATOL, SEED),
    *(COMMUTATIVE, NORMALIZE, CONSTANT_FORM, CODE, SQNR, COSINE, CHECKED, FP64_REFERENCE),
    *(STRICT_INPUTS, SEARCH, SEARCH_SECONDS, SEARCH_VALUES, ALLOW_VACUOUS, BUDGET, FRONTEND, WORLD_SIZE, MESH),
)
# The settings of a comparison of graphs: its terms, and how the graph is made and written.
TERMS = (LEVEL, COMMUTATIVE, NORMALIZE, CONSTANT_FORM, BUDGET)
OF_GRAPHS = (CODE, FRONTEND)
# Options that concern goldens no test of this process asks for.
_ABOUT_GOLDENS = ("fx_update_golden", "fx_received", "fx_prune_golden", "fx_report")
_IN_INI = tuple(setting for setting in _SETTINGS if setting.help)
_ON_MARKER = {setting.name: setting for setting in _SETTINGS if setting.on_marker}
MARKER = (
    f"fx({', '.join(f'{name}=...' for name in _ON_MARKER)}): how the graph fixtures of pytest-fxgraph compare and "
    "capture in this test; an argument of the fixture takes precedence."
)


def add_options(parser: pytest.Parser) -> None:
    """Register the options and ini keys."""
    group = parser.getgroup("fxgraph", "FX graphs (pytest-fxgraph)")
    switch = partial(group.addoption, action="store_true")
    switch(
        "--fx-update-golden",
        help="write the goldens that are missing and those that no longer match, of tests that otherwise passed",
    )
    group.addoption(
        "--fx-update-only",
        choices=UPDATE_ONLY,
        help="with --fx-update-golden: write only missing goldens (new), or only those that no longer match (changed)",
    )
    switch(
        "--fx-update-variant",
        help="with --fx-update-golden: write to the goldens of this minor version of torch, <golden>@torch-X.Y.yaml",
    )
    switch(
        "--fx-received",
        help="write what failed tests received beside their goldens as *.received.yaml, for `fxgraph accept`",
    )
    group.addoption(
        "--fx-repro",
        metavar="DIR",
        help="write for each numeric mismatch a script that reproduces it without the tests, below this folder",
    )
    group.addoption(
        "--fx-record",
        metavar="DIR",
        help="keep every graph that the run makes, of any suite, in this folder or at this URL, for `fxgraph replay`",
    )
    group.addoption(
        "--fx-record-kinds",
        metavar="KINDS",
        help="with --fx-record: the kinds of graphs to keep, with commas: "
        f"{_LISTED(choices.RECORDED_KINDS)} (default: all)",
    )
    switch(
        "--fx-record-seeded",
        help="with --fx-record: record as `fxgraph replay` does, so that two recordings can be compared: each test "
        "begins with one seed, and no graph comes from a cache of the compiler",
    )
    switch("--fx-prune-golden", help="remove the goldens that no test asked for")
    group.addoption(
        "--fx-report",
        action="append",
        default=[],
        metavar="PATH",
        help="write a report of the goldens to this file, a .html, .md or .json; can be given several times",
    )
    for setting in _IN_INI:
        if setting.metavar is not None:
            group.addoption(setting.option, dest=setting.key, metavar=setting.metavar, help=setting.help)
        parser.addini(setting.key, setting.help)


def check_options(config: pytest.Config) -> None:
    """Check options and ini keys before the collection. Raise pytest.UsageError for a wrong value."""
    for setting in _IN_INI:
        value_of_config(setting, config)
    _check_companions(config)
    for path in config.getoption("fx_report"):
        if not path.endswith(REPORTS):
            raise pytest.UsageError(f"--fx-report: expected a path that ends in {', '.join(REPORTS)}, got {path!r}")


def _check_companions(config: pytest.Config) -> None:
    """Refuse an option that has no effect without another option."""
    for name, effect in (("kinds", "which it narrows"), ("seeded", "whose tests it seeds")):
        if config.getoption(f"fx_record_{name}") and not config.getoption("fx_record"):
            raise pytest.UsageError(f"--fx-record-{name}: expected together with --fx-record, {effect}")
    recorded_kinds(config)
    if config.getoption("fx_update_golden"):
        return
    if config.getoption("fx_update_only"):
        raise pytest.UsageError("--fx-update-only: expected together with --fx-update-golden, which it narrows")
    if config.getoption("fx_update_variant"):
        raise pytest.UsageError("--fx-update-variant: expected together with --fx-update-golden, which it directs")


def recorded_kinds(config: pytest.Config) -> tuple[str, ...]:
    """Return the kinds of graphs that a recording keeps. Raise pytest.UsageError for a kind that does not exist."""
    given = config.getoption("fx_record_kinds")
    if given is None:
        return choices.RECORDED_KINDS
    chosen = [kind.strip() for kind in given.split(",")]
    wrong = [kind for kind in chosen if kind not in choices.RECORDED_KINDS]
    if wrong:
        raise pytest.UsageError(
            f"--fx-record-kinds: there is no kind {wrong[0]!r}; choose from {', '.join(choices.RECORDED_KINDS)}"
        )
    return tuple(kind for kind in choices.RECORDED_KINDS if kind in chosen)


def check_markers(items: Iterable[pytest.Item]) -> None:
    """Raise pytest.UsageError for the first `fx` marker with a wrong value. The message names the test."""
    seen: set[int] = set()  # each class and file is asked once, not once for each test
    for item in items:
        node: Any = item
        while node is not None and id(node) not in seen:
            seen.add(id(node))
            for mark in node.own_markers:
                if mark.name == "fx":
                    _check_marker(mark, item)
            node = node.parent


def _check_marker(mark: pytest.Mark, item: pytest.Item) -> None:
    place = f"marker fx of {item.nodeid}"
    if mark.args:
        raise pytest.UsageError(f'{place}: expected keywords such as fx(level="exact"), got {mark.args[0]!r}')
    for name, value in mark.kwargs.items():
        if name not in _ON_MARKER:
            raise pytest.UsageError(f"{place}: there is no {name!r}; it takes {', '.join(_ON_MARKER)}")
        _ON_MARKER[name].read(value, f"{place}, {name}")


def value_of(setting: Setting, item: pytest.Item, argument: object = None) -> Any:
    """Return the value for one comparison in this test. An argument of None counts as not given.

    Raises pytest.UsageError for a value of another form; the message names the place. Raises LevelError for an argument
    with an unknown level.
    """
    return values_of((setting,), item, {setting.name: argument})[setting.name]


def values_of(wanted: Iterable[Setting], item: pytest.Item, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of several settings by name, as `value_of` does; the markers are read once."""
    marks = list(item.iter_markers("fx"))
    return {each.name: _value_in_test(each, item, marks, arguments.get(each.name)) for each in wanted}


def _value_in_test(setting: Setting, item: pytest.Item, marks: Iterable[pytest.Mark], argument: object) -> Any:
    if argument is not None:
        return _of_argument(setting, argument)
    for mark in marks:
        if setting.name in mark.kwargs:
            _check_marker(mark, item)
            return setting.read(mark.kwargs[setting.name], f"marker fx of {item.nodeid}, {setting.name}")
    return value_of_config(setting, item.config) if setting.help else setting.default


def _of_argument(setting: Setting, argument: object) -> Any:
    if setting is LEVEL and argument not in choices.LEVELS:
        from pytest_fxgraph.errors import LevelError

        raise LevelError(f"there is no level {argument!r}; goldens are compared at {', '.join(choices.LEVELS)}")
    return setting.read(argument, f"argument {setting.name}")


def value_of_config(setting: Setting, config: pytest.Config) -> Any:
    """Return the value for the whole run: command line, then ini, then default.

    Raises pytest.UsageError for a value of another form.
    """
    given = config.getoption(setting.key) if setting.metavar is not None else None
    if given is not None:
        return setting.read(given, setting.option)
    written = config.getini(setting.key)
    return setting.read(written, f"ini key {setting.key}") if written else setting.default


def wants_collection_record(config: pytest.Config) -> bool:
    """Return whether this run must look for unused goldens."""
    # An update needs unused goldens too, because it copies the goldens of renamed tests.
    is_asked = any(config.getoption(name) for name in ("fx_prune_golden", "fx_report", "fx_update_golden"))
    return bool(is_asked) or value_of_config(UNUSED_GOLDENS, config) != "ignore"


def needs_golden_session(config: pytest.Config) -> bool:
    """Return, before the collection, whether a run has to do with goldens, or would not learn of them in time."""
    folder = value_of_config(GOLDEN_DIR, config)
    # A project that has its goldens beside its tests has some; to find the folders would take a walk through all of it.
    if writes_about_goldens(config) or folder == choices.BESIDE:
        return True
    if os.path.isdir(os.path.join(config.rootpath, folder)):  # as GoldenLayout has it, which is not imported here
        return True
    return is_controller(config)  # which collects nothing itself


def writes_about_goldens(config: pytest.Config) -> bool:
    """Return whether a run writes or removes goldens, received files or reports."""
    return any(config.getoption(name) for name in _ABOUT_GOLDENS)


def wants_update(config: pytest.Config, update: str) -> bool:
    """Return whether the run writes goldens of this kind: "new" or "changed"."""
    return bool(config.getoption("fx_update_golden")) and config.getoption("fx_update_only") in (None, update)


def is_controller(config: pytest.Config) -> bool:
    """Return whether this process is the controller of pytest-xdist: its workers run the tests."""
    return not is_worker(config) and (config.getoption("dist", "no") != "no" or bool(config.getoption("tx", None)))


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist. Workers read and compare; the controller writes."""
    return hasattr(config, "workerinput")
