from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same


def failing(x, y):
    return torch.relu(x) @ y + 1


def test_a_failure_in_generated_code_is_shown_with_its_lines(capsys):
    def printed(fx):
        module = fx.symbolic_trace(failing)
        with pytest.raises(RuntimeError, match="inconsistent tensor size"):
            module(torch.ones(2), torch.ones(3))
        return re.sub(r"(?s).*Call using", "Call using", capsys.readouterr().err)

    assert_same(printed)
    printed(fxcore)
    assert "matmul = relu @ y" in printed(fxcore)


def test_a_failure_elsewhere_is_left_to_python(capsys):
    module = fxcore.symbolic_trace(nn.Sequential(nn.Linear(3, 4)))

    with pytest.raises(RuntimeError):
        module(torch.ones(2))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        module()

    assert "HERE" not in capsys.readouterr().err
