from __future__ import annotations

import copy
import gc
import operator
import pickle
import warnings
import weakref

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same, assert_same_success
from fxcore import CodeGen, Graph
from fxcore.errors import FxError
from fxcore.graph import break_cycles, gc_paused
from fxcore.torch_fx_registry import FINDS_NO_NODES


@pytest.fixture
def collector_off():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def traced():
    return fxcore.Tracer().trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))


def test_nodes_go_without_the_garbage_collector(collector_off):
    graph = traced()
    nodes = [weakref.ref(node) for node in graph.nodes]

    break_cycles(graph)
    del graph

    assert [node() for node in nodes] == [None] * 4


def test_nodes_that_are_not_taken_apart_wait_for_it(collector_off):
    graph = traced()
    nodes = [weakref.ref(node) for node in graph.nodes]

    del graph

    assert None not in [node() for node in nodes]


def test_a_long_graph_goes_without_deep_recursion(collector_off):
    def chain(x):
        for _ in range(20_000):
            x = torch.relu(x)
        return x

    graph = fxcore.Tracer().trace(chain)
    first = weakref.ref(next(iter(graph.nodes)))

    break_cycles(graph)
    del graph

    assert first() is None


def test_nodes_go_where_the_graph_was_told_as_in_torch_fx():
    def walk(fx):
        graph = fx.symbolic_trace(lambda x: torch.relu(x)).graph
        x, relu, _ = graph.nodes

        def add(function):
            return graph.call_function(function, (x,))

        with graph.inserting_before(relu):
            add(torch.neg)
            with graph.inserting_after(x):
                add(torch.sin)
                add(torch.cos)
            add(torch.abs)
        with graph.inserting_before():
            graph.call_function(torch.ones, (1,))
        with graph.inserting_after():
            add(torch.tan)
        graph.inserting_before(relu)  # for good: no block ends it
        add(torch.exp)
        return graph

    assert_same(walk)


def test_an_error_in_the_block_restores_the_place_too():
    graph = fxcore.symbolic_trace(lambda x: torch.relu(x)).graph
    x, relu, _ = graph.nodes

    with pytest.raises(ZeroDivisionError), graph.inserting_before(relu):
        raise ZeroDivisionError
    last = graph.call_function(torch.neg, (x,))

    assert list(graph.nodes)[-1] is last


def test_a_place_in_another_graph_is_refused():
    graph = fxcore.symbolic_trace(lambda x: x).graph
    stranger = next(iter(fxcore.symbolic_trace(lambda x: x).graph.nodes))

    with pytest.raises(AssertionError, match=r"Node to insert before is not in graph\.: 'x' belongs to another graph"):
        graph.inserting_before(stranger)


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


def test_a_copy_of_a_graph_without_output_returns_none():
    def copied(fx):
        source, values = fx.Graph(), {}
        source.call_function(torch.relu, (source.placeholder("x"),))
        graph = fx.Graph()
        return graph.graph_copy(source, values), graph, [node.name for node in values.values()]

    assert_same_success(copied)


def test_all_nodes_are_cleared_and_nodes_renamed_as_in_torch_fx():
    def names(fx):
        graph = fx.symbolic_trace(function).graph
        relu = next(node for node in graph.nodes if node.target is torch.relu)
        relu.meta["of"] = "relu"
        relu._rename("relu")
        relu._rename("x")
        named = [node.name for node in graph.nodes]
        if hasattr(graph, "_clear_nodes"):
            graph._clear_nodes()
        return named, relu.name

    assert_same_success(names)
    graph = fxcore.symbolic_trace(function).graph
    relu = next(node for node in graph.nodes if node.target is torch.relu)
    relu.meta["of"] = "relu"
    graph._clear_nodes()
    assert (list(graph.nodes), relu.meta) == ([], {})


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


def test_an_empty_graph_has_no_output_node():
    with pytest.raises(AssertionError, match="Expected output node, got no node: the graph does not end in one"):
        Graph().output_node()


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


def test_a_graph_made_by_hand_is_torch_fx_s():
    def made(fx):
        graph = fx.Graph()
        x = graph.placeholder("x", torch.Tensor)
        size = graph.placeholder("size", int, default_value=3)
        graph.placeholder("nothing", default_value=None)
        rest, named = graph.placeholder("*rest"), graph.placeholder("**named")
        weight = graph.create_node("get_attr", "w", name="weight")
        total = graph.call_function(operator.add, (x, weight), name="total")
        again = graph.call_function(operator.add, (total, size), name="total")
        flat = graph.call_method("view", (again, -1), {"out": 1})
        layer = graph.create_node("call_module", "l.0", (flat,))
        graph.output({"a": [layer, (total,)], "b": named, "c": rest}, torch.Tensor)
        return graph, graph.python_code("module").src

    assert_same(made)


def test_an_attribute_that_is_not_there_warns_and_a_missing_module_is_refused():
    graph = fxcore.symbolic_trace(nn.Sequential(nn.Linear(1, 1))).graph

    with pytest.warns(UserWarning, match="Attempted to insert a get_attr Node with no underlying reference"):
        graph.get_attr("missing")
    with pytest.raises(AttributeError, match="missing"):
        graph.call_module("missing")
    assert graph.get_attr("0.weight").name == "_0_weight"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda graph, x: graph.call_function(torch.relu, [x]), "args must be a tuple, got <class 'list'>"),
        (lambda graph, x: graph.call_function(torch.relu, (x,), [x]), "kwargs must be a dict, got <class 'list'>"),
        (lambda graph, x: graph.call_module(3), "Expected target to be str, got <class 'int'>"),
        (lambda graph, x: graph.create_node("call", "x"), "op 'call' is not in _legal_ops"),
    ],
)
def test_wrong_arguments_are_refused(make, words):
    graph = Graph()
    x = graph.placeholder("x")

    with pytest.raises(AssertionError) as caught:
        make(graph, x)

    assert words in str(caught.value)
    assert isinstance(caught.value, FxError)
    assert list(graph.nodes) == [x]


