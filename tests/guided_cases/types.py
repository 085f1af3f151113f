"""Models whose answer depends on dtype, rank, layout or type of a tensor."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.guided_cases.case import call, case, ints, t, under


@case(lambda: [call(t(3)), call(t(3, dtype=torch.float64)), call(t(3, dtype=torch.float16)), call(ints(3))])
class BranchOnDtype(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            return x * 2
        return x * 3


@case(lambda: [call(t(3)), call(ints(3)), call(t(3, dtype=torch.bfloat16)), call(t(3, dtype=torch.complex64))])
class FloatingPoint(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.is_floating_point():
            return x.relu()
        return -x


@case(lambda: [call(t(3, 4)), call(t(2, 3, 4)), call(t(4)), call(t(5, 4))])
class BranchOnRank(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            x = x.unsqueeze(0)
        return x.sum(-1)


@case(lambda: [call(t(3, 4)), call(t(2, 3, 4)), call(t(4)), call(t())])
class LoopOverRank(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for dim in range(x.ndim):
            x = x.cumsum(dim)
        return x


@case(lambda: [call(t(3, 4), t(3, 4)), call(t(3, 4), t(3, 4, dtype=torch.float64)), call(t(3, 4), ints(3, 4))])
class TypeAs(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.type_as(y) + y.to(x)


@case(lambda: [call(t(3, 4)), call(t(3, 4, dtype=torch.float64)), call(t(3, 4, dtype=torch.float16))])
class SmallestNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.masked_fill(x < 0, torch.finfo(x.dtype).min)


@case(lambda: [call(t(3, 4)), call(t(3, 4, dtype=torch.float64)), call(t(2, 4, dtype=torch.float64))])
class ZerosOfDtype(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, torch.zeros(1, x.shape[1], dtype=x.dtype, device=x.device)])


@case(lambda: [call(t(3, 4)), call(t(4, 3).t()), call(t(3, 8)[:, ::2]), call(t(6, 4))])
class BranchOnContiguity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.is_contiguous():
            return x.view(-1) * 2
        return x.reshape(-1)


@case(lambda: [call(t(3, 4)), call(t(4, 3).t()), call(t(3, 4).expand(3, 4)), call(t(1, 4).expand(3, 4))])
class BranchOnStride(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.stride(0) == x.shape[1] else x - 1


@case(lambda: [call(t(1, 3, 2, 2)), call(t(1, 3, 2, 2).to(memory_format=torch.channels_last)), call(t(2, 3, 2, 2))])
class ChannelsLast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.is_contiguous(memory_format=torch.channels_last):
            return x * 2
        return x


@case(lambda: [call(t(3)), call(nn.Parameter(t(3))), call(t(3, grad=True)), call(t(4))])
class BranchOnParameter(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if isinstance(x, nn.Parameter) else x * 3


@case(lambda: [call(t(3)), call([1.0, 2.0]), call(2.0), call(t(2))])
class TensorOrNumbers(nn.Module):
    def forward(self, x: Any) -> Tensor:
        return torch.as_tensor(x) * 2


@case(lambda: [call(t(3)), call(t(3, dtype=torch.float64)), call(ints(3))])
class PromotionWithScalar(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, 0.5) + torch.tensor(1.0) * torch.arange(3)


@case(lambda: [call(t(3)), call(t(3, dtype=torch.float64)), call(ints(3))])
class DtypeAsOutput(nn.Module):
    def forward(self, x: Tensor) -> tuple[torch.dtype, str, int, bool]:
        return x.dtype, str(x.dtype), x.element_size(), x.is_complex()


@case(lambda: [call(t(3)), call(t(3, dtype=torch.float64)), call(ints(3)), call(ints(3) > 3)])
class TableOfDtypes(nn.Module):
    SCALES: ClassVar[dict[torch.dtype, float]] = {torch.float32: 2.0, torch.float64: 3.0}

    def forward(self, x: Tensor) -> Tensor:
        return x * self.SCALES.get(x.dtype, 5.0)


@case(lambda: [call(t(2, 2)), call(t(2, 2).to_sparse()), call(t(3, 2))])
class SparseOrDense(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.is_sparse:
            x = x.to_dense() * 2
        return x + 1


@case(
    lambda: [
        call(t(2, 4)),
        under(lambda: torch.autocast("cpu", dtype=torch.bfloat16), t(2, 4)),
        under(lambda: torch.autocast("cpu", dtype=torch.float16), t(2, 4)),
        call(t(3, 4)),
    ]
)
class DtypeOfLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layer(x)
        return out * 2 if out.dtype == torch.float32 else out.float()


@case(lambda: [call(t(2, 4)), call(t(3, 4)), call(t(2, 4, dtype=torch.float64))])
class AutocastInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.layer(x)
            if out.dtype == torch.bfloat16:
                out = out + 1
        return out.float()


@case(lambda: [call(t(4), t(4)), call(t(4), t(1)), call(t(2, 4), t(4)), call(t(4), t())])
class RankOfSecond(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if y.ndim < x.ndim or y.numel() == 1:
            return x * y.mean()
        return F.cosine_similarity(x, y, dim=-1)


@case(lambda: [call(t(3, dtype=torch.complex64)), call(t(3)), call(t(4, dtype=torch.complex64))])
class ComplexOrReal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(x).sum(-1) if torch.is_complex(x) else x
