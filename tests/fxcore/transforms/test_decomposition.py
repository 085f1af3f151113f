"""Operations are written by simpler ones, by rules in Python and by torch's own, until no rule applies."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from fxcore import interop
from fxcore.errors import PassError
from fxcore.transforms.decomposition import Decompose, DecomposeOperators, torch_rules
from pytest_fxgraph import check_transform

aten = torch.ops.aten


def silu(x, inplace=False):
    return NotImplemented if inplace else x * F.sigmoid(x)


RULES = {
    F.silu: silu,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    F.sigmoid: lambda x: x.sigmoid(),
    nn.Linear: lambda layer, x: F.linear(x, layer.weight, layer.bias),
    F.linear: lambda x, weight, bias=None: x @ weight.t() + bias,
    nn.Sequential: lambda layers, x: layers[1](layers[0](x)),
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return F.silu(self.lin(x)) + F.silu(x * 2, inplace=True)


def test_rules_for_functions_methods_and_modules_are_applied_to_what_rules_give():
    result = check_transform(Decompose(RULES), Net(), (torch.randn(3, 4),), grads=True, modes=("train", "eval"))

    result.assert_ops(removed={nn.Linear: 1, F.silu: 1}, added={torch.exp: 1, "t": 1})
    assert sorted(result.after.state_dict()) == ["lin.bias", "lin.weight"]
    assert "silu" in result.after.code, "a rule that returns NotImplemented leaves the call"


def test_rules_for_operators_are_found_with_and_without_overload():
    gm = fxcore.symbolic_trace(lambda x: aten.silu.default(x) + aten.gelu.default(x))
    rules = {aten.silu: lambda x: aten.mul.Tensor(x, aten.sigmoid.default(x)), aten.gelu.default: aten.relu.default}

    made = Decompose(rules)(gm).graph_module

    assert [str(node.target) for node in made.graph.nodes if "aten" in str(node.target)] == [
        *("aten.sigmoid.default", "aten.mul.Tensor", "aten.relu.default")
    ]


def test_a_graph_that_no_rule_is_for_comes_back_itself():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x))

    assert Decompose(RULES)(gm).graph_module is gm
    assert not Decompose(RULES)(gm).modified


@pytest.mark.parametrize(
    "layers",
    [(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)), (nn.Linear(8, 8), nn.Softmax(-1))],
    ids=["norm", "softmax"],
)
def test_a_graph_of_make_fx_with_its_default_mode_is_decomposed(layers):
    # Each value of this graph has a fake mode of its own.
    model, x = nn.Sequential(*layers).eval(), torch.randn(3, 8)

    result = DecomposeOperators(torch_rules())(interop.from_torch(make_fx(model)(x)))

    assert result.modified
    torch.testing.assert_close(result.graph_module(x), model(x))
    targets = {node.target for node in result.graph_module.graph.nodes}
    assert not targets & {aten.gelu.default, aten.native_layer_norm.default, aten._softmax.default}


def test_a_module_with_hooks_stays():
    model = nn.Sequential(nn.ReLU())
    model[0].register_forward_hook(lambda module, args, result: result + 1)
    gm = fxcore.symbolic_trace(model)

    assert Decompose({nn.ReLU: lambda layer, x: x.clamp(min=0)})(gm).graph_module is gm


def test_rules_that_never_end_are_refused_in_words():
    rules = {torch.exp: lambda x: torch.exp(x) * 1.0}
    gm = fxcore.symbolic_trace(lambda x: torch.exp(x))

    with pytest.raises(PassError, match="after 20 rounds rules still apply, for exp: a rule gives what it is for"):
        Decompose(rules)(gm)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 4), nn.GELU())

    def forward(self, x):
        y = F.hardswish(self.layers(x))
        return torch.log_softmax(y, -1), F.mse_loss(y, x[:, :4])


def exported(model, *inputs):
    return interop.from_torch(torch.export.export(model, inputs))


def test_torchs_rules_are_applied_to_an_exported_program():
    model, x = Layers().eval(), torch.randn(3, 6)
    wanted = (aten.silu, aten.hardswish, aten.mse_loss, aten.native_layer_norm, aten.layer_norm, aten.log_softmax)
    rules = torch_rules(*wanted, aten._log_softmax, aten.addmm)

    result = check_transform(DecomposeOperators(rules), exported(model, x), (x,))

    left = {str(node.target).rpartition(".")[0] for node in result.after.graph.nodes if "aten" in str(node.target)}
    assert not left & {"aten.silu", "aten.hardswish", "aten.mse_loss", "aten._log_softmax", "aten.native_layer_norm"}
    assert {"aten.sigmoid", "aten.exp", "aten.mean"} <= left
    assert all("val" in node.meta for node in result.after.graph.nodes if node.op == "call_function")


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (aten.elu.default, (0.5,)),
        (aten.softplus.default, ()),
        (aten.leaky_relu.default, (0.2,)),
        (aten.hardsigmoid.default, ()),
        (aten.logit.default, (1e-3,)),
        (aten.native_layer_norm.default, ([4], None, None, 1e-5)),
        (aten.glu.default, (1,)),
        (aten._softmax.default, (1, False)),
    ],
    ids=str,
)
def test_every_rule_computes_what_its_operator_computes(operator, arguments):
    class Calls(nn.Module):
        def forward(self, x):
            result = operator(x, *arguments)
            return result[0] if isinstance(result, tuple) else result

    x = torch.rand(3, 4)
    gm = exported(Calls(), x)
    calls = [node for node in gm.graph.nodes if node.target is operator]
    assert calls, "the program has the operator"

    result = check_transform(DecomposeOperators(torch_rules(operator)), gm, (x,), atol=1e-6)

    assert not [node for node in result.after.graph.nodes if node.target is operator]


def test_what_torchs_rules_need_is_told():
    gm = fxcore.symbolic_trace(lambda x: aten.silu.default(x))
    rules = torch_rules(aten.silu)

    with pytest.raises(
        PassError, match=r"reads 'x': it has no metadata 'val', .* run FakeTensorProp on the graph first"
    ):
        DecomposeOperators(rules)(gm)
    fxcore.passes.fake_tensor_prop.FakeTensorProp(gm).propagate(torch.randn(3))
    made = DecomposeOperators(rules)(gm).graph_module

    assert "silu" not in made.code
    x = torch.randn(3)
    torch.testing.assert_close(made(x), F.silu(x))


class OfAnyBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm = nn.Linear(4, 6), nn.LayerNorm(6)

    def forward(self, x):
        y = self.norm(self.lin(x))
        first, second = y.chunk(2, -1)
        wide = F.pad(first, (1, 1)) + y.argmax(-1, keepdim=True)
        return F.silu(y).reshape(x.shape[0] * 2, 3), wide, F.mse_loss(first, second), y.expand(2, -1, -1)


def exported_for_any_batch(model, x):
    n = torch.export.Dim("n", min=2, max=64)
    return torch.export.export(model, (x,), dynamic_shapes=({0: n},))


@pytest.mark.parametrize("decomposed", [False, True])
def test_symbolic_sizes_are_read_from_tensors_and_computed(decomposed):
    program = exported_for_any_batch(OfAnyBatch(), torch.randn(3, 4))
    if decomposed:
        program = program.run_decompositions()
    gm = interop.from_torch(program)

    made = DecomposeOperators(torch_rules())(gm).graph_module

    assert len(made.graph.nodes) > len(gm.graph.nodes)
    for count in (2, 3, 17):
        x = torch.randn(count, 4)
        torch.testing.assert_close(made(x), program.module()(x))


def test_a_rule_that_chooses_by_a_symbolic_size_is_refused_in_words():
    class Calls(nn.Module):
        def forward(self, x):
            return aten.silu.default(x)

    gm = interop.from_torch(exported_for_any_batch(Calls(), torch.randn(3, 4)))
    rules = {aten.silu.default: lambda x: x * x.sigmoid() if x.shape[0] > 9 else x / (1 + x.neg().exp())}

    with pytest.raises(
        PassError, match=r"cannot decompose 'silu': its rule goes on differently unless s\d+ <= 9; use run_"
    ):
        DecomposeOperators(rules)(gm)


def test_all_rules_of_torch_can_be_had():
    assert len(torch_rules()) > 500


def test_a_call_that_stays_has_its_reason():
    class Hooked(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.lin.register_forward_hook(lambda *_: None)

        def forward(self, x):
            return F.silu(self.lin(x), inplace=True)

    report = Decompose(RULES)(fxcore.symbolic_trace(Hooked())).report

    assert [str(each) for each in report.left] == [
        "lin: it has hooks, which would no longer run",
        "silu: its rule calls the same, or returned NotImplemented",
    ]


def test_an_operator_that_is_not_of_aten_has_its_reason():
    gm = fxcore.symbolic_trace(lambda x: F.hardswish(x))

    result = DecomposeOperators(torch_rules(aten.hardswish))(gm)

    assert not result.modified
    assert (
        str(result.report.left[0]) == "hardswish: it is no operator of ATen; export the model, or trace it with make_fx"
    )


CONSTANT = torch.ones(3)


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x):
        return aten.silu.default(aten.mul.Tensor(x, self.scale))


def with_metadata(model, *inputs):
    gm = fxcore.symbolic_trace(model)
    fxcore.passes.fake_tensor_prop.FakeTensorProp(gm).propagate(*inputs)
    return gm


def test_a_rule_for_an_operator_of_the_program_reads_its_tensors():
    x = torch.randn(3)
    gm = with_metadata(Scales(), x)
    for node in gm.graph.find_nodes(op="get_attr"):
        del node.meta["val"]

    made = DecomposeOperators({aten.mul.Tensor: lambda x, y: x / aten.reciprocal.default(y)})(gm).graph_module

    assert [str(node.target) for node in made.graph.nodes if node.op == "call_function"] == [
        *("aten.reciprocal.default", "aten.div.Tensor", "aten.silu.default")
    ]
    torch.testing.assert_close(made(x), F.silu(x * 2))


@pytest.mark.parametrize(
    "rule",
    [
        lambda x: aten.silu.default(x),
        lambda x: [aten.exp.default(x), NotImplemented][1],
        lambda x: [aten.sym_size.int(x, 0), aten.silu.default(x)][1],
    ],
    ids=["calls the same", "gives up after a call", "asks for a size"],
)
def test_an_operator_that_its_rule_declines_stays_with_the_reason(rule):
    gm = with_metadata(lambda x: aten.silu.default(x), torch.randn(3))
    before = str(gm.graph)

    result = DecomposeOperators({aten.silu.default: rule})(gm)

    assert not result.modified
    assert str(result.graph_module.graph) == before
    assert str(result.report.left[0]) == "silu_default: its rule calls the same, or returned NotImplemented"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda x: aten.neg.default(aten.silu.default(x)), "after 3 rounds rules still apply, for aten.silu.default: "),
        (lambda x: x + CONSTANT, "cannot decompose 'silu_default': its rule uses a tensor that is no argument and no "),
    ],
    ids=["a rule that gives its operator", "a rule with a tensor of its own"],
)
def test_a_rule_for_an_operator_that_cannot_be_applied_is_refused_in_words(rule, words):
    gm = with_metadata(lambda x: aten.silu.default(x), torch.randn(3))

    with pytest.raises(PassError, match=words):
        DecomposeOperators({aten.silu.default: rule}, most_rounds=3)(gm)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda x: x.new_full((3,), 2.0 ** x.shape[0]), r"its rule computes .*s\d+.*, which no tensor has as its size"),
        (lambda x: aten.scalar_tensor.default(x.shape[0] > 9), r"its rule passes on whether s\d+ > 9"),
    ],
    ids=["a power", "a truth value"],
)
def test_a_rule_that_computes_with_a_symbolic_size_in_another_way_is_refused_in_words(rule, words):
    class Calls(nn.Module):
        def forward(self, x):
            return aten.silu.default(x)

    gm = interop.from_torch(exported_for_any_batch(Calls(), torch.randn(3, 4)))

    with pytest.raises(PassError, match=f"cannot decompose 'silu': {words}; use run_decompositions"):
        DecomposeOperators({aten.silu.default: rule})(gm)


@pytest.mark.parametrize(
    ("key", "model", "reason"),
    [
        (nn.ReLU, lambda x: F.relu(x), "relu: it calls torch.nn.functional.relu; the rule is for ReLU, which"),
        (nn.ReLU, lambda x: x.relu(), "relu: it calls the method relu; the rule is for ReLU, which"),
        (F.relu, nn.Sequential(nn.ReLU()), "0: it calls ReLU; the rule is for torch.nn.functional.relu, which"),
        ("relu", nn.Sequential(nn.ReLU()), "0: it calls ReLU; the rule is for the method relu, which"),
    ],
)
def test_another_spelling_of_an_operator_with_a_rule_is_told(key, model, reason):
    report = Decompose({key: lambda x: x.clamp(min=0)})(fxcore.symbolic_trace(model)).report

    assert [str(each) for each in report.left] == [f"{reason} computes the same"]


@pytest.mark.parametrize("in_order", [True, False])
def test_the_rule_of_an_overload_comes_before_the_rule_of_all_overloads(in_order):
    rules = {aten.silu.default: aten.exp.default, aten.silu: aten.neg.default}
    gm = fxcore.symbolic_trace(lambda x: aten.silu.default(x))

    made = Decompose(rules if in_order else dict(reversed(rules.items())))(gm).graph_module

    assert "aten.exp.default" in made.code
    assert "aten.neg.default" not in made.code


def test_a_rule_may_have_other_effects_than_its_operator():
    gm = fxcore.symbolic_trace(lambda x: torch.dropout(x, 0.5, True))

    assert "dropout" not in Decompose({torch.dropout: lambda x, rate, train: x * 2})(gm).graph_module.code


def test_operators_that_torch_builds_from_others_have_rules_if_they_are_named():
    assert list(torch_rules(aten.layer_norm)) == [aten.layer_norm.default]
    assert list(torch_rules(aten.layer_norm.default)) == [aten.layer_norm.default]
    assert torch_rules(aten.mm) == {}


def test_rules_of_operators_end_after_twenty_rounds():
    gm = with_metadata(lambda x: aten.silu.default(x), torch.randn(3))

    with pytest.raises(PassError, match=r"after 20 rounds rules still apply, for aten\.silu\.default: "):
        DecomposeOperators({aten.silu.default: lambda x: aten.neg.default(aten.silu.default(x))})(gm)


def test_one_input_with_metadata_is_enough():
    gm = fxcore.symbolic_trace(lambda x: aten.silu.default(x))
    next(iter(gm.graph.nodes)).meta["val"] = FakeTensorMode().from_tensor(torch.ones(3))

    made = DecomposeOperators({aten.silu.default: lambda x: x * x.sigmoid()})(gm).graph_module

    assert [str(node.target) for node in made.graph.nodes if node.op == "call_function"] == [
        *("aten.sigmoid.default", "aten.mul.Tensor")
    ]


class AnyBatch(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def of_any_batch(function):
    return interop.from_torch(exported_for_any_batch(AnyBatch(function), torch.randn(3, 4)))


def test_a_choice_by_a_symbolic_size_is_noticed_if_the_first_value_has_metadata_without_symbols():
    gm = of_any_batch(lambda x: (torch.zeros(2), aten.silu.default(x)))
    gm.graph.lint()
    first = next(iter(gm.graph.nodes))
    with gm.graph.inserting_before(first):
        gm.graph.placeholder("unused", default_value=None).meta["val"] = FakeTensorMode().from_tensor(torch.ones(3))
    rules = {aten.silu.default: lambda x: x * x.sigmoid() if x.shape[0] > 9 else x / (1 + x.neg().exp())}

    with pytest.raises(PassError, match="its rule goes on differently unless"):
        DecomposeOperators(rules)(gm)


def test_a_rule_gets_the_symbolic_sizes_that_its_operator_gets():
    gm = of_any_batch(lambda x: aten.view.default(x, [x.shape[0] * 2, -1]))

    made = DecomposeOperators({aten.view.default: aten._unsafe_view.default})(gm).graph_module

    assert "aten._unsafe_view.default" in made.code
    assert made(torch.ones(5, 4)).shape == (10, 2)


def test_a_size_is_not_read_from_a_value_that_comes_later():
    gm = of_any_batch(lambda x: (aten.silu.default(x), torch.cat([x, x])))

    made = DecomposeOperators({aten.silu.default: lambda x: x.new_full((x.shape[0] * 2,), 1.0)})(gm).graph_module

    made.graph.lint()
    assert made(torch.ones(5, 4))[0].shape == (10,)


def test_a_rule_that_computes_with_a_size_as_a_float_is_recorded():
    gm = of_any_batch(lambda x: aten.silu.default(x))

    made = DecomposeOperators({aten.silu.default: lambda x: x * torch.sym_float(x.shape[0])})(gm).graph_module

    assert "sym_float" in made.code
    assert made(torch.ones(5, 4)).sum() == 100


def test_new_operators_have_the_source_of_the_operator_and_values_of_their_own():
    gm = with_metadata(lambda x: aten.silu.default(x), torch.randn(3))
    gm.graph.find_nodes(op="call_function", target=aten.silu.default)[0].meta.update(stack_trace="net.py:1")

    made = DecomposeOperators({aten.silu.default: lambda x: aten.sum.default(x)})(gm).graph_module

    new = next(node for node in made.graph.nodes if node.op == "call_function")
    assert new.meta["stack_trace"] == "net.py:1"
    assert "tensor_meta" not in new.meta
    assert new.meta["val"].shape == ()
