from __future__ import annotations

import collections
import functools
import math
import operator

import pytest
import torch
import torch.nn.functional as F

from pytest_fxgraph.document.target_names import TargetNames, class_name, text_or_class
from pytest_fxgraph.errors import DocumentError


def of_the_user(x):
    return x


class OfTheUser:
    @staticmethod
    def method(x):
        return x


@pytest.fixture
def names():
    return TargetNames(repr)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (torch.relu, "torch.relu"),
        (F.relu, "torch.nn.functional.relu"),
        (F.gelu, "torch.nn.functional.gelu"),
        (F.linear, "torch.nn.functional.linear"),
        (F.conv2d, "torch.conv2d"),
        (F.max_pool2d, "torch.nn.functional.max_pool2d"),
        (F.scaled_dot_product_attention, "torch.nn.functional.scaled_dot_product_attention"),
        (torch.einsum, "torch.einsum"),
        (torch.unique, "torch.unique"),
        (torch.fft.fft, "torch.fft.fft"),
        (torch.linalg.norm, "torch.linalg.norm"),
        (torch.special.erf, "torch.special.erf"),
        (torch.nn.init.zeros_, "torch.nn.init.zeros_"),
        (torch.Tensor.add_, "torch.Tensor.add_"),
        (torch.Tensor.shape.__get__, "torch.Tensor.shape.__get__"),
        (torch._assert, "torch._assert"),
        (torch._C._set_grad_enabled, "torch._C._set_grad_enabled"),
        (torch.ops.aten.add.Tensor, "aten.add.Tensor"),
        (torch.ops.aten.add, "aten.add"),
        (torch.ops.higher_order.cond, "higher_order.cond"),
        (operator.add, "operator.add"),
        (math.sqrt, "math.sqrt"),
        (getattr, "builtins.getattr"),
        (print, "builtins.print"),
        (str.upper, "builtins.str.upper"),
        (tuple, "builtins.tuple"),
        (torch.Size, "torch.Size"),
        (collections.OrderedDict, "collections.OrderedDict"),
        ("a.b", "a.b"),
    ],
)
def test_a_target_has_its_public_name(names, target, name):
    assert names.name(target) == name


def test_a_function_of_the_user_is_named_by_its_module(names):
    assert names.name(of_the_user) == f"{__name__}.of_the_user"
    assert names.name(OfTheUser.method) == f"{__name__}.OfTheUser.method"


def test_different_local_functions_of_one_name_are_numbered(names):
    first, second = (lambda x: x), (lambda x: x + 1)
    where = f"{__name__}.test_different_local_functions_of_one_name_are_numbered.<locals>.<lambda>"

    assert [names.name(first), names.name(second), names.name(first)] == [where, f"{where}#2", where]


def test_a_local_function_made_anew_in_each_call_keeps_its_name(names):
    def make():
        return lambda x: x

    assert names.name(make()) == names.name(make())


def test_a_partial_shows_what_it_holds(names):
    assert names.name(functools.partial(torch.relu, 1, key=2)) == "functools.partial(torch.relu, 1, key=2)"


def test_an_object_without_a_name_is_refused_by_its_type(names):
    class Callable:
        def __call__(self):
            return None

    with pytest.raises(DocumentError, match=r"an object of type .*Callable is called and has no name"):
        names.name(Callable())


def test_classes_of_torch_have_their_public_name():
    assert class_name(torch.nn.Conv2d) == "torch.nn.Conv2d"
    assert class_name(torch.nn.TransformerEncoderLayer) == "torch.nn.TransformerEncoderLayer"
    assert class_name(OfTheUser) == f"{__name__}.OfTheUser"


class Double(torch.autograd.Function):
    @classmethod
    def made(cls):
        return cls


class Halve(Double):
    pass


def test_a_class_method_is_named_by_the_class_that_it_is_called_on(names):
    assert names.name(Double.apply) == f"{__name__}.Double.apply"
    assert names.name(Halve.apply) == f"{__name__}.Halve.apply"
    assert names.name(Halve.made) == f"{__name__}.Halve.made"


def test_a_value_without_a_text_is_told_by_its_class():
    def refused(value):
        raise DocumentError("no text")

    assert text_or_class(1, str) == "1"
    assert text_or_class(OfTheUser(), refused) == f"{__name__}.OfTheUser"


@pytest.mark.parametrize("given", [3, "", "  ", "two\nlines"])
def test_a_hook_that_gives_no_name_is_refused(given):
    names = TargetNames(repr, lambda target: given)

    with pytest.raises(DocumentError, match=r"pytest_fxgraph_target_name gave .* expected a name, or None"):
        names.name(of_the_user)


def test_public_functions_of_one_name_have_one_name_and_local_ones_numbers_in_their_order(names):
    functions = []
    for _ in range(2):
        scope = {"__name__": "lib"}
        exec("def f(x): return x", scope)
        functions.append(scope["f"])

    assert [names.name(each) for each in functions] == ["lib.f", "lib.f"]

    local = [lambda x: x, lambda x: x + 1, lambda x: x + 2]
    assert [names.name(each).partition("<lambda>")[2] for each in (*local, *local)] == ["", "#2", "#3"] * 2


AT_MODULE_LEVEL = (lambda x: x, lambda x: x + 1)


def test_functions_without_a_name_at_module_level_are_numbered():
    names = TargetNames(repr)

    assert [names.name(each) for each in AT_MODULE_LEVEL] == [f"{__name__}.<lambda>", f"{__name__}.<lambda>#2"]
