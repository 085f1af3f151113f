"""Imports run downhill, lazy ones and those for types included; files and functions stay of human size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
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


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imports_of(file: Path) -> Iterator[str]:
    """Yield the full name of everything that a file imports anywhere."""
    package = module_name(file) if file.name == "__init__.py" else module_name(file).rpartition(".")[0]
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            home = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{home}.{alias.name}" for alias in node.names)


@cache
def own_imports_of(file: Path) -> set[str]:
    """Return which files of ours a file imports. The lists of public names that packages keep do not count."""
    found = set()
    for name in imports_of(file):
        target = name if name in MODULES else name.rpartition(".")[0]
        if target in MODULES and MODULES[target].name != "__init__.py":
            found.add(target)
    return found


def names_from_our_files(tree: ast.Module) -> dict[str, str]:
    """Map each name that a file imports from our files to the full name of the file."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in MODULES
        for alias in node.names
    }


def foreign_assignments(tree: ast.Module) -> Iterator[str]:
    """Yield the attributes of imported objects of ours that a file assigns: imports upwards in disguise."""
    imported = names_from_our_files(tree)
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr"
        for target in node.args[:1] if is_call else targets:
            owner = target
            while isinstance(owner, ast.Attribute):
                owner = owner.value
            if (is_call or owner is not target) and isinstance(owner, ast.Name) and owner.id in imported:
                yield ast.unparse(target)


def modules_named_in_texts(tree: ast.Module) -> set[str]:
    """Return the files of ours that texts name. A `__module__` that a file gives to its own object does not count."""
    given = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Attribute) and target.attr == "__module__" for target in node.targets)
    }
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in given
    }
    return {text for text in texts if "." in text and text in MODULES}


