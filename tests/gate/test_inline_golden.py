"""The text of a call of fx_golden.inline: what it is compared with, and when it is written."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fixtures.items import made_item
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.fixture import FxGolden
from pytest_fxgraph.gate.inline_golden import InlineGraph
from pytest_fxgraph.gate.obtained import Hooks
from pytest_fxgraph.report.outcome import Outcome, Terms

TEXT = "input x\n%relu = torch.relu(%x)\nreturn %relu\n"
OTHER = TEXT.replace("relu", "sigmoid")


class Relu(nn.Module):
    def forward(self, x):
        return torch.relu(x)


class Sigmoid(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


class Checked:
    """A test with `checks`, that are lines of its file, and inline goldens `g`."""

    def __init__(self, rootpath: Path, *plugins: object, is_made_up: bool = False, **options: object) -> None:
        self.item, self.attempt = made_item(rootpath, *plugins, **options), GoldenAttempt()
        self._file = rootpath / "test_a.py"
        self._is_made_up = is_made_up

    def run(self, *checks: str) -> list[Outcome]:
        source = "\n".join(checks) + "\n"
        self._file.write_text(source, encoding="utf-8")
        names: dict[str, Any] = {"g": FxGolden(self.item, self.attempt), "Relu": Relu, "Sigmoid": Sigmoid}
        exec(compile(source, "<string>" if self._is_made_up else str(self._file), "exec"), names)
        return self.attempt.outcomes


def check(model: str, text: str | None = None, options: str = "") -> str:
    return f"g.inline({'' if text is None else repr(text)}{options}).check({model}())"


@pytest.mark.parametrize(
    ("model", "text", "options", "status"),
    [
        ("Relu", TEXT, {}, "matched"),
        ("Relu", TEXT.replace("%relu", "%active"), {}, "matched"),
        ("Sigmoid", TEXT, {}, "mismatch"),
        ("Sigmoid", TEXT, {"fx_update_golden": True}, "updated"),
        ("Sigmoid", TEXT, {"fx_update_golden": True, "fx_update_only": "new"}, "mismatch"),
        ("Sigmoid", TEXT, {"fx_update_golden": True, "fx_update_variant": True}, "mismatch"),
        ("Relu", None, {}, "missing"),
        ("Relu", None, {"fx_update_golden": True}, "updated"),
        ("Relu", None, {"fx_update_golden": True, "fx_update_only": "changed"}, "missing"),
        ("Relu", "input x\nno line\n", {}, "error"),
    ],
)
def test_a_text_is_compared_and_written_as_the_run_says(tmp_path, model, text, options, status):
    (outcome,) = Checked(tmp_path, **options).run(check(model, text))

    assert outcome.status == status
    if status == "updated":
        assert outcome.new_text == (TEXT if model == "Relu" else OTHER)


def test_a_graph_matches_its_own_text_without_a_look_at_its_lines():
    graph = InlineGraph(Relu(), {}, Terms(), Hooks(), first_line=lambda: None)

    assert graph.matches(TEXT)
    assert not graph.matches(OTHER)


def test_a_failed_check_blames_the_line_of_the_test(tmp_path):
    test = Checked(tmp_path)
    test.run("", check("Sigmoid", TEXT))

    assert test.attempt.first_failed_check is not None
    assert test.attempt.first_failed_check.tb_frame.f_code.co_filename == str(tmp_path / "test_a.py")
    assert test.attempt.first_failed_check.tb_lineno == 2


LOOP = "for model in ({}):"


@pytest.mark.parametrize(
    ("models", "text", "options", "statuses"),
    [
        ("Relu, Relu", TEXT, {}, ["matched", "matched"]),
        ("Relu, Sigmoid", TEXT, {}, ["matched", "mismatch"]),
        ("Sigmoid, Sigmoid", TEXT, {"fx_update_golden": True}, ["updated", "matched"]),
        ("Relu, Sigmoid", TEXT, {"fx_update_golden": True}, ["matched", "refused"]),
        ("Sigmoid, Relu", TEXT, {"fx_update_golden": True}, ["updated", "refused"]),
        ("Relu, Sigmoid", None, {"fx_update_golden": True}, ["updated", "refused"]),
        # No text is lost where the run writes new texts alone.
        ("Relu, Sigmoid", TEXT, {"fx_update_golden": True, "fx_update_only": "new"}, ["matched", "mismatch"]),
        ("Relu, Sigmoid", None, {"fx_update_golden": True, "fx_update_only": "new"}, ["updated", "refused"]),
    ],
)
def test_one_text_is_written_for_one_graph(tmp_path, models, text, options, statuses):
    outcomes = Checked(tmp_path, **options).run(LOOP.format(models), f"    {check('model', text)}")

    assert [outcome.status for outcome in outcomes] == statuses


def test_a_text_that_matched_is_kept_with_its_place_where_texts_are_written(tmp_path):
    for options, is_kept in (({}, False), ({"fx_update_golden": True}, True)):
        (outcome,) = Checked(tmp_path, **options).run(check("Relu", TEXT))
        assert bool(outcome.inline) is is_kept
        assert outcome.inline is not None
        assert (outcome.inline.get("file") == "test_a.py") is is_kept


def test_a_text_that_matches_what_the_test_is_about_to_write_has_no_place(tmp_path):
    outcomes = Checked(tmp_path, fx_update_golden=True).run(
        LOOP.format("Sigmoid, Sigmoid"), f"    {check('model', TEXT)}"
    )

    assert [bool(outcome.inline) for outcome in outcomes] == [True, False]


@pytest.mark.parametrize("is_made_up", [False, True])
def test_a_text_that_nobody_can_write_is_told_with_the_reason(tmp_path, is_made_up):
    test = Checked(tmp_path, is_made_up=is_made_up)
    missing, damaged = test.run(check("Relu"), check("Relu", "no line"))

    reason = "its code is in no file, but was made while the tests ran"
    command = "pytest --fx-update-golden test_a.py::test_x"
    for outcome in (missing, damaged):
        assert (reason in outcome.lines[-1]) is is_made_up
        assert (command in outcome.lines[-1]) is not is_made_up
        assert outcome.command == ("" if is_made_up else command)


@pytest.mark.parametrize("text", ["\n\n    no line\n", "no line"])
def test_a_text_that_cannot_be_read_names_its_line_in_the_file(tmp_path, text):
    (outcome,) = Checked(tmp_path).run("", f"g.inline('''{text}''').check(Relu())")

    assert f"inline golden test_a.py:{2 + text.count(chr(10)) // 2 + text.count(chr(10)) % 2}" in outcome.lines[0]


class Adapting:
    """A plugin whose hook makes one model of a dict with the key `whole`."""

    @pytest.hookimpl
    def pytest_fxgraph_adapt(self, obj):
        return Relu() if isinstance(obj, dict) and "whole" in obj else None


@pytest.mark.parametrize(
    ("plugins", "subject", "is_refused"),
    [
        ([], "{'a': Relu(), 'b': Relu()}", True),
        ([Adapting()], "{'a': Relu(), 'b': Relu()}", True),
        ([Adapting()], "{'whole': Relu(), 'b': Relu()}", False),
        ([], "{'a': Relu()}", False),
        ([], "Relu()", False),
    ],
)
def test_a_set_of_several_programs_has_no_inline_golden(tmp_path, plugins, subject, is_refused):
    test = Checked(tmp_path, *plugins)
    line = f"g.inline({TEXT!r}).check({subject})"

    if is_refused:
        with pytest.raises(SubjectError, match="an inline golden holds one graph, and a dict has several programs"):
            test.run(line)
    else:
        assert [outcome.status for outcome in test.run(line)] == ["matched"]


@pytest.mark.parametrize("options", ["", ", example_inputs=(torch.ones(2),)"])
def test_garbage_is_collected_during_a_comparison_only_if_the_model_runs(tmp_path, options):
    seen = []

    class Looking:
        @pytest.hookimpl
        def pytest_fxgraph_adapt(self, obj):
            seen.append(gc.isenabled())

    was_enabled = gc.isenabled()
    gc.enable()
    try:
        Checked(tmp_path, Looking()).run("import torch", check("Relu", TEXT, options))
    finally:
        (gc.enable if was_enabled else gc.disable)()

    assert set(seen) == {bool(options)}


@pytest.mark.parametrize(("level", "holds_code"), [("exact", True), ("structure", False)])
def test_code_stands_in_the_text_at_level_exact_alone(level, holds_code):
    graph = InlineGraph(Relu(), {}, Terms(level=level), Hooks(), first_line=lambda: None)

    assert ("def forward(self, x):" in graph.new_text) is holds_code


@pytest.mark.parametrize(
    ("count", "more"), [(97, []), (98, ["... and 1 more lines"]), (120, ["... and 22 more lines"])]
)
def test_a_section_shows_the_first_hundred_lines_of_a_new_text(count, more):
    class Long(nn.Module):
        def forward(self, x):
            for _ in range(count):
                x = torch.relu(x) if _ % 2 else torch.sigmoid(x)
            return x

    graph = InlineGraph(Long(), {}, Terms(), Hooks(), first_line=lambda: None)
    lines = graph.new_text.splitlines()

    section = graph.section("test_a.py:3").split("\n")

    assert section[0] == "test_a.py:3 would be"
    assert section[1:] == [*lines[:100], *more][: len(section) - 1]
    assert len(section) == 1 + min(len(lines), 100) + (len(lines) > 100)
