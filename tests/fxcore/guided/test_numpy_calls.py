"""Functions of numpy on traced values: nodes where numpy or torch has an answer, else refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy import asarray as as_array
from torch import nn
from torch import tensor as make_tensor
from torch.nn import functional as F

import fxcore
from tests.fxcore.guided.program import EXAMPLE, SECOND, Programs, check

PROGRAMS = Programs()
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.Tensor.__array__


@PROGRAMS.parametrized()
def test_a_program_is_right_on_other_inputs_or_refused_with_its_line(program):
    check(program)


@PROGRAMS.traced
def from_numpy(x):
    return torch.from_numpy(x.numpy()) + 1


@PROGRAMS.traced
def numpy_sin(x):
    return torch.as_tensor(np.sin(x)) + 1


@PROGRAMS.traced
def numpy_array_of_x(x):
    return torch.tensor(np.array(x)) + 1


@PROGRAMS.traced
def numpy_prod_of_shape(x):
    return x / np.prod(x.shape)


@PROGRAMS.guarded
def numpy_prod_as_int(x):
    return x.reshape(int(np.prod(x.shape)))


@PROGRAMS.traced
def numpy_sqrt_of_batch(x):
    return x / np.sqrt(x.shape[0])


@PROGRAMS.traced
def numpy_array_of_shape(x):
    return x.reshape(tuple(np.array(x.shape)[::-1]))


@PROGRAMS.traced
def numpy_array_sum(x):
    return x * np.array(x.shape).sum()


@PROGRAMS.traced
def numpy_arange_of_size(x):
    return x + torch.from_numpy(np.arange(x.shape[0])).unsqueeze(1)


@PROGRAMS.traced
def numpy_zeros_of_size(x):
    return x + torch.from_numpy(np.zeros((x.shape[0], 1), dtype=np.float32))


@PROGRAMS.traced
def numpy_einsum(x):
    return torch.from_numpy(np.einsum("ij,ij->i", x.numpy(), x.numpy()))


@PROGRAMS.refused("was turned into a float")
def numpy_mean_of_tensor(x):
    return x - float(np.mean(x.numpy()))


@PROGRAMS.traced
def numpy_stack(x):
    return torch.from_numpy(np.stack([x.numpy(), x.numpy()]))


@PROGRAMS.traced
def numpy_where(x):
    return torch.from_numpy(np.where(x.numpy() > 0.5, 1.0, 0.0))


@PROGRAMS.traced
def numpy_operators(x):
    return torch.from_numpy(x.numpy() * 2 + np.ones((1, 3), dtype=np.float32)) + x


@PROGRAMS.traced
def numpy_method(x):
    return torch.from_numpy(x.numpy().clip(0.2, 0.8).astype("float32"))


@PROGRAMS.traced
def numpy_index(x):
    return torch.from_numpy(x.numpy()[:, ::-1].copy())


@PROGRAMS.traced
def array_times_proxy(x):
    return np.float32(2.0) * x


@PROGRAMS.traced
def array_left(x):
    return torch.as_tensor(np.ones((1, 3), dtype=np.float32) * x.numpy())


@PROGRAMS.traced
def try_numpy(x):
    try:
        return torch.from_numpy(x.numpy()) * 2
    except Exception:
        return x


@PROGRAMS.refused("The value 'tobytes' (call_method tobytes) was read")
def frombuffer(x):
    return torch.frombuffer(bytearray(x.numpy().tobytes()), dtype=torch.float32)


@PROGRAMS.refused("tracing raised TypeError: memoryview: a bytes-like object is required")
def memoryview_of(x):
    return x + len(memoryview(x.numpy()))


@PROGRAMS.traced
def numpy_scalar_index(x):
    return x[np.int64(1)] + x[np.arange(2)]


@PROGRAMS.refused("argument of type: <class 'type'>")
def array_of_tensors_object(x):
    return np.array([x, None], dtype=object)[0] * 2


@PROGRAMS.traced
def numpy_astype(x):
    return torch.from_numpy(x.numpy().astype(np.float64)) + torch.from_numpy(x.numpy().astype(int))


@PROGRAMS.traced
def numpy_float64_scalar(x):
    return torch.from_numpy(x.numpy() * np.float64(2))


@PROGRAMS.guarded
def numpy_array_len(x):
    return x * len(x.numpy()) + x.numpy().shape[0] + x.numpy().size


@PROGRAMS.traced
def numpy_array_item(x):
    return x * x.numpy()[0, 0].item()


@PROGRAMS.refused("was asked for its truth")
def numpy_array_branch(x):
    return x if x.numpy().sum() > 0 else x * 2


@PROGRAMS.refused("'ExampleValue' object is not an iterator")
def numpy_array_element_flat(x):
    return x if next(x.numpy().flat) > 0 else x * 2


@PROGRAMS.guarded
def numpy_for_rows(x):
    return torch.stack([torch.from_numpy(r) * 2 for r in x.numpy()])


@PROGRAMS.refused("was asked for its length")
def numpy_masked_len(x):
    return x * len(x[x > 0.5].numpy())


@PROGRAMS.traced
def numpy_inplace(x):
    a = x.clone().numpy()
    a += 1
    a[0] = 5
    return torch.from_numpy(a)


@PROGRAMS.refused("add() of numpy writes traced values into an array that is not traced")
def numpy_out(x):
    a = np.zeros((2, 3), dtype=np.float32)
    np.add(x.numpy()[:2], 1, out=a)
    return torch.from_numpy(a)


@PROGRAMS.refused("copyto() of numpy writes traced values into an array that is not traced")
def numpy_copyto_of_another_size(x):
    a = np.zeros((2, 3), dtype=np.float32)
    np.copyto(a, x.numpy()[:2])
    return torch.from_numpy(a)


@PROGRAMS.traced
def numpy_copyto(x):
    a = np.zeros(x.shape, dtype=np.float32)
    np.copyto(a, x.numpy())
    return torch.from_numpy(a)


@PROGRAMS.traced
def numpy_linalg(x):
    return torch.tensor(np.linalg.norm(x.numpy(), axis=1))


@PROGRAMS.guarded
def numpy_random_size(x):
    return x + torch.from_numpy(np.random.RandomState(0).rand(x.shape[0], 1).astype("float32"))


@PROGRAMS.traced
def numpy_ceil_size(x):
    return F.pad(x, (0, int(np.ceil(x.shape[1] / 2))))


@PROGRAMS.traced
def imported_by_name(x):
    return make_tensor([x.sum()]) + torch.from_numpy(as_array(x))


@PROGRAMS.traced
def numpy_seeded(x):
    np.random.seed(3)
    return x + torch.tensor(np.random.rand(3))


@PROGRAMS.refused("was written as text")
def numpy_add_reduce(x):
    return torch.as_tensor(np.add.reduce(x.numpy()))


def test_a_size_that_numpy_computes_with_stays_free():
    class Scaled(nn.Module):
        def forward(self, x):
            return x / np.sqrt(np.prod(x.shape))

    graph_module = fxcore.symbolic_trace(Scaled(), example_inputs=EXAMPLE)

    assert not list(graph_module.graph.guards)
    assert [node.target for node in graph_module.graph.nodes if node.op == "call_function"][1:3] == [np.prod, np.sqrt]
    assert torch.equal(graph_module(SECOND), Scaled()(SECOND))


def test_compiled_code_of_numpy_gets_arrays():
    # numpy.random looks up `numpy.empty` and crashes if it gets anything but an array.
    def drawn(x):
        return x + torch.tensor(np.random.RandomState(0).rand(x.shape[0], 1), dtype=x.dtype)

    graph_module = fxcore.symbolic_trace(drawn, example_inputs=EXAMPLE)

    assert [str(guard) for guard in graph_module.graph.guards] == ["x.shape[0] == 2"]


@PROGRAMS.guarded
def numpy_numbers_of_sizes_by_a_scalar(x):
    return x * float((np.arange(x.shape[0]) * np.float32(2))[1])
