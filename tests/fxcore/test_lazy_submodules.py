from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

import fxcore
from fxcore.lazy_submodules import on_demand

PATHS = (
    "passes.shape_prop.ShapeProp",
    "passes.infra.pass_manager.PassManager",
    "passes.utils.matcher_utils.SubgraphMatcher",
    "passes.dialect.common.cse_pass.CSEPass",
    "experimental.optimization.fuse",
    "interop.from_torch",
    "operator_schemas.normalize_function",
    "_symbolic_trace._assert_is_none",
    "_compatibility.compatibility",
    "_pytree.register_pytree_flatten_spec",
    "_utils.get_node_context",
    "config.__name__.upper",
    "passes.pass_manager.PassManager",
    "passes.tools_common.legalize_graph",
)
# Each is asked for in a process that has imported fxcore alone: a fork, which saves the import of torch.
ASK = """
import os, sys, fxcore
from functools import reduce

print("fxcore.passes.shape_prop" in sys.modules, flush=True)
for path in sys.argv[1:]:
    child = os.fork()
    if not child:
        print(path, reduce(getattr, path.split("."), fxcore).__name__, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def ran(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_submodules_are_there_without_an_import_of_their_own_and_not_before_somebody_asks():
    first, *lines = ran(ASK, *PATHS).splitlines()

    assert first == "False"
    assert lines == [f"{path} {path.split('.')[-1]}" for path in PATHS]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS[:1])
def test_a_submodule_is_there_on_every_system(path):
    assert ran(f"import fxcore; print(fxcore.{path}.__name__)").strip() == path.split(".")[-1]


def test_a_submodule_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'fxcore.passes' has no attribute 'splitter_base'"):
        _ = fxcore.passes.splitter_base


BACKEND = """
def load():
    import importlib, pkgutil
    import fxcore
    for found in pkgutil.walk_packages(fxcore.__path__, "fxcore."):
        importlib.import_module(found.name)
    print(fxcore.symbolic_trace(lambda x: x + 1, example_inputs=(2,))(2), "loaded")
"""


@pytest.mark.slow
def test_a_backend_that_torch_loads_at_its_import_may_import_fxcore(tmp_path, monkeypatch):
    (tmp_path / "ours.py").write_text(BACKEND)
    folder = tmp_path / "ours-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[torch.backends]\nours = ours:load\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))

    assert ran("import torch, fxcore; print(fxcore.symbolic_trace(lambda x: x)(1))").split() == ["3", "loaded", "1"]
    assert ran("import fxcore; print(fxcore.symbolic_trace(lambda x: x)(1))").split() == ["3", "loaded", "1"]


def test_a_name_of_a_submodule_is_there_beside_the_submodules():
    found = on_demand("fxcore", {"main": "profile"})

    assert found("main") is importlib.import_module("fxcore.profile").main
    assert found("seams") is on_demand("fxcore")("seams") is importlib.import_module("fxcore.seams")
    for name in ("nowhere", "__path_of_none__"):
        with pytest.raises(AttributeError, match=f"module 'fxcore' has no attribute '{name}'"):
            found(name)
