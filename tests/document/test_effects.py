from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fxcore import Graph, GraphModule
from pytest_fxgraph.document.builder import build_document


def effects_of(graph, root=None):
    document = build_document(GraphModule(root or nn.Module(), graph))
    return {node.name: node.effects for node in document.nodes if node.effects}


def test_a_graph_that_writes_nothing_has_no_reads():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("view", (graph.call_function(torch.relu, (x,)), -1)))

    assert effects_of(graph) == {}


def test_an_input_that_may_share_storage_with_an_earlier_one_reads_nothing_itself():
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output((graph.call_function(torch.broadcast_tensors, (x, y)), graph.call_method("add_", (x, 1))))

    assert effects_of(graph) == {
        "broadcast_tensors": ("read %x",),
        "add_": ("write %x",),
        "output": ("read %x",),
    }


def test_a_write_names_the_first_node_of_what_shares_the_storage():
    graph = Graph()
    x = graph.placeholder("x")
    before = graph.call_function(torch.relu, (x,))
    view = graph.call_method("view", (x, -1))
    written = graph.call_method("add_", (view, 1))
    after = graph.call_function(torch.neg, (x,))
    apart = graph.call_function(torch.abs, (before,))
    graph.output((written, after, apart))

    assert effects_of(graph) == {
        "relu": ("read %x",),
        "view": ("read %x",),
        "add_": ("write %x",),
        "neg": ("read %x",),
        "output": ("read %x",),
    }


def test_a_result_made_in_place_is_its_input():
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    again = graph.call_function(F.relu, (relu,), {"inplace": True})
    neg = graph.call_function(torch.neg, (again,))
    graph.output(neg)

    assert effects_of(graph) == {"relu_1": ("write %relu",), "neg": ("read %relu",)}


def test_what_out_names_is_written():
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.placeholder("y")
    graph.output(graph.call_function(torch.add, (x, x), {"out": y}))

    assert effects_of(graph) == {"add": ("write %y",), "output": ("read %y",)}


def test_setting_an_item_writes_the_object_and_not_the_value():
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.placeholder("y")
    graph.call_function(operator.setitem, (x, 0, y))
    graph.output(graph.call_function(torch.neg, (y,)))

    assert effects_of(graph) == {"setitem": ("write %x",)}


def test_one_parameter_read_twice_is_one_storage():
    root = nn.Linear(2, 2)
    graph = Graph()
    first = graph.get_attr("weight")
    second = graph.get_attr("weight")
    graph.call_method("mul_", (second, 2))
    graph.output(graph.call_function(torch.neg, (first,)))

    assert effects_of(graph, root) == {
        "weight_1": ("read %weight",),
        "mul_": ("write %weight",),
        "neg": ("read %weight",),
    }


def test_a_module_reads_its_parameters_that_the_graph_writes():
    root = nn.Module()
    root.linear = nn.Linear(2, 2)
    graph = Graph()
    x = graph.placeholder("x")
    weight = graph.get_attr("linear.weight")
    graph.call_method("mul_", (weight, 2))
    graph.output(graph.call_module("linear", (x,)))

    assert effects_of(graph, root)["linear"] == ("read %linear_weight",)


def test_a_training_norm_writes_the_statistics_that_the_graph_reads():
    root = nn.Module()
    root.norm = nn.BatchNorm1d(2)
    graph = Graph()
    x = graph.placeholder("x")
    mean = graph.get_attr("norm.running_mean")
    graph.call_module("norm", (x,))
    graph.output(graph.call_function(torch.neg, (mean,)))

    effects = effects_of(graph, root)
    assert effects["norm"] == ("state", "write %norm_running_mean")
    assert effects["neg"] == ("read %norm_running_mean",)


def test_functional_batch_norm_writes_its_statistics_when_training_only():
    def graph_with(training):
        graph = Graph()
        x, mean, var = (graph.placeholder(name) for name in ("x", "mean", "var"))
        graph.output(graph.call_function(F.batch_norm, (x, mean, var), {"training": training}))
        return graph

    assert effects_of(graph_with(True)) == {"batch_norm": ("write %mean", "write %var")}
    assert effects_of(graph_with(False)) == {}


