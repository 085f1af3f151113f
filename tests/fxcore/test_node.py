from __future__ import annotations

import operator

import pytest
import torch

import fxcore
from fixtures.oracle import assert_same
from fxcore import Graph, Node, has_side_effect
from fxcore.errors import FxError


def chain(x):
    return torch.relu(x).neg().abs()


def test_order_is_told_after_any_move():
    def orders(fx):
        graph = fx.symbolic_trace(chain).graph
        x, relu, neg, absolute, output = graph.nodes
        seen = []
        relu.append(absolute)
        seen.append([sorted([output, absolute, neg, relu, x]), x < relu, absolute < neg, neg > absolute])
        x.prepend(output)
        relu.prepend(relu)
        seen.append([list(graph.nodes), list(reversed(graph.nodes)), output < x, x.prev, x.next, neg <= neg])
        return seen

    assert_same(orders)


def test_the_list_ends_in_its_root_on_both_sides():
    nodes = list(fxcore.symbolic_trace(chain).graph.nodes)

    assert nodes[0].prev.op == nodes[-1].next.op == "root"


def traced(fx, function):
    graph = fx.symbolic_trace(function).graph
    return graph, {node.name: node for node in graph.nodes}


def users(graph):
    return {node.name: [user.name for user in node.users] for node in graph.nodes}


def two_readers(x, y):
    total = x + y
    product = total * x
    joined = torch.cat([total, product, x])
    return joined - total, y


def test_users_keep_torch_fx_s_order_through_every_change_of_arguments():
    def walk(fx):
        graph, at = traced(fx, two_readers)
        seen = [users(graph)]
        at["add"].replace_all_uses_with(at["x"])
        seen.append(users(graph))
        at["mul"].args = (at["y"], at["y"])
        at["cat"].replace_input_with(at["x"], at["mul"])
        seen.append(users(graph))
        at["x"].replace_all_uses_with(at["y"], delete_user_cb=lambda user: user.name != "sub")
        at["sub"].update_kwarg("alpha", at["add"])
        at["sub"].update_arg(0, at["x"])
        seen.append(users(graph))
        at["output"].args = ((at["x"], [at["y"], {"k": slice(at["x"], None)}]),)
        return [*seen, users(graph), at["output"].all_input_nodes, graph]

    assert_same(walk)


def test_an_inserted_argument_has_its_reader_among_its_users():
    _, at = traced(fxcore, lambda x, y: torch.relu(x))

    at["relu"].insert_arg(1, at["y"])

    assert list(at["y"].users) == [at["relu"]]
    with pytest.raises(AssertionError, match="insert_args index must be between 0 and"):
        at["relu"].insert_arg(3, 1)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_inserted_input_is_the_last_input_as_in_torch(place):
    def walk(fx):
        graph = fx.Graph()
        x, y, z = map(graph.placeholder, "xyz")
        add, mul = graph.call_function(torch.add, (x, y)), graph.call_function(torch.mul, (x, z))
        add.insert_arg(place, z)
        add.insert_arg(place, [x, z])
        graph.output((add, mul))
        return str(add.args), add.all_input_nodes, users(graph), graph

    assert_same(walk)


def test_arguments_are_frozen_whatever_they_are_assigned_as():
    _, at = traced(fxcore, lambda x: torch.relu(x))

    at["relu"].args = (at["x"], [at["x"], {"k": 1}])

    with pytest.raises(TypeError, match="does not support mutation"):
        at["relu"].args[1].append(2)
    with pytest.raises(TypeError, match="does not support mutation"):
        at["relu"].kwargs["k"] = 2


def test_replacing_tells_the_hooks_of_the_owning_module():
    def told(fx):
        module = fx.symbolic_trace(lambda x, y: (x + y) * x)
        at = {node.name: node for node in module.graph.nodes}
        calls = []
        with module._set_replace_hook(lambda old, new, user: calls.append((old.name, new, user.name))):
            at["x"].replace_all_uses_with(at["y"])
            at["mul"].replace_input_with(at["y"], at["x"])
            at["add"].name = "total"
        at["add"].name = "unheard"
        return calls

    assert_same(told)


def test_a_replacement_takes_over_metadata_unless_it_has_some():
    graph, at = traced(fxcore, lambda x: torch.relu(x))
    at["relu"].meta["tag"] = 1
    with graph.inserting_after(at["relu"]):
        fresh = graph.call_function(torch.tanh, (at["x"],))

    changed = at["relu"].replace_all_uses_with(fresh, propagate_meta=True)

    assert changed == [at["output"]]
    assert fresh.meta == {"tag": 1}
    with pytest.raises(AssertionError, match=r"already has \.meta keys: tag on 'tanh'"):
        at["relu"].replace_all_uses_with(fresh, propagate_meta=True)


