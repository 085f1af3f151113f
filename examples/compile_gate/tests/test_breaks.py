"""What torch.compile makes of each model, in one table: a line each in golden/tests/test_breaks/table.yaml."""

from __future__ import annotations

import pytest
import torch
from gate.models import MODELS, inputs

# Dynamo makes no graph of it at all. count_breaks.py counts that as no break.
NOT_CAPTURED = ("repeats",)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in NOT_CAPTURED])
def test_breaks_and_operators(name, fx_capture, fx_table):
    torch.manual_seed(0)

    assert fx_capture(MODELS[name](), inputs()) == fx_table(tolerance={"nodes": "5%", "operators": "5%"})


@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_models_that_dynamo_leaves_to_python(name, fx_capture):
    captured = fx_capture(MODELS[name](), inputs())

    assert captured.graphs == []
    assert [(found.kind, found.operator) for found in captured.breaks] == [("builtin", "print")]
