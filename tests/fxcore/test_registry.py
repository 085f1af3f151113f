"""Every object that torch promises to keep is there, under the same module name, with the same signature."""

from __future__ import annotations

import importlib
import inspect

import pytest
import torch.fx
import torch.fx.passes.shape_prop
import torch.fx.passes.split_module
from torch.fx import _compatibility

import fxcore

# What the project leaves out on purpose.
OUTSIDE = ("torch.fx.passes.reinplace", "torch.fx.passes.runtime_assert")

# Parameters beyond torch's, each by keyword only and with torch's behaviour as default. Why they are there:
WIDENED = {
    "torch.fx._symbolic_trace.symbolic_trace": "example_inputs and what goes with them (CONTRACT 1)",
    "torch.fx._symbolic_trace.Tracer.trace": "the same",
    "torch.fx.interpreter.Transformer.transform": "keep_types keeps annotations, which torch drops",
    "torch.fx.subgraph_rewriter.replace_pattern": "modules by class or config, literals as captures (CONTRACT 5.6)",
    "torch.fx.passes.utils.matcher_utils.SubgraphMatcher.__init__": "the same for the matcher itself",
    "torch.fx.passes.utils.matcher_with_name_node_map_utils.SubgraphMatcherWithNameNodeMap.__init__": "the same",
}

# Parameters at the end, with defaults, that a later torch has; they are taken whichever torch is installed.
FROM_TORCH_2_14 = {
    "torch.fx.experimental.const_fold.split_const_subgraphs": ["is_impure_node"],
}

# Public names of torch's modules that are not there, none of them promised. Why:
ABSENT = {
    "torch.fx.proxy.MetaProxy": "computes on fake tensors while it records; FakeTensorProp does so afterwards",
}


def promised():
    """The registered objects by name, such as `torch.fx.node.Node.append`."""
    found = {f"{each.__module__}.{each.__qualname__}": each for each in _compatibility._BACK_COMPAT_OBJECTS}
    return {name: each for name, each in sorted(found.items()) if not name.startswith(OUTSIDE)}


def our_module_of(their_module):
    if their_module == "torch.fx._symbolic_trace":
        return "fxcore"
    return their_module.replace("torch.fx", "fxcore", 1)


def ours_for(each):
    found = importlib.import_module(our_module_of(each.__module__))
    for name in each.__qualname__.split("."):
        found = getattr(found, name)
    return found


def shown_default(default):
    if default is inspect.Parameter.empty or default is inspect.Signature.empty:
        return "nothing"
    # Functions and classes of fxcore stand for torch's of the same name.
    return f"the {default.__name__}" if inspect.isroutine(default) or inspect.isclass(default) else repr(default)


def signature_of(each):
    try:
        parameters = inspect.signature(each).parameters.values()
    except ValueError:  # a class whose constructor is written in C
        return None
    return [(parameter.name, parameter.kind.name, shown_default(parameter.default)) for parameter in parameters]


def assert_fits(name, obtained, expected):
    """Compare two signatures: the same, or wider by keywords with defaults and listed above."""
    ours, theirs = signature_of(obtained), signature_of(expected)
    added = FROM_TORCH_2_14.get(name, [])
    if added and theirs[-len(added) :] != ours[-len(added) :]:
        assert [(parameter, default) for parameter, _, default in ours[-len(added) :]] == [
            (each, "None") for each in added
        ]
        ours = ours[: -len(added)]
    if name in WIDENED:
        further = ours[len(theirs) :]
        assert further, f"{name} is no exception any more"
        assert all(kind == "KEYWORD_ONLY" and default != "nothing" for _, kind, default in further)
        ours = ours[: len(theirs)]
    assert ours == theirs, name


def test_the_registry_holds_what_it_held():
    assert len(promised()) >= 90


@pytest.mark.parametrize("name", promised())
def test_a_promised_object_is_there_with_the_same_signature(name):
    expected = promised()[name]

    obtained = ours_for(expected)

    assert callable(obtained)
    assert_fits(name, obtained, expected)


@pytest.mark.parametrize("name", torch.fx.__all__)
def test_a_public_name_of_torch_is_a_public_name(name):
    assert name in fxcore.__all__
    assert hasattr(fxcore, name)


MODULES = [
    "graph",
    "graph_module",
    "immutable_collections",
    "interpreter",
    "node",
    "operator_schemas",
    "proxy",
    "subgraph_rewriter",
    "traceback",
    "passes.dialect.common.cse_pass",
    "passes.fake_tensor_prop",
    "passes.graph_drawer",
    "passes.graph_manipulation",
    "passes.graph_transform_observer",
    "passes.infra.partitioner",
    "passes.infra.pass_base",
    "passes.infra.pass_manager",
    "passes.operator_support",
    "passes.shape_prop",
    "passes.split_module",
    "passes.split_utils",
    "passes.utils.common",
    "passes.utils.fuser_utils",
    "passes.utils.matcher_utils",
    "passes.utils.matcher_with_name_node_map_utils",
    "passes.utils.source_matcher_utils",
    "experimental.const_fold",
    "experimental.normalize",
    "experimental.optimization",
]


def public_names(module):
    """What a module says is public, or else what it defines without an underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


@pytest.mark.parametrize("path", MODULES)
def test_a_public_module_has_the_public_names_of_torchs(path):
    theirs, ours = importlib.import_module(f"torch.fx.{path}"), importlib.import_module(f"fxcore.{path}")

    missing = [name for name in public_names(theirs) if not hasattr(ours, name)]

    assert [f"torch.fx.{path}.{name}" for name in missing] == [
        name for name in ABSENT if name.startswith(theirs.__name__)
    ]


def functions_and_methods(path):
    """Public functions of a module of torch, and public methods of its classes, by name."""
    module = importlib.import_module(f"torch.fx.{path}")
    for name in public_names(module):
        value = getattr(module, name)
        if inspect.isfunction(value):
            yield name
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            methods = [key for key, method in vars(value).items() if inspect.isfunction(method)]
            yield from (
                f"{name}.{key}" for key in methods if not key.startswith("_") or key in ("__init__", "__call__")
            )


def resolve(package, path, name):
    found = importlib.import_module(f"{package}.{path}")
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("path", [path for path in MODULES if path.startswith(("passes", "experimental"))])
def test_functions_of_passes_take_what_torchs_take(path):
    for name in functions_and_methods(path):
        assert_fits(f"torch.fx.{path}.{name}", resolve("fxcore", path, name), resolve("torch.fx", path, name))