def test_a_target_that_does_not_fit_the_opcode_is_refused():
    graph = Graph()

    for op, target in [("call_function", "relu"), ("call_module", torch.relu), ("get_attr", 3)]:
        with pytest.raises(ValueError, match=r"Node \[name = 'n'\].* but a \w+ is expected") as caught:
            Node(graph, "n", op, target, (), {})
        assert isinstance(caught.value, FxError)
    with pytest.raises(AssertionError, match="op 'call' is not in _legal_ops"):
        Node(graph, "n", "call", "x", (), {})


def test_everything_that_torch_fx_lets_users_write_is_writable():
    def rewritten(fx):
        graph, at = traced(fx, lambda x: torch.relu(x))
        node = at["relu"]
        node.op, node.target, node.type, node.name = "call_method", "neg", int, "renamed"
        node.meta = {"a": 1}
        node.stack_trace = "somewhere"
        node.of_the_user = 5
        return node.of_the_user, node.meta, graph

    assert_same(rewritten)


def test_moving_a_node_to_another_graph_is_refused():
    _, at = traced(fxcore, lambda x: torch.relu(x))
    _, other = traced(fxcore, lambda x: torch.relu(x))

    with pytest.raises(AssertionError, match="move a Node into a different Graph: relu belongs to another"):
        at["x"].append(other["relu"])


def test_a_function_registered_with_side_effects_makes_its_calls_impure():
    @has_side_effect
    def log(x):
        return x

    graph = Graph()
    x = graph.placeholder("x")

    assert graph.call_function(log, (x,)).is_impure()
    assert not graph.call_function(operator.add, (x, 1)).is_impure()
    drawn = graph.call_function(torch.ops.aten.rand.default, ([2],))
    assert drawn.is_impure()
    assert not drawn.is_impure(impure_random=False)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge], ids=lambda it: it.__name__)
def test_nodes_are_compared_by_their_places_and_with_nodes_alone(compare):
    graph = Graph()
    nodes = [graph.placeholder(name) for name in "ab"]

    assert [compare(*(nodes[place] for place in pair)) for pair in [(0, 0), (0, 1), (1, 0)]] == [
        compare(*pair) for pair in [(0, 0), (0, 1), (1, 0)]
    ]
    with pytest.raises(TypeError):
        compare(nodes[0], 1)


def read_by(graph, x, y):
    """Return readers of two inputs in every form."""
    return [
        graph.call_function(torch.relu, (x,)),
        graph.call_function(torch.add, (x, y)),
        graph.call_function(torch.add, (y, x)),
        graph.call_function(torch.add, (x, x)),
        graph.call_function(torch.cat, ([x, y, 1],), {"dim": 0}),
        graph.call_function(torch.clamp, (y,), {"min": x, "max": (x, y)}),
        graph.call_function(torch.full, ((2,), 1), {"out": x}),
        graph.call_function(torch.neg, (2,)),
    ]


@pytest.mark.parametrize("by", ["a node", "the other input", "a number", "a list"])
def test_an_input_is_replaced_in_every_form_as_in_torch_fx(by):
    def replaced(fx):
        graph = fx.Graph()
        x, y, z = (graph.placeholder(name) for name in "xyz")
        readers = read_by(graph, x, y)
        replacement = {"a node": z, "the other input": y, "a number": 3, "a list": [z, 1]}[by]
        for reader in readers:
            if isinstance(replacement, fx.Node):
                reader.replace_input_with(x, replacement)
            else:
                reader.args = fx.node.map_arg(reader.args, lambda node: replacement if node is x else node)
                reader.kwargs = fx.node.map_arg(reader.kwargs, lambda node: replacement if node is x else node)
        inputs = [[str(node) for node in reader.all_input_nodes] for reader in readers]
        return str(graph), inputs, [[str(user) for user in node.users] for node in (x, y, z)]

    assert_same(replaced)


def test_an_input_is_replaced_by_a_number_or_a_list():
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    add, clamp = graph.call_function(torch.add, (x, y)), graph.call_function(torch.clamp, (y,), {"min": x})

    add._replace_input(x, [y, 1])
    clamp._replace_input(x, 3)

    assert (add.args, add.all_input_nodes) == (([y, 1], y), [y])
    assert (clamp.args, clamp.kwargs, clamp.all_input_nodes) == ((y,), {"min": 3}, [y])
    assert not x.users
    assert list(y.users) == [add, clamp]


def test_readers_that_the_caller_keeps_are_left_alone():
    def replaced(fx):
        graph = fx.Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        readers = [graph.create_node("call_function", torch.relu, (x,), name=name) for name in "abc"]
        asked = []

        def goes(user):
            asked.append(user.name)
            return user.name != "b"

        changed = x.replace_all_uses_with(y, goes)
        unread = readers[0].replace_all_uses_with(y)
        return [node.name for node in changed], asked, unread, graph

    assert_same(replaced)


