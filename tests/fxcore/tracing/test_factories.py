from __future__ import annotations

import torch

import fxcore
from fxcore.tracing import factories


def on_an_older_torch(monkeypatch):
    monkeypatch.setattr(factories, "are_recorded_by_torch", lambda: False)


def makes(x):
    same_kind = torch.zeros(2, dtype=x.dtype)
    return torch.cat(x.split(1)) + torch.stack([same_kind, torch.full((x.shape[0],), x[0, 0].item())])


def test_factories_are_recorded_whatever_the_argument_parser_asks(monkeypatch):
    expected = fxcore.symbolic_trace(makes)
    on_an_older_torch(monkeypatch)

    obtained = fxcore.symbolic_trace(makes)

    assert str(obtained.graph) == str(expected.graph)
    assert obtained.code == expected.code
    x = torch.ones(2, 2, dtype=torch.float64)
    assert torch.equal(obtained(x), makes(x))


def test_factories_without_a_proxy_compute_and_are_torch_s_own_again_after(monkeypatch):
    before = torch.zeros
    on_an_older_torch(monkeypatch)

    traced = fxcore.symbolic_trace(lambda x: x + torch.zeros(1).item())

    assert torch.zeros is before
    assert traced(1) == 1
    assert "zeros" not in traced.code


def test_whether_torch_records_them_is_asked_of_torch():
    def kind(x):
        return torch.zeros(3, dtype=x)

    refuses = isinstance(trial(lambda: torch.fx.symbolic_trace(kind)), TypeError)

    assert factories.are_recorded_by_torch() is not refuses


def trial(action):
    try:
        return action()
    except TypeError as error:
        return error
