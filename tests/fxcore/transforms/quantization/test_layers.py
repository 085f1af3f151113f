"""Which layers are quantized, and the refusal of a build of torch without an engine for them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import PassError
from fxcore.transforms.quantization.dynamic import QuantizeDynamic
from fxcore.transforms.quantization.layers import Skip
from fxcore.transforms.quantization.lowering import LowerQuantized


@pytest.mark.parametrize("engine", ["none", ""])
@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (QuantizeDynamic(), "cannot quantize dynamically: .*; quantize the weights alone, with QuantizeWeights"),
        (LowerQuantized(), "cannot lower to quantized layers: .*; keep the reference form"),
    ],
)
def test_a_build_of_torch_without_engine_is_refused(transform, words, engine, monkeypatch):
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2)).eval())
    monkeypatch.setattr(torch.backends, "quantized", SimpleNamespace(engine=engine, supported_engines=["none"]))

    with pytest.raises(PassError, match=words):
        transform(gm)


@pytest.mark.parametrize(
    ("skip", "path", "reason"),
    [
        (Skip(), "head", None),
        (Skip(paths=("head",)), "head", "its path is skipped by 'head'"),
        (Skip(paths=("body.*", "h*")), "head", "its path is skipped by 'h*'"),
        (Skip(paths=("body.*",)), "head", None),
        (Skip(types=(nn.Conv1d, nn.Linear)), "head", "layers of class Linear are skipped"),
        (Skip(types=(nn.Module,), paths=("head",)), "head", "its path is skipped by 'head'"),
        (Skip(types=(nn.Conv1d,)), "head", None),
    ],
)
def test_layers_are_skipped_by_path_and_by_class(skip, path, reason):
    assert skip.reason(path, nn.Linear(2, 2)) == reason