def test_a_warning_names_the_line_that_asked_for_a_missing_attribute():
    graph = Graph()
    graph.get_attr("weight")
    graph.erase_node(next(iter(graph.nodes)))
    module = fxcore.GraphModule(nn.Linear(1, 1), graph)
    module.weight = nn.Parameter(torch.ones(1))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read = graph.get_attr("weight")
        missing = graph.get_attr("missing")
        graph.erase_node(missing)
        graph.erase_node(missing)

    assert [each.filename for each in caught] == [__file__, __file__]
    assert "missing" not in str(caught[0].message)
    assert str(caught[1].message) == "erase_node(missing) on an already erased node"
    assert list(graph.nodes) == [read]


def test_the_removal_of_dead_code_tells_whether_it_removed_something():
    graph = fxcore.symbolic_trace(lambda x: torch.relu(x)).graph
    x, relu, output = graph.nodes
    assert graph.eliminate_dead_code() is False

    with graph.inserting_after(x):
        graph.call_function(torch.neg, (x,))
    assert graph.eliminate_dead_code() is True

    assert list(graph.nodes) == [x, relu, output]


def test_a_copied_node_has_the_keywords_of_the_original_with_other_inputs():
    source, graph = Graph(), Graph()
    x, y = source.placeholder("x"), source.placeholder("y")
    clamp = source.call_function(torch.clamp, (x,), {"min": y, "max": 2})
    a, b = graph.placeholder("a"), graph.placeholder("b")

    copied = graph.node_copy(clamp, {x: a, y: b}.__getitem__)

    assert (copied.args, copied.kwargs, copied.name) == ((a,), {"min": b, "max": 2}, "clamp")
    assert graph.node_copy(x).kwargs == {}


def test_a_memo_that_holds_something_receives_the_copies_of_nodes():
    graph = traced()
    memo = {"other": 1}

    copied = graph.__deepcopy__(memo)

    assert [memo[node] for node in graph.nodes if node.op != "output"] == list(copied.nodes)[:-1]
    assert str(graph.__deepcopy__({})) == str(graph.__deepcopy__(None)) == str(graph)


def test_values_move_only_in_a_graph_with_guards():
    graph = Graph()
    graph.move_value("a", "b")
    assert graph.moved_values.present("a") == "a"
    graph.guards = ("a guard",)

    graph.move_value("a", "b")

    assert graph.moved_values.present("a") == "b"


def test_a_graph_that_was_taken_apart_has_no_nodes():
    graph = traced()

    break_cycles(graph)

    assert (len(graph.nodes), list(graph.nodes)) == (0, [])


def test_the_pending_work_before_a_change_is_done_once():
    graph, done = Graph(), []
    graph.settle(lambda: done.append(1))
    assert done == []

    graph.placeholder("x")
    graph.placeholder("y")

    assert done == [1]
    graph.settle(lambda: done.append(2))
    graph.settle(lambda: done.append(3))
    assert done == [1, 2]


def test_the_collector_pauses_in_the_outermost_block_alone():
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_graph_has_no_nodes_before_the_first():
    graph = Graph()
    assert len(graph.nodes) == 0

    graph.placeholder("x")

    assert len(graph.nodes) == 1


def test_code_is_written_before_its_graph_changes():
    module = fxcore.symbolic_trace(lambda x: x + 1)
    code = module.graph.python_code("self").src

    next(node for node in module.graph.nodes if node.op == "call_function").update_arg(1, 5)

    assert module.code == code


def test_nodes_are_found_in_the_order_of_the_graph():
    graph = Graph()
    x = graph.placeholder("x")
    first, second = graph.call_function(torch.neg, (x,)), graph.call_function(torch.neg, (x,))
    assert graph.find_nodes(op="call_function", target=torch.neg) == [first, second]

    second.append(first)

    assert graph.find_nodes(op="call_function", target=torch.neg) == [second, first]


def test_details_are_written_only_if_they_are_asked_for():
    module = fxcore.symbolic_trace(lambda x: x + 1)
    for node in module.graph.nodes:
        node.meta["val"] = torch.ones(2, 3)

    def comments(**options):
        return module.graph.python_code("self", verbose=True, **options).src

    plain = comments(include_stride=False, include_device=False)
    assert comments() == plain != comments(include_stride=True)
    assert plain != comments(include_device=True)


def test_a_pass_of_torch_is_refused_where_it_reads_the_nodes_itself():
    names = {"__name__": min(FINDS_NO_NODES), "call": lambda graph: len(graph.nodes)}
    exec("def read(graph):\n    return graph.nodes\ndef ask(graph):\n    return call(graph)", names)

    with pytest.raises(FxError):
        names["read"](Graph())
    assert names["ask"](Graph()) == 0


def test_a_node_at_the_end_leaves_the_labels_of_the_others():
    graph = Graph()
    nodes = [graph.placeholder(name) for name in "xyz"]
    labels = [node._sort_key for node in nodes]

    with graph.inserting_after(nodes[-1]):
        last = graph.placeholder("last")

    assert [node._sort_key for node in nodes] == labels
    assert graph.order_between(nodes[-1], graph._root) == last._sort_key > labels[-1]