def test_arguments_are_matched_to_what_a_node_calls():
    root = torch.nn.Sequential(torch.nn.Linear(1, 1))
    graph = Graph()
    x = graph.placeholder("x")
    calls = [
        graph.call_function(torch.relu, (x,)),
        graph.call_module("0", (x,)),
        graph.call_method("relu", (x,)),
        x,
    ]

    found = [node.normalized_arguments(root, normalize_to_only_use_kwargs=True) for node in calls]

    assert found == [((), {"input": x}), ((), {"input": x}), None, None]
    assert calls[0].normalized_arguments(root) == ((x,), {})


def test_a_node_keeps_a_name_that_it_has_and_takes_a_free_one():
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")

    x._rename("x")
    y._rename("x")

    assert [node.name for node in graph.nodes] == ["x", "x_1"]


def test_a_node_without_inputs_forgets_none_and_one_with_inputs_all():
    graph = Graph()
    x = graph.placeholder("x")
    add = graph.call_function(torch.add, (x, [x]), {"alpha": x, "out": 1})

    add.forget_inputs()
    x.forget_inputs()

    assert (add.args, add.kwargs, add.all_input_nodes) == ((None, [None]), {"alpha": None, "out": 1}, [])
    assert not x.users


def test_a_node_made_by_hand_has_its_arguments_and_is_a_user_of_its_inputs():
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")

    node = Node(graph, "sum", "call_function", torch.add, ([x], 1), {"alpha": y})
    bare = Node(graph, "bare", "call_function", torch.add, (), {})

    assert (node.args, node.kwargs, node.all_input_nodes) == (([x], 1), {"alpha": y}, [x, y])
    assert (list(x.users), list(y.users)) == ([node], [node])
    assert (bare.args, bare.kwargs, bare.all_input_nodes) == ((), {}, [])


def test_replacing_an_input_that_is_a_keyword_or_is_not_read():
    graph = Graph()
    x, y, z = (graph.placeholder(name) for name in "xyz")
    by_keyword = graph.call_function(torch.neg, (), {"input": x})
    other = graph.call_function(torch.neg, (y,))

    by_keyword.replace_input_with(x, z)
    other.replace_input_with(x, z)

    assert (by_keyword.args, by_keyword.kwargs, by_keyword.all_input_nodes) == ((), {"input": z}, [z])
    assert (other.args, other.all_input_nodes) == ((y,), [y])
    assert [list(each.users) for each in (x, y, z)] == [[], [other], [by_keyword]]


@pytest.mark.parametrize("is_hook", [False, True])
def test_code_that_a_callback_compiles_is_of_the_graph_as_it_was_then(is_hook):
    module = fxcore.symbolic_trace(lambda x, y: (x.relu(), x.neg()))
    x, y, *_ = module.graph.nodes
    codes = []

    def compiled(*_, **__):
        module.recompile()
        codes.append(module.graph.python_code("self").src)
        return True

    if is_hook:
        with module._set_replace_hook(compiled):
            x.replace_all_uses_with(y)
    else:
        x.replace_all_uses_with(y, compiled)

    assert module.code == codes[-1]
    assert ("y.relu()" in codes[-1], "x.neg()" in codes[-1]) == (True, True)


def test_the_line_of_a_node_has_tensor_metadata_only_if_asked_for():
    graph = Graph()
    node = graph.call_function(torch.neg, (graph.placeholder("x"),))
    node.meta["val"] = torch.ones(2, 3)

    plain, full = (node.format_node(include_tensor_metadata=asked) for asked in (False, True))

    assert node.format_node() == plain
    assert ("f32[2, 3]" in plain, "f32[2, 3]" in full) == (False, True)


def test_the_state_of_a_node_has_every_field():
    graph = Graph()
    node = graph.call_function(torch.neg, (graph.placeholder("x"),))
    node.meta["note"], node.extra = 1, 2

    state = node.__getstate__()

    assert {"graph", "users", "meta", "extra", "_name", "_op", "_args", "_prev"} <= state.keys()
    assert state.keys().isdisjoint({"__dict__", "__weakref__", "_meta"})
    other = Node.__new__(Node)
    other.__setstate__(state)
    assert (other.name, other.meta, other.extra, other.args) == (node.name, node.meta, 2, node.args)


def test_metadata_stays_with_the_replaced_node_unless_asked_for():
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.call_function(torch.neg, (x,))
    x.meta["note"] = 1

    x.replace_all_uses_with(y)
    assert y.meta == {}
    x.replace_all_uses_with(y, propagate_meta=True)

    assert y.meta == {"note": 1}
