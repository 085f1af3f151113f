"""Every pass keeps what is computed, or nearly so where it is to, on every model of the zoo."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import fxcore
from fixtures.catalog import CATALOG, real_models, small_models
from fixtures.lowered import in_the_edge_dialect
from fixtures.model_entry import entry
from fixtures.models.pytorchcv_models import classifier, image
from fxcore import interop
from fxcore.errors import FxError
from fxcore.passes.dialect.common.cse_pass import CSEPass
from fxcore.passes.infra.pass_base import PassResult
from fxcore.transforms.analysis.operator_names import formula_name
from fxcore.transforms.constant_folding import FoldConstants
from fxcore.transforms.dead_code import DeadCodeElimination
from fxcore.transforms.decomposition import Decompose, DecomposeOperators, torch_rules
from fxcore.transforms.exchange import ExchangeActivations, MoveTo
from fxcore.transforms.extraction import extract_between
from fxcore.transforms.fusion.activations import FuseActivations
from fxcore.transforms.fusion.batch_norm import FuseBatchNorm
from fxcore.transforms.fusion.calls import Fused, place_of
from fxcore.transforms.identities import RemoveIdentities
from fxcore.transforms.inlining import Inline, Outline
from fxcore.transforms.instrumentation import Instrument, RemoveInstruments, Timing, ValueGuard
from fxcore.transforms.quantization.dynamic import QuantizeDynamic
from fxcore.transforms.quantization.lowering import LowerQuantized
from fxcore.transforms.quantization.quantization_error import layer_errors, sqnr
from fxcore.transforms.quantization.static import QuantizeStatic
from fxcore.transforms.quantization.weight_only import QuantizeWeights
from fxcore.transforms.splitting import split_by, split_by_size

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:UserWarning", "ignore:.*reduce_range.*:UserWarning")

EVERY = 8  # of the small models, one in so many runs every day


def sample(models, every=1):
    return [
        pytest.param(each, id=each.name, marks=[pytest.mark.long] if number % every or "long" in each.traits else [])
        for number, each in enumerate(models)
    ]


def silu(x, inplace=False):
    return NotImplemented if inplace else x * x.sigmoid()


def relu(x, inplace=False):
    return NotImplemented if inplace else x.clamp(min=0)


RULES = {
    F.relu: relu,
    torch.relu: relu,
    F.silu: silu,
    nn.ReLU: lambda layer, x: F.relu(x, layer.inplace),
    nn.SiLU: lambda layer, x: F.silu(x, layer.inplace),
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
}


def outlined(gm):
    stacks = [list((node.meta.get("nn_module_stack") or {}).values()) for node in gm.graph.nodes]
    return Outline(tuple({str(stack[1][0]) for stack in stacks if len(stack) > 1}))(gm)


def split(gm):
    return PassResult(split_by_size(gm, nodes=7), True)


def split_by_operator(gm):
    return PassResult(split_by(gm, lambda node: node.op), True)


# The watchers see all values, whatever they are.
PASSES = [
    *(FuseBatchNorm(), FuseActivations(), RemoveIdentities(), FoldConstants(), CSEPass(), Decompose(RULES)),
    *(ExchangeActivations({nn.ReLU: nn.ReLU, nn.Sigmoid: nn.Sigmoid, nn.Tanh: nn.Tanh}), Inline()),
    *(DeadCodeElimination(), Instrument(lambda site: ValueGuard(site, nan=False, inf=False)), Instrument(Timing)),
    RemoveInstruments(),
]
OF_PARTS = [outlined, Inline(), split, Inline(), split_by_operator]


@pytest.mark.parametrize("model", sample(small_models(), EVERY))
def test_a_small_model_computes_the_same_after_all_passes(model, fx_transform):
    fx_transform(
        PASSES,
        model.build().eval(),
        model.example_inputs(),
        kwargs=dict(model.example_kwargs()),
        rtol=1e-4,
        atol=1e-4,
    )


def outputs(module, model):
    """Run a copy of a module, so that what it keeps does not change."""
    inputs, keywords = model.example_inputs(), dict(model.example_kwargs())
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return copy.deepcopy(module)(*inputs, **keywords)


def check(expected, obtained, least=50):
    """Fail if outputs differ by more than rounding, which a hundred layers add up."""
    pairs = list(zip(pytree.tree_leaves(expected), pytree.tree_leaves(obtained), strict=True))
    for one, other in pairs:
        if isinstance(one, torch.Tensor) and one.is_floating_point() and one.isfinite().all() and one.abs().max():
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert sqnr(one, other) > least
        elif isinstance(one, torch.Tensor):
            torch.testing.assert_close(other, one, rtol=1e-2, atol=1e-2, equal_nan=True)


def captured(model, original, form):
    """Return the graph of a model, or skip where it cannot be had in that form."""
    inputs, keywords = model.example_inputs(), dict(model.example_kwargs())
    if form == "symbolic" and model.is_symbolic:
        return fxcore.symbolic_trace(original)
    if form in ("symbolic", "example"):
        try:
            return fxcore.symbolic_trace(original, example_inputs=inputs, example_kwargs=keywords)
        except FxError as error:
            pytest.skip(f"cannot be traced: {error}")
    try:
        if form == "make_fx":
            with torch.no_grad():
                return interop.from_torch(make_fx(lambda *args: original(*args, **keywords))(*inputs))
        program = torch.export.export(original, inputs, keywords)
    except Exception as error:  # torch raises many kinds
        pytest.skip(f"cannot be captured: {type(error).__name__}")
    made = interop.from_torch((program if form == "exported" else program.run_decompositions()).module())
    return in_the_edge_dialect(made) if form == "edge" else made


FORMS = ("symbolic", "example", "make_fx", "exported", "decomposed", "edge")
LAYERS = {"linear", "addmm", "convolution", *(f"conv{size}d" for size in "123")}
ACTIVATIONS = {"relu", "sigmoid", "tanh"}
# Each pass that reports -> the operators that it is for, under all their spellings.
CANDIDATES = {
    FuseBatchNorm: {"batchnorm", "nativebatchnorm", "nativebatchnormlegitnotraining"},
    FuseActivations: LAYERS,
    RemoveIdentities: {"dropout", "identity"},
    ExchangeActivations: ACTIVATIONS,
    Decompose: {"relu", "silu", "sigmoid"},
    DecomposeOperators: {"addmm", "relu", "sigmoid", "silu", "gelu", "nativelayernorm"},
    QuantizeWeights: LAYERS,
    QuantizeDynamic: LAYERS,
    QuantizeStatic: LAYERS,
}


def untold(gm, kind, result):
    """Return the candidates of a pass that are in its result as they were, and that its report does not name."""
    told = {left.name for left in result.report.left}
    for each in result.report.changed:
        told |= {each.layer, *each.joined} if isinstance(each, Fused) else {each}
    stays = {(node.name, node.target) for node in result.graph_module.graph.nodes}
    found = []
    for node in gm.graph.nodes:
        module = gm.get_submodule(node.target) if node.op == "call_module" else None
        if (
            formula_name(node, module) in CANDIDATES[kind]
            and (node.name, node.target) in stays
            and place_of(node) not in told
        ):
            found.append(node.name)
    return found


class Candidates(nn.Module):
    """A candidate for each pass."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop, self.head = (
            nn.Conv2d(3, 4, 3),
            nn.BatchNorm2d(4),
            nn.Dropout(),
            nn.Linear(4, 2),
        )
        self.register_buffer("table", torch.ones(2))

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.head(self.drop(y)) * (self.table + 1).exp() + torch.sigmoid(y.sum()) + torch.sigmoid(y.sum())


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("form", FORMS)
def test_every_pass_changes_a_candidate_or_gives_the_reason_in_every_form(form):
    model = entry("candidates", Candidates, lambda: (torch.rand(2, 3, 8, 8),))
    gm = captured(model, model.build().eval(), form)
    x = model.example_inputs()
    of_weights = (QuantizeWeights(), QuantizeDynamic(), QuantizeStatic([x]))
    results = {type(each): each(gm) for each in (*PASSES[:7], DecomposeOperators(torch_rules()), *of_weights)}

    assert {kind: untold(gm, kind, results[kind]) for kind in CANDIDATES} == {kind: [] for kind in CANDIDATES}
    assert results[FuseBatchNorm].modified
    assert results[ExchangeActivations].modified
    assert results[CSEPass].modified
    assert results[FoldConstants].modified == (form != "symbolic")
    assert MoveTo(torch.float64)(gm).graph_module(*(each.double() for each in x)).dtype is torch.float64


