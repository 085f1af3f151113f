from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import pytest_fxgraph
from fixtures.documents import document
from pytest_fxgraph.command.main import _parser, main, parsed
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import ModuleRecord, StateRecord

# In backticks or quotes, at the beginning of a line, or as a step of a workflow.
PRINTED = re.compile(r"(?m)(?:[`\"']|^ *|\$ |entry: |run: |- )fxgraph ([a-z]+)((?: --[a-z-]+)*)(?=[ `\"'\n])")
TEXTS = (".md", ".yml", ".yaml", ".sh", ".py")

RELU = document(
    "%x = input x : float32[2]\n%a = torch.relu(%x) : float32[2] @ layers.0\n%b = self.fc(%a) @ layers.1\nreturn %b",
    modules=(ModuleRecord("fc", "torch.nn.Linear", (("in_features", "2"),), training=True),),
    state=(StateRecord("fc.weight", "parameter", "float32[2, 2]", requires_grad=True),),
    code="def forward(self, x):\n    return self.fc(torch.relu(x))",
    notes=("specialised on len(x) == 2",),
)
RENAMED = document(
    "%x = input x\n%other = torch.relu(%x)\n%b = self.fc(%other)\nreturn %b",
    modules=RELU.modules,
    state=RELU.state,
    notes=RELU.notes,
)
GELU = document(
    "%x = input x\n%a = torch.gelu(%x)\n%b = self.fc(%a)\nreturn %b", modules=RELU.modules, state=RELU.state
)


@pytest.fixture
def goldens(tmp_path: Path) -> Path:
    for name, golden in (("relu", RELU), ("renamed", RENAMED), ("gelu", GELU)):
        (tmp_path / f"{name}.yaml").write_text(encode(golden), encoding="utf-8")
    return tmp_path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def test_show_prints_nodes_modules_state_and_notes(capsys, goldens):
    status, out, _ = run(capsys, "show", goldens / "relu.yaml")

    assert status == 0
    assert out.split("\n") == [
        "input x  # float32[2]",
        "%a = torch.relu(%x)  # float32[2]; in layers.0",
        "%b = self.fc(%a)  # in layers.1",
        "return %b",
        "modules:",
        "  fc: torch.nn.Linear(in_features=2); training",
        "state:",
        "  fc.weight: parameter float32[2, 2]",
        "notes:",
        "  specialised on len(x) == 2",
        "",
    ]


def test_show_code_prints_the_generated_code(capsys, goldens):
    status, out, _ = run(capsys, "show", "--code", goldens / "relu.yaml")

    assert status == 0
    assert out.strip() == RELU.code


def test_show_of_a_folder_prints_each_golden_under_its_name(capsys, goldens):
    status, out, _ = run(capsys, "show", goldens)

    assert status == 0
    assert [line for line in out.split("\n") if line.startswith("==")] == [
        "== gelu.yaml",
        "== relu.yaml",
        "== renamed.yaml",
    ]


def test_equal_goldens_print_nothing_and_exit_with_0(capsys, goldens):
    assert run(capsys, "diff", goldens / "relu.yaml", goldens / "renamed.yaml") == (0, "", "")


def test_different_goldens_are_told_and_exit_with_1(capsys, goldens):
    status, out, err = run(capsys, "diff", goldens / "relu.yaml", goldens / "gelu.yaml")

    assert (status, err) == (1, "")
    assert "torch.relu -> torch.gelu" in out
    assert f"expected {goldens / 'relu.yaml'}" in out
    assert "accept" not in out


def test_a_golden_that_git_calls_new_or_gone_is_told(capsys, goldens):
    relu = goldens / "relu.yaml"

    assert run(capsys, "diff", os.devnull, relu)[:2] == (
        1,
        f"only in {relu}: there is nothing in {os.devnull} to compare it with\n",
    )
    assert run(capsys, "diff", relu, os.devnull)[0] == 1


def test_show_takes_several_goldens(capsys, goldens):
    status, out, _ = run(capsys, "show", goldens / "relu.yaml", goldens / "gelu.yaml")

    assert status == 0
    assert out.startswith(f"== {goldens / 'relu.yaml'}\ninput x  # float32[2]")
    assert f"== {goldens / 'gelu.yaml'}\n" in out


def test_the_level_decides(capsys, goldens):
    status, out, _ = run(capsys, "diff", "--level", "exact", goldens / "relu.yaml", goldens / "renamed.yaml")

    assert status == 1
    assert "other: name a -> other" in out
    assert run(capsys, "diff", "--level", "signature", goldens / "relu.yaml", goldens / "gelu.yaml")[0] == 0


