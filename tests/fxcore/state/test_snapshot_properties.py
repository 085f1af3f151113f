"""Any mix of changes to any kind of state is named exactly, and restored exactly."""

from __future__ import annotations

import pickle
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fxcore.state.snapshot import Snapshot


class Slotted:
    """Has no __dict__."""

    __slots__ = ("unset", "width")

    def __init__(self) -> None:
        self.width = 3


class Holder(nn.Module):
    """Has one attribute for each change below."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("data", "counted", "replaced", "gradient", "frozen", "hooked", "watched", "memory", "removed"):
            setattr(self, name, nn.Parameter(torch.arange(3.0)))
        self.turned = nn.Parameter(torch.arange(6.0).reshape(2, 3))
        self.base = nn.Parameter(torch.arange(4.0))
        self.tied_a = self.tied_b = nn.Parameter(torch.ones(2))
        self.register_buffer("view", self.base.detach()[1:], persistent=False)
        for name in ("written", "resized", "freed", "moved", "last"):
            self.register_buffer(name, torch.ones(2))
        self.register_buffer("empty", None)
        self.plain, self.sparse = torch.zeros(2), torch.eye(2).to_sparse()
        self.gaps, self.expanded = torch.arange(6.0)[::2], torch.ones(1).expand(3)
        self.conjugated = torch.ones(2, dtype=torch.complex64).conj()
        self.meta: Any = torch.empty(2, device="meta")
        self.items, self.nested = [1, torch.ones(2)], {"inner": {"k": [1, 2], "mean": torch.zeros(2)}}
        self.ordered, self.names, self.queue = OrderedDict(one=1, two=2), {"a"}, deque([1], maxlen=3)
        self.pair, self.space, self.slotted = (1, [2]), SimpleNamespace(scale=1.0), Slotted()
        self.hidden = [nn.Linear(2, 2)]
        self.array, self.draws = np.zeros(3), torch.Generator().manual_seed(1)
        self.python, self.numpy, self.older = random.Random(1), np.random.default_rng(1), np.random.RandomState(1)
        self.older.randn()  # leaves a second number for the next call
        self.number, self.missing = 1, 2
        self.child, self.inner = nn.ReLU(), nn.BatchNorm1d(2)


class Other(Holder):
    """Takes the place of Holder."""


def _write(tensor: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.add_(1)


def _turn(holder: Any) -> None:
    holder.turned.data = holder.turned.data.t().contiguous().t()


def _move(holder: Any) -> None:
    holder.moved = holder._buffers.pop("moved")


def _rebuild(holder: Any) -> None:
    holder._buffers["last"] = holder._buffers.pop("last")
    holder._buffers["written"] = holder._buffers.pop("written")


# By name: the change, and the pairs of path and kind that it leads to.
CHANGES: dict[str, tuple[Callable[[Any], object], set[tuple[str, str]]]] = {
    "uncounted write": (lambda m: m.data.data.mul_(3), {("data", "values")}),
    "counted write": (lambda m: _write(m.counted), {("counted", "values")}),
    "other parameter": (lambda m: setattr(m, "replaced", nn.Parameter(torch.zeros(1))), {("replaced", "held")}),
    "gradient": (lambda m: m.gradient.sum().backward(), {("gradient", "grad")}),
    "frozen": (lambda m: m.frozen.requires_grad_(False), {("frozen", "requires_grad")}),
    "hook": (lambda m: m.hooked.register_hook(abs), {("hooked", "_backward_hooks")}),
    "late hook": (
        lambda m: m.watched.register_post_accumulate_grad_hook(abs),
        {("watched", "_post_accumulate_grad_hooks")},
    ),
    "other memory with equal values": (lambda m: setattr(m.memory, "data", torch.arange(3.0)), set()),
    "deleted parameter": (lambda m: delattr(m, "removed"), {("removed", "held")}),
    "strides": (_turn, {("turned", "strides")}),
    "write through a view": (lambda m: m.view.zero_(), {("view", "values"), ("base", "values")}),
    "tied": (lambda m: _write(m.tied_a), {("tied_a", "values"), ("tied_b", "values")}),
    "not a number": (lambda m: m.written.fill_(float("nan")), {("written", "values")}),
    "resized": (lambda m: m.resized.resize_(5), {("resized", "values")}),
    "freed": (lambda m: m.freed.untyped_storage().resize_(0), {("freed", "values")}),
    "new buffer": (lambda m: m.register_buffer("more", torch.zeros(1)), {("more", "held")}),
    "filled buffer": (lambda m: setattr(m, "empty", torch.zeros(1)), {("empty", "held")}),
    "plain tensor": (lambda m: m.plain.add_(1), {("plain", "values")}),
    "sparse tensor": (lambda m: m.sparse._values().add_(1), {("sparse", "values")}),
    "tensor with gaps": (lambda m: m.gaps.mul_(2).add_(1), {("gaps", "values")}),
    "expanded tensor": (lambda m: m.expanded.data[0].zero_(), {("expanded", "values")}),
    "lazy conjugate": (lambda m: m.conjugated.mul_(2), {("conjugated", "values")}),
    "meta tensor": (lambda m: setattr(m, "meta", torch.empty(2, device="meta")), {("meta", "held")}),
    "list": (lambda m: m.items.append(3), {("items[2]", "held")}),
    "tensor in a list": (lambda m: m.items[1].add_(1), {("items[1]", "values")}),
    "deep list": (lambda m: m.nested["inner"]["k"].pop(), {("nested['inner']['k'][1]", "held")}),
    "tensor in a dict": (lambda m: m.nested["inner"]["mean"].sub_(1), {("nested['inner']['mean']", "values")}),
    "order": (lambda m: m.ordered.move_to_end("one"), {("ordered", "order")}),
    "set": (lambda m: m.names.add("b"), {("names", "held")}),
    "deque": (lambda m: m.queue.append(2), {("queue[1]", "held")}),
    "list in a tuple": (lambda m: m.pair[1].append(3), {("pair[1][1]", "held")}),
    "object": (lambda m: setattr(m.space, "scale", 2.0), {("space.scale", "held")}),
    "slot": (lambda m: setattr(m.slotted, "unset", 4), {("slotted.unset", "held")}),
    "hidden module": (lambda m: _write(m.hidden[0].weight), {("hidden[0].weight", "values")}),
    "mode of a hidden module": (lambda m: m.hidden[0].eval(), {("hidden[0].training", "held")}),
    "array": (lambda m: m.array.fill(2), {("array", "values")}),
    "torch's generator": (lambda m: torch.rand(1, generator=m.draws), {("draws", "values")}),
    "Python's generator": (lambda m: m.python.gauss(0, 1), {("python", "values")}),
    "numpy's generator": (lambda m: m.numpy.random(), {("numpy", "values")}),
    "numpy's older generator": (lambda m: m.older.randn(), {("older", "values")}),
    "number": (lambda m: setattr(m, "number", 5), {("number", "held")}),
    "deleted attribute": (lambda m: delattr(m, "missing"), {("missing", "held")}),
    "new attribute": (lambda m: setattr(m, "extra", 5), {("extra", "held")}),
    "submodule": (lambda m: setattr(m, "child", nn.GELU()), {("child", "held")}),
    "mode": (lambda m: m.inner.eval(), {("inner.training", "held")}),
    "statistics": (lambda m: m.inner.running_mean.add_(1), {("inner.running_mean", "values")}),
    "hook of a module": (lambda m: m.inner.register_forward_hook(print), {("inner._forward_hooks", "held")}),
    "class": (lambda m: setattr(m, "__class__", Other), {("", "class")}),
    "order of buffers": (_rebuild, {("", "order")}),
}  # fmt: skip


def picture(value: Any) -> Any:
    """Describe an object with all that it leads to; objects that were exchanged for equal ones differ."""
    if isinstance(value, torch.Tensor):
        contents = [] if value.is_meta else value.detach().to_dense().flatten().tolist()
        facts = (id(value), str(contents), tuple(value.shape), value.requires_grad, value.is_leaf)
        layout = () if value.is_sparse else (value.stride(), value.untyped_storage()._cdata)
        return *facts, *layout, id(value.grad), list((value._backward_hooks or {}).values())
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState)):
        return pickle.dumps(value)
    if isinstance(value, dict):
        return {key: picture(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, deque)):
        return [id(value), *map(picture, value)]
    if isinstance(value, nn.Module):
        return type(value), list(value.__dict__), picture(value.__dict__)
    if isinstance(value, (SimpleNamespace, Slotted)):
        return {name: getattr(value, name, None) for name in ("scale", "unset", "width")}
    return str(value)


def parts_and_changes(count: int) -> st.SearchStrategy[tuple[int, list[tuple[int, str]]]]:
    """Draw changes, each for one of `count` parts."""
    changes = st.lists(st.tuples(st.integers(0, count - 1), st.sampled_from(sorted(CHANGES))), unique=True, max_size=12)
    return st.tuples(st.just(count), changes)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3).flatmap(parts_and_changes))
def test_every_mix_of_changes_is_named_and_restored(drawn):
    count, changes = drawn
    holders = [Holder() for _ in range(count)]
    model = nn.ModuleDict({f"part{index}": holder for index, holder in enumerate(holders)})
    before = picture(model)
    snapshot = Snapshot(model)
    assert snapshot.changes() == []

    expected = set()
    for place, name in changes:
        change, found = CHANGES[name]
        change(holders[place])
        expected |= {(f"part{place}.{path}".rstrip("."), what) for path, what in found}
    named = [(change.path, change.what) for change in snapshot.changes()]
    snapshot.restore()

    assert sorted(named) == sorted(expected)
    assert snapshot.changes() == []
    assert picture(model) == before


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_alone_is_named_and_restored(name):
    test_every_mix_of_changes_is_named_and_restored.hypothesis.inner_test((1, [(0, name)]))
