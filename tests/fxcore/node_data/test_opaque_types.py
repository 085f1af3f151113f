from __future__ import annotations

import logging
from unittest import TestCase

import pytest
import torch

import fxcore
from fxcore.node_data.opaque_types import is_opaque_constant_type, is_opaque_symbolic_type


class Scale:
    """A constant with a source form, as torch asks for."""

    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return isinstance(other, Scale) and other.factor == self.factor

    def __hash__(self):
        return hash(self.factor)

    def __fx_repr__(self):
        return f"Scale({self.factor})", {"Scale": Scale}


@pytest.fixture(scope="module")
def registered():
    """Register `Scale` with torch, by the name and word that this torch has for it."""
    from torch._library import opaque_object

    register = getattr(opaque_object, "register_custom_class", None)
    if register is None:
        opaque_object.register_opaque_type(Scale, typ="value")
    else:
        register(Scale, typ="constant")


@fxcore.wrap
def scaled(x, scale):
    return x * scale.factor


def test_a_constant_of_an_opaque_type_is_written_into_the_code(registered):
    traced = fxcore.symbolic_trace(lambda x: scaled(x, Scale(3)))

    assert "scaled(x, Scale(3))" in traced.code
    assert traced(torch.ones(1)).item() == 3
    assert is_opaque_constant_type(Scale)
    assert not is_opaque_symbolic_type(Scale)


def test_nothing_is_asked_of_torch_by_a_name_that_it_warns_of(registered):
    with TestCase().assertNoLogs("torch", logging.WARNING):
        traced = fxcore.symbolic_trace(lambda x: (scaled(x, Scale(2)), torch.Generator()))
        assert "Scale(2)" in traced.code


def test_ordinary_classes_are_not_opaque():
    assert not is_opaque_constant_type(int)
    assert not is_opaque_symbolic_type(dict)
