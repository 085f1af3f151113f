"""A model that is traced or run on trial keeps its state, whatever the run does to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import fxcore
from fxcore.state.snapshot import Snapshot, kept, state_kept


class Writing(nn.Module):
    """Writes to its buffers, containers and generator, and to torch's settings."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.cache: dict[str, Any] = {"mean": torch.zeros(2)}
        self.past = [torch.zeros(2)]
        self.space = SimpleNamespace(calls=0)
        self.generator = torch.Generator().manual_seed(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        self.cache["mean"].add_(1)
        self.cache["last"] = 1
        self.past[0].mul_(2).add_(1)
        self.space.calls += 1
        torch.rand(1, generator=self.generator)
        torch.rand(1)
        return x * 2


def test_a_trace_with_an_example_leaves_no_trace_in_containers_and_generators():
    model = Writing()
    before, rng = Snapshot(model), torch.get_rng_state()

    fxcore.symbolic_trace(model, example_inputs=(torch.ones(2),), verify=False)

    # The graph refers to the generator by an attribute of the model.
    assert [change for change in before.changes() if not change.path.startswith("_opaque_obj")] == []
    assert torch.equal(torch.get_rng_state(), rng)


def test_attributes_that_a_graph_refers_to_stay():
    model = nn.Linear(2, 2)

    with state_kept(model, {"constant"}):
        model.constant, model.other = torch.ones(1), 2

    assert torch.equal(model.constant, torch.ones(1))
    assert not hasattr(model, "other")


def test_a_parameter_gets_back_its_memory_gradient_and_flag_and_not_values_written_in_place():
    model = nn.Linear(2, 2)
    address, bias = model.weight.data_ptr(), model.bias.detach().clone()

    with state_kept(model):
        model.weight.data = torch.zeros(2, 2)
        model.weight.grad = torch.ones(2, 2)
        model.weight.requires_grad_(False)
        model.bias.data.add_(1)

    assert model.weight.data_ptr() == address
    assert model.weight.grad is None
    assert model.weight.requires_grad
    assert torch.equal(model.bias, bias + 1)


def test_a_parameter_with_gaps_gets_back_its_memory():
    model = nn.Module()
    model.weight = nn.Parameter(torch.arange(6.0)[::2])

    with state_kept(model):
        model.weight.data = torch.zeros(3)

    assert model.weight.tolist() == [0.0, 2.0, 4.0]


def test_a_parametrization_that_was_registered_is_removed():
    model = nn.Linear(2, 2)
    weight = model.weight

    with kept(Snapshot(model)) as snapshot:
        parametrize.register_parametrization(model, "weight", nn.Identity())
        changes = {(change.path, change.what) for change in snapshot.changes()}

    assert ("", "class") in changes
    assert type(model) is nn.Linear
    assert model.weight is weight
    assert dict(model.named_parameters()).keys() == {"weight", "bias"}


class Wrapping(torch.Tensor):
    """A tensor that holds another and has no operators of its own."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return Wrapping(args[0].inner)
        raise NotImplementedError(func)


@pytest.mark.parametrize("change", [lambda w: w.inner.add_(1), lambda w: setattr(w, "inner", torch.zeros(2))])
def test_the_parts_of_a_tensor_that_wraps_others_are_watched(change):
    inner = torch.ones(2)
    model = nn.Module()
    model.wrapped = Wrapping(inner)

    with kept(Snapshot(model)) as snapshot:
        change(model.wrapped)
        changes = [(change.path, change.what) for change in snapshot.changes()]

    assert changes == [("wrapped", "values")]
    assert model.wrapped.inner is inner
    assert inner.tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:.*quantize")
def test_a_quantized_tensor_is_put_back():
    model = nn.Module()
    model.quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)

    with kept(Snapshot(model)) as snapshot:
        model.quantized.copy_(torch.zeros(3))
        changes = [(change.path, change.what) for change in snapshot.changes()]

    assert changes == [("quantized", "values")]
    assert model.quantized.dequantize().tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_tensors_of_one_storage_stay_views_of_it():
    model = nn.Module()
    model.base = nn.Parameter(torch.arange(4.0))
    model.register_buffer("view", model.base.detach()[1:3])
    model.others = {"last": model.base.detach()[3:]}

    with kept(Snapshot(model)):
        model.view.zero_()
        model.others["last"].fill_(9)

    assert model.base.tolist() == [0.0, 1.0, 2.0, 3.0]
    model.base.data.mul_(2)
    assert model.view.tolist() == [2.0, 4.0]
    assert model.others["last"].tolist() == [6.0]
