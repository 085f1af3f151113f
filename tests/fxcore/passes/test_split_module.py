from __future__ import annotations

import random

import pytest
import torch
import torch.fx
import torch.fx.passes.split_module as theirs
from torch import nn

import fxcore
import fxcore.interop
from fixtures.torch_versions import TORCH
from fxcore.passes.split_module import Partition, split_module, split_module_simple


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.linear(x)).relu() + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.register_buffer("offset", torch.randn(4))
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(4, 5)

    def forward(self, x, y, scale=2.0):
        z = self.head(x + self.weight).clamp(min=0.0, max=1.0)
        w = self.head(y * scale).clamp(min=0.0, max=1.0)
        deep = self.blocks(x - self.offset)
        return {"sum": z + w, "parts": [deep, self.weight, torch.cat([z, w], dim=1)]}


def rising(step):
    """Make a callback that opens a new partition every `step` nodes."""
    seen = []

    def callback(node):
        seen.append(node)
        return (len(seen) - 1) // step

    return callback


def described(module):
    """Everything that is printed of a split module and its parts."""
    text = [str(module), str(module.graph), module.code]
    for name, child in module.named_modules():
        if hasattr(child, "graph") and child is not module:
            text += [name, str(child.graph), child.code]
    return text


OPTIONS = [
    {},
    {"keep_original_order": True},
    {"keep_original_node_name": True},
    {"keep_original_input_name": False},
    {"partition_affix": "pp"},
    {"tuple_return": True},
    {"keep_original_order": True, "keep_original_node_name": True, "tuple_return": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda it: "-".join(it) or "plain")
@pytest.mark.parametrize("step", [1, 2, 4, 100])
def test_a_split_module_reads_as_torchs(step, options):
    model = Model()
    ours, theirs_ = fxcore.symbolic_trace(model), torch.fx.symbolic_trace(model)
    our_map, their_map = {}, {}

    split = split_module(ours, model, rising(step), our_map, **options)
    expected = theirs.split_module(theirs_, model, rising(step), their_map, **options)

    assert described(split) == described(expected)
    assert our_map == their_map
    if TORCH >= (2, 13):
        assert split.meta["partition_names"] == expected.meta["partition_names"]
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(split(x, y), model(x, y))


@pytest.mark.parametrize("seed", range(20))
def test_partitions_that_interleave_are_ordered_as_torch_orders_them(seed):
    model = Model()
    numbers = {}

    def callback(node):
        return numbers.setdefault(node.name, random.Random(f"{seed}{node.name}").randrange(3))

    ours, theirs_ = fxcore.symbolic_trace(model), torch.fx.symbolic_trace(model)
    for keep in (False, True):
        try:
            expected = described(theirs.split_module(theirs_, model, callback, keep_original_order=keep))
        except RuntimeError as error:
            with pytest.raises(fxcore.FxError, match=str(error)):
                split_module(ours, model, callback, keep_original_order=keep)
        else:
            assert described(split_module(ours, model, callback, keep_original_order=keep)) == expected


def test_partitions_in_a_circle_are_refused_by_name():
    gm = fxcore.symbolic_trace(lambda x: (x + 1).relu() * 2)

    with pytest.raises(RuntimeError, match="cycle exists between partitions! None of these can run first: 0, 1"):
        split_module(gm, gm, lambda node: int(node.op == "call_method"))


def with_switches(graph, function_of):
    x = graph.placeholder("x")
    grad_off = graph.call_function(torch._C._set_grad_enabled, (False,))
    enter = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
    a = graph.call_function(torch.matmul, (x, x))
    b = graph.call_function(torch.relu, (a,))
    c = graph.call_function(torch.matmul, (b, x))
    graph.call_function(torch.amp.autocast_mode._exit_autocast, (enter,))
    grad_on = graph.call_function(torch._C._set_grad_enabled, (True,))
    d = graph.call_function(torch.neg, (c,))
    graph.output(d)
    assert grad_off is not grad_on
    return function_of({}, graph)


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_every_partition_gets_its_switches_of_autocast_and_grad_mode(step):
    ours = with_switches(fxcore.Graph(), fxcore.GraphModule)
    theirs_ = with_switches(torch.fx.Graph(), torch.fx.GraphModule)
    table = {node.name: index // step for index, node in enumerate(ours.graph.nodes)}

    split = split_module(ours, ours, lambda node: table[node.name])
    expected = theirs.split_module(theirs_, theirs_, lambda node: table[node.name])

    assert described(split) == described(expected)
    x = torch.randn(4, 4)
    with torch.enable_grad():  # the last partition may end with the switch off, as torch.fx's does
        assert torch.equal(split(x), ours(x))
        assert split(x).dtype is torch.bfloat16


def test_switches_go_with_an_affix_where_torch_fails():
    ours = with_switches(fxcore.Graph(), fxcore.GraphModule)
    theirs_ = with_switches(torch.fx.Graph(), torch.fx.GraphModule)
    with pytest.raises(KeyError):
        theirs.split_module(theirs_, theirs_, rising(4), partition_affix="pp")

    split = split_module(ours, ours, rising(4), partition_affix="pp")

    x = torch.randn(4, 4)
    assert torch.equal(split(x), ours(x))
    assert split.meta["partition_names"] == {"submod_pp_0", "submod_pp_1"}


def test_partitions_that_fall_under_autocast_are_refused():
    gm = with_switches(fxcore.Graph(), fxcore.GraphModule)

    with pytest.raises(AssertionError, match=r"require monotonically increasing partitions: highest: .*\(matmul\)"):
        split_module(gm, gm, lambda node: 0 if node.name == "matmul" else 1)


def test_an_autocast_that_is_never_left_is_refused():
    gm = with_switches(fxcore.Graph(), fxcore.GraphModule)
    exit_node = next(node for node in gm.graph.nodes if node.name == "_exit_autocast")
    gm.graph.erase_node(exit_node)

    with pytest.raises(AssertionError, match="autocast must exit: _enter_autocast is entered and never left"):
        split_module(gm, gm, rising(2))


class Colliding(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential()
        self.a.b = nn.Linear(2, 2)
        self.a_b = nn.Linear(2, 2)

    def forward(self, x):
        return self.a_b(self.a.b(x))


def test_submodules_whose_paths_differ_by_a_dot_only_stay_two():
    model, x = Colliding(), torch.randn(1, 2)
    wrong = theirs.split_module(torch.fx.symbolic_trace(model), model, lambda node: 0)
    assert not torch.allclose(wrong(x), model(x))
    names = {}

    split = split_module(fxcore.symbolic_trace(model), model, lambda node: 0, names)

    torch.testing.assert_close(split(x), model(x))
    assert names == {"submod_0.a_b": "a.b", "submod_0.a_b_1": "a_b"}


def test_an_attribute_that_only_the_output_reads_is_there_in_original_order_too():
    class Returning(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x + 1, self.weight

    model = Returning()

    split = split_module(fxcore.symbolic_trace(model), model, lambda node: 0, keep_original_order=True)

    assert split(torch.zeros(2))[1] is split.weight


def test_a_split_of_a_module_in_eval_mode_is_in_eval_mode():
    model = Model().eval()

    split = split_module(fxcore.symbolic_trace(model), model, rising(3))

    assert not any(module.training for module in split.modules())


def test_a_table_splits_as_a_callback_that_keeps_the_order():
    gm = fxcore.symbolic_trace(lambda x, y: ((x + y).relu() * y, y.neg()))
    calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    table = {node: index for index, node in enumerate(calls)}
    by_dependencies = split_module(gm, gm, table.__getitem__, partition_affix="n")

    split = split_module_simple(gm, table, partition_affix="n")

    assert described(split) == described(
        split_module(gm, gm, table.__getitem__, keep_original_order=True, partition_affix="n")
    )
    assert "submod_n_2" in split.code
    assert [node.target for node in split.graph.nodes] != [node.target for node in by_dependencies.graph.nodes]


@pytest.mark.parametrize(("is_kept", "name"), [(True, "input_1"), (False, "input")])
def test_inputs_keep_their_names_where_names_of_nodes_are_kept(is_kept, name):
    gm = fxcore.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))

    split = split_module(gm, gm, lambda node: 0, keep_original_node_name=is_kept)

    (placeholder,) = split.graph.find_nodes(op="placeholder")
    assert placeholder.target == name
    assert torch.equal(split(torch.ones(2)), torch.tanh(torch.ones(2)))


def test_a_partition_shows_its_names():
    ours, expected = Partition("3"), theirs.Partition("3")
    for partition in (ours, expected):
        partition.node_names.append("add")
        partition.inputs["x"] = None

    assert repr(ours) == repr(expected)
    assert vars(ours).keys() == vars(expected).keys()


def test_symbols_in_sizes_are_handed_to_the_partitions_that_read_the_value():
    captured = []

    def backend(gm, inputs):
        captured.append(gm)
        return gm.forward

    def function(x, y):
        return (x + 1).relu().sum(0) * y.shape[0]

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=True)(torch.randn(5, 3), torch.randn(7, 3))
    their_gm = captured[0]
    our_gm = fxcore.interop.from_torch(their_gm)

    split = split_module(our_gm, our_gm, rising(1))
    expected = theirs.split_module(their_gm, their_gm, rising(1))

    assert [child.code for child in split.children()] == [child.code for child in expected.children()]


class WithoutGradients(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = (x * 2).relu()
        return x * y


@pytest.mark.parametrize("step", [1, 2, 3])
def test_the_end_of_a_block_without_gradients_is_repeated_in_partitions(step):
    x = torch.randn(3, requires_grad=True)
    traced = fxcore.symbolic_trace(WithoutGradients(), example_inputs=(x,))

    module = split_module(traced, WithoutGradients(), rising(step))

    with torch.enable_grad():  # the last partition may end with the switch off, as torch.fx's does
        y = module(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (x * 2).relu().detach())


def test_a_switch_that_partitions_cannot_repeat_is_refused_by_name():
    gm = with_switches(fxcore.Graph(), fxcore.GraphModule)
    enter, leave = (
        next(node for node in gm.graph.nodes if node.name == name) for name in ("_enter_autocast", "_exit_autocast")
    )
    arguments, x = enter.args, gm.graph.find_nodes(op="placeholder")[0]

    enter.args = (*arguments[:-1], x)
    with pytest.raises(AssertionError, match="not Nodes: _enter_autocast is set by x, so no partition could repeat it"):
        split_module(gm, gm, rising(2))
    enter.args, leave.args = arguments, (enter, 1)
    with pytest.raises(AssertionError, match=r"Expected 1 arg for _exit_autocast, .*; _exit_autocast has "):
        split_module(gm, gm, rising(2))


def test_a_size_that_another_partition_computes_is_handed_over():
    captured = []

    def backend(gm, inputs):
        captured.append(gm)
        return gm.forward

    @torch._dynamo.config.patch(capture_scalar_outputs=True)
    def capture():
        def function(x, y):
            n = y.item()
            torch._check(n >= 2)
            return torch.zeros(n).relu().neg().sigmoid() + x.to_sparse().to_dense().sum()

        torch._dynamo.reset()
        torch.compile(function, backend=backend, dynamic=True)(torch.randn(5, 3), torch.tensor(4))

    capture()
    their_gm = captured[0]
    our_gm = fxcore.interop.from_torch(their_gm)

    split = split_module(our_gm, our_gm, rising(1))
    expected = theirs.split_module(their_gm, their_gm, rising(1))

    assert [child.code for child in split.children()] == [child.code for child in expected.children()]
