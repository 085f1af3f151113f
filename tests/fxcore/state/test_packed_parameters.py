"""Packed parameters of torch.ao are read as tensors, under every engine that this machine has."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.ao import quantization

from fxcore.state.packed_parameters import packed_tensors

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
ENGINES = [name for name in ("x86", "qnnpack") if name in torch.backends.quantized.supported_engines]


@pytest.fixture(params=ENGINES)
def engine(request):
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = request.param
    yield request.param
    torch.backends.quantized.engine = before


def texts(module):
    return {
        f"{path}:{name}": (tensor.dtype, tuple(tensor.shape))
        for path, part in module.named_modules()
        for name, tensor in packed_tensors(part)
    }


def test_a_layer_that_is_quantized_while_it_runs_has_weight_and_bias(engine):
    made = quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3)), {nn.Linear})

    assert texts(made) == {
        "0._packed_params:weight": (torch.qint8, (3, 4)),
        "0._packed_params:bias": (torch.float32, (3,)),
    }


@pytest.mark.parametrize("engine", ["x86"], indirect=True)  # qnnpack packs a bias of zeros
@pytest.mark.skipif("x86" not in ENGINES, reason="this machine has no engine x86")
def test_a_layer_without_bias_has_its_weight_alone(engine):
    made = quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3, bias=False)), {nn.Linear})

    assert texts(made) == {"0._packed_params:weight": (torch.qint8, (3, 4))}


@pytest.mark.sampled(every=2, start=1)
def test_a_converted_convolution_has_weight_and_bias(engine):
    model = nn.Sequential(quantization.QuantStub(), nn.Conv2d(1, 2, 1)).eval()
    model.qconfig = quantization.get_default_qconfig(engine)
    prepared = quantization.prepare(model)
    prepared(torch.ones(1, 1, 2, 2))

    assert texts(quantization.convert(prepared)) == {
        "1:weight": (torch.qint8, (2, 1, 1, 1)),
        "1:bias": (torch.float32, (2,)),
    }


def test_an_embedding_has_its_weight():
    model = nn.Sequential(nn.Embedding(4, 5))
    model.qconfig = quantization.float_qparams_weight_only_qconfig

    made = quantization.convert(quantization.prepare(model))

    assert texts(made) == {"0._packed_params:weight": (torch.quint8, (4, 5))}


def test_a_recurrent_layer_has_two_weights_in_each_cell(engine):
    made = quantization.quantize_dynamic(nn.Sequential(nn.LSTM(4, 5)), {nn.LSTM})

    weights = {name: found for name, found in texts(made).items() if name.endswith("weight")}
    assert weights == {
        "0._all_weight_values.0:param.0.weight": (torch.qint8, (20, 4)),
        "0._all_weight_values.0:param.1.weight": (torch.qint8, (20, 5)),
    }


def test_other_modules_have_no_packed_tensors():
    assert texts(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))) == {}
