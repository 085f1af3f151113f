"""A run that uses none of the fixtures pays for none of what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pytest_fxgraph
from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode

HEAVY = ("torch", "fxcore", "deepdiff", "yaml", "numpy")

CHECK = f"""
import sys
import pytest

class Look:
    def pytest_unconfigure(self):
        heavy = [name for name in {HEAVY!r} if name in sys.modules]
        print("plugin loaded:", "pytest_fxgraph.plugin" in sys.modules)
        print("imported:", heavy)

sys.exit(pytest.main(["-p", "pytest_fxgraph.plugin", "-p", "no:randomly", *sys.argv[1:]], plugins=[Look()]))
"""


def _run(folder: Path, *arguments: str) -> str:
    # Started elsewhere: the conftest of this repository is no part of what is measured.
    command = [sys.executable, "-c", CHECK, f"--rootdir={folder}", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120).stdout


def test_a_run_without_the_fixtures_imports_nothing_heavy(tmp_path):
    tmp_path.joinpath("test_light.py").write_text("def test_light():\n    pass\n")

    output = _run(tmp_path)

    assert "1 passed" in output
    assert "plugin loaded: True" in output
    assert "imported: []" in output


def test_asking_for_the_help_imports_nothing_heavy(tmp_path):
    output = _run(tmp_path, "--help")

    assert "--fx-update-golden" in output
    assert "imported: []" in output


@pytest.mark.slow
def test_public_names_are_resolved_when_they_are_asked_for():
    code = (
        "import sys, pytest_fxgraph\n"
        "print('torch' in sys.modules, 'assert_graph_equal' in dir(pytest_fxgraph))\n"
        "from pytest_fxgraph import assert_equivalent, assert_graph_equal, assert_graph_matches_golden, diff_graphs\n"
        "print('torch' in sys.modules, callable(diff_graphs))\n"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)

    assert run.stdout.split() == ["False", "True", "True", "True"]


def test_a_name_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(AttributeError, match=r"it has Capture, .*assert_equivalent, assert_graph_equal"):
        pytest_fxgraph.__getattr__("assert_graphs_equal")


COMPARISON_WITHOUT_TORCH = """
import sys
from pathlib import Path

class Refuse:
    # They may be found, where they lie side by side with the plugin; what is refused is to import them.
    def find_spec(self, name, path=None, target=None):
        if name not in ("torch", "fxcore"):
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path[1:])
        spec = next(spec for spec in specs if spec is not None)
        spec.loader.exec_module = self.refuse
        return spec

    def refuse(self, module):
        raise ImportError(f"{module.__name__} is blocked")

sys.meta_path.insert(0, Refuse())
for name in ("torch", "fxcore"):
    try:
        __import__(name)
    except ImportError as error:
        print(error)

from pytest_fxgraph.command.main import main
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import decode

files = sys.argv[1:]
expected, obtained = (decode(Path(file).read_text(encoding="utf-8"), file) for file in files)
print("loosely equal:", compare_documents(expected, obtained, normalize=True, commutative=True).is_empty)
print("strictly equal:", main(["diff", *files]) == 0)
"""


def test_documents_are_compared_where_neither_torch_nor_fxcore_can_be_imported(tmp_path):
    for name, call in (("expected", "operator.add(%y, %x)"), ("obtained", ".add(%x, other=%y)")):
        text = encode(document(f"%x = input x\n%y = input y\n%a = {call}\nreturn %a"))
        tmp_path.joinpath(name).with_suffix(".yaml").write_text(text, encoding="utf-8")

    command = [sys.executable, "-c", COMPARISON_WITHOUT_TORCH, "expected.yaml", "obtained.yaml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert run.stdout.startswith("torch is blocked\nfxcore is blocked\nloosely equal: True\n"), run.stderr
    assert run.stdout.endswith("strictly equal: False\n")


COMMAND = """
import sys
from pytest_fxgraph.command.main import main

status = main(["show", sys.argv[-1]]) or ("numpy" in sys.modules, main(), "deepdiff" in sys.modules)
print(status, [name for name in ("numpy", "pydantic") if sys.modules.get(name) is not None])
"""


def test_the_command_spares_deepdiff_the_imports_that_texts_do_not_need(tmp_path):
    for name, function in (("expected", "torch.add"), ("obtained", "torch.sub")):
        text = encode(document(f"%x = input x\n%a = {function}(%x, %x)\nreturn %a"))
        tmp_path.joinpath(name).with_suffix(".yaml").write_text(text, encoding="utf-8")

    command = [sys.executable, "-c", COMMAND, "diff", "expected.yaml", "obtained.yaml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert run.stdout.endswith("\n(False, 1, True) []\n"), run.stdout + run.stderr


@pytest.mark.slow
def test_the_table_of_operators_is_read_when_a_comparison_asks_for_it_not_before():
    code = (
        "from pytest_fxgraph import plugin\n"
        "from pytest_fxgraph.document import operator_table\n"
        "from pytest_fxgraph.compare import commutativity, levels, normalization\n"
        "print(operator_table.operator_table.cache_info().currsize)\n"
        "import fxcore, fxcore.operators.table as table\n"
        "print(table.operator_table.cache_info().currsize)\n"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)

    assert run.stdout.split() == ["0", "0"]
