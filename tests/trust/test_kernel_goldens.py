"""Goldens at level `kernels` of eight models: they hold in other processes and with other hash seeds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fixtures.models.attention import SelfAttention
from fixtures.models.conv_bn_relu import ConvBnRelu
from fixtures.models.gpt_like import GptLike
from fixtures.models.mlp import MLP
from fixtures.models.sequences import BagOfWords, UnrolledGru
from fixtures.train_steps import Net

ROOT = Path(__file__).parents[2]
MODELS = {
    "mlp": (MLP, lambda: (torch.rand(2, 8),)),
    "convolutions": (ConvBnRelu, lambda: (torch.rand(2, 3, 8, 8),)),
    "attention": (SelfAttention, lambda: (torch.rand(2, 5, 16),)),
    "one_block": (lambda: GptLike(layers=1), lambda: (torch.randint(0, 50, (2, 8)),)),
    "three_blocks": (lambda: GptLike(layers=3), lambda: (torch.randint(0, 50, (2, 8)),)),
    "unrolled_gru": (UnrolledGru, lambda: (torch.rand(2, 4),)),
    "embedding_bag": (BagOfWords, lambda: (torch.randint(0, 9, (6,)), torch.tensor([0, 2, 5]))),
    "training": (Net, lambda: (torch.rand(3, 4),)),
}


@pytest.mark.sampled(every=8, start=6)
@pytest.mark.parametrize("name", MODELS)
def test_the_golden_of_a_model_s_kernels_holds(name, fx_capture, fx_golden):
    make, inputs = MODELS[name]
    mode = "train" if name == "training" else "eval"
    assert fx_capture(make(), inputs(), frontend="inductor", mode=mode) == fx_golden(level="kernels")


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "arguments"), [("1", ()), ("77", ("-n", "2"))], ids=["alone", "two workers"])
def test_the_goldens_hold_in_fresh_processes(seed, arguments):
    environ = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    options = ["-q", "-p", "no:cacheprovider", "-m", "", "-k", "kernels_holds", *arguments]
    command = [sys.executable, "-m", "pytest", *options, __file__]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{len(MODELS)} passed" in done.stdout
