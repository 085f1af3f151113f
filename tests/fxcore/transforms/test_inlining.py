"""Submodules go into the graph that calls them, and stretches of it become submodules again."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fxcore import interop
from fxcore.errors import PassError
from fxcore.transforms.inlining import Inline, Outline
from pytest_fxgraph import check_transform


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.scale = torch.tensor(2.0)

    def forward(self, x, y=1.0):
        z = torch.relu(self.lin(x)) * self.scale + y
        return z, z.sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()
        self.tail = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        y, total = self.first(x)
        z, _ = self.second(y, y=x)
        again, _ = self.first(z)
        return self.tail(again) + total


class LeavesBlocks(fxcore.Tracer):
    def is_leaf_module(self, module, path):
        return isinstance(module, Block) or super().is_leaf_module(module, path)


def with_calls(model):
    return fxcore.GraphModule(model, LeavesBlocks().trace(model))


def calls_of(gm):
    return [str(node.target) for node in gm.graph.nodes if node.op == "call_module"]


@pytest.mark.parametrize("is_traced", [False, True])
def test_submodules_are_inlined_down_to_layers_of_torch(is_traced):
    gm, x = with_calls(Net()), torch.randn(2, 4)
    assert calls_of(gm) == ["first", "second", "first", "tail.0", "tail.1"]
    if is_traced:
        gm.second = fxcore.symbolic_trace(gm.second)

    result = check_transform(Inline(), gm, (x,), grads=True)

    assert calls_of(result.after) == ["first.lin", "second.lin", "first.lin", "tail.0", "tail.1"]
    assert not [node for node in result.after.graph.nodes if node.name.startswith("getitem")]


def test_only_the_submodules_that_are_named_are_inlined():
    gm = with_calls(Net())

    assert calls_of(Inline(("second",))(gm).graph_module) == ["first", "second.lin", "first", "tail.0", "tail.1"]
    assert Inline(("nothing",))(gm).graph_module is gm


def test_the_guards_of_an_exported_program_stay():
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    gm = interop.from_torch(program.module())

    assert Inline()(gm).graph_module is gm


def test_a_submodule_with_hooks_stays():
    class Block(nn.Module):
        def forward(self, x):
            return x + 1

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()
            self.block.register_forward_hook(lambda module, args, result: result * 2)

        def forward(self, x):
            return self.block(x)

    gm = fxcore.symbolic_trace(Whole(), leaf_modules=(Block,))

    assert Inline()(gm).graph_module is gm
    assert gm(torch.ones(1)) == 4


def test_a_call_that_gives_too_little_is_refused_in_words():
    gm = with_calls(Net())
    gm.graph.find_nodes(op="call_module", target="first")[0].args = ()

    with pytest.raises(PassError, match="cannot inline first: its call first gives no argument for 'x'"):
        Inline()(gm)


def test_calls_of_modules_become_submodules_again():
    model, x = Net(), torch.randn(2, 4)
    gm = fxcore.symbolic_trace(model)

    result = check_transform(Outline(("first", "second")), gm, (x,))

    made = result.after
    assert calls_of(made) == ["first_outlined", "second_outlined", "first_outlined_1", "tail.0", "tail.1"]
    assert made.first_outlined.first.lin is made.first_outlined_1.first.lin
    inlined = Inline()(made).graph_module
    torch.testing.assert_close(inlined(x), model(x))


def test_what_was_made_elsewhere_is_not_outlined():
    gm = fxcore.symbolic_trace(Net())

    assert Outline(("third", "first.lin"))(gm).graph_module is gm


def test_a_value_that_leaves_and_comes_back_keeps_its_nodes():
    gm = fxcore.symbolic_trace(nn.Sequential(Block()))
    nodes = {node.name: node for node in gm.graph.nodes}
    with gm.graph.inserting_after(nodes["relu"]):
        outside = gm.graph.call_function(torch.neg, (nodes["relu"],))
    nodes["mul"].replace_input_with(nodes["relu"], outside)
    gm.recompile()

    assert not Outline(("0",))(gm).modified


def test_a_module_that_stays_has_its_reason():
    model = Net()
    model.first.register_forward_hook(lambda *_: None)
    gm = fxcore.GraphModule(model, LeavesBlocks().trace(model))

    result = Inline()(gm)

    assert [str(each) for each in result.report.left] == ["first: it has hooks, which would no longer run"]
    assert result.report.changed == ("second",)


def test_a_path_without_operations_has_its_reason():
    gm = fxcore.symbolic_trace(Net())

    report = Outline(("first", "third"))(gm).report

    assert [str(each) for each in report.left] == ["third: no node names such a module in its nn_module_stack"]
    assert report.changed == ("first", "first@1")


def test_a_submodule_with_any_number_of_arguments_or_nested_inputs_is_told():
    class Starred(nn.Module):
        def forward(self, *values):
            return values[0] + 1

    class Nested(nn.Module):
        def forward(self, pair):
            return pair["x"] + 1

    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    class Leaves(fxcore.Tracer):
        def is_leaf_module(self, module, path):
            return True

    def outer(inner):
        root = Outer(inner)
        return fxcore.GraphModule(root, Leaves().trace(root))

    nested = fxcore.symbolic_trace(Nested(), concrete_args={"pair": {"x": fxcore.PH}})

    with pytest.raises(PassError, match=r"^cannot inline inner: it takes any number of arguments, as \*values$"):
        Inline()(outer(Starred()))
    result = Inline()(outer(nested))
    assert [str(each) for each in result.report.left] == [
        "inner: its graph takes nested inputs or returns nested values"
    ]


def test_a_tensor_that_the_trace_of_a_submodule_found_is_kept():
    outside = torch.ones(3)

    class Adds(nn.Module):
        def forward(self, x):
            return x + outside

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Adds()

        def forward(self, x):
            return self.inner(x) * 2

    class Leaves(fxcore.Tracer):
        def is_leaf_module(self, module, path):
            return True

    root = Outer()
    made = Inline()(fxcore.GraphModule(root, Leaves().trace(root))).graph_module

    assert [node.op for node in made.graph.nodes if node.op == "call_module"] == []
    assert torch.equal(made(torch.zeros(3)), outside * 2)


class Shares(nn.Module):
    """Multiplies by a weight of its own, and by a weight that another block may share."""

    def __init__(self):
        super().__init__()
        self.own, self.shared = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

    def forward(self, x):
        return torch.relu(x * self.own) * self.shared


class SharesWithModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Shares(), Shares()
        self.second.shared = self.first.shared

    def forward(self, x):
        return self.second(self.first(x)) + self.second.own


def test_attributes_that_only_the_operations_read_move_along():
    gm = fxcore.symbolic_trace(SharesWithModel())

    made = Outline(("first",))(gm).graph_module

    inside = {node.target for node in made.first_outlined.graph.nodes if node.op == "get_attr"}
    assert inside == {"first.own"}
    x = torch.randn(4)
    assert torch.equal(made(x), gm(x))


def test_a_module_that_cannot_be_one_call_holds_no_other_back():
    gm = fxcore.symbolic_trace(nn.Sequential(Shares(), Shares()))
    nodes = {node.name: node for node in gm.graph.nodes}
    with gm.graph.inserting_after(nodes["relu"]):
        outside = gm.graph.call_function(torch.neg, (nodes["relu"],))
    nodes["mul_1"].replace_input_with(nodes["relu"], outside)
    gm.recompile()

    result = Outline(("0", "1"))(gm)

    assert result.report.changed == ("1",)
    assert [each.name for each in result.report.left] == ["0"]


def test_a_call_with_the_whole_tuple_of_an_inlined_submodule_reads_a_tuple():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            result = self.block(x)
            return operator.mul(result, 2)[3], result[:1]

    gm, x = with_calls(Twice()), torch.randn(2, 4)

    made = Inline()(gm).graph_module

    assert calls_of(made) == ["block.lin"]
    torch.testing.assert_close(made(x), gm(x))
