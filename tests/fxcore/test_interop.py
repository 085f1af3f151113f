from __future__ import annotations

import dataclasses
import operator
import types
from typing import Any, NamedTuple

import pytest
import torch
import torch.fx
from torch import nn
from torch._dynamo.backends.debugging import aot_eager
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from fxcore import interop
from fxcore.codegen.codegen import CodeGen
from fxcore.codegen.pytree_codegen import PyTreeCodeGen
from fxcore.errors import GuardError, InteropError
from fxcore.guards import enforce
from fxcore.passes.infra.pass_base import PassResult


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


def relu_of_torch() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(nn.ReLU())


def test_attributes_hooks_and_slots_go_along_as_they_are():
    original = relu_of_torch()
    marker, seen = object(), []
    original.__dict__.update(
        {"marker": marker, "shape_env": None, "_unknown_hooks": {}, "_filled_hooks": {1: seen.append}, "last": marker}
    )
    original.forget = types.MethodType(lambda self: self, original)
    original._forward_pre_hooks[7] = original.forget

    ours = interop.from_torch(original)

    assert (ours.marker, ours.last, ours._filled_hooks) == (marker, marker, original._filled_hooks)
    assert ours._filled_hooks is not original._filled_hooks
    assert not {"shape_env", "_unknown_hooks", "_across_interop"} & vars(ours).keys()
    assert ours.forget() is ours
    assert ours._forward_pre_hooks[7]() is ours
    assert original._forward_pre_hooks[7]() is original
    for name in ("_parameters", "_buffers", "_modules", "meta"):
        assert vars(ours)[name] == vars(original)[name]
        assert vars(ours)[name] is not vars(original)[name]
    original.shape_env = marker
    assert interop.from_torch(original).shape_env is marker


class OwnTracer(torch.fx.Tracer):
    pass


def test_the_tracer_of_a_module_comes_back_if_another_process_can_import_it():
    class Local(torch.fx.Tracer):
        pass

    def there_and_back(kind):
        original = torch.fx.GraphModule(nn.ReLU(), kind().trace(nn.ReLU()))
        ours = interop.from_torch(original)
        assert vars(ours)["_tracer_cls"] is None
        return vars(interop.to_torch(ours)).get("_tracer_cls")

    assert there_and_back(OwnTracer) is OwnTracer
    assert there_and_back(Local) is None


def test_a_module_keeps_a_tracer_that_its_graph_does_not_know():
    original = relu_of_torch()
    original._tracer_cls = OwnTracer

    ours = interop.from_torch(original)

    assert vars(ours)["_across_interop"] == {"tracer": OwnTracer}
    assert interop.to_torch(ours)._tracer_cls is OwnTracer


def test_a_subclass_that_cannot_be_imported_becomes_a_plain_graph_module():
    class Local(torch.fx.GraphModule):
        pass

    traced = relu_of_torch()
    ours = interop.from_torch(Local(traced, traced.graph))

    assert "_across_interop" not in vars(ours)
    assert type(interop.to_torch(ours)).__mro__[1] is torch.fx.GraphModule


def guarded():
    return fxcore.symbolic_trace(lambda x: x + 1 if x.shape[0] > 2 else x, example_inputs=(torch.ones(4),))


def test_guards_that_are_not_enforced_are_not_checked():
    module, taken = interop.to_torch(guarded()), interop.to_torch(guarded())
    with pytest.raises(GuardError):
        module(torch.ones(2))

    enforce(module.graph, False)
    del taken.graph.guards
    for each in (module, taken):
        each.recompile()
        assert each(torch.ones(2)).tolist() == [2, 2]

    traced = guarded()
    enforce(traced.graph, False)
    assert type(interop.to_torch(traced)).__mro__[1] is torch.fx.GraphModule
    assert type(interop.to_torch(guarded())).__mro__[1] is interop.GuardedGraphModule


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Note:
    node: Any
    other: Any = None


def nested(value, depth):
    return value if not depth else [nested(value, depth - 1)]


