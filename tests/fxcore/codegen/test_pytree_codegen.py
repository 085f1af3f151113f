from __future__ import annotations

import collections
import copy
import operator
import pickle

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same, assert_same_success
from fxcore import PH
from fxcore.codegen.pytree_codegen import PyTreeCodeGen, PyTreeInfo

Point = collections.namedtuple("Point", "x y")


def total(tree):
    leaves, _ = torch.utils._pytree.tree_flatten(tree)
    return {"sum": sum(leaves), "first": [leaves[0]]}


TREES = {
    "dict": {"a": PH, "b": {"c": PH}},
    "list": [PH, (PH, PH)],
    "named tuple": Point(PH, [PH]),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_nested_inputs_and_outputs_are_flat_in_the_graph_and_nested_outside(tree):
    def sights(fx):
        here = torch.utils._pytree.tree_map(lambda _: fx.PH, tree)
        ones = torch.utils._pytree.tree_map(lambda _: 1, tree)
        module = fx.symbolic_trace(total, concrete_args={"tree": here})
        copies = [copy.deepcopy(module), pickle.loads(pickle.dumps(module))]
        results = [each(ones) for each in (module, *copies)]
        return (
            module.graph,
            module.code,
            results,
            module.graph.process_inputs(ones),
            module.graph.process_outputs([5, 6]),
        )

    assert_same_success(sights)


def test_keyword_arguments_are_read_by_their_names():
    """A signature as exporters describe it: a tuple of positional arguments, and a dict of keyword arguments."""

    def sights(fx, info, codegen):
        graph = fx.Graph()
        x, y, z = [graph.placeholder(name) for name in ("x", "y", "z")]
        graph.output([graph.call_function(operator.sub, (x, y)), z])
        _, in_spec = torch.utils._pytree.tree_flatten(((1,), {"second": 2, "third": 3}))
        _, out_spec = torch.utils._pytree.tree_flatten([1, 2])
        graph.set_codegen(codegen(info(["a", "b", "c"], in_spec, out_spec)))
        module = fx.GraphModule(nn.Module(), graph)
        return module.code, module(5, 3, 1), module(a=5, c=1, b=3)

    theirs = sights(torch.fx, torch.fx.graph._PyTreeInfo, torch.fx.graph._PyTreeCodeGen)
    ours = sights(fxcore, PyTreeInfo, PyTreeCodeGen)

    assert ours == theirs
    assert "tree_flatten_spec(([a], {'second':b, 'third':c}), self._in_spec)" in ours[0]
    assert ours[1] == ours[2] == [2, 1]


def test_inputs_nested_in_another_way_are_refused():
    def sights(fx):
        module = fx.symbolic_trace(total, concrete_args={"tree": {"a": fx.PH, "b": fx.PH}})
        return [lambda: module({"a": 1}), lambda: module(5), lambda: module({"a": 1, "b": 2, "c": 3})]

    assert_same(sights)


def test_defaults_and_nested_inputs_go_together():
    class Model(nn.Module):
        def forward(self, x, mask=None, options={"a": 1}):  # noqa: B006 - a default that has to be unpacked
            return x + options["a"] if mask is None else x

    module = fxcore.symbolic_trace(Model(), concrete_args={"mask": None, "options": {"a": PH}})

    assert module(1, None, {"a": 5}) == 6
    with pytest.raises(SyntaxError):
        torch.fx.symbolic_trace(Model(), concrete_args={"mask": None, "options": {"a": torch.fx.PH}})


def test_without_a_description_of_the_structure_values_pass_as_they_are():
    codegen = PyTreeCodeGen(None)

    assert codegen.process_outputs([1, (2,)]) == [1, (2,)]
    assert codegen.generate_output("x") == "return 'x'"
    assert codegen.gen_fn_def(["self", "x"], "") == fxcore.CodeGen().gen_fn_def(["self", "x"], "")


def test_descriptions_of_nested_outputs_are_comments_of_their_lines():
    _, spec = torch.utils._pytree.tree_flatten([1, 2])
    codegen = PyTreeCodeGen(PyTreeInfo(["x"], spec, spec))

    assert codegen.gen_fn_def(["a", "b"], "").startswith("def forward(self, x):\n    a, b, = fx_pytree.")
    assert codegen.generate_output(["a", "b"], descs=["first", "second"], repr_fn=str) == (
        "return pytree.tree_unflatten([\n    a,  # first\n    b,  # second\n], self._out_spec)"
    )
    assert codegen.generate_output(["a", "b"]) == "return pytree.tree_unflatten(['a', 'b'], self._out_spec)"


def test_annotations_of_an_expanded_definition_stand_on_their_own_lines():
    _, spec = torch.utils._pytree.tree_flatten([1, 2])
    codegen = PyTreeCodeGen(PyTreeInfo(["tree"], spec, None))

    expanded = codegen.gen_var_bindings(["tree"], ["x : int", "y", "z : str = 'a'"], True)
    assert expanded.splitlines() == [
        *("", "    x : int", "    z : str = 'a'"),
        "    x , y, z , = fx_pytree.tree_flatten_spec([tree], self._in_spec)",
    ]
    plain = codegen.gen_var_bindings(["tree"], ["x", "y"], True)
    assert plain == "\n    x, y, = fx_pytree.tree_flatten_spec([tree], self._in_spec)"
