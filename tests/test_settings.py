from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest
from _pytest.config.argparsing import Parser

from pytest_fxgraph import settings
from pytest_fxgraph.choices import RECORDED_KINDS
from pytest_fxgraph.errors import LevelError


def item_with(*marks, option=None, ini=""):
    """Return a test with these markers, in a run with this option and ini key."""
    config = SimpleNamespace(getoption=lambda key: option, getini=lambda key: ini)
    places = {"nodeid": "test_a.py::test_x", "own_markers": marks, "parent": None}
    return SimpleNamespace(**places, iter_markers=lambda name: iter(marks), config=config)


EXACT, OPS = pytest.mark.fx(level="exact").mark, pytest.mark.fx(level="ops").mark


@pytest.mark.parametrize(
    ("item", "argument", "level"),
    [
        (item_with(EXACT, OPS, option="signature", ini="ops"), "structure", "structure"),
        (item_with(EXACT, OPS, option="signature", ini="ops"), None, "exact"),
        (item_with(option="signature", ini="ops"), None, "signature"),
        (item_with(ini="ops"), None, "ops"),
        (item_with(), None, "structure"),
    ],
)
def test_the_nearest_place_wins(item, argument, level):
    assert settings.value_of(settings.LEVEL, item, argument) == level


def test_what_has_no_option_falls_back_to_its_default():
    assert settings.value_of(settings.COMMUTATIVE, item_with(option=True)) is False
    assert settings.value_of(settings.NORMALIZE, item_with(option=True)) is False


@pytest.mark.parametrize(
    ("setting", "given", "value"),
    [
        (settings.RTOL, "1e-3", 1e-3),
        (settings.RTOL, 0, 0.0),
        (settings.ATOL, 2, 2.0),
        (settings.SEED, "7", 7),
        (settings.SEED, 0, 0),
        (settings.GOLDEN_DIR, "a b", "a b"),
        (settings.NORMALIZE, True, True),
        (settings.CONSTANT_FORM, "close", "close"),
        (settings.WORLD_SIZE, 1, 1),
        (settings.SQNR, 0.5, 0.5),
        (settings.SEARCH_SECONDS, "0.5", 0.5),
    ],
)
def test_a_right_value_is_read(setting, given, value):
    read = setting.read(given, "here")

    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        (settings.RTOL, "much"),
        (settings.RTOL, -1e-9),
        (settings.RTOL, math.inf),
        (settings.RTOL, math.nan),
        (settings.RTOL, True),
        (settings.RTOL, [1]),
        (settings.SEED, 1.5),
        (settings.SEED, "1.5"),
        (settings.SEED, -1),
        (settings.SEED, False),
        (settings.GOLDEN_DIR, " "),
        (settings.GOLDEN_DIR, "a\0"),
        (settings.GOLDEN_DIR, 3),
        (settings.NORMALIZE, 1),
        (settings.CONSTANT_FORM, "closer"),
        (settings.UNUSED_GOLDENS, None),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_form(setting, given):
    with pytest.raises(pytest.UsageError) as caught:
        setting.read(given, "ini key k")

    assert str(caught.value) == f"ini key k: expected {setting.form}, got {given!r}"


def test_a_level_that_does_not_exist_is_an_error_of_its_own():
    with pytest.raises(
        LevelError, match="there is no level 'vague'; goldens are compared at exact, structure, ops, sig"
    ):
        settings.value_of(settings.LEVEL, item_with(), "vague")


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (pytest.mark.fx("exact").mark, "expected keywords such as fx(level=\"exact\"), got 'exact'"),
        (pytest.mark.fx(lvel="exact").mark, "there is no 'lvel'; it takes level, rtol, atol, seed, commutative, norm"),
        (pytest.mark.fx(golden_dir="x").mark, "there is no 'golden_dir'; it takes level"),
        (pytest.mark.fx(world_size=0).mark, "world_size: expected a whole number of ranks from 1 on, got 0"),
        (pytest.mark.fx(mesh={"dp": "2"}).mark, "mesh: expected sizes by the names of dimensions, or a tuple of sizes"),
        (pytest.mark.fx(mesh=4).mark, "mesh: expected sizes by the names of dimensions, or a tuple of sizes, got 4"),
        (pytest.mark.fx(seed=-1).mark, "marker fx of test_a.py::test_x, seed: expected a whole number that is not neg"),
    ],
)
def test_a_wrong_marker_is_refused_with_its_test(mark, message):
    with pytest.raises(pytest.UsageError) as caught:
        settings.check_markers([item_with(), item_with(mark)])

    assert message in str(caught.value)
    assert str(caught.value).startswith("marker fx of test_a.py::test_x")


@pytest.mark.parametrize(
    ("golden", "only", "new", "changed"),
    [
        (True, None, True, True),
        (True, "new", True, False),
        (True, "changed", False, True),
        (False, None, False, False),
    ],
)
def test_an_update_can_be_narrowed(golden, only, new, changed):
    options = {"fx_update_golden": golden, "fx_update_only": only}
    config = SimpleNamespace(getoption=options.get)

    assert settings.wants_update(config, "new") is new
    assert settings.wants_update(config, "changed") is changed


@pytest.mark.parametrize(
    ("options", "is_wanted"),
    [
        ({"fx_unused": "ignore"}, False),
        ({"fx_unused": "warn"}, True),
        ({"fx_unused": "ignore", "fx_prune_golden": True}, True),
        ({"fx_unused": "ignore", "fx_report": ["r.json"]}, True),
    ],
)
def test_unused_goldens_are_looked_for_where_somebody_wants_to_know(options, is_wanted):
    assert settings.wants_collection_record(SimpleNamespace(getoption=options.get)) is is_wanted