def test_folders_are_compared_golden_by_golden(capsys, tmp_path):
    for folder, name, golden in (
        ("a", "x/same", RELU),
        ("b", "x/same", RENAMED),
        ("a", "gone", RELU),
        ("b", "new", RELU),
    ):
        file = tmp_path / folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(encode(golden), encoding="utf-8")

    status, out, _ = run(capsys, "diff", tmp_path / "a", tmp_path / "b")

    assert status == 1
    assert out.split("\n") == [f"only in {tmp_path / 'a'}: gone.yaml", f"only in {tmp_path / 'b'}: new.yaml", ""]


def test_what_was_received_is_no_golden_of_a_folder(capsys, goldens):
    (goldens / "relu.received.yaml").write_text("anything", encoding="utf-8")

    assert run(capsys, "diff", goldens, goldens) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "nowhere.yaml"], "cannot read nowhere.yaml: there is no such file or folder"),
        (["diff", "{relu}", "nowhere.yaml"], "cannot read nowhere.yaml: there is no such file or folder"),
        (["diff", "--level", "cost", "{relu}", "{relu}"], "cannot compare at level 'cost'"),
        (["diff", "{folder}", "{relu}"], "cannot compare the folder"),
        (["show", "{corrupt}"], "cannot read the golden file"),
        (
            ["draw", "{relu}", "-o", "a.png"],
            "cannot draw to a.png: a picture's name ends in .svg, .html, .mmd, .dot; choose one of these",
        ),
        (["diff", "HEAD~1:nowhere.yaml", "{relu}"], "cannot read HEAD~1:nowhere.yaml: there is no such file, and git"),
    ],
)
def test_trouble_is_told_and_exits_with_2(capsys, goldens, arguments, words):
    (goldens / "corrupt.yaml").write_bytes(b"format: 1\nnodes: \xff")
    places = {"relu": goldens / "relu.yaml", "folder": goldens, "corrupt": goldens / "corrupt.yaml"}

    status, out, err = run(capsys, *(argument.format(**places) for argument in arguments))

    assert (status, out) == (2, "")
    assert err.startswith(f"fxgraph: {words}")


@pytest.mark.parametrize("arguments", [[], ["paint"], ["show"], ["diff", "a.yaml"]])
def test_a_wrong_command_line_exits_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)

    assert exit_info.value.code == 2
    assert "usage: fxgraph" in capsys.readouterr().err


def test_help_teaches_by_example(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["--help"])

    out = capsys.readouterr().out
    assert exit_info.value.code == 0
    assert "fxgraph diff --level exact golden_before/ golden_after/" in out
    assert "0 where nothing differs, 1 where something does, 2 after an error" in out


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["--version"])

    assert (exit_info.value.code, capsys.readouterr().out) == (0, f"fxgraph {pytest_fxgraph.__version__}\n")


def test_a_golden_without_code_is_an_error_that_names_the_key(goldens, capsys):
    (goldens / "relu.yaml").write_text(encode(replace(RELU, code="")), encoding="utf-8")

    status, out, err = run(capsys, "show", "--code", goldens / "relu.yaml")

    assert (status, out) == (2, "")
    assert "relu.yaml: no code is recorded there; the ini key fx_code, or the argument code= of fx_golden, dec" in err
    assert run(capsys, "show", "--code", goldens)[0] == 2  # no golden of the folder has any
    (goldens / "coded.yaml").write_text(encode(RELU), encoding="utf-8")
    assert run(capsys, "show", "--code", goldens)[1] == f"== coded.yaml\n{RELU.code}\n"
    assert run(capsys, "show", "--code", goldens / "coded.yaml", goldens / "relu.yaml")[0] == 2


def test_show_gives_the_graph_and_its_code_as_json(goldens, capsys):
    status, out, _ = run(capsys, "show", "--json", goldens / "relu.yaml")
    (shown,) = json.loads(out)

    assert (status, shown["golden"]) == (0, str(goldens / "relu.yaml"))
    assert [node["name"] for node in shown["graph"]["nodes"]] == [node.name for node in RELU.nodes]
    assert shown["graph"]["modules"][0]["config"] == [["in_features", "2"]]
    code = json.loads(run(capsys, "show", "--json", "--code", goldens / "relu.yaml")[1])
    assert code == [{"golden": str(goldens / "relu.yaml"), "code": RELU.code}]


def test_diff_gives_each_difference_as_json(goldens, capsys):
    status, out, _ = run(capsys, "diff", "--json", goldens / "relu.yaml", goldens / "gelu.yaml")
    (told,) = json.loads(out)

    assert (status, told["level"]) == (1, "structure")
    assert told["headline"].startswith("torch.relu -> torch.gelu")
    assert {(change["from"], change["to"]) for change in told["changes"]} >= {("torch.relu", "torch.gelu")}
    assert run(capsys, "diff", "--json", goldens / "relu.yaml", goldens / "renamed.yaml")[:2] == (0, "[]\n")


def test_draw_gives_the_path_as_json(goldens, capsys):
    picture = goldens / "relu.dot"

    assert json.loads(run(capsys, "draw", "--json", goldens / "relu.yaml", "-o", picture)[1]) == {"wrote": str(picture)}


