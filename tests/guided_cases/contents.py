"""Models whose answer depends on the contents of tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxcore
from tests.guided_cases.case import call, case, flags, ints, t


@case(lambda: [call(t(4)), call(-t(4)), call(t(6, seed=1))])
class WhereOnSum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x.sum() > 0, x, x * 2)


@case(lambda: [call(t(4).abs()), call(-t(4).abs()), call(t(6).abs())])
class BranchOnSum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else x * 2


@case(lambda: [call(t(4).abs()), call(-t(4).abs()), call(t(6).abs())])
class AssumedBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if fxcore.assume(x.sum() > 0):
            return x * 3
        return x * 2


@case(lambda: [call(t(4).abs()), call(-t(4).abs()), call(t(6).abs())])
class AssumedAfterLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        x.add_(1)
        y = x.tanh()
        return y * 3 if fxcore.assume(y.sum() > 0) else y


@case(lambda: [call(t(4).abs()), call(-t(4).abs()), call(t(6).abs())])
class CondOnSum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos() * 2, (x,))


@case(lambda: [call(t(4, 3)), call(t(2, 3)), call(t(5, 3))])
class CondOnSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > 3, lambda v: v.sin(), lambda v: v.cos() * 2, (x,))


@case(lambda: [call(t(4, 3)), call(-t(4, 3)), call(t(5, 3))])
class CondWithLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(3, 3)
        self.other = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.mean() > 0, lambda v: self.one(v), lambda v: self.other(v), (x,))


@case(lambda: [call(t(4)), call(t(4, seed=3)), call(t(2, seed=1))])
class WhileNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        def body(n: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            return n + 1, v * 0.5

        count, value = while_loop(lambda n, v: v.abs().sum() > 0.5, body, (torch.zeros(()), x.clone()))
        return value + count


@case(lambda: [call(flags(1, 0, 1), t(3)), call(flags(0, 0, 0), t(3)), call(flags(1, 1, 1, 1), t(4))])
class MaskedSelect(nn.Module):
    def forward(self, mask: Tensor, x: Tensor) -> Tensor:
        return x[mask] * 2


@case(lambda: [call(flags(1, 0, 1), t(3)), call(flags(0, 0, 0), t(3)), call(flags(1, 1, 1, 1), t(4))])
class CountOfMask(nn.Module):
    def forward(self, mask: Tensor, x: Tensor) -> Tensor:
        kept = x[mask]
        return kept.sum() / max(len(kept), 1)


@case(lambda: [call(flags(1, 0, 1), t(3)), call(flags(0, 1, 1), t(3)), call(flags(1, 1, 1, 1), t(4))])
class MaskedAssignment(nn.Module):
    def forward(self, mask: Tensor, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        out[mask] = x[mask] * 2
        out[~mask] = -1
        return out


@case(lambda: [call(t(5)), call(-t(5)), call(t(3, seed=2))])
class NonzeroPositions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        places = (x > 0).nonzero()
        return places.sum() + x[x > 0].sum()


@case(lambda: [call(t(5)), call(t(5, seed=1)), call(t(7, seed=2))])
class ArgmaxAsIndex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[x.argmax()] - x[int(x.shape[0]) - 1]


@case(lambda: [call(t(5)), call(t(5, seed=1)), call(t(7, seed=2))])
class ArgmaxAsNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        best = x.argmax().item()
        return x[: best + 1].sum()


@case(lambda: [call(t(5)), call(t(5, seed=1)), call(t(7, seed=2))])
class ItemInArithmetic(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.sum().item() + float(x.mean())


@case(lambda: [call(t(5)), call(t(5, seed=1)), call(t(7, seed=2))])
class ItemAsOutput(nn.Module):
    def forward(self, x: Tensor) -> tuple[float, list[float]]:
        return x.sum().item(), x.tolist()


@case(lambda: [call(ints(6)), call(ints(6, seed=1)), call(ints(3, seed=2)), call(ints(6) * 0)])
class UniqueValues(nn.Module):
    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        values, counts = ids.unique(return_counts=True)
        return values, counts.float() / ids.numel()


@case(lambda: [call(t(6)), call(t(6, seed=1)), call(t(4)), call(t(2))])
class TopHalf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        values, places = x.topk(max(x.shape[0] // 2, 1))
        return values.cumsum(0) + places


@case(lambda: [call(t(6)), call(t(6, seed=1)), call(t(3))])
class SortThenGather(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        order = x.argsort(descending=True)
        return x.gather(0, order)[order.argsort()] + x[order[0]]


@case(lambda: [call(t(3, 4), ints(3, high=4)), call(t(3, 4), ints(3, high=4, seed=4)), call(t(6, 4), ints(6, high=4))])
class GatherByLabels(nn.Module):
    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return x[torch.arange(x.shape[0]), labels] - x.gather(1, labels[:, None])[:, 0] * 2


@case(
    lambda: [
        call(t(4, 3), torch.tensor([4, 2])),
        call(t(4, 3), torch.tensor([1, 3])),
        call(t(6, 3), torch.tensor([6, 6])),
    ]
)
class LengthsAsMask(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(x.shape[0])[None] < lengths[:, None]
        return mask.float() @ x


@case(
    lambda: [
        call(t(2, 4), torch.tensor([4, 2])),
        call(t(2, 4), torch.tensor([1, 3])),
        call(t(2, 4), torch.tensor([4, 4])),
    ]
)
class LengthsAsSlices(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return torch.stack([row[: int(n)].sum() for row, n in zip(x, lengths, strict=True)])


@case(lambda: [call(t(4).abs()), call(-t(4).abs()), call(t(6).abs())])
class AssertOnContents(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert (x >= 0).all(), "negative numbers"
        return x.sqrt()


@case(lambda: [call(t(4).abs()), call(-t(4).abs()), call(t(6).abs())])
class RaiseOnContents(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if (x < 0).any():
            raise ValueError("negative numbers")
        return x.sqrt()


@case(lambda: [call(t(3), torch.tensor(2)), call(t(3), torch.tensor(4)), call(t(5), torch.tensor(2))])
class RepeatByTensor(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        return x.repeat(int(count))


@case(
    lambda: [call(t(3), torch.tensor([1, 0, 2])), call(t(3), torch.tensor([1, 1, 1])), call(t(2), torch.tensor([3, 3]))]
)
class RepeatInterleave(nn.Module):
    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        return x.repeat_interleave(counts)


@case(lambda: [call(t(3), t(3)), call(t(3), t(3, seed=1)), call(t(3), t(4))])
class EqualTensors(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x if torch.equal(x, y) else x + y


@case(lambda: [call(t(4)), call(t(4) * float("nan")), call(t(5))])
class NanToNum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        bad = x.isnan()
        return torch.where(bad, torch.zeros(()), x) + bad.any()


@case(lambda: [call(t(4)), call(t(4) * float("nan")), call(t(5))])
class NanBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if torch.isnan(x).any():
            return torch.zeros_like(x)
        return x


@case(lambda: [call(t(6, 3), ints(6, high=2)), call(t(6, 3), ints(6, high=2, seed=1)), call(t(4, 3), ints(4, high=2))])
class ExpertsByMask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x: Tensor, route: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            (places,) = torch.where(route == i)
            out.index_add_(0, places, expert(x[places]))
        return out


@case(lambda: [call(t(6, 3), ints(6, high=2)), call(t(6, 3), ints(6) * 0), call(t(4, 3), ints(4, high=2))])
class ExpertsSkipped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x: Tensor, route: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            chosen = route == i
            if chosen.sum() == 0:
                continue
            out[chosen] = expert(x[chosen])
        return out


@case(lambda: [call(t(3, 3)), call(t(3, 3, seed=1)), call(t(5, 5))])
class Determinant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        sign, log = torch.linalg.slogdet(x)
        return torch.where(sign > 0, log, -log) + torch.linalg.matrix_rank(x)


@case(lambda: [call(ints(5)), call(ints(5, seed=1)), call(ints(9, seed=2)), call(ints(5) * 0)])
class BinCount(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return torch.bincount(ids, minlength=4).float().softmax(0)


@case(lambda: [call(t(3)), call(t(3, seed=1)), call(t(3) * 5), call(t(4))])
class TensorFromValues(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor([x.sum(), x.max(), x[0]]) + x[0]


@case(lambda: [call(t(2, 3)), call(t(2, 3, seed=1)), call(t(4, 3))])
class StraightThrough(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        soft = x.softmax(-1)
        hard = F.one_hot(soft.argmax(-1), x.shape[-1]).to(x.dtype)
        return hard - soft.detach() + soft
