"""torch.ao's FX quantization on fxcore: its sources with the import swapped, compared with torch.ao as it is."""

from __future__ import annotations

import copy
import importlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import get_default_qat_qconfig_mapping, get_default_qconfig_mapping
from torch.ao.quantization.qconfig_mapping import QConfigMapping

import fxcore
from fixtures import swapped_ao

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def of_torch(module):
    return importlib.import_module(f"torch.ao.{module}")


LIBRARIES = {"torch.fx": of_torch, "fxcore": swapped_ao.load}


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.other = nn.Conv2d(4, 4, 1)
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)))
        x = x + self.other(x)
        return self.linear(torch.cat([x, x], 1)[:, :4].mean((2, 3)))


class Linears(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        x = self.second(F.relu(self.first(x))).reshape(-1, 4)
        return F.linear(torch.sigmoid(x), self.weight)


CASES = {"convolutions": (ConvNet, (2, 3, 6, 6)), "linears": (Linears, (2, 4))}


@pytest.fixture(autouse=True)
def _one_engine(monkeypatch):
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = engine


def model_and_input(case, *, training=False):
    torch.manual_seed(0)
    kind, shape = CASES[case]
    return kind().train(training), torch.randn(shape)


def seen(module, x):
    """Return graph, code, state and result of a quantized module, in forms that can be compared."""
    state = {name: str(value) for name, value in module.state_dict().items()}
    return [str(module.graph), module.code.strip(), state, str(module(x)), str(module)]


def same_in_both(program):
    expected, obtained = (program(load) for load in LIBRARIES.values())
    assert obtained == expected


@pytest.mark.parametrize("convert", ["convert_fx", "convert_to_reference_fx"])
@pytest.mark.parametrize("case", CASES)
def test_static_quantization(case, convert):
    def program(load):
        fx = load("quantization.quantize_fx")
        model, x = model_and_input(case)
        prepared = fx.prepare_fx(model, get_default_qconfig_mapping("fbgemm"), (x,))
        prepared(x)
        return seen(prepared, x), seen(getattr(fx, convert)(copy.deepcopy(prepared)), x)

    same_in_both(program)


@pytest.mark.parametrize("case", CASES)
def test_quantization_aware_training(case):
    def program(load):
        fx = load("quantization.quantize_fx")
        model, x = model_and_input(case, training=True)
        prepared = fx.prepare_qat_fx(model, get_default_qat_qconfig_mapping("fbgemm"), (x,))
        prepared(x).sum().backward()
        gradients = {name: str(parameter.grad) for name, parameter in prepared.named_parameters()}
        return gradients, seen(fx.convert_fx(prepared.eval()), x)

    same_in_both(program)


@pytest.mark.parametrize("case", CASES)
def test_dynamic_quantization(case):
    def program(load):
        fx = load("quantization.quantize_fx")
        model, x = model_and_input(case)
        mapping = QConfigMapping().set_global(torch.ao.quantization.default_dynamic_qconfig)
        return seen(fx.convert_fx(fx.prepare_fx(model, mapping, (x,))), x)

    same_in_both(program)


def test_fusion():
    def program(load):
        model, x = model_and_input("convolutions")
        return seen(load("quantization.quantize_fx").fuse_fx(model), x)

    same_in_both(program)


def test_the_numeric_suite_compares_weights():
    def program(load):
        fx, suite = load("quantization.quantize_fx"), load("ns._numeric_suite_fx")
        model, x = model_and_input("linears")
        prepared = fx.prepare_fx(model, get_default_qconfig_mapping("fbgemm"), (x,))
        prepared(x)
        quantized = fx.convert_fx(copy.deepcopy(prepared))
        return str(suite.extract_weights("float", prepared, "quantized", quantized))

    same_in_both(program)


def test_what_comes_out_is_of_fxcore():
    model, x = model_and_input("linears")
    prepared = swapped_ao.load("quantization.quantize_fx").prepare_fx(
        model, get_default_qconfig_mapping("fbgemm"), (x,)
    )

    assert isinstance(prepared, fxcore.GraphModule)


def test_equalization():
    def program(load):
        fx, equalize = load("quantization.quantize_fx"), load("quantization.fx._equalize")
        model, x = model_and_input("linears")
        equalization = QConfigMapping().set_module_name("second", equalize.default_equalization_qconfig)
        prepared = fx.prepare_fx(model, get_default_qconfig_mapping("fbgemm"), (x,), _equalization_config=equalization)
        prepared(x)
        return seen(fx.convert_fx(prepared), x)

    same_in_both(program)
