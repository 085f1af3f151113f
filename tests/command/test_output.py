from __future__ import annotations

import io
import sys

import pytest
from _pytest._io import TerminalWriter

from fixtures.documents import document
from pytest_fxgraph.command.main import main
from pytest_fxgraph.command.output import print_lines, wants_colour
from pytest_fxgraph.document.encoding import encode


@pytest.fixture
def goldens(tmp_path, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, operator in (("a", "torch.relu"), ("b", "torch.gelu")):
        text = encode(document(f"%x = input x\n%y = {operator}(%x)\nreturn %y"))
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("color", "environment", "is_terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
@pytest.mark.usefixtures("goldens")
def test_the_option_goes_before_the_environment_and_that_before_the_terminal(
    monkeypatch, color, environment, is_terminal, expected
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Terminal() if is_terminal else io.StringIO())

    assert wants_colour(color) is expected


def test_diff_and_show_are_coloured_if_asked_and_plain_otherwise(capsys, goldens):
    for command in (["diff", *goldens], ["show", goldens[0]]):
        main([*command, "--color", "always"])
        coloured = capsys.readouterr().out
        main(command)
        plain = capsys.readouterr().out
        assert "\x1b[" not in plain
        assert ("\x1b[31m" in coloured) == (command[0] == "diff")


def test_lines_are_coloured_as_pytest_colours_them(capsys):
    lines = ["operators (1)", "  block x2: a.0, a.1", "    in a.0", "  - %a = f(%x)", "  + %a = g(%x)", "  %b = h(%a)"]
    terminal = TerminalWriter(io.StringIO())
    terminal.hasmarkup = True

    assert print_lines(lines, "always") == len(lines)

    styles = ("bold", "cyan", "light", "red", "green", None)
    expected = [
        terminal.markup(line, **({style: True} if style else {})) for line, style in zip(lines, styles, strict=True)
    ]
    assert capsys.readouterr().out.splitlines() == expected


def test_the_status_of_a_coloured_diff_is_that_of_a_plain_one(capsys, goldens):
    assert main(["diff", "--color=always", *goldens]) == 1
    assert main(["diff", "--color=always", goldens[0], goldens[0]]) == 0


def test_a_golden_cannot_make_the_terminal_do_anything(capsys, tmp_path):
    evil = tmp_path / "evil.yaml"
    evil.write_text(encode(document("%x = input x\nreturn %x", notes=("\x1b]0;owned\x07",), code="\x1b[2J")))
    other = tmp_path / "other.yaml"
    other.write_text(encode(document("%x = input x\nreturn %x", notes=("fine",))))

    for command in (["show"], ["show", "--code"], ["show", "--color=always"], ["diff", str(other)]):
        main([*command, str(evil)])
        out = capsys.readouterr().out
        assert "\x1b]" not in out
        assert "\x1b[2J" not in out
        assert "\x07" not in out


def test_a_terminal_without_a_character_gets_an_escape(tmp_path, monkeypatch):
    golden = tmp_path / "g.yaml"
    golden.write_text(encode(document("%x = input x\nreturn %x", notes=("\U0001f600 é",))), encoding="utf-8")
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream, encoding="ascii"))

    assert main(["show", str(golden)]) == 0

    sys.stdout.flush()
    assert b"\\U0001f600 \\xe9" in stream.getvalue()


def test_a_colour_that_is_no_choice_is_refused(capsys, goldens):
    with pytest.raises(SystemExit) as refusal:
        main(["diff", "--color=sometimes", *goldens])

    assert refusal.value.code == 2
    assert "choose from" in capsys.readouterr().err
