from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="the tool limits the memory of what it runs, which Windows cannot")

from benchmarks import source_mutants
from benchmarks.source_mutants import (
    PACKAGES,
    ROOT,
    Result,
    all_mutants,
    chosen,
    groups_of,
    importers_of,
    mirror_of,
    mutants_of,
    reaching_groups,
    run_mutant,
    run_pytest,
    summary,
)


def changes(source: str) -> set[tuple[str, str]]:
    return {(mutant.before, mutant.after) for mutant in mutants_of("module.py", source)}


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("x = a == b", "==", "!="),
        ("x = a < b", "<", "<="),
        ("x = a <= b", "<=", "<"),
        ("x = a >= b", ">=", ">"),
        ("x = a is b", "is", "is not"),
        ("x = a is not b", "is not", "is"),
        ("x = a not in b", "not in", "in"),
        ("x = a and b", "and", "or"),
        ("x = (a  # or not\n     or b)", "or", "and"),
        ("if a(b):\n    pass", "a(b)", "(not (a(b)))"),
        ("while not a:\n    pass", "not a", "(a)"),
        ("x = [a for a in b if a.c]", "a.c", "(not (a.c))"),
        ("x = 3", "3", "4"),
        ("x = 0", "0", "1"),
        ("x = True", "True", "False"),
        ("for a in b:\n    break", "break", "continue"),
        ("for a in b:\n    continue", "continue", "break"),
        ("f(*a)", "*a", "a"),
        ("f(a, strict=True)", "True", "False"),
        ("x = 'ä' and b", "and", "or"),
        ("def f(a: int = 3): ...", "3", "2"),
    ],
)
def test_each_kind_of_change_is_found(source, before, after):
    assert (before, after) in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring: 1 == 2 and True."""',
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "x: Literal[3] = y",
        "__all__ = [a and b]",
        "def f():\n    __tracebackhide__ = True",
        "if TYPE_CHECKING:\n    import a",
        "raise ValueError(a and b)",
        "x = f'{a and b}'",
        "class A:\n    def __repr__(self):\n        return a and b",
        "@dataclass(frozen=True)\nclass A: ...",
        "x = 1_000_000",
        "zip(a, b, strict=True)",
        "x: int = field(repr=False)",
    ],
)
def test_words_types_and_options_without_effect_are_left_alone(source):
    assert changes(source) == set()


def test_every_mutant_of_the_sources_is_a_program_that_differs_in_one_place():
    path = "fxcore/node.py"
    source = (ROOT / path).read_text(encoding="utf-8")

    mutants = mutants_of(path, source)

    assert len(mutants) > 50
    for mutant in mutants:
        lines = source.split("\n")
        assert lines[mutant.line - 1][mutant.column :].startswith(mutant.before.split("\n")[0])
        assert mutant.applied(source) != source
        compile(mutant.applied(source), path, "exec", dont_inherit=True)


@pytest.mark.slow
def test_a_seed_chooses_the_same_mutants_again_and_a_name_chooses_one():
    mutants = all_mutants(ROOT, ("pytest_fxgraph",))

    assert chosen(mutants, 20, seed=1) == chosen(mutants, 20, seed=1) != chosen(mutants, 20, seed=2)
    assert chosen(mutants, 20, 0, [str(mutants[7])]) == [mutants[7]]
    with pytest.raises(ValueError, match=r"no mutant is called nowhere.py::1:1:bool; --list shows all"):
        chosen(mutants, 20, 0, ["nowhere.py::1:1:bool"])


def test_tests_are_ordered_from_the_nearest_to_the_broadest():
    paths = groups_of("pytest_fxgraph/goldens/store.py", ROOT)

    assert mirror_of("fxcore/graph.py") == "tests/fxcore/test_graph.py"
    assert mirror_of("pytest_fxgraph/settings.py") == "tests/test_settings.py"
    assert paths[0] == ("tests/goldens/test_store.py",)
    assert "tests/goldens/test_store.py" in importers_of("pytest_fxgraph/goldens/store.py", ROOT)
    assert paths[-4:] == [("tests/goldens",), ("tests/workflow",), ("tests/trust",), ("tests/differential",)]


class Reached:
    """Stands for the data of coverage.py, which knows absolute paths alone."""

    def contexts_by_lineno(self, path):
        near, far = "tests/fxcore/test_sign.py::test_sign|run", "tests/test_other.py::test_a[x|y]|run"
        return {1: [""], 2: [far, near, ""], 20: [far]} if path == str(ROOT / "fxcore/sign.py") else {}


def test_tests_that_reach_the_line_come_in_place_of_folders():
    usual = [("tests/fxcore/test_sign.py",), ("tests/trust",)]
    near, far = "tests/fxcore/test_sign.py::test_sign", "tests/test_other.py::test_a[x|y]"

    def groups(path, line):
        mutant = source_mutants.Mutant(path, line, 0, "compare", "<", "<=", 0, 1)
        return [set(paths) for paths in reaching_groups(mutant, Reached(), usual)]

    mirror = {"tests/fxcore/test_sign.py"}
    assert groups("fxcore/sign.py", 2)[:2] == [mirror, {near, far}]
    assert groups("fxcore/sign.py", 4)[:2] == [mirror, {near, far}]
    assert groups("fxcore/sign.py", 20) == [mirror, {far}]
    assert groups("fxcore/sign.py", 1) == groups("fxcore/node.py", 2) == [mirror, {"tests/trust"}]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one source, whose test sees one of its two conditions."""
    for package in PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "tests" / "fxcore").mkdir(parents=True)
    (tmp_path / "fxcore" / "sign.py").write_text("def sign(x):\n    return x < 0, x < 10\n", encoding="utf-8")
    test = "from fxcore.sign import sign\n\ndef test_sign():\n    assert not sign(0)[0]\n"
    (tmp_path / "tests" / "fxcore" / "test_sign.py").write_text(test, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_a_mutant_is_noticed_or_survives_and_is_taken_back(tree):
    source = (tree / "fxcore" / "sign.py").read_text(encoding="utf-8")
    first, second = [mutant for mutant in all_mutants(tree) if mutant.kind == "compare"]

    noticed, survived = run_mutant(first, tree), run_mutant(second, tree)

    assert noticed.test == "tests/fxcore/test_sign.py::test_sign"
    assert survived.verdict == "SURVIVED"
    assert str(survived) == "fxcore/sign.py::2:20:compare  `<` -> `<=`  SURVIVED"
    assert summary([noticed, survived]) == "1 of 2 mutants noticed (50 %)"
    assert (tree / "fxcore" / "sign.py").read_text(encoding="utf-8") == source


def test_tests_that_fail_without_a_mutant_make_it_doubtful(tree):
    (tree / "fxcore" / "sign.py").write_text("def sign(x):\n    return x <= 0, x < 10\n", encoding="utf-8")
    mutant = all_mutants(tree)[0]
    result = Result(mutant, "tests/fxcore/test_sign.py::test_sign", ("tests/fxcore/test_sign.py",), "exit status 1")

    assert [each.mutant for each in source_mutants.doubtful([result], tree)] == [mutant]


@pytest.mark.slow
def test_tests_that_do_not_end_are_ended(tree):
    (tree / "tests" / "fxcore" / "test_sign.py").write_text("while True: pass\n", encoding="utf-8")

    reason, failed = run_pytest(tree, ["tests/fxcore/test_sign.py"], limit=1)

    assert (reason, failed) == ("time limit of 1 s", [])
    shutil.rmtree(f"{tree}-tmp", ignore_errors=True)
