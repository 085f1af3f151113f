"""What is shipped by torch.export: one graph of operators, without breaks."""

from __future__ import annotations

import pytest
import torch
from gate.models import MODELS, inputs

EXPORTED = ("mlp", "gated")


@pytest.mark.fx(frontend="export")
@pytest.mark.parametrize("name", EXPORTED)
def test_the_exported_graph_is_the_one_that_was_reviewed(name, fx_golden):
    assert MODELS[name]().eval() == fx_golden(example_inputs=inputs())


@pytest.mark.parametrize("name", EXPORTED)
def test_the_backend_knows_every_operator(name, fx_ops):
    torch.manual_seed(0)

    fx_ops(torch.export.export(MODELS[name]().eval(), inputs())).only_from(["aten.linear*", "aten.gelu*", "aten.glu*"])


def test_a_break_is_told_with_its_line_and_its_cure(fx_capture):
    captured = fx_capture(MODELS["logs"](), inputs())

    with pytest.raises(AssertionError, match=r"print\("):
        captured.assert_whole()
