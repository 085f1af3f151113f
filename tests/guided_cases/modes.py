"""Models whose answer depends on a mode: training, gradients, autocast, inference, default dtype."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.guided_cases.case import after, call, case, evaluating, t, training, under


@contextlib.contextmanager
def double_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def half_on_cpu() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


@case(lambda: [call(t(3)), training(t(3)), evaluating(t(3)), evaluating(t(4))])
class BranchOnTraining(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.training else x


@case(lambda: [call(t(4, 3)), training(t(4, 3)), training(t(2, 3)), evaluating(t(4, 3))])
class NormThenDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@case(lambda: [training(t(4, 3)), training(t(4, 3, seed=1)), evaluating(t(4, 3)), training(t(1, 3))])
class NormInTraining(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3, momentum=None)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


@case(lambda: [call(t(3)), under(torch.no_grad, t(3)), call(t(3, grad=True)), under(torch.no_grad, t(4))])
class BranchOnGradMode(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.is_grad_enabled() else x


@case(lambda: [under(torch.no_grad, t(3, 4)), call(t(3, 4)), call(t(3, 4, grad=True)), under(torch.no_grad, t(5, 4))])
class TracedWithoutGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@case(lambda: [call(t(3)), under(torch.inference_mode, t(3)), under(torch.no_grad, t(3))])
class BranchOnInference(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if torch.is_inference_mode_enabled() else x + 2


@case(lambda: [call(t(3)), call(t(3, grad=True)), call(t(4))])
class BranchOnRequiresGrad(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            return x.square()
        return x


def freeze(model: BranchOnFrozenWeight) -> None:
    model.weight.requires_grad_(False)


@case(lambda: [call(t(3)), after(freeze, t(3)), call(t(3))])
class BranchOnFrozenWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * 2 if self.weight.requires_grad else x


@case(lambda: [call(t(2, 3)), under(half_on_cpu, t(2, 3)), call(t(4, 3))])
class BranchOnAutocast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if torch.is_autocast_enabled("cpu"):
            return x.bfloat16() * 2
        return x


@case(lambda: [under(half_on_cpu, t(2, 3)), call(t(2, 3)), under(half_on_cpu, t(4, 3))])
class TracedUnderAutocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + 1


@case(lambda: [under(half_on_cpu, t(2, 3)), call(t(2, 3)), under(half_on_cpu, t(4, 3))])
class DtypeAskedUnderAutocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layer(x)
        assert out.dtype in (torch.float32, torch.bfloat16)
        return out * 2 if out.dtype == torch.bfloat16 else out


@case(lambda: [call(t(2, 3)), under(half_on_cpu, t(2, 3)), under(half_on_cpu, t(4, 3))])
class AutocastSwitchedOff(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return self.layer(x.float())


@case(lambda: [call(t(3)), under(double_by_default, t(3)), call(t(4)), under(double_by_default, t(4))])
class DefaultDtypeOfFactory(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.ones(x.shape[0]) * torch.tensor(0.5)


@case(lambda: [call(t(3)), under(double_by_default, t(3)), call(t(4))])
class BranchOnDefaultDtype(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to(torch.get_default_dtype()) * 2


@case(lambda: [call(t(3, grad=True)), call(t(3)), under(torch.no_grad, t(3, grad=True)), call(t(5, grad=True))])
class NoGradInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            scale = (x * self.weight).abs().max()
        return x * self.weight / scale


@case(lambda: [call(t(3)), under(torch.no_grad, t(3)), call(t(4))])
class GradSwitchedOn(nn.Module):
    @torch.enable_grad()
    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad((x**3).sum(), x)[0]


@case(lambda: [call(t(3)), call(t(3, grad=True)), under(torch.no_grad, t(3)), call(t(6))])
class GradientPenalty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x if x.requires_grad else x.clone().requires_grad_()
            energy = (self.weight * x**2).sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return force * 2


@case(lambda: [call(t(8)), training(t(8)), training(t(6)), evaluating(t(8))])
class FunctionalDropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training) + 1


@case(lambda: [training(t(8)), evaluating(t(8)), training(t(9))])
class DropoutTracedInTraining(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(x, 0.25, training=self.training)
        if self.training:
            x = x + torch.randn_like(x) * 0.1
        return x


@case(lambda: [call(t(3)), after(lambda m: m.inner.train(), t(3)), evaluating(t(3)), training(t(3))])
class InnerModuleTrains(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = BranchOnTraining()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


@case(lambda: [call(t(1, 2, 4, 2)), training(t(1, 2, 4, 2)), call(t(1, 2, 6, 2))])
class AttentionDropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rate = 0.5 if self.training else 0.0
        return F.scaled_dot_product_attention(x, x, x, dropout_p=rate, is_causal=True)


@case(lambda: [call(t(3)), under(double_by_default, t(3)), call(t(4)), under(double_by_default, t(4))])
class DefaultDtypeOfConstant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tensor([0.5]) + torch.full((1,), 2.0)


@case(lambda: [call(t(3)), call(t(3, grad=True)), call(t(4, grad=True)), call(t(3))])
class NoGradWithoutGradients(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            largest = x.abs().max()
        return x / largest