def test_everything_after_a_change_of_grad_mode_reads_it():
    graph = Graph()
    x = graph.placeholder("x")
    before = graph.call_function(torch.relu, (x,))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    after = graph.call_function(torch.neg, (before,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output(after)

    assert effects_of(graph) == {
        "_set_grad_enabled": ("write %_set_grad_enabled",),
        "neg": ("read %_set_grad_enabled",),
        "_set_grad_enabled_1": ("write %_set_grad_enabled",),
    }


def test_a_graph_inside_a_graph_hands_its_effects_on():
    inner = Graph()
    a, b = inner.placeholder("a"), inner.placeholder("b")
    inner.call_method("add_", (b, 1))
    inner.output(inner.call_function(torch.rand_like, (a,)))
    root = nn.Module()
    root.inner = GraphModule(nn.Module(), inner)
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.call_module("inner", (x, y))
    graph.output(x)

    # The result may be any input, so the two inputs count as one storage.
    assert effects_of(graph, root)["inner"] == ("random", "write %x")


def test_list_concatenation_keeps_what_the_lists_hold():
    graph = Graph()
    x = graph.placeholder("x")
    both = graph.call_function(operator.add, ([x], [1]))
    item = graph.call_function(operator.getitem, (both, 0))
    graph.call_method("add_", (item, 1))
    graph.output(x)

    assert effects_of(graph)["add_"] == ("write %x",)


def test_the_shape_of_a_tensor_is_no_view_of_it():
    graph = Graph()
    x = graph.placeholder("x")
    shape = graph.call_function(getattr, (x, "shape"))
    size = graph.call_function(operator.getitem, (shape, 0))
    graph.call_method("add_", (x, 1))
    graph.output(graph.call_function(torch.zeros, (size,)))

    assert "getitem" not in effects_of(graph)


def test_a_slice_reads_the_tensors_in_it():
    for bounds in ((None, 0, None), (0, None, None), (None, None, 0)):
        graph = Graph()
        x, n = graph.placeholder("x"), graph.placeholder("n")
        graph.call_method("add_", (n, 1))
        part = slice(*(n if bound == 0 else bound for bound in bounds))
        graph.output(graph.call_function(operator.getitem, (x, part)))

        assert effects_of(graph) == {"add_": ("write %n",), "getitem": ("read %n",)}


def test_tensors_without_storage_are_told_apart_and_one_under_two_paths_is_one():
    root = nn.Module()
    for name in ("a", "b"):
        root.register_buffer(name, torch.eye(2).to_sparse())
    root.again = root.a
    graph = Graph()
    a, b, again = graph.get_attr("a"), graph.get_attr("b"), graph.get_attr("again")
    written = graph.call_method("mul_", (a, 2))
    graph.output((graph.call_function(torch.abs, (b,)), graph.call_function(torch.neg, (again,)), written))

    effects = effects_of(graph, root)

    assert effects["neg"] == ("read %a",)
    assert "abs" not in effects


def test_a_read_of_a_written_value_is_told_beside_the_grad_mode():
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    written = graph.call_method("add_", (x, 1))
    read = graph.call_function(torch.neg, (x,))
    graph.output((written, read, graph.call_function(torch.abs, (read,))))

    assert effects_of(graph) == {
        "_set_grad_enabled": ("write %_set_grad_enabled",),
        "add_": ("write %x", "read %_set_grad_enabled"),
        "neg": ("read %x", "read %_set_grad_enabled"),
        "abs_1": ("read %_set_grad_enabled",),
        "output": ("read %x",),
    }


def test_a_graph_inside_a_graph_writes_the_input_that_it_writes():
    inner = Graph()
    inner.output(inner.call_method("add_", (inner.placeholder("a"), 1)))
    root = nn.Module()
    root.inner = GraphModule(nn.Module(), inner)
    graph = Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))

    assert effects_of(graph, root) == {"inner": ("write %x",), "output": ("read %x",)}


def test_an_attribute_that_is_the_tensor_itself_shares_its_storage():
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_method("add_", (graph.call_function(getattr, (x, "data")), 1))
    graph.output(())

    assert effects_of(graph)["add_"] == ("write %x",)


@pytest.mark.parametrize(
    ("target", "names"), [(torch.reshape, ("input", "shape")), (torch.ops.aten.view.default, ("self", "size"))]
)
def test_a_view_whose_input_is_named_shares_its_storage(target, names):
    graph = Graph()
    x = graph.placeholder("x")
    view = graph.call_function(target, (), dict(zip(names, (x, (-1,)), strict=True)))
    graph.call_method("add_", (view, 1))
    graph.output(())

    assert effects_of(graph)["add_"] == ("write %x",)


def test_tensors_of_one_memory_share_it_and_tensors_of_a_transform_without_memory_do_not():
    found = []

    def recorded(whole, part):
        root, graph = nn.Module(), Graph()
        root.register_buffer("whole", whole)
        root.register_buffer("part", part)
        nodes = [graph.get_attr("whole"), graph.get_attr("part")]
        graph.call_method("add_", (nodes[1], 1))
        graph.output(())
        found.append(effects_of(graph, root)["add_"])
        return whole.sum()

    memory = torch.ones(3)
    recorded(memory, memory[1:])
    torch.func.grad(lambda x: recorded(x, x * 2))(memory)

    assert found == [("write %whole",), ("write %part",)]