ALL = [*small_models(), *(each for each in CATALOG.values() if not each.is_symbolic)]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", sample(ALL))
def test_every_pass_alone_keeps_what_every_captured_form_computes(model, form):
    if model.requires:
        pytest.importorskip(model.requires)
    if model.name == "buffer_counts_calls" and form == "symbolic":
        pytest.skip(model.reason)
    original = model.build().eval()
    gm = captured(model, original, form)
    if form == "make_fx":
        model = dataclasses.replace(model, example_kwargs=dict)  # the graph holds them
    expected = outputs(gm, model)
    transforms = [*PASSES, FoldConstants(parameters=True), split, split_by_operator]
    if form == "decomposed" and "random" not in model.traits:  # torch's rules draw in another way
        transforms.append(DecomposeOperators(torch_rules()))
    for transform in (*transforms, QuantizeWeights(), QuantizeDynamic()):
        result = transform(copy.deepcopy(gm))
        if not isinstance(transform, (QuantizeWeights, QuantizeDynamic)):
            check(expected, outputs(result.graph_module, model))
        if type(transform) in CANDIDATES:
            assert untold(gm, type(transform), result) == []
    if form == "symbolic":
        parts = copy.deepcopy(gm)
        for transform in OF_PARTS:
            parts = transform(parts).graph_module
            check(expected, outputs(parts, model))


