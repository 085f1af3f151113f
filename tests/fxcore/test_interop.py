from __future__ import annotations

import operator

import pytest
import torch
import torch.fx
from torch import nn
from torch._dynamo.backends.debugging import aot_eager
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from fxcore import interop
from fxcore.errors import InteropError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.linear.weight
        self.weight = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("offset", torch.zeros(3), persistent=False)
        self.unused = nn.ReLU()

    def forward(self, x, y: int = 3, *, z=None):
        joined = torch.cat([self.tied(self.linear(x)) + self.weight, x[:, 0:1] + self.offset], dim=-1)
        return {"joined": joined, "pair": (x.add(y), y)}


def of_torch() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(Net())


def description(graph) -> list[tuple]:
    return [(node.name, node.op, node.target, str(node.args), str(node.kwargs), node.type) for node in graph.nodes]


def test_names_order_arguments_and_code_are_kept():
    original = of_torch()

    converted = interop.from_torch(original)

    assert isinstance(converted, fxcore.GraphModule)
    assert converted.code == original.code
    assert description(converted.graph) == description(original.graph)
    assert str(converted.graph) == str(original.graph)


def test_there_and_back_is_the_identity():
    original = of_torch()

    back = interop.to_torch(interop.from_torch(original))

    assert isinstance(back, torch.fx.GraphModule)
    assert back.code == original.code
    assert description(back.graph) == description(original.graph)
    assert list(back.state_dict()) == list(original.state_dict())
    assert type(back).__name__ == type(original).__name__


def test_state_is_shared_not_copied():
    original = of_torch()

    converted = interop.from_torch(original)

    assert converted.linear is original.linear
    assert converted.weight is original.weight
    assert converted.offset is original.offset
    assert converted.linear.weight is converted.tied.weight
    assert list(converted.state_dict()) == list(original.state_dict())


def test_new_state_of_one_is_not_the_others():
    original = of_torch()
    converted = interop.from_torch(original)

    converted.register_buffer("extra", torch.zeros(1))
    converted.meta["extra"] = 1

    assert not hasattr(original, "extra")
    assert "extra" not in original.meta


def test_both_compute_the_same():
    original = of_torch()
    inputs = torch.randn(1, 3)

    obtained = interop.from_torch(original)(inputs)

    assert torch.equal(obtained["joined"], original(inputs)["joined"])


def test_training_mode_is_kept():
    original = of_torch().eval()

    assert interop.from_torch(original).training is False
    assert interop.to_torch(interop.from_torch(original)).training is False


def test_meta_is_kept_in_dicts_of_its_own():
    original = of_torch()
    node = next(iter(original.graph.nodes))
    node.meta["value"] = marker = object()

    copied = next(iter(interop.from_torch(original.graph).nodes))

    assert copied.meta["value"] is marker
    assert copied.meta is not node.meta


def test_names_that_the_graph_itself_would_not_choose_are_kept():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(operator.neg, (x,))
    second = graph.call_function(operator.neg, (first,))
    graph.output(second)
    first.name, second.name = "neg_7", "neg"

    converted = interop.from_torch(graph)

    assert [node.name for node in converted.nodes] == ["x", "neg_7", "neg", "output"]
    assert [node.name for node in interop.to_torch(converted).nodes] == ["x", "neg_7", "neg", "output"]
    later = converted.call_function(operator.neg, (next(iter(converted.nodes)),))
    assert later.name not in {"neg_7", "neg"}


def test_a_graph_is_checked_and_can_be_edited_after_the_change():
    converted = interop.from_torch(of_torch())

    converted.graph.lint()
    converted.graph.eliminate_dead_code()
    converted.recompile()

    assert converted(torch.randn(1, 3))["pair"][1] == 3


def test_nested_inputs_keep_their_calling_convention():
    def add(inputs):
        return {"sum": inputs["x"] + inputs["y"][0]}

    original = torch.fx.symbolic_trace(add, concrete_args={"inputs": {"x": torch.fx.PH, "y": [torch.fx.PH]}})

    converted = interop.from_torch(original)
    back = interop.to_torch(converted)

    inputs = {"x": torch.ones(2), "y": [torch.ones(2)]}
    assert converted.code == original.code
    assert back.code == original.code
    assert torch.equal(converted(inputs)["sum"], torch.full((2,), 2.0))
    assert torch.equal(back(inputs)["sum"], torch.full((2,), 2.0))


class Shouting(torch.fx.graph.CodeGen):
    def gen_fn_def(self, free_vars, maybe_return_annotation, **options):
        return super().gen_fn_def(free_vars, maybe_return_annotation, **options) + "\n    shout()"

    def additional_globals(self):
        return [("shout", shout)]


SHOUTED: list[int] = []


def shout():
    SHOUTED.append(1)


def test_a_code_generator_of_the_users_goes_along():
    original = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    codegen = Shouting()
    original.graph.set_codegen(codegen)
    original.recompile()
    SHOUTED.clear()

    converted = interop.from_torch(original)
    converted(torch.ones(1))

    assert SHOUTED == [1]
    assert converted.code == original.code
    assert interop.to_torch(converted).graph._codegen is codegen


def test_graphs_of_make_fx_with_branches_run():
    def choose(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    original = make_fx(choose)(torch.ones(3))

    converted = interop.from_torch(original)

    assert converted.code == original.code
    for inputs in (torch.ones(3), -torch.ones(3)):
        assert torch.equal(converted(inputs), choose(inputs))


def test_an_exported_program_becomes_a_module_with_state():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, inputs):
            return self.linear(inputs["x"]) + inputs["y"][0]

    model = Nested()
    inputs = {"x": torch.randn(1, 2), "y": [torch.randn(1, 2)]}

    converted = interop.from_torch(torch.export.export(model, (inputs,)))

    assert torch.allclose(converted(inputs), model(inputs))
    assert sorted(dict(converted.named_parameters())) == ["linear.bias", "linear.weight"]


@pytest.mark.parametrize("convert", [interop.from_torch, interop.to_torch])
def test_anything_else_is_refused(convert):
    with pytest.raises(InteropError, match=r"cannot (take|hand) over an object of type Linear"):
        convert(nn.Linear(1, 1))


def test_further_attributes_of_nodes_are_kept():
    original = of_torch()
    for node in original.graph.nodes:
        node._source = f"source of {node.name}"

    ours = interop.from_torch(original)
    back = interop.to_torch(ours)

    for module in (ours, back):
        assert [node._source for node in module.graph.nodes] == [node._source for node in original.graph.nodes]


def test_a_backend_of_dynamo_may_go_through_fxcore():
    def backend(module, inputs):
        return aot_eager(interop.to_torch(interop.from_torch(module)), inputs)

    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.randn(3, 2)
    torch._dynamo.reset()

    torch.testing.assert_close(torch.compile(model, backend=backend, fullgraph=True)(x), model(x))


def test_a_graph_out_of_order_is_refused_with_both_nodes():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(operator.neg, (x,))
    second = graph.call_function(operator.abs, (first,))
    graph.output(second)
    second.append(first)

    with pytest.raises(InteropError, match="node 'abs_1' reads neg, which does not come before it in this graph"):
        interop.from_torch(graph)


@pytest.mark.parametrize("name", ["sum", "class", "torch", "a b", "1a"])
def test_a_name_that_the_user_chose_is_kept_whatever_it_means(name):
    gm = torch.fx.symbolic_trace(nn.ReLU())
    next(iter(gm.graph.nodes)).name = name

    converted = interop.from_torch(gm)

    assert next(iter(converted.graph.nodes)).name == name
    assert next(iter(interop.to_torch(converted).graph.nodes)).name == name