def test_the_command_imports_neither_torch_nor_fxcore(goldens):
    program = (
        "import sys\n"
        "from pytest_fxgraph.command.main import main\n"
        f"assert main(['show', {str(goldens / 'relu.yaml')!r}]) == 0\n"
        f"assert main(['diff', {str(goldens / 'relu.yaml')!r}, {str(goldens / 'gelu.yaml')!r}]) == 1\n"
        f"assert main(['accept', '--golden-dir', {str(goldens)!r}]) == 0\n"
        f"assert main(['report', '--unused', '--golden-dir', {str(goldens)!r}]) == 0\n"
        "assert not {'torch', 'fxcore', 'pytest'} & set(sys.modules)\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], cwd=goldens, capture_output=True, text=True, timeout=60, check=False
    )

    assert result.returncode == 0, result.stderr


def test_a_verb_loads_its_own_modules_alone(goldens):
    program = (
        "import sys\n"
        "from pytest_fxgraph.command.main import main\n"
        f"assert main(['show', {str(goldens / 'relu.yaml')!r}]) == 0\n"
        "print(*sorted(name for name in sys.modules if name.startswith('pytest_fxgraph')), file=sys.stderr)\n"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    loaded = result.stderr.split()
    assert len(loaded) <= 33, loaded
    assert not [name for name in loaded if ".draw" in name or name.startswith("pytest_fxgraph.command.accept")]


def test_a_reader_that_has_seen_enough_is_no_error(goldens):
    program = f"{sys.executable} -m pytest_fxgraph.command.main show {goldens / 'relu.yaml'} | true"

    result = subprocess.run(["sh", "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert result.stderr == ""


def test_show_folds_layers_and_full_shows_them_all(capsys, tmp_path):
    layer = "%a_{0} = torch.relu(%{1}) @ layers.{0}\n%n_{0} = torch.neg(%a_{0}) @ layers.{0}"
    lines = [layer.format(i, f"n_{i - 1}" if i else "x") for i in range(32)]
    golden = tmp_path / "deep.yaml"
    golden.write_text(encode(document("\n".join(["%x = input x", *lines, "return %n_31"]))), encoding="utf-8")

    _, folded, _ = run(capsys, "show", golden)
    _, full, _ = run(capsys, "show", "--full", golden)

    assert folded.count("torch.relu") == 1
    assert folded.count(" like layers.*\n") == 32
    assert full.count("torch.relu") == 32
    assert "block" not in full


ROOT = Path(__file__).parents[2]
TELLING = [
    *(ROOT / "pytest_fxgraph").rglob("*.py"),
    *(file for folder in ("docs", "examples") for file in (ROOT / folder).rglob("*.*") if file.suffix in TEXTS),
    ROOT / ".pre-commit-hooks.yaml",
]


def test_every_command_that_a_message_or_a_page_prints_exists():
    (verbs,) = (each.choices for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    told = {
        (found[1], option)
        for file in TELLING
        for found in PRINTED.finditer(file.read_text(encoding="utf-8"))
        for option in ["--help", *found[2].split()]
    }

    assert len({verb for verb, _ in told}) > 5
    assert not [(verb, option) for verb, option in told if verb not in verbs]
    assert not [(verb, option) for verb, option in told if option not in verbs[verb]._option_string_actions]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (["replay", "run", "--", "-x", "--", "-q"], ["-x", "--", "-q"]),
        (["replay", "run"], []),
        (["show", "--", "-odd.yaml"], []),
    ],
)
def test_behind_two_dashes_stand_the_arguments_of_pytest_for_a_verb_that_runs_it(given, arguments):
    assert parsed(given).arguments == arguments


def test_an_interrupted_command_says_so_and_ends_as_shells_expect(goldens, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_fxgraph.command.diff.print_lines", interrupted)

    assert main(["diff", "relu.yaml", "gelu.yaml"]) == 130
    assert capsys.readouterr().err == "fxgraph: interrupted\n"


def test_what_a_reader_that_is_gone_has_not_read_is_dropped(goldens, monkeypatch):
    with open(goldens / "pipe", "wb", buffering=0) as pipe:

        class Gone(io.StringIO):
            def fileno(self) -> int:
                return pipe.fileno()

            def flush(self) -> None:
                raise BrokenPipeError

        monkeypatch.setattr(sys, "stdout", Gone())

        assert main(["show", str(goldens / "relu.yaml")]) == 2
        pipe.write(b"what Python writes at its end")
    assert (goldens / "pipe").read_bytes() == b""


def test_a_command_line_is_that_of_the_process_unless_another_is_given(monkeypatch, capsys):
    monkeypatch.setattr("pytest_fxgraph.command.main._NEEDED_BY_NO_GOLDEN", ())  # this process needs them
    monkeypatch.setattr(sys, "argv", ["fxgraph", "--version"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("fxgraph ")
