"""The facts of leaf tensors beside their values are saved, compared and given back."""

from __future__ import annotations

import pytest
import torch

from fxcore.state.leaf_facts import LeafFacts


def leaf(*, with_gradient=False):
    made = torch.ones(2, requires_grad=True)
    if with_gradient:
        made.grad = torch.ones(2)
    return made


def set_gradient(tensor):
    tensor.grad = torch.zeros(2)


def forget_gradient(tensor):
    tensor.grad = None


def freeze(tensor):
    tensor.requires_grad_(False)


def add_hook(tensor):
    tensor.register_hook(lambda gradient: gradient)


def add_later_hook(tensor):
    tensor.register_post_accumulate_grad_hook(lambda tensor: None)


CHANGES = {
    "grad": [set_gradient, forget_gradient],
    "requires_grad": [freeze],
    "_backward_hooks": [add_hook],
    "_post_accumulate_grad_hooks": [add_later_hook],
}


@pytest.mark.parametrize(("name", "change"), [(name, change) for name in CHANGES for change in CHANGES[name]])
@pytest.mark.parametrize("has_hooks", [True, False])
def test_a_change_is_seen_named_and_taken_back(name, change, has_hooks):
    first, tensor = leaf(), leaf(with_gradient=True)
    if has_hooks:
        add_hook(tensor)
        add_later_hook(tensor)
    facts = LeafFacts()
    facts.include([first, tensor])
    assert facts.are_unchanged()
    assert list(facts.changes(set())) == []

    change(tensor)

    assert not facts.are_unchanged()
    assert [(found[0], found[1]) for found in facts.changes(set())] == [(id(tensor), name)]
    facts.restore()
    assert facts.are_unchanged()
    assert list(facts.changes(set())) == []


def test_another_hook_in_the_place_of_a_hook_is_a_change():
    tensor = leaf()
    add_hook(tensor)
    (key,) = tensor._backward_hooks
    facts = LeafFacts()
    facts.include([tensor])
    before = tensor._backward_hooks[key]

    tensor._backward_hooks[key] = print

    assert not facts.are_unchanged()
    facts.restore()
    assert tensor._backward_hooks[key] is before


def test_saved_gradients_are_returned_and_known():
    tensor, other = leaf(with_gradient=True), leaf()
    facts = LeafFacts()

    assert facts.include([other]) == []
    assert facts.include([tensor]) == [tensor.grad]
    assert facts.gradients == {id(tensor.grad)}


def test_a_gradient_with_other_values_is_a_change():
    tensor = leaf(with_gradient=True)
    facts = LeafFacts()
    facts.include([tensor])

    assert [each[1] for each in facts.changes({id(tensor.grad)})] == ["grad"]


def test_a_tensor_that_is_no_leaf_any_more_is_left_to_the_comparison_of_values():
    written, frozen = torch.ones(2), leaf()
    facts = LeafFacts()
    facts.include([written, frozen])

    written.mul_(leaf())
    frozen.requires_grad_(False)

    assert not facts.are_unchanged()
    assert [(each[0], each[1]) for each in facts.changes(set())] == [(id(frozen), "requires_grad")]
    facts.restore()
    assert written.is_leaf
    assert not written.requires_grad
    assert frozen.requires_grad
