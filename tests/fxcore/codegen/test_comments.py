from __future__ import annotations

import enum
from dataclasses import replace

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.shape_prop import ShapeProp

from fixtures.oracle import assert_same
from fxcore import Graph
from fxcore.codegen.comments import VerboseStyle, innermost_frame, meta_docstring, value_annotation


def test_the_innermost_frame_of_a_stack_is_found():
    stack = 'File "a.py", line 1, in outer\n    inner()\n  File "b.py", line 22, in inner\n    return x + 1\n'

    assert innermost_frame(stack) == ("b.py", "22", "inner", "return x + 1")
    assert innermost_frame(stack, lambda file, name, code: (name, code) == ("outer", "inner()")).file == "a.py"
    assert innermost_frame('no frame\nFile "a.py", line 1, in without_code') is None
    assert innermost_frame("") is None
    assert innermost_frame(None) is None


def test_annotations_and_comments_are_torch_fx_s():
    def code(fx):
        graph = fx.symbolic_trace(lambda x: torch.relu(x).add(1).mul(2).neg()).graph
        values = [torch.ones(2, dtype=torch.int64), torch.nn.Parameter(torch.ones(2)), torch.ones(()), 3, None, (1, 2)]
        for node, value in zip(graph.nodes, values, strict=True):
            node.meta["val"] = value
        _, relu, add, mul, *_ = graph.nodes
        relu.stack_trace = add.stack_trace = 'File "m.py", line 1, in f\n    x = 1'
        mul.meta["custom"] = {"stage": "a" * 60, "n": 1, "whole": "b" * 40, "cut": "c" * 41}
        return graph.python_code("self", verbose=True, include_stride=True).src

    assert_same(code)


def test_symbolic_and_noted_values_and_recomputed_regions_are_written_in_torch_fx_s_words():
    class Recompute(enum.Enum):
        MUST_SAVE = 1

    example = torch.fx.symbolic_trace(torch.nn.ReLU())
    ShapeProp(example).propagate(torch.ones(2, 3))
    noted = next(iter(example.graph.nodes)).meta["tensor_meta"]

    def verbose(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        x.meta["tensor_meta"] = noted
        y = graph.call_function(torch.relu, (x,))
        y.meta.update(val=torch.ones(2), ac_graph_id=3)
        z = graph.call_function(torch.neg, (y,))
        z.meta.update(ac_graph_id=4, recompute=Recompute.MUST_SAVE)
        graph.output(z)
        return graph.python_code("self", verbose=True).src

    assert_same(verbose)


def test_a_symbolic_size_is_written_by_the_style():
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = ShapeEnv().create_unbacked_symint()

    plain = VerboseStyle(False, False, False, False, False, (), repr)
    assert plain.paint("red", "plain") == "plain"
    assert value_annotation(x, plain) == f': "Sym({x.meta["val"]!r})"'
    assert value_annotation(x, replace(plain, sym_repr=lambda size: "n")) == ': "Sym(n)"'


def test_all_metadata_is_listed_in_a_string_statement():
    x = Graph().placeholder("x")

    assert meta_docstring(x) == []
    x.meta["tag"] = 1
    assert any("tag: '1'" in line for line in meta_docstring(x))


def test_chosen_metadata_stand_in_the_comment_of_nodes_that_have_them():
    def code(fx):
        graph = fx.symbolic_trace(lambda x: torch.relu(x).neg()).graph
        _, relu, neg, _ = graph.nodes
        relu.meta.update(seq=3, stage="first", unseen=1)
        neg.meta.update(stage="second")
        return graph.python_code("self", verbose=True, additional_meta=["seq", "stage", "missing"]).src

    assert_same(code)
