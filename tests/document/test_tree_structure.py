from __future__ import annotations

from types import SimpleNamespace

from torch.utils import _pytree as pytree

from pytest_fxgraph.document.tree_structure import structure_notes


def graph_with(inputs, outputs):
    _, in_spec = pytree.tree_flatten(inputs)
    _, out_spec = pytree.tree_flatten(outputs)
    info = SimpleNamespace(orig_args=["x", "options"], in_spec=in_spec, out_spec=out_spec)
    return SimpleNamespace(_codegen=SimpleNamespace(pytree_info=info))


def test_nested_inputs_and_outputs_are_noted():
    notes = structure_notes(graph_with(((1, {"k": 2}), {}), {"logits": 1, "hidden": [1, (2,), None]}), repr)

    assert notes == (
        "inputs: x, options",
        "input structure: ((*, {'k': *}), {})",
        f"output structure: {{'logits': *, 'hidden': [*, (*,), {'*' if _none_is_leaf() else 'builtins.NoneType()'}]}}",
    )


def test_a_graph_that_takes_its_values_as_they_are_has_no_notes():
    assert structure_notes(SimpleNamespace(_codegen=SimpleNamespace()), repr) == ()


def _none_is_leaf():
    return pytree.tree_flatten(None)[1].type is None