def seams_in(tree: ast.Module) -> set[str]:
    """Return the names of the seams that a file declares."""
    return {
        ast.unparse(node.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and node.value is not None and ast.unparse(node.value) == "Seam()"
    }


def seams_provided_in(tree: ast.Module) -> list[tuple[str, str]]:
    """Return file and name of each seam that a file provides the function of."""
    imported = names_from_our_files(tree)
    decorators = [
        decorator for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for decorator in node.decorator_list
    ]
    names = [ast.unparse(each.value) for each in decorators if isinstance(each, ast.Attribute)]
    texts = [ast.unparse(each) for each in decorators]
    return [(imported[name], name) for name in names if f"{name}.provide" in texts]


def test_there_are_files_to_look_at():
    assert {"fxcore.graph", "fxcore.interop", "pytest_fxgraph.plugin", "pytest_fxgraph.compare.structure"} <= set(
        MODULES
    )
    assert "fxcore.node" in own_imports_of(MODULES["fxcore.graph"])


# From the ground up: a file imports from its own package and from what stands before it. A package is one place here,
# with all that lies in it.
ORDER = (
    *("fxcore.errors", "fxcore._compatibility", "fxcore.config", "fxcore.lazy_submodules"),
    *("fxcore.seams", "fxcore.torch_fx_registry", "fxcore.immutable_collections", "fxcore._pytree", "fxcore.operators"),
    *("fxcore.operator_schemas", "fxcore.traceback", "fxcore.node_data", "fxcore.node", "fxcore.nodes"),
    *("fxcore.codegen", "fxcore.graph", "fxcore.guards", "fxcore._utils", "fxcore.serialization"),
    *("fxcore.state", "fxcore.guard_checks", "fxcore.lazy_forward", "fxcore.uninitialized", "fxcore.graph_module"),
    *("fxcore.tracing", "fxcore.proxy", "fxcore.tracer", "fxcore.guided", "fxcore._symbolic_trace"),
    *("fxcore.matching", "fxcore.subgraph_rewriter", "fxcore.interpreter"),
    *("fxcore.passes", "fxcore.transforms", "fxcore.profile", "fxcore.experimental", "fxcore.interop"),
    *("pytest_fxgraph.errors", "pytest_fxgraph.vacuity", "pytest_fxgraph.choices", "pytest_fxgraph.arguments"),
    *(
        "pytest_fxgraph.budget",
        "pytest_fxgraph.settings",
        "pytest_fxgraph.grouping",
        "pytest_fxgraph.operator_dialects",
    ),
    *("pytest_fxgraph.document", "pytest_fxgraph.compare", "pytest_fxgraph.report"),
    *("pytest_fxgraph.draw", "pytest_fxgraph.operator_patterns", "pytest_fxgraph.hookspecs"),
    *("pytest_fxgraph.goldens", "pytest_fxgraph.recordings", "pytest_fxgraph.replay"),
    *("pytest_fxgraph.graph_difference", "pytest_fxgraph.captures", "pytest_fxgraph.ranks"),
    *("pytest_fxgraph.operator_queries", "pytest_fxgraph.gate", "pytest_fxgraph.equivalence"),
    *("pytest_fxgraph.strategies", "pytest_fxgraph.transform", "pytest_fxgraph.recorder"),
    *("pytest_fxgraph.command", "pytest_fxgraph.functions"),
    *("pytest_fxgraph.fixtures", "pytest_fxgraph.plugin"),
)


WITHOUT_TORCH = (
    *("pytest_fxgraph.compare", "pytest_fxgraph.report", "pytest_fxgraph.draw", "pytest_fxgraph.recordings"),
    *("pytest_fxgraph.replay", "pytest_fxgraph.command"),
)
KNOW_TORCH_FX = ("fxcore.interop", "pytest_fxgraph.captures.torch_internals")


def place_of(name: str) -> str:
    """Return the package below fxcore or pytest_fxgraph that a file lies in, or the file that stands at the root."""
    return ".".join(name.split(".")[:2])


def test_every_package_and_every_file_at_the_root_has_a_place_in_the_order():
    places = {place_of(name) for name in MODULES if "." in name}

    assert places == set(ORDER)
    assert len(ORDER) == len(set(ORDER))


@pytest.mark.parametrize("place", ORDER)
def test_imports_run_down_between_packages(place):
    allowed = set(ORDER[: ORDER.index(place) + 1])
    is_list_of_names = MODULES[place].name == "__init__.py"
    files = [
        file for name, file in MODULES.items() if place_of(name) == place and not (is_list_of_names and name == place)
    ]

    upward = {
        f"{module_name(file)} imports {imported}"
        for file in files
        for imported in own_imports_of(file)
        if place_of(imported) not in allowed
    }

    assert files
    assert not upward


@pytest.mark.parametrize("package", [name for name, file in MODULES.items() if file.name == "__init__.py"])
def test_a_package_says_in_a_line_what_lives_there(package):
    docstring = ast.get_docstring(tree_of(MODULES[package]))

    assert docstring is not None
    assert 20 < len(docstring.splitlines()[0]) <= 117


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
def test_a_file_imports_no_library_that_its_package_does_without(file):
    name, imported = module_name(file), set(imports_of(file))
    forbidden = {}
    if name.startswith("fxcore"):
        forbidden["pytest_fxgraph"] = "fxcore knows nothing of the plugin"
        forbidden["pytest"] = "fxcore knows nothing of pytest"
    if name not in KNOW_TORCH_FX:
        forbidden["torch.fx"] = f"{', '.join(KNOW_TORCH_FX)} know it; others look through fxcore.torch_fx_registry"
    if name.startswith(WITHOUT_TORCH):
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

    for node in ast.walk(tree_of(file)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines: is there a second step in it?"


def trees() -> dict[str, ast.Module]:
    return {name: tree_of(file) for name, file in MODULES.items()}


def test_a_file_assigns_nothing_to_objects_of_another_file():
    found = {name: assigned for name, tree in trees().items() if (assigned := list(foreign_assignments(tree)))}

    assert not found, "declare a Seam in the lower file, and provide its function in the upper file"


def test_assignments_to_objects_of_another_file_are_found():
    source = """
from fxcore.proxy import Proxy, TracerBase as Base
local = 1
local.x = Base.x
Base.proxy_class = Proxy
def late():
    Base.a.b += 1
    setattr(local, "x", Proxy)
    setattr(Proxy, "x", 1)
"""

    assert set(foreign_assignments(ast.parse(source))) == {"Base.proxy_class", "Base.a.b", "Proxy"}


def test_a_seam_has_one_provider_and_it_stands_above():
    declared = {(file, name) for file, tree in trees().items() for name in seams_in(tree)}
    provided = [(seam, file) for file, tree in trees().items() for seam in seams_provided_in(tree)]

    assert ("fxcore.serialization.pickling", "RETRACE") in declared
    assert sorted(seam for seam, _ in provided) == sorted(declared)
    for (lower, _), upper in provided:
        assert ORDER.index(place_of(lower)) < ORDER.index(place_of(upper))


def test_no_text_names_a_file_that_could_not_be_imported():
    """A class that is looked up by the name of its file is used like an imported class."""
    named = {name: modules_named_in_texts(tree) - {name} for name, tree in trees().items()}
    upward = {
        f"{name} names {each}"
        for name, others in named.items()
        for each in others
        if ORDER.index(place_of(each)) > ORDER.index(place_of(name)) or name in reachable_from(each)
    }

    assert "fxcore.interop" in modules_named_in_texts(ast.parse("x = {('fxcore.interop', 'y')}"))
    assert not upward


@cache
def reachable_from(name: str) -> set[str]:
    """Return the files that a file imports, directly or through other files."""
    found: set[str] = set()
    unvisited = [name]
    while unvisited:
        new = own_imports_of(MODULES[unvisited.pop()]) - found
        found |= new
        unvisited += new
    return found