def of_pytorchcv(file, function):
    made = entry(function, classifier(file, function), image, traits={"real", "long"}, requires="pytorchcv")
    return pytest.param(made, id=function, marks=pytest.mark.long)


OTHERS = """
    ghostnet.ghostnet hrnet.hrnet_w18_small_v1 mobilenet.mobilenet_w1 mobilenetv3.mobilenetv3_small_w7d20
    octresnet.octresnet10_ad2 preresnet.preresnet10 regnet.regnetx002 selecsls.selecsls42 senet.senet16
    seresnet.seresnet10 shufflenetv2.shufflenetv2_wd2
"""
REAL = [*sample(real_models(long=True)), *(of_pytorchcv(*each.split(".")) for each in OTHERS.split())]
REAL += sample([each for each in CATALOG.values() if each.is_real and not each.is_symbolic and each.name != "esm2"])


def settled(original, model):
    """Give batch norms the statistics of the inputs, without which random weights give infinite values, or none."""
    for norm in original.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.momentum = None
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        original.train()(*model.example_inputs(), **model.example_kwargs())
    return original.eval()


@pytest.mark.long
@pytest.mark.parametrize("model", REAL)
def test_a_real_model_computes_the_same_after_all_passes_and_nearly_so_with_integers(model):
    if model.requires:
        pytest.importorskip(model.requires)
    original = settled(model.build(), model)
    gm = captured(model, original, "symbolic")
    expected = outputs(original, model)

    for transform in (*PASSES, *OF_PARTS):
        gm = transform(gm).graph_module
        check(expected, outputs(gm, model), least=45)

    gm = captured(model, original, "symbolic")
    calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    part = extract_between(gm, [calls[len(calls) // 3]], [calls[-1]], model.example_inputs())
    with torch.no_grad():
        check(part.expected, part.graph_module(*part.inputs))
    wide = pytree.tree_map_only(
        torch.Tensor, lambda each: each.double() if each.is_floating_point() else each, model.example_inputs()
    )
    with torch.no_grad():
        check(copy.deepcopy(original).double()(*wide), MoveTo(torch.float64)(gm).graph_module(*wide), least=100)
    for transform in (QuantizeWeights(), QuantizeDynamic(), QuantizeStatic([model.example_inputs()])):
        result = transform(gm)
        check_first_layers(result.float_module, result.graph_module, model)
    check_first_layers(result.graph_module, LowerQuantized()(result.graph_module).graph_module, model)


def check_first_layers(gm, integers, model):
    """Fail if layers lose much where errors have not added up: deep networks of random weights make much of little."""
    check(outputs(gm, model), outputs(integers, model), least=-20)
    errors = layer_errors(gm, integers, model.example_inputs())
    assert all(error.sqnr > 20 for error in errors[:2])
