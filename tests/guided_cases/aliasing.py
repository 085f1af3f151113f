"""Models that write into inputs, views and results, and return aliases."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.guided_cases.case import Call, call, case, flags, t


def same_twice() -> Call:
    x = t(3)
    return call(x, x)


def overlapping() -> Call:
    x = t(4)
    return call(x[:3], x[1:])


@case(lambda: [call(t(3)), call(t(4)), call(t(3, seed=1))])
class InPlaceOnInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2


@case(lambda: [call(t(3, 4)), call(t(5, 4)), call(t(3, 2))])
class InPlaceOnView(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x[0].mul_(2)
        x[:, 1] = 5
        return x.sum()


@case(lambda: [call(t(3, 4)), call(t(5, 4)), call(t(3, 2))])
class ReturnsInput(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, x.view(-1), x.clone()


@case(lambda: [call(t(3), t(3, seed=1)), same_twice(), call(t(4), t(4, seed=1))])
class SameTensorTwice(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if x is y:
            return x * 10
        return x + y


@case(lambda: [same_twice(), call(t(3), t(3)), call(t(4), t(4, seed=1))])
class ExampleIsSameTwice(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * 10 if x is y else x + y


@case(lambda: [call(t(3), t(3, seed=1)), same_twice(), overlapping(), call(t(4), t(4, seed=1))])
class WritesFirstReadsSecond(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x + y


@case(lambda: [same_twice(), call(t(3), t(3, seed=1)), overlapping()])
class WritesAliasedExample(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x + y


@case(lambda: [call(t(3), [t(3)]), call(t(3), []), call(t(3), [t(3), t(3)])])
class AppendsToList(nn.Module):
    def forward(self, x: Tensor, history: list[Tensor]) -> Tensor:
        history.append(x * 2)
        return torch.stack(history).sum(0)


@case(lambda: [call(t(3), []), call(t(3), [t(3)]), call(t(4), [])])
class CollectsIntoList(nn.Module):
    def forward(self, x: Tensor, features: list[Tensor]) -> Tensor:
        for _ in range(3):
            x = x.tanh()
            features.append(x)
        return features[0] + x


@case(lambda: [call({"x": t(3)}), call({"x": t(4)}), call({"x": t(3), "y": t(3)})])
class WritesIntoDict(nn.Module):
    def forward(self, batch: dict[str, Any]) -> Tensor:
        batch["y"] = batch["x"] * 2
        return batch["y"] + 1


@case(lambda: [call({"x": t(3), "z": t(3)}), call({"x": t(4), "z": t(4)}), call({"x": t(3)})])
class PopsFromDict(nn.Module):
    def forward(self, batch: dict[str, Any]) -> Tensor:
        z = batch.pop("z", None)
        return batch["x"] if z is None else batch["x"] + z


@case(lambda: [call(t(3), t(3)), call(t(4), t(4)), call(t(3), t(3, seed=1))])
class OutArgument(nn.Module):
    def forward(self, x: Tensor, out: Tensor) -> Tensor:
        torch.mul(x, 2, out=out)
        return out


@case(lambda: [call(t(3, 2)), call(t(6, 2)), call(t(3, 4))])
class FillsNewTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(x.shape[0] + 1, x.shape[1])
        out[1:] = x
        out[0, 0] = x.sum()
        rows = out.view(-1)
        rows[-1] = 7
        return out


@case(lambda: [call(t(3, 2)), call(t(6, 2)), call(t(3, 4))])
class ResizesInPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y.unsqueeze_(0).squeeze_(0)
        y.t_()
        return y.reshape(-1) + y.shape[0]


@case(lambda: [call(t(3, 2)), call(t(6, 2)), call(t(3, 4))])
class TransposesInputInPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.t_()
        return x + x.shape[0]


@case(lambda: [call(t(3)), call(t(5)), call(t(3, seed=1))])
class ViewReadAfterWrite(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        base = x * 1
        view = base[:2]
        before = view + 0
        base.add_(10)
        return view - before


@case(lambda: [call(t(3)), call(t(5)), call(t(3, grad=True))])
class DetachedAlias(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        y.detach().zero_()
        return y + x


@case(lambda: [call(t(3)), call(t(5)), call(t(3, seed=1))])
class DataReplaced(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y.data = x * 3
        return y + 1


@case(lambda: [call(t(4), flags(1, 0, 1, 0)), call(t(4), flags(0, 0, 0, 0)), call(t(2), flags(1, 1))])
class MaskedFillInput(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x[mask] = 0
        x.masked_fill_(~mask, 1.5)
        return x


@case(lambda: [call(t(3), t(3, seed=1)), call(t(4), t(4)), same_twice()])
class SwapsInputs(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)
        return x - y * 2


@case(lambda: [call([t(3), t(3)]), call([t(3)]), call([t(4), t(4), t(4)])])
class WritesEachOfList(nn.Module):
    def forward(self, parts: list[Tensor]) -> list[Tensor]:
        for i, part in enumerate(parts):
            part.add_(i)
        parts.reverse()
        return parts


@case(lambda: [call(t(1, 3).expand(2, 3).clone()), call(t(4, 3)), call(t(2, 5))])
class ChunksOfOneWrite(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, dim=0)
        a.mul_(0)
        return x, b


@case(lambda: [call(t(3)), call(t(4)), call(t(3, seed=1))])
class ListThatIsOutputTwice(nn.Module):
    def forward(self, x: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
        parts = [x + 1]
        same = parts
        same.append(x + 2)
        return parts, same, parts[0]


@case(lambda: [call(t(3)), call(t(4)), call(t(3, seed=1))])
class IterableAugmented(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x
        y = y + 1
        z = x.clone()
        z += y
        z **= 2
        z[z > 1] -= 1
        return z


@case(lambda: [call(t(2, 2), t(2, 2)), call(t(3, 3), t(3, 3)), same_twice()])
class SameStorage(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + 1 if x.data_ptr() == y.data_ptr() else x - 1


@case(lambda: [call([t(3)]), call([None]), call([t(3)], t(3)), call([t(4)])])
class NoneOnTheLeft(nn.Module):
    def forward(self, parts: list[Tensor | None], y: Tensor | None = None) -> Tensor:
        return torch.zeros(1) if y is parts[0] else torch.ones(1) * len(parts)