@pytest.mark.parametrize(
    ("make", "is_new"),
    [
        (lambda x: x, True),
        (lambda x: [x, 1], True),
        (lambda x: (1, x), True),
        (lambda x: {x}, True),
        (lambda x: Pair(1, x), True),
        (lambda x: {"k": x}, True),
        (lambda x: {x: "v"}, True),
        (lambda x: Note(x, [1]), True),
        (lambda x: Note(1, [x]), True),
        (lambda x: nested(x, 7), True),
        (lambda x: nested(x, 8), False),
        (lambda x: [1, 2], False),
        (lambda x: (1, [2]), False),
        (lambda x: {1}, False),
        (lambda x: Pair(1, 2), False),
        (lambda x: {"k": [1]}, False),
        (lambda x: Note(1, [2]), False),
        (lambda x: Note, False),
    ],
)
def test_metadata_refers_to_the_new_nodes_and_is_the_same_object_without_nodes(make, is_new):
    original = relu_of_torch()
    x, relu, _ = original.graph.nodes
    relu.meta["note"] = before = make(x)

    made_x, made, _ = interop.from_torch(original).graph.nodes

    assert made.meta["note"] == (make(made_x) if is_new else before)
    assert (made.meta["note"] is before) is not is_new
    assert type(made.meta["note"]) is (type(made_x) if before is x else type(before))


def test_a_field_that_a_dataclass_lost_stays_away():
    original = relu_of_torch()
    x, relu, _ = original.graph.nodes
    relu.meta["note"] = note = Note(x)
    del note.__dict__["other"]
    note.__class__ = type("Bare", (), {"__dataclass_fields__": Note.__dataclass_fields__})

    made_x, made, _ = interop.from_torch(original).graph.nodes

    assert vars(made.meta["note"]) == {"node": made_x}


def cosine(x):
    return torch.cos(x)


class Doubled(CodeGen):
    """Takes half of the input and gives twice the output."""

    def process_inputs(self, *args):
        return tuple(value / 2 for value in args)

    def process_outputs(self, outputs):
        return outputs * 2


def test_a_code_generator_of_fxcore_serves_in_torch_fx_and_comes_back():
    traced = fxcore.symbolic_trace(cosine)
    codegen = Doubled()
    traced.graph.set_codegen(codegen)
    traced.recompile()

    theirs = interop.to_torch(traced)
    back = interop.from_torch(theirs)

    assert theirs.code == traced.code
    assert torch.equal(torch.fx.Interpreter(theirs).run(torch.ones(1)), torch.cos(torch.ones(1) / 2) * 2)
    assert back.graph._codegen is codegen
    assert torch.equal(fxcore.Interpreter(back).run(torch.ones(1)), torch.cos(torch.ones(1) / 2) * 2)


def test_a_code_generator_of_torch_serves_in_fxcore():
    class OfTorch(torch.fx.graph.CodeGen):
        process_inputs, process_outputs = Doubled.process_inputs, Doubled.process_outputs

    original = torch.fx.symbolic_trace(cosine)
    original.graph.set_codegen(OfTorch())

    ours = interop.from_torch(original)

    assert torch.equal(fxcore.Interpreter(ours).run(torch.ones(1)), torch.cos(torch.ones(1) / 2) * 2)


def test_a_transformer_of_code_goes_along_both_ways():
    original = relu_of_torch()
    original.graph.on_generate_code(lambda current: lambda body: [*body, "# the end\n"])
    original.recompile()

    ours = interop.from_torch(original)

    assert "# the end" in ours.code
    assert "# the end" in interop.to_torch(ours).code


@pytest.mark.parametrize("kind", ["plain", "nested"])
def test_a_code_generator_of_torch_s_own_kind_stays_of_this_kind(kind):
    arguments = {"concrete_args": {"x": (torch.fx.PH, torch.fx.PH)}} if kind == "nested" else {}
    original = torch.fx.symbolic_trace(lambda x: x[0], **arguments)

    ours = interop.from_torch(original)

    assert type(ours.graph._codegen) is (PyTreeCodeGen if kind == "nested" else CodeGen)
    assert type(interop.to_torch(ours).graph._codegen) is type(original.graph._codegen)
    assert ours((torch.ones(1), 2)).tolist() == [1]


