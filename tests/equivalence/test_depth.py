"""What models and inputs are made of in the wild: every kind is compared, and a wrong graph of it is found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

import fxcore
from pytest_fxgraph.equivalence.fixture import FxEquivalence

BOTH = ("eval", "train")


class Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 3).to(torch.complex64) * (1 + 2j))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x) * self.weight


class Symmetric(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu() + weight.triu(1).T


class ReadsParametrised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        parametrize.register_parametrization(self.linear, "weight", Symmetric())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.linear.weight)


class Nested(nn.Module):
    def forward(self, batch: Any, *, scale: float = 1.0, mask: Any = None) -> Any:
        return {"first": batch["a"][0] * scale, "rest": (batch["b"], mask)}


class CastsWithin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.linear(x)


def matrix() -> torch.Tensor:
    return torch.linspace(-2, 2, 12).reshape(4, 3)


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    model[1].register_forward_hook(lambda module, args, output: output + 1)
    model[0].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,))
    return nn.Sequential(model)


MODELS = {
    "complex": (Spectrum, matrix().to(torch.complex64)),
    "complex made of floats": (Spectrum, matrix()),
    "hooks": (hooked, matrix()),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Linear(3, 3)), matrix()),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(3, 3)), matrix()),
    "orthogonal": (lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(3, 3))), matrix()),
    "weight norm by hooks": (lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 3))), matrix()),
    "spectral norm by hooks": (lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(3, 3))), matrix()),
    "a parametrised weight read": (ReadsParametrised, matrix()),
    "half": (lambda: nn.Linear(3, 3).half(), matrix().half()),
    "bfloat16": (lambda: nn.Linear(3, 3).bfloat16(), matrix().bfloat16()),
    "indices": (lambda: nn.Sequential(nn.Embedding(5, 3)), torch.tensor([[1, 4], [0, 2]])),
    "sparse gradients": (lambda: nn.Sequential(nn.Embedding(5, 3, sparse=True)), torch.tensor([1, 4])),
    "an expanded input": (lambda: nn.Linear(3, 3), torch.ones(1, 3).expand(4, 3)),
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize(("make", "inputs"), MODELS.values(), ids=MODELS.keys())
def test_models_of_every_kind_agree_with_their_graphs_in_both_modes_with_gradients(make, inputs):
    FxEquivalence()(make(), inputs, modes=BOTH, grads=True, samples=3)


def test_a_model_agrees_on_no_elements_where_the_user_allows_it():
    FxEquivalence()(nn.Linear(3, 3), torch.empty(0, 3), modes=BOTH, grads=True, samples=3, allow_vacuous=True)


FUNCTIONS = {
    "integers": (lambda x: x // 2 + 1, lambda x: x // 2 + 2, (torch.arange(6),)),
    "bools": (lambda x, m: torch.where(m, x, -x), lambda x, m: torch.where(m, x, x),
              (torch.tensor([1.0, 2.0]), torch.tensor([True, False]))),
    "sparse": (lambda s: s * 2, lambda s: s * 3, (torch.eye(3).to_sparse(),)),
    "sparse rows": (lambda s: s * 2, lambda s: s * 3, (torch.eye(3).to_sparse_csr(),)),
    "sparse by dense": (lambda s, x: torch.sparse.mm(s, x), lambda s, x: torch.sparse.mm(s, x + 1),
                        (torch.eye(3).to_sparse(), torch.ones(3, 2))),
    "sparse made dense": (lambda s: s * 2, lambda s: (s * 2).to_dense(), (torch.eye(3).to_sparse(),)),
    "indices twice": (lambda s: s * 2, lambda s: s * 3,
                      (torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (3, 3)),)),
    "quantized": (lambda q: q.dequantize(), lambda q: q.dequantize() + 1,
                  (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),)),
    "eight bits": (lambda x: x.to(torch.float8_e4m3fn), lambda x: (x + 1).to(torch.float8_e4m3fn), (torch.ones(4),)),
    "ragged": (lambda x: x * 2, lambda x: x * 3, (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),)),
    "not a number": (lambda x: torch.log(x), lambda x: torch.log(x).nan_to_num(), (torch.tensor([-1.0, 0.0, 2.0]),)),
    "no dimension": (lambda x: x * 2, lambda x: x * 3, (torch.tensor(3.0),)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("eager", "wrong", "inputs"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_tensors_of_every_kind_are_compared(eager, wrong, inputs):
    FxEquivalence()(eager, inputs, samples=3)

    with pytest.raises(AssertionError, match="eager and graph differ"):
        FxEquivalence()(eager, inputs, graph=fxcore.symbolic_trace(wrong))


def test_nested_and_keyword_inputs_reach_both_runs():
    inputs = ({"a": [torch.ones(2)], "b": torch.ones(3)},)

    FxEquivalence()(Nested(), inputs, kwargs={"scale": 2.0, "mask": torch.ones(2) > 0}, samples=2)


def test_autocast_around_the_check_holds_in_both_runs():
    with torch.autocast("cpu", torch.bfloat16):
        FxEquivalence()(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), matrix(), modes=BOTH, grads=True)


def test_autocast_within_the_model_which_a_trace_loses_is_found():
    with pytest.raises(AssertionError, match=r"dtype torch.bfloat16 in eager, torch.float32 in the graph"):
        FxEquivalence()(CastsWithin(), matrix())


def test_a_model_made_in_inference_mode_is_compared_there():
    with torch.inference_mode():
        FxEquivalence()(nn.Sequential(nn.BatchNorm1d(3)), matrix(), modes=BOTH)


def test_hooks_of_the_model_itself_which_no_trace_holds_are_named_as_the_cause():
    model = nn.Sequential(nn.Linear(3, 3))
    model.register_forward_hook(lambda module, args, output: output * 2)

    with pytest.raises(AssertionError, match="the model itself has forward hooks, and a trace begins below them"):
        FxEquivalence()(model, matrix())
