"""A golden tells how a model is quantized: a model that loses its quantization, or gets another one, does not match."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

from fixtures.quantized_tensors import Activations, with_blocked_weights, with_wrapped_weights
from fxcore import Graph, GraphModule, symbolic_trace
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.functions import assert_graph_equal, structural_hash, structurally_equal
from pytest_fxgraph.gate.table_numbers import numbers_of
from pytest_fxgraph.goldens.table_columns import differences

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.dequant(self.head(torch.relu(self.body(self.quant(x)))))


def net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net().eval().requires_grad_(False)


def dynamic(dtype=torch.qint8):
    return quantization.quantize_dynamic(net(), {nn.Linear}, dtype=dtype)


def static(engine="x86", largest=1.0):
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        model = net()
        model.qconfig = quantization.get_default_qconfig(engine)
        prepared = quantization.prepare(model)
        prepared(torch.linspace(-largest, largest, 16).reshape(2, 8))
        return quantization.convert(prepared)
    finally:
        torch.backends.quantized.engine = before


def by_fx(largest=1.0):
    inputs = torch.linspace(-largest, largest, 16).reshape(2, 8)
    mapping = quantization.get_default_qconfig_mapping("x86")
    prepared = quantize_fx.prepare_fx(net(), mapping, (inputs,))
    prepared(inputs)
    return quantize_fx.convert_fx(prepared)


WRAPPED = {
    "float": net,
    "int8": lambda: with_blocked_weights(net()),
    "int8 with an offset": lambda: with_blocked_weights(net(), offset=2),
    "int8 in groups": lambda: with_blocked_weights(net(), group=4),
    "int8 in small groups": lambda: with_blocked_weights(net(), group=2),
    "int8 activations": lambda: with_blocked_weights(net(), activations=Activations()),
    "int8 activations by tensor": lambda: with_blocked_weights(net(), activations=Activations(per_row=False)),
    "int8 per tensor": lambda: with_wrapped_weights(net()),
    "dynamic": dynamic,
    "float16": lambda: dynamic(torch.float16),
    "static": static,
    "static, other engine": lambda: static("qnnpack"),
    "static, other activations": lambda: static(largest=3.0),
    "fx": by_fx,
    "fx, other activations": lambda: by_fx(largest=3.0),
}
NEEDED = {"float16": "fbgemm", "static": "x86", "static, other activations": "x86", "static, other engine": "qnnpack"}
MODELS = {
    name: make
    for name, make in WRAPPED.items()
    if NEEDED.get(name, "x86") in torch.backends.quantized.supported_engines
}


COSTLY = ("static, other engine", "static, other activations", "fx, other activations")  # a second each


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "make",
    [pytest.param(MODELS[name], id=name, marks=[pytest.mark.slow] if name in COSTLY else []) for name in MODELS],
)
def test_a_quantized_model_equals_itself_and_its_golden_is_read_back(make):
    document = build_document(_traced(make()), sources=False)

    assert build_document(_traced(make()), sources=False) == document
    assert decode(encode(document), "golden.yaml") == document
    assert_graph_equal(make(), make(), level="exact")


@pytest.mark.slow
def test_each_kind_of_quantization_is_a_structure_of_its_own():
    names = {}
    for name, make in MODELS.items():
        names.setdefault(structural_hash(make()), []).append(name)

    assert [alike for alike in names.values() if len(alike) > 1] == []
    assert 0 < len(names) == len(MODELS)


def test_a_model_that_lost_its_quantization_is_told_in_words():
    with pytest.raises(AssertionError) as caught:
        assert_graph_equal(with_blocked_weights(net()), net())

    assert (
        "parameter weight dequantized: int8 per channel, axis 0, symmetric -> float32 at 2 places: body, head"
        in str(caught.value)
    )


def test_an_attribute_of_a_quantized_weight_is_told_alone():
    with pytest.raises(
        AssertionError,
        match=r"weight: activations nothing -> fixtures.*Activations\(per_row=True\) at 2 places: body, head",
    ):
        assert_graph_equal(with_blocked_weights(net()), with_blocked_weights(net(), activations=Activations()))


def test_a_packed_weight_has_the_path_of_the_weight_that_it_was():
    with pytest.raises(AssertionError, match=r"body\.weight: float32\[8, 8\] -> qint8\[8, 8\] per tensor, symmetric"):
        assert_graph_equal(net(), dynamic(), level="signature")


def test_other_weights_of_the_same_quantization_match():
    other = net()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)

    assert_graph_equal(with_blocked_weights(net()), with_blocked_weights(other), level="exact")
    assert_graph_equal(dynamic(), quantization.quantize_dynamic(other, {nn.Linear}), level="exact")


def test_disabled_observers_and_fake_quantization_are_differences():
    def prepared(*, change=lambda module: None):
        model = quantize_fx.prepare_qat_fx(
            net().train(), quantization.get_default_qat_qconfig_mapping("x86"), (torch.ones(2, 8),)
        )
        return model.apply(change)

    assert structurally_equal(prepared(), prepared())
    assert not structurally_equal(prepared(), prepared(change=quantization.disable_observer))
    assert not structurally_equal(prepared(), prepared(change=quantization.disable_fake_quant))


@pytest.mark.filterwarnings("ignore:torch.quantize_per")
def test_the_scale_of_a_quantized_constant_counts():
    texts = {(scale, zero): _content(scale, zero) for scale, zero in ((0.5, 0), (0.25, 0), (0.5, 1))}

    assert texts[0.5, 0] == "scale=0.5, zero_point=0, [0, 1]"
    assert texts[0.5, 1] == "scale=0.5, zero_point=1, [1, 2]"
    assert len(set(texts.values())) == 3


def _traced(model):
    return model if hasattr(model, "graph") else symbolic_trace(model)


def _content(scale, zero_point):
    root, graph = nn.Module(), Graph()
    root._tensor_constant0 = torch.quantize_per_tensor(torch.tensor([0, scale]), scale, zero_point, torch.qint8)
    graph.output(graph.call_method("dequantize", (graph.get_attr("_tensor_constant0"),)))
    (record,) = build_document(GraphModule(root, graph)).state
    return record.content


@pytest.mark.slow
def test_a_table_counts_quantized_tensors_and_names_their_loss():
    counts = {name: numbers_of(_traced(make())).get("quantized") for name, make in MODELS.items()}

    assert {name for name, count in counts.items() if count is None} <= {"float", "float16"}
    assert {count for count in counts.values() if count is not None} == {2}
    assert [*differences({"nodes": 5, "quantized": 2}, {"nodes": 5}, {}, {})] == ["quantized 2 -> 0"]
    assert [*differences({"nodes": 5}, {"nodes": 5}, {}, {})] == []
