"""Writes are seen before they happen, also through aliases, and higher-order operators pass."""

from __future__ import annotations

import torch
from torch._ops import HigherOrderOperator
from torch.nn import functional as F

from fxcore.state.writes import CopyBeforeWrite, written_by


def seen(function, *args):
    found = []
    with CopyBeforeWrite(lambda tensor: found.append(tensor.clone())):
        function(*args)
    return found


def test_each_written_tensor_is_given_with_its_old_values():
    x = torch.ones(2)

    found = seen(lambda: (x.data.mul_(2), torch.add(x, 1, out=x), x[:1].zero_(), x + 1))

    torch.testing.assert_close(found, [torch.ones(2), torch.full((2,), 2.0), torch.full((1,), 3.0)])


def test_statistics_that_a_norm_writes_in_training_are_given():
    mean, variance = torch.zeros(3), torch.ones(3)

    assert seen(F.batch_norm, torch.rand(4, 3), mean, variance) == []
    found = seen(lambda: F.batch_norm(torch.rand(4, 3), mean, variance, training=True))

    torch.testing.assert_close(found, [torch.zeros(3), torch.ones(3)])


def test_lists_of_written_tensors_are_given_one_by_one():
    tensors = [torch.ones(1), torch.zeros(1)]

    assert seen(torch._foreach_add_, tensors, 1) == [torch.ones(1), torch.zeros(1)]


def test_a_higher_order_operator_runs_as_without_the_mode():
    x = torch.ones(2)

    with CopyBeforeWrite(lambda tensor: None):
        result = torch.ops.higher_order.cond(True, lambda v: v + 1, lambda v: v - 1, (x,))

    torch.testing.assert_close(result, x + 1)


def test_a_higher_order_operator_gets_its_keywords():
    class Passes(HigherOrderOperator):
        def __init__(self):
            pass

        def __call__(self, *args, **kwargs):
            return args, kwargs

    mode = CopyBeforeWrite(lambda tensor: None)

    assert mode.__torch_dispatch__(Passes(), (), (1,), {"a": 2}) == ((1,), {"a": 2})
    assert mode.__torch_dispatch__(Passes(), (), (1,)) == ((1,), {})


def test_an_operator_writes_what_its_schema_says():
    x = torch.ones(2)

    assert written_by(torch.ops.aten.add.Tensor, (x, x), {}) == []
    assert written_by(torch.ops.aten.add.out, (x, x), {"out": x}) == [x]
