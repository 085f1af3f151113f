from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same
from fxcore import CodeGen, Graph
from fxcore.errors import FxError


def function(x, y):
    return torch.relu(x) + y, [x]


def test_a_copy_is_a_graph_of_its_own_with_the_same_text_and_metadata():
    def copied(fx):
        graph = fx.symbolic_trace(function).graph
        for node in graph.nodes:
            node.meta["of"] = [node.name]
        clone = copy.deepcopy(graph)
        metas = [node.meta for node in clone.nodes]
        shared = [a.meta is b.meta for a, b in zip(graph.nodes, clone.nodes, strict=True)]
        return clone, metas, shared, clone.owning_module, clone._tracer_cls is graph._tracer_cls

    assert_same(copied)


def test_a_copy_of_3000_nodes_is_no_deep_recursion():
    def chain(x):
        for _ in range(3000):
            x = x + 1
        return x

    module = fxcore.symbolic_trace(chain)

    assert len(copy.deepcopy(module.graph).nodes) == len(pickle.loads(pickle.dumps(module)).graph.nodes) == 3002


def test_copying_nodes_of_another_graph_maps_what_they_read():
    def copied(fx):
        source = fx.symbolic_trace(function).graph
        graph, values = fx.Graph(), {}
        a = graph.placeholder("a")
        values[next(iter(source.nodes))] = a
        first = graph.graph_copy(source, values)
        second, output = graph.graph_copy(source, {}, return_output_node=True)
        graph.output((first, second))
        return graph, output.name, {old.name: new.name for old, new in values.items()}

    assert_same(copied)


def test_erasing_a_node_that_is_still_read_names_the_readers():
    graph = fxcore.symbolic_trace(function).graph
    x, *_ = graph.nodes

    with pytest.raises(RuntimeError, match="Tried to erase Node x but it still had 2 users in the graph") as caught:
        graph.erase_node(x)

    assert "relu, output" in str(caught.value)
    assert isinstance(caught.value, FxError)


def test_erasing_calls_the_hooks_and_frees_what_was_read():
    module = fxcore.symbolic_trace(lambda x: x)
    (x, _), told = module.graph.nodes, []
    module._register_create_node_hook(lambda node: told.append(("create", node.name)))
    module._register_erase_node_hook(lambda node: told.append(("erase", node.name, list(node.args))))

    extra = module.graph.call_function(torch.neg, (x,))
    module.graph.erase_node(extra)

    assert told == [("create", "neg"), ("erase", "neg", [x])]
    assert extra not in x.users
    with pytest.warns(UserWarning, match="already erased node"):
        module.graph.erase_node(extra)


def test_erasing_a_node_of_another_graph_is_refused():
    graph, other = fxcore.symbolic_trace(function).graph, fxcore.symbolic_trace(function).graph

    with pytest.raises(RuntimeError, match=r"Attempting to remove output from wrong graph!"):
        graph.erase_node(other.output_node())


def test_a_graph_that_does_not_end_in_an_output_says_so():
    graph = Graph()
    graph.placeholder("x")

    with pytest.raises(AssertionError, match="Expected output node, got op=placeholder"):
        graph.output_node()


def test_lines_of_code_can_be_changed_for_the_length_of_a_block():
    def codes(fx):
        module, seen = fx.symbolic_trace(function), []

        def tag(text):
            return lambda before: lambda body: [f"# {text}\n", *(before(body) if before else body)]

        module.graph.on_generate_code(tag("always"))
        for text in ("once", "twice"):
            with module.graph.on_generate_code(tag(text)):
                module.recompile()
                seen += [module.code, module._lineno_map]
        module.recompile()
        return [*seen, module.code, copy.deepcopy(module).code]

    assert_same(codes)


class TakesOneList(CodeGen):
    def gen_fn_def(self, free_vars, maybe_return_annotation):
        return f"def forward(self, values){maybe_return_annotation}:\n    {', '.join(free_vars)} = values"

    def process_inputs(self, *inputs):
        return inputs[0]


def test_a_codegen_of_an_older_interface_still_writes_code():
    module = fxcore.symbolic_trace(function)

    module.graph.set_codegen(TakesOneList())
    module.recompile()

    assert torch.equal(module([torch.ones(1), torch.ones(1)])[0], torch.full((1,), 2.0))
    assert module.graph.process_inputs(["a", "b"]) == ["a", "b"]
    assert copy.deepcopy(module).code == module.code


def test_dead_code_goes_from_graph_modules_that_the_graph_reads():
    inner = fxcore.symbolic_trace(lambda x: (torch.relu(x), x)[1])
    root = nn.Module()
    root.inner = inner
    graph = Graph()
    graph.output(graph.create_node("get_attr", "inner"))

    changed = fxcore.GraphModule(root, graph).graph.eliminate_dead_code()

    assert changed
    assert "relu" not in inner.code
