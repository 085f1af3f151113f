"""Imports run downhill, lazy ones and those for types included; files and functions stay of human size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(file for package in ("fxcore", "pytest_fxgraph") for file in (ROOT / package).rglob("*.py"))
LONGEST_FILE = 600
LONGEST_FUNCTION = 60


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}


def imports_of(file: Path) -> Iterator[str]:
    """Yield the full name of everything that a file imports anywhere."""
    package = module_name(file) if file.name == "__init__.py" else module_name(file).rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            home = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{home}.{alias.name}" for alias in node.names)


def own_imports_of(file: Path) -> set[str]:
    """Return which files of ours a file imports. The lists of public names that packages keep do not count."""
    found = set()
    for name in imports_of(file):
        target = name if name in MODULES else name.rpartition(".")[0]
        if target in MODULES and MODULES[target].name != "__init__.py":
            found.add(target)
    return found


def test_there_are_files_to_look_at():
    assert {"fxcore.graph", "fxcore.interop", "pytest_fxgraph.plugin", "pytest_fxgraph.compare.structure"} <= set(
        MODULES
    )
    assert "fxcore.node" in own_imports_of(MODULES["fxcore.graph"])


def test_no_two_files_import_each_other_on_any_way_around():
    edges = {name: own_imports_of(file) for name, file in MODULES.items() if file.name != "__init__.py"}
    finished: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, "a circle: " + " -> ".join([*path[path.index(name) :], name])
        if name not in finished:
            for imported in sorted(edges.get(name, ())):
                visit(imported, (*path, name))
            finished.add(name)

    for name in edges:
        visit(name, ())


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_a_file_imports_only_from_rooms_below_it(file):
    name, imported = module_name(file), set(imports_of(file))
    forbidden = {}
    if name.startswith("fxcore"):
        forbidden["pytest_fxgraph"] = "fxcore knows nothing of the plugin"
        forbidden["pytest"] = "fxcore knows nothing of pytest"
    if name != "fxcore.interop":
        forbidden["torch.fx"] = "fxcore.interop alone knows torch.fx; others look through fxcore.torch_fx_registry"
    if name.startswith(("pytest_fxgraph.compare", "pytest_fxgraph.report", "pytest_fxgraph.command")):
        forbidden["torch"] = forbidden["fxcore"] = "documents are compared and shown without torch"
    for package, reason in forbidden.items():
        found = sorted(item for item in imported if item == package or item.startswith(f"{package}."))
        assert not found, f"{name} imports {', '.join(found)}: {reason}"


def test_the_errors_of_the_plugin_import_nothing():
    assert set(imports_of(MODULES["pytest_fxgraph.errors"])) <= {"__future__.annotations"}


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_files_and_functions_are_of_human_size(file):
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") < LONGEST_FILE, "is there a second noun in it?"

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines: is there a second step in it?"
