"""Tensors and modules that come along with a replacement."""

from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.subgraph_rewriter
from torch import nn

import fxcore
from fxcore.matching.attribute_transfer import copy_used_attributes, names_for_constants, renamed


def rewritten(fx, program, replacement):
    traced = fx.symbolic_trace(program)
    fx.subgraph_rewriter.replace_pattern(traced, lambda x: torch.relu(x), replacement)
    return traced


def test_a_constant_in_the_replacement_comes_along():
    def replacement(x):
        return x + torch.tensor(5.0)

    theirs = rewritten(torch.fx, lambda x: torch.relu(x), replacement)

    with pytest.raises(RuntimeError, match="references nonexistent attribute _tensor_constant0"):
        theirs.graph.lint()
    assert rewritten(fxcore, lambda x: torch.relu(x), replacement)(torch.tensor(1.0)) == 6.0


def test_constants_of_one_name_in_model_and_replacement_stay_two():
    def program(x):
        return torch.relu(x) + torch.tensor(1.0)

    def replacement(x):
        return x * torch.tensor(5.0)

    # torch.fx multiplies by the model's own constant.
    assert rewritten(torch.fx, program, replacement)(torch.tensor(2.0)) == 3.0
    assert rewritten(fxcore, program, replacement)(torch.tensor(2.0)) == 11.0


CONSTANTS = {
    "the same": (torch.tensor([5.0]), 1),
    "another value": (torch.tensor([6.0]), 2),
    "another type": (torch.tensor([5]), 2),
    "another shape": (torch.tensor(5.0), 2),
    "another device": (torch.ones(1, device="meta"), 2),
    "no tensor": (nn.ReLU(), 2),
}


@pytest.mark.parametrize(("constant", "count"), CONSTANTS.values(), ids=CONSTANTS)
def test_equal_constants_of_one_name_in_model_and_replacement_become_one(constant, count):
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x) + torch.tensor([5.0]))
    replacement = fxcore.symbolic_trace(lambda x: x * torch.tensor([5.0]))
    del replacement._tensor_constant0
    replacement._tensor_constant0 = constant

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), replacement)

    read = [node.target for node in traced.graph.nodes if node.op == "get_attr"]
    assert sorted(set(read)) == ["_tensor_constant0", "_tensor_constant1"][:count]
    assert hasattr(traced, "_tensor_constant0")
    assert hasattr(traced, "_tensor_constant1") == (count == 2)


def test_a_parameter_deep_in_the_replacement_comes_along():
    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Module()
            self.inner.scale = nn.Parameter(torch.full((1,), 3.0))

        def forward(self, x):
            return x * self.inner.scale

    with pytest.raises(KeyError, match=r'contain "[.]"'):
        rewritten(torch.fx, lambda x: torch.relu(x), Replacement())
    ours = rewritten(fxcore, lambda x: torch.relu(x), Replacement())
    assert isinstance(ours.inner.scale, nn.Parameter)
    assert ours(torch.ones(1)) == 3.0


def test_what_comes_along_is_a_copy():
    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.PReLU()

        def forward(self, x):
            return self.act(x)

    replacement = Replacement()

    ours = rewritten(fxcore, lambda x: torch.relu(x), replacement)

    assert ours.act is not replacement.act
    assert torch.equal(ours.act.weight, replacement.act.weight)


def test_an_attribute_that_nobody_has_is_named():
    graph = fxcore.Graph()
    graph.output(graph.create_node("call_module", "absent", (graph.placeholder("x"),)))
    holder = fxcore.GraphModule({"absent": nn.ReLU()}, graph)
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    holder.delete_submodule("absent")

    with pytest.raises(RuntimeError, match="absent"):
        fxcore.replace_pattern(traced, lambda x: torch.relu(x), holder)


