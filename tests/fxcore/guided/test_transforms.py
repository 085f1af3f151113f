from __future__ import annotations

import pytest
import torch

from fxcore.guided import transforms


def product(x, y, w):
    return (x * y).sin() * w


@pytest.mark.parametrize("name", ["grad", "grad_and_value", "jacrev", "jacfwd", "hessian"])
def test_a_transform_takes_the_function_and_its_operands(name):
    operands = torch.rand(3), torch.rand(3), torch.rand(3)

    def total(*values):
        return product(*values).sum()

    expected = getattr(torch.func, name)(total, argnums=(0, 1))(*operands)
    torch.testing.assert_close(getattr(transforms, name)(total, operands, argnums=(0, 1)), expected)


def test_vmap_maps_operands_by_their_dimensions():
    x, y, w = torch.rand(4, 3), torch.rand(3, 4), torch.rand(3)

    torch.testing.assert_close(transforms.vmap(product, (x, y, w), in_dims=(0, 1, None)), product(x, y.t(), w))


def test_products_with_a_jacobian_are_those_of_the_chosen_operands():
    x, y, w = torch.rand(3), torch.rand(3), torch.rand(3)
    cosine = (x * y).cos() * w

    (pulled,) = transforms.vjp(product, (x, y, w), torch.ones(3), (1,))
    torch.testing.assert_close(pulled, cosine * x)
    result, pushed = transforms.jvp(product, (x, y, w), (torch.ones(3), torch.ones(3)), (0, 1))
    torch.testing.assert_close(result, product(x, y, w))
    torch.testing.assert_close(pushed, cosine * (x + y))


@pytest.mark.parametrize("dim", [0, 1])
def test_a_scan_combines_rows_with_operands(dim):
    x, w = torch.rand(5, 5), torch.rand(())

    (scanned,) = transforms.associative_scan(lambda a, b, w: (a + b + w,), [x], (w,), dim)

    steps = torch.arange(5.0)
    torch.testing.assert_close(scanned, x.cumsum(dim) + (steps[:, None] if dim == 0 else steps) * w)