@pytest.mark.parametrize(
    ("setting", "given", "value"),
    [
        (settings.RTOL, "output[0]=1e-3, *.logits = 1e-2", {"output[0]": 1e-3, "*.logits": 1e-2}),
        (settings.ATOL, "\noutput['a=b']=1\n*=0\n", {"output['a=b']": 1.0, "*": 0.0}),
        (settings.ATOL, {"output": 1}, {"output": 1.0}),
        (settings.CHECKED, "values, second call\nrng", ("values", "second call", "rng")),
        (settings.CHECKED, ["rng", "values"], ("values", "rng")),
        (settings.SQNR, "40", 40.0),
        (settings.COSINE, 0.5, 0.5),
        (settings.FP64_REFERENCE, "True", True),
        (settings.FP64_REFERENCE, "false", False),
        (settings.FP64_REFERENCE, True, True),
    ],
)
def test_numbers_by_path_and_checks_are_read_from_text_too(setting, given, value):
    assert setting.read(given, "here") == value


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        (settings.RTOL, {}),
        (settings.RTOL, {"output": -1}),
        (settings.RTOL, {"": 1}),
        (settings.RTOL, {3: 1}),
        (settings.RTOL, "output[0]=much"),
        (settings.RTOL, "output[0]=1e-3, 1e-2"),
        (settings.SQNR, 0),
        (settings.SEARCH_SECONDS, 0),
        (settings.SQNR, "loud"),
        (settings.COSINE, 1),
        (settings.COSINE, 0),
        (settings.CHECKED, 3),
        (settings.FP64_REFERENCE, "maybe"),
        (settings.FP64_REFERENCE, 1),
    ],
)
def test_a_wrong_profile_is_refused_with_its_place_and_form(setting, given):
    with pytest.raises(pytest.UsageError) as caught:
        setting.read(given, "ini key k")

    assert str(caught.value) == f"ini key k: expected {setting.form}, got {given!r}"


def test_a_wrong_check_is_refused_with_its_place_and_the_nearest():
    with pytest.raises(pytest.UsageError, match=r"^here: there is no check 'value' \(did you mean 'values'\?\)"):
        settings.CHECKED.read("value, rng", "here")


def test_a_run_has_at_most_sixteen_options_and_a_setting_of_one_test_has_none():
    parser = Parser(_ispytest=True)
    settings.add_options(parser)
    options = {name for option in parser.getgroup("fxgraph").options for name in option.names()}

    assert len(options) <= 16
    for setting in (*settings.NUMERIC, settings.CODE):
        assert setting is settings.SEED or setting.option not in options
        assert setting.key in parser._inidict


@pytest.mark.parametrize(
    "setting",
    [each for each in vars(settings).values() if isinstance(each, settings.Setting) and "(default: " in each.help],
    ids=lambda setting: setting.name,
)
def test_the_default_is_the_one_that_the_help_names(setting):
    named = re.search(r"\(default: (.*?)\)", setting.help)
    shown = str(setting.default).lower().removesuffix(".0")

    assert named is not None
    assert named[1] == shown or (setting.default is None and named[1].startswith(("by dtype", "none", "all")))


def run_with(rootpath=".", **options):
    """Return the configuration of a run with these options."""
    return SimpleNamespace(
        rootpath=rootpath, getini=lambda key: "", getoption=lambda key, default=None: options.get(key, default)
    )


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({}, None),
        ({"fx_update_only": "new"}, "--fx-update-only"),
        ({"fx_update_variant": True}, "--fx-update-variant"),
        ({"fx_update_golden": True, "fx_update_only": "new", "fx_update_variant": True}, None),
        ({"fx_record_seeded": True}, "--fx-record-seeded"),
        ({"fx_record_seeded": True, "fx_record": "folder"}, None),
    ],
)
def test_an_option_without_its_companion_is_refused(options, refused):
    config = run_with(fx_report=[], **options)
    if refused is None:
        settings.check_options(config)
        return
    with pytest.raises(pytest.UsageError, match=f"^{refused}: expected together with --fx-"):
        settings.check_options(config)


def test_a_recording_keeps_the_kinds_that_are_named_in_their_own_order():
    assert settings.recorded_kinds(run_with()) == RECORDED_KINDS
    assert settings.recorded_kinds(run_with(fx_record_kinds="module, export")) == ("export", "module")
    with pytest.raises(
        pytest.UsageError, match=r"^--fx-record-kinds: there is no kind 'eager'; choose from fixture, sy"
    ):
        settings.recorded_kinds(run_with(fx_record_kinds="export,eager"))


@pytest.mark.parametrize(
    ("options", "is_needed"),
    [
        ({}, False),
        ({"fx_golden_dir": "beside"}, True),
        ({"fx_golden_dir": "there"}, True),
        ({"fx_golden_dir": "elsewhere"}, False),
        ({"fx_received": True}, True),
        ({"fx_update_golden": True}, True),
        ({"fx_prune_golden": True}, True),
        ({"fx_report": ["r.json"]}, True),
        ({"dist": "load"}, True),
        ({"dist": "no", "tx": []}, False),
        ({"dist": "no", "tx": ["popen"]}, True),
    ],
)
def test_a_run_without_goldens_needs_no_session(options, is_needed, tmp_path):
    (tmp_path / "there").mkdir()

    assert settings.needs_golden_session(run_with(tmp_path, **options)) is is_needed


def test_a_worker_is_no_controller():
    run = run_with(dist="load", tx=["popen"])
    assert (settings.is_controller(run), settings.is_worker(run)) == (True, False)

    run.workerinput = {}
    assert (settings.is_controller(run), settings.is_worker(run)) == (False, True)
