"""The code of both packages stays small enough to hold in one's head.

Counted are lines that hold code, and lines of the templates, scripts and styles of pages. Blank lines, comments and
docstrings are free, so that nobody saves explanations. A bound rises only with its reason in the commit message.
"""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUNDS = {"fxcore": 23_020, "pytest_fxgraph": 35_875}
MOST_IN_ALL = 58_895
PAGE_SUFFIXES = (".html", ".j2", ".js", ".css", ".svg")
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def python_lines(source: str) -> int:
    """Return the number of lines of Python that hold code; every line of a string that is no docstring counts."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(source)))


def page_lines(source: str) -> int:
    """Return the number of lines of a template, script or style that are neither blank nor a comment of one line."""
    stripped = (line.strip() for line in source.splitlines())
    return sum(1 for line in stripped if line and not line.startswith(("//", "/*", "*", "{#")))


@cache
def lines_of(package: str) -> int:
    folder = ROOT / package
    python = sum(python_lines(file.read_text(encoding="utf-8")) for file in folder.rglob("*.py"))
    pages = (file for file in folder.rglob("*") if file.suffix in PAGE_SUFFIXES)
    return python + sum(page_lines(file.read_text(encoding="utf-8")) for file in pages)


def test_only_lines_that_hold_code_are_counted():
    source = (
        '"""A module."""\n\n# A comment.\ndef f(x):\n    """Return x."""\n    text = """one\n    two"""\n    return x\n'
    )

    assert python_lines(source) == 4
    assert page_lines("// a comment\n\nlet x = 1;\n") == 1


@pytest.mark.parametrize("package", BOUNDS)
def test_a_package_holds_at_most_so_many_lines_of_code(package, record_property):
    lines = lines_of(package)
    record_property("lines", lines)
    print(f"{package}: {lines:,} lines of code")

    assert 1_000 < lines <= BOUNDS[package], f"{package} has {lines:,} lines of code; its bound is {BOUNDS[package]:,}"


def test_both_packages_together_stay_below_the_common_bound():
    assert sum(map(lines_of, BOUNDS)) <= MOST_IN_ALL
