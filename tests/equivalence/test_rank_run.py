"""The run of one rank: its model is built anew, and what the call and the step left is returned."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.rank_run import Dropout, RankJob, buffers_of, draws_of, plain_name, run_jobs

ONES = torch.ones(2)


class Scaled(nn.Module):
    """Scales its input, and counts its calls."""

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), factor))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls += 1
        return {"y": x * self.weight, "draw": torch.rand(1), "training": torch.tensor(self.training)}


def job(mode=None, cotangents=None, seed=3, draws=False):
    return RankJob(mode, Arguments((ONES.clone(),), {}), seed, cotangents, draws)


def results(*jobs, build=lambda rank: Scaled(rank + 2.0), names=("weight", "calls"), optimizer=None, rank=1):
    return run_jobs(rank, build, [[None, each] for each in jobs], frozenset(names), optimizer)


def test_each_job_has_a_model_of_its_own_and_the_same_seed():
    first, second = results(job(), job("eval"))

    assert torch.equal(first.state["weight"], torch.full((2,), 3.0))
    assert torch.equal(first.output["y"], torch.full((2,), 3.0))
    assert torch.equal(first.output["draw"], second.output["draw"])
    assert [bool(each.output["training"]) for each in (first, second)] == [True, False]
    assert [float(each) for each in second.buffers["calls"]] == [0.0, 1.0]
    assert first.gradients == {"weight": None}
    assert first.of_inputs == first.stepped == {}
    assert first.draws == ()
    assert not first.output["y"].requires_grad


def test_gradients_are_those_of_the_given_weights():
    (found,) = results(job(cotangents={"output['y']": torch.tensor([1.0, 5.0]), "output['other']": ONES}))

    assert torch.equal(found.gradients["weight"], torch.tensor([1.0, 5.0]))
    assert torch.equal(found.of_inputs["input 0"], torch.tensor([3.0, 15.0]))
    assert found.stepped == {}


def test_an_optimizer_makes_a_step():
    (found,) = results(job(cotangents={"output['y']": ONES}), optimizer=lambda each: torch.optim.SGD(each, lr=0.5))

    assert torch.equal(found.stepped["weight"], torch.full((2,), 2.5))
    assert torch.equal(found.state["weight"], torch.full((2,), 3.0))


def test_a_model_that_wraps_another_has_the_names_of_the_plain_model():
    wrapped = nn.Module()
    wrapped.module = Scaled()
    wrapped.forward = wrapped.module.forward

    (found,) = results(job(), build=lambda rank: wrapped)

    assert [*found.state] == ["weight"]
    assert [*found.buffers] == ["calls"]
    assert plain_name("module.net.weight") == "net.weight"
    assert [*results(job(), build=lambda rank: wrapped, names=("module.weight",))[0].state] == ["module.weight"]
    assert buffers_of(torch.relu) == {}


def test_dropout_is_left_out_of_a_training_step_and_recorded_beside_it():
    dropped = nn.Sequential(nn.Dropout(0.5)).train()

    assert torch.equal(results(job("train"), build=lambda rank: dropped)[0].output, ONES)
    assert torch.equal(results(job(), build=lambda rank: nn.Dropout(1.0))[0].output, torch.zeros(2))
    trained = results(job("train", draws=True), build=lambda rank: nn.Dropout(1.0))[0]
    assert torch.equal(trained.output, ONES)
    ((given, zeros, probability),) = [(each.given, each.zeros, each.probability) for each in trained.draws]
    assert torch.equal(given, ONES)
    assert zeros.all()
    assert probability == 1.0


@pytest.mark.parametrize(
    ("call", "probability"),
    [
        (lambda x: F.dropout(x), 0.5),
        (lambda x: F.dropout(x, 0.25), 0.25),
        (lambda x: F.dropout(input=x, p=0.75), 0.75),
        (lambda x: torch.dropout(x, 0.25, True), 0.25),
        (lambda x: torch.dropout(x, 0.25, train=True), 0.25),
    ],
)
def test_each_call_of_dropout_is_recorded_with_its_probability(call, probability):
    (draw,) = draws_of(call, Arguments((ONES,), {}))

    assert draw.probability == probability
    assert torch.equal(draw.given, ONES)


def test_attention_draws_where_dropout_is_on():
    query = torch.randn(1, 1, 8, 4, generator=torch.Generator().manual_seed(0))

    def attend(**options):
        torch.manual_seed(0)
        return F.scaled_dot_product_attention(query, query, query, **options)

    with Dropout(is_on=False):
        off = attend(dropout_p=0.9)
    with Dropout(is_on=True) as recorded:
        on = attend(dropout_p=0.9)

    assert torch.equal(off, attend())
    assert not torch.equal(on, attend())
    assert recorded.draws == []
    with Dropout(is_on=False):
        assert torch.equal(F.dropout(input=query), query)
