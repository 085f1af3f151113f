"""Wrong transforms of storage: results that share memory, and tensors that are written in place."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.outside_transforms.case import SEARCH, Model, integers, t, wrong


@wrong(lambda: t(3, 4))
class ViewBecomesCopy(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, 1:3]

    def rewritten(self, x: Tensor) -> Tensor:
        return x[:, 1:3].clone(memory_format=torch.preserve_format)


@wrong(lambda: t(3, 4))
class CopyBecomesInput(Model):
    """Take a copy for a copy that nobody needs."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clone()

    def rewritten(self, x: Tensor) -> Tensor:
        return x


@wrong(lambda: t(3, 4))
class OutputsShareMemory(Model):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, x + 1

    def rewritten(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        return y, y


@wrong(lambda: t(3, 4))
class OutputsNoLongerShareMemory(Model):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        return y, y.view(4, 3)

    def rewritten(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, (x + 1).view(4, 3)


@wrong(lambda: t(3, 4))
class BufferHandedOut(Model):
    def build(self) -> None:
        self.register_buffer("table", t(3, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + self.table, self.table.clone()

    def rewritten(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + self.table, self.table


@wrong(lambda: t(3, 4))
class ContiguousAsClone(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.contiguous()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.clone()


@wrong(lambda: t(3, 4))
class CastToItsOwnTypeCopies(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.to(torch.float32)

    def rewritten(self, x: Tensor) -> Tensor:
        return x.to(torch.float32, copy=True)


@wrong(lambda: t(3, 4))
class WriteToTheInputLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2) + 1

    def rewritten(self, x: Tensor) -> Tensor:
        return x * 2 + 1


@wrong(lambda: t(3, 4))
class InputWrittenToSaveMemory(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid() * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return x.sigmoid_() * 2


@wrong(lambda: t(3, 4))
class RowWrittenInACopy(Model):
    def forward(self, x: Tensor) -> Tensor:
        x[0].zero_()
        return x + 1

    def rewritten(self, x: Tensor) -> Tensor:
        rows = x.clone()
        rows[0].zero_()
        return rows + 1


@wrong(lambda: t(3, 4))
class ReadAfterTheWrite(Model):
    def forward(self, x: Tensor) -> Tensor:
        first = x[0] * 1
        x.add_(1)
        return first + x

    def rewritten(self, x: Tensor) -> Tensor:
        x.add_(1)
        return x[0] * 1 + x


@wrong(lambda: t(3, 4))
class ViewTakenOfTheResult(Model):
    """The view belongs to the sum's own input, which a later statement changes."""

    def forward(self, x: Tensor) -> Tensor:
        y = x + 0
        row = y[0]
        y.mul_(3)
        return row

    def rewritten(self, x: Tensor) -> Tensor:
        y = x + 0
        row = y[0].clone()
        y.mul_(3)
        return row


@wrong(lambda: t(3, 4))
class OutArgumentForgotten(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        torch.add(x, 1, out=y)
        return y

    def rewritten(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        return y + torch.add(x, 1) * 0


@wrong(lambda: (t(4, 3), torch.tensor([0, 2])), SEARCH)
class AccumulationLost(Model):
    """The indices of the test are distinct."""

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        return torch.zeros(4, 3).index_put((rows,), x[:2], accumulate=True)

    def rewritten(self, x: Tensor, rows: Tensor) -> Tensor:
        return torch.zeros(4, 3).index_put((rows,), x[:2])


@wrong(lambda: t(3, 4))
class RowOffByOne(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = x.new_zeros(4, 4)
        y[1:].copy_(x)
        return y

    def rewritten(self, x: Tensor) -> Tensor:
        y = x.new_zeros(4, 4)
        y[:3].copy_(x)
        return y


@wrong(lambda: (t(3, 4), integers(3, 4)))
class SecondInputWritten(Model):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + (y + 1)

    def rewritten(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y.add_(1)


@wrong(lambda: t(3, 4))
class ConstantWritten(Model):
    """Write into a table of the model in place of a scratch tensor: each call adds to the last."""

    def build(self) -> None:
        self.scratch = torch.zeros(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scratch

    def rewritten(self, x: Tensor) -> Tensor:
        return self.scratch.add_(x)


@wrong(lambda: t(3, 4).t())
class LaidOutByRows(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2

    def rewritten(self, x: Tensor) -> Tensor:
        return (x * 2).contiguous()


@wrong(lambda: t(1, 3, 4, 4).to(memory_format=torch.channels_last))
class ChannelsLastLost(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()

    def rewritten(self, x: Tensor) -> Tensor:
        return x.contiguous().relu()
