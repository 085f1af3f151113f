from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord


def calling(call: str, modules=()):
    return document(f"%x = input x\n%a = {call}\nreturn %a", modules=modules)


def module(kind: str, **config: str):
    return calling("self.act(%x)", (ModuleRecord("act", kind, tuple(config.items())),))


def same(expected, obtained):
    return compare_documents(expected, obtained, normalize=True).is_empty


RELU = [
    calling("torch.relu(%x)"),
    calling(".relu(%x)"),
    calling("torch.nn.functional.relu(%x)"),
    calling("torch.nn.functional.relu(%x, inplace=False)"),
    calling("torch.relu(input=%x)"),
    module("torch.nn.ReLU", inplace="False"),
    module("torch.nn.ReLU"),  # as the builder has it: a default of False goes unsaid
]


@pytest.mark.parametrize("obtained", RELU)
def test_relu_is_relu_however_it_is_written(obtained):
    assert same(RELU[0], obtained)
    assert same(obtained, RELU[0])


@pytest.mark.parametrize("obtained", RELU[1:])
def test_spelling_counts_where_nothing_else_was_asked_for(obtained):
    assert not compare_documents(RELU[0], obtained).is_empty


@pytest.mark.parametrize(
    "obtained",
    [
        calling("torch.sigmoid(%x)"),
        calling("torch.relu(%x, %x)"),
        calling("torch.relu(%x, input=%x)"),
        calling("torch.relu()"),
        calling("self.act(%x)"),
        calling("self.act(%x, %x)", (ModuleRecord("act", "torch.nn.ReLU"),)),
        calling("self.act(%x, input=%x)", (ModuleRecord("act", "torch.nn.ReLU"),)),
        calling("self.act()", (ModuleRecord("act", "torch.nn.ReLU"),)),
        calling("torch.nn.functional.relu(%x, True)"),
        calling("torch.nn.functional.relu(%x, inplace=True)"),
        module("torch.nn.ReLU", inplace="True"),
        module("torch.nn.ReLU6", inplace="False"),
        module("my.ReLU", inplace="False"),
        module("torch.nn.ReLU", inplace="False", slope="1"),
    ],
)
def test_what_is_not_relu_is_not_taken_for_it(obtained):
    assert not same(RELU[0], obtained)


def test_a_module_that_leaves_unsaid_what_the_operator_must_know_is_not_respelled():
    assert not same(calling("torch.softmax(%x)"), module("torch.nn.Softmax"))
    assert not same(calling("torch.nn.functional.leaky_relu(%x)"), module("torch.nn.LeakyReLU"))


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        (calling("operator.add(%x, 2)"), calling(".add(%x, 2)")),
        (calling("operator.add(%x, 2)"), calling("torch.add(%x, other=2, alpha=1)")),
        (calling("torch.softmax(%x, 1)"), calling("torch.nn.functional.softmax(%x, dim=1)")),
        (calling(".softmax(%x, dim=1)"), module("torch.nn.Softmax", dim="1")),
        (calling("torch.flatten(%x, 1)"), module("torch.nn.Flatten", start_dim="1", end_dim="-1")),
        (calling("operator.truediv(%x, 2)"), calling("torch.div(%x, 2)")),
    ],
)
def test_arguments_are_one_however_they_are_given(expected, obtained):
    assert same(expected, obtained)
    assert not compare_documents(expected, obtained).is_empty


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        (calling("torch.softmax(%x, 1)"), calling("torch.softmax(%x, 2)")),
        (calling("torch.add(%x, 2)"), calling("torch.add(%x, 2, alpha=2)")),
        (calling("torch.flatten(%x)"), module("torch.nn.Flatten", start_dim="1", end_dim="-1")),
        (calling("torch.flatten(%x)"), module("torch.nn.Flatten")),
        (calling("torch.relu(%x)"), calling("torch.relu(%x, made_up=1)")),
        (calling("torch.sub(%x, 2)"), calling("torch.sub(2, %x)")),
    ],
)
def test_other_arguments_stay_other(expected, obtained):
    assert not same(expected, obtained)


def test_spelling_and_order_of_operands_can_both_be_free():
    expected, obtained = calling("operator.add(%x, 2)"), calling("torch.add(2, %x)")

    assert compare_documents(expected, obtained, normalize=True, commutative=True).is_empty
    assert not same(expected, obtained)


def test_spelling_is_free_at_level_ops_too():
    assert compare_documents(RELU[0], RELU[-1], level="ops", normalize=True).is_empty
    assert not compare_documents(RELU[0], RELU[-1], level="ops").is_empty