def test_a_transform_of_fxcore_works_on_graphs_of_torch():
    def swap(graph_module):
        node = next(node for node in graph_module.graph.nodes if node.op == "call_function")
        node.target = torch.sin
        graph_module.recompile()
        return graph_module

    original = torch.fx.symbolic_trace(cosine)

    made = interop.on_torch_graphs(swap)(original)
    by_result = interop.on_torch_graphs(lambda module: PassResult(swap(module), True))(original)

    for each in (made, by_result):
        assert isinstance(each, torch.fx.GraphModule)
        assert torch.equal(each(torch.ones(1)), torch.sin(torch.ones(1)))
    assert torch.equal(original(torch.ones(1)), torch.cos(torch.ones(1)))
    assert interop.on_torch_graphs(swap).__name__ == "swap"


def test_a_module_has_no_private_attributes_of_the_other_library():
    original = of_torch()
    ours = interop.from_torch(original)

    assert vars(ours).keys().isdisjoint({"_code", "_lineno_map", "_prologue_start", "shape_env", "_across_interop"})
    original.shape_env = ours.shape_env = "an environment"
    assert interop.from_torch(original).shape_env == interop.to_torch(ours).shape_env == "an environment"


class Special(torch.fx.GraphModule):
    pass


def test_a_subclass_that_another_process_can_import_comes_back_once():
    traced = relu_of_torch()
    ours = interop.from_torch(Special(traced, traced.graph))

    back = interop.to_torch(ours)

    assert vars(ours)["_across_interop"]["class"] is Special
    assert type(back).__mro__[1] is Special
    assert "_across_interop" not in vars(back)


@pytest.mark.parametrize(
    ("kind", "extras", "noted"),
    [
        (OwnTracer, {"param_shapes_constant": True}, (OwnTracer, {"param_shapes_constant": True})),
        (OwnTracer, None, (OwnTracer, {})),
        (fxcore.Tracer, {"a": 1}, (None, {})),
        (None, {"a": 1}, (None, {})),
    ],
)
def test_only_a_tracer_of_the_same_library_is_noted(kind, extras, noted):
    ours = fxcore.symbolic_trace(nn.ReLU())
    ours.graph._tracer_cls, ours.graph._tracer_extras = kind, extras

    made = vars(interop.to_torch(ours))

    assert (made.get("_tracer_cls"), made.get("_tracer_extras", {}) if kind is OwnTracer else {}) == noted


def test_hooks_in_lists_go_along():
    ours, seen = fxcore.symbolic_trace(nn.ReLU()), []
    ours._register_replace_node_hook(lambda **names: seen.append(1))

    assert interop.to_torch(ours)._replace_hooks == ours._replace_hooks != []


def test_the_readers_of_a_value_keep_their_order():
    module = fxcore.symbolic_trace(lambda x: (x + 1, x * 2))
    x, add, *_ = module.graph.nodes
    add.args = (x, 5)
    names = [user.name for user in x.users]
    assert names == ["mul", "add"]

    other = interop.to_torch(module)

    assert [user.name for user in next(iter(other.graph.nodes)).users] == names
    assert [user.name for user in next(iter(interop.from_torch(other).graph.nodes)).users] == names


def test_inner_modules_are_converted_only_with_nested():
    torch_module = torch.fx.symbolic_trace(nn.ReLU())
    torch_module.inner = torch.fx.symbolic_trace(nn.Tanh())

    def is_ours(*modules):
        return [isinstance(module.inner, fxcore.GraphModule) for module in modules]

    def seen(**nested):
        found = []
        interop.on_torch_graphs(lambda own: found.append(own) or own, **nested)(torch_module)
        return found[0]

    assert is_ours(interop.from_torch(torch_module), seen()) == [False, False]
    assert is_ours(interop.from_torch(torch_module, nested=True), seen(nested=True)) == [True, True]
    nest = interop.from_torch(torch_module, nested=True)
    assert is_ours(interop.to_torch(nest), interop.to_torch(nest, nested=True)) == [True, False]
    assert isinstance(interop.to_torch(nest, nested=True).inner, torch.fx.GraphModule)
