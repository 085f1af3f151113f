"""A call that leaves arguments out gets the values that it gets from torch.fx."""

from __future__ import annotations

import importlib
import inspect

import pytest

MODULES = (
    *("fake_tensor_prop", "graph_drawer", "graph_manipulation", "graph_transform_observer", "operator_support"),
    *("pass_manager", "shape_prop", "split_module", "split_utils", "tools_common"),
    *("dialect.common.cse_pass", "infra.partitioner", "infra.pass_base", "infra.pass_manager"),
    *("utils.common", "utils.fuser_utils", "utils.matcher_utils", "utils.matcher_with_name_node_map_utils"),
    "utils.source_matcher_utils",
)


def defaults_in(module: object) -> dict[str, object]:
    """Return the defaults of functions and methods by their names, of the values that == compares."""
    found: dict[str, object] = {}
    for name, value in vars(module).items():
        members = [(name, value), *((f"{name}.{key}", each) for key, each in getattr(value, "__dict__", {}).items())]
        for path, member in members if getattr(value, "__module__", None) == module.__name__ else ():
            if not inspect.isfunction(member):
                continue
            for parameter in inspect.signature(member).parameters.values():
                if isinstance(parameter.default, (bool, int, str, type(None))):
                    found[f"{path}({parameter.name})"] = parameter.default
    return found


@pytest.mark.parametrize("name", MODULES)
def test_arguments_have_the_defaults_of_torchs(name):
    try:
        ours = defaults_in(importlib.import_module(f"fxcore.passes.{name}"))
        theirs = defaults_in(importlib.import_module(f"torch.fx.passes.{name}"))
    except ModuleNotFoundError:
        pytest.skip("one of the libraries has no such module")

    assert {each: ours[each] for each in ours.keys() & theirs.keys()} == {
        each: theirs[each] for each in ours.keys() & theirs.keys()
    }
