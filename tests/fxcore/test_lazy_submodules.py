from __future__ import annotations

import subprocess
import sys

import pytest

import fxcore


@pytest.mark.parametrize(
    "path",
    [
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
    ],
)
def test_submodules_are_there_without_an_import_of_their_own(path):
    program = f"import fxcore; print(fxcore.{path}.__name__)"

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert shown.stdout.strip() == path.split(".")[-1], shown.stderr


def test_passes_are_not_imported_before_somebody_asks():
    program = "import sys, fxcore; print('fxcore.passes.shape_prop' in sys.modules)"

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "False"


def test_a_submodule_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'fxcore.passes' has no attribute 'splitter_base'"):
        _ = fxcore.passes.splitter_base
