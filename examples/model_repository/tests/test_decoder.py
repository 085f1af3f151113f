"""The decoder: symbolic tracing stops at its sizes, so it is traced with an example, once for each of its two calls."""

from __future__ import annotations

import pytest
import torch
from models.decoder import Decoder

from fxcore.errors import GuardError


@pytest.fixture
def model() -> Decoder:
    torch.manual_seed(0)
    return Decoder().eval()


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.arange(12).reshape(2, 6)


def test_the_graph_of_a_prompt_is_the_one_that_was_reviewed(model, tokens, fx_golden):
    assert model == fx_golden(example_inputs=(tokens,))


def test_the_graph_of_the_next_token_is_the_one_that_was_reviewed(model, tokens, fx_golden):
    _, cache = model(tokens)

    assert model == fx_golden(example_inputs=(tokens[:, :1], cache))


def test_one_graph_serves_prompts_of_every_length(model, tokens, fx_trace, fx_equivalence):
    graph = fx_trace(model, example_inputs=(tokens,))

    fx_equivalence(model, torch.arange(20).reshape(1, 20), graph=graph)


def test_a_prompt_that_is_too_long_is_refused_by_the_graph_too(model, tokens, fx_trace):
    graph = fx_trace(model, example_inputs=(tokens,), enforce_guards=True)

    with pytest.raises(GuardError, match=r"tokens.shape\[1\]\) <= 32: it is False"):
        graph(torch.zeros(1, 33, dtype=torch.int64))
