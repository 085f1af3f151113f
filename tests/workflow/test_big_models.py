"""A model of 7 billion parameters that has no memory is traced and has a golden, in the memory of a small one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

import fxcore
from fixtures.llama_like import SMALL, LlamaLike
from pytest_fxgraph.command.show import show

PROGRAM = """
import contextlib, json, resource, sys
import torch
from fixtures.llama_like import LlamaLike, Sizes
from pytest_fxgraph import assert_graph_matches_golden
from torch._subclasses.fake_tensor import FakeTensorMode

with torch.device("meta") if sys.argv[1] == "meta" else FakeTensorMode(allow_non_fake_inputs=True):
    model, tokens = LlamaLike(Sizes()), torch.zeros(1, 16, dtype=torch.long)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for update in (True, False):
    assert_graph_matches_golden(model, sys.argv[2], example_inputs=(tokens,), update=update)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(parameter.numel() for parameter in model.parameters())
print(json.dumps({"parameters": count, "grown": (after - before) * (1 if sys.platform == "darwin" else 1024)}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource.getrusage")
@pytest.mark.parametrize(
    "kind", [pytest.param("meta", marks=pytest.mark.slow), pytest.param("fake", marks=pytest.mark.long)]
)
def test_a_decoder_of_seven_billion_parameters_has_a_folded_golden(kind, tmp_path):
    golden = tmp_path / "decoder.yaml"

    run = subprocess.run([sys.executable, "-c", PROGRAM, kind, str(golden)], capture_output=True, text=True, check=True)

    measured = json.loads(run.stdout.splitlines()[-1])
    assert measured["parameters"] > 6_700_000_000
    assert measured["grown"] < 1_000_000_000
    lines = list(show([str(golden)]))
    assert "block layers.*:" in lines
    assert [line.partition(" = ")[2].partition("(")[0] for line in lines if line.endswith(") like layers.*")] == [
        f"layers.{index}" for index in range(32)
    ]
    assert "float32[11008, 4096]" in golden.read_text(encoding="utf-8")
    assert len(lines) < 220  # a line for each of 32 blocks in three sections


def test_the_same_decoder_in_small_keeps_batch_and_length_free():
    torch.manual_seed(0)
    model = LlamaLike(SMALL).eval()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.randint(0, 64, (2, 7)), verify=True)

    assert str(graph_module.meta["free_sizes"]) == "0: 0, 1"
    assert not graph_module.graph.guards
    tokens = torch.randint(0, 64, (3, 12))
    torch.testing.assert_close(graph_module(tokens), model(tokens))