class Activated(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Tanh()

    def forward(self, x):
        return torch.relu(self.act(x))


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Sigmoid()

    def forward(self, x):
        return torch.neg(x)


@pytest.mark.parametrize("fx", [torch.fx, fxcore], ids=["torch.fx", "fxcore"])
def test_a_module_that_the_model_lost_is_taken_from_the_replacement_as_in_torch(fx):
    traced = fx.symbolic_trace(Activated())
    traced.delete_submodule("act")

    fx.subgraph_rewriter.replace_pattern(traced, lambda x: torch.relu(x), Unused())

    assert torch.equal(traced(torch.ones(2)), -torch.sigmoid(torch.ones(2)))


@pytest.mark.parametrize("fx", [torch.fx, fxcore], ids=["torch.fx", "fxcore"])
def test_a_module_that_neither_model_nor_replacement_has_is_named_as_in_torch(fx):
    traced, replacement = fx.symbolic_trace(Activated()), Unused()
    traced.delete_submodule("act")
    del replacement.act

    with pytest.raises(RuntimeError, match="node during subgraph rewriting with target act"):
        fx.subgraph_rewriter.replace_pattern(traced, lambda x: torch.relu(x), replacement)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_constant_without_values_becomes_one_with_itself_alone(is_shared):
    def program(x):
        return torch.relu(x) + torch.ones(2, device="meta")

    traced, replacement = fxcore.symbolic_trace(program), fxcore.symbolic_trace(program)
    if is_shared:
        replacement._tensor_constant0 = traced._tensor_constant0

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), replacement)

    assert len(dict(traced.named_buffers())) == (1 if is_shared else 2)


def reading(*paths, **held):
    """Return a module with a graph that reads these paths: tensors of ones, if they are not given."""
    graph = fxcore.Graph()
    graph.output(tuple([graph.get_attr(path) for path in paths]))
    return fxcore.GraphModule({path: torch.ones(2) for path in paths} | held, graph)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("weight",), {}),
        (("weight", "_tensor_constant0"), {"_tensor_constant0": "_tensor_constant2"}),
        (("_tensor_constant7",), {"_tensor_constant7": "_tensor_constant2"}),
        (
            ("_tensor_constant1", "_tensor_constant0"),
            {"_tensor_constant1": "_tensor_constant2", "_tensor_constant0": "_tensor_constant3"},
        ),
        (("_tensor_constant9",), {}),
    ],
)
def test_constants_get_the_first_free_name_where_theirs_means_another_object(paths, expected):
    taken = ("_tensor_constant0", "_tensor_constant1", "_tensor_constant7", "weight")
    model = reading(*taken, **{path: torch.zeros(2) for path in taken})
    replacement = reading(*paths)

    assert names_for_constants(model, replacement.graph) == expected


def test_a_free_name_may_have_the_number_zero():
    model, replacement = (reading("_tensor_constant1", _tensor_constant1=torch.full((1,), value)) for value in (1, 2))

    assert names_for_constants(model, replacement.graph) == {"_tensor_constant1": "_tensor_constant0"}


def test_a_constant_that_its_owner_lacks_keeps_its_name():
    model, replacement = reading("_tensor_constant0"), reading("_tensor_constant0")
    del replacement._tensor_constant0

    assert names_for_constants(model, replacement.graph) == {}
    assert names_for_constants(model, fxcore.symbolic_trace(lambda x: x).graph) == {}
    replacement.graph.owning_module = None
    assert names_for_constants(model, replacement.graph) == {}


def test_paths_that_the_model_has_or_the_caller_skips_are_not_copied():
    model, replacement = reading("mine"), reading("skipped", "mine", "given", "_tensor_constant0")
    before = model.mine

    copy_used_attributes(model, replacement.graph, {"_tensor_constant0": "_tensor_constant1"}, {"skipped"})

    assert model.mine is before
    assert not hasattr(model, "skipped")
    assert not hasattr(model, "_tensor_constant0")
    assert model.given is not replacement.given
    assert torch.equal(model._tensor_constant1, replacement._tensor_constant0)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a", "z"), ("a.b", "y"), ("a.b.c", "y.c"), ("a.c", "z.c"), ("ab", "ab"), ("c.a.b", "c.a.b")],
)
def test_a_path_takes_the_new_name_of_its_longest_part(path, expected):
    assert renamed(path, {"a": "z", "a.b": "y"}) == expected
