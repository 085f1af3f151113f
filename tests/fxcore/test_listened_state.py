"""Parameters and buffers that tell who reads them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from fxcore.listened_state import ListenedDict, listened_state


class Louder(ListenedDict):
    def __getitem__(self, name):
        value = dict.__getitem__(self, name)
        return f"{name} was read" if isinstance(value, torch.Tensor) else value


def test_readers_get_the_answer_and_afterwards_the_value_again():
    module = nn.BatchNorm1d(2)
    weight, mean = module.weight, module.running_mean

    with listened_state([module], Louder):
        assert (module.weight, module.running_mean) == ("weight was read", "running_mean was read")
        assert dict(module.named_parameters())["weight"] is weight

    assert module.weight is weight
    assert module.running_mean is mean
    assert type(module._parameters) is dict


def test_what_the_traced_code_changes_stays_changed():
    module = nn.BatchNorm1d(2)
    added = nn.Parameter(torch.ones(1))
    parameters = module._parameters

    with listened_state([module], Louder):
        module.added = added
        del module.bias
        module.running_mean = torch.ones(2)

    assert module._parameters is parameters
    assert list(parameters) == ["weight", "added"]
    assert torch.equal(module.running_mean, torch.ones(2))


def test_two_who_listen_to_one_module_share_the_dict_until_the_last_has_left():
    module = nn.Linear(2, 2)
    first, second = listened_state([module], Louder), listened_state([module], Louder)

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert module.weight == "weight was read"
    second.__exit__(None, None, None)

    assert isinstance(module.weight, nn.Parameter)


def test_an_error_restores_too():
    module = nn.Linear(2, 2)

    with pytest.raises(ZeroDivisionError), listened_state([module], Louder):
        raise ZeroDivisionError

    assert isinstance(module.weight, nn.Parameter)


def test_a_copy_made_meanwhile_is_an_ordinary_module():
    module = nn.Linear(2, 2)

    with listened_state([module], Louder):
        copied = copy.deepcopy(module)

    assert type(copied._parameters) is dict
    assert torch.equal(copied.weight, module.weight)


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.update(bias=None),
        lambda held: held.pop("bias"),
        lambda held: held.popitem(),
        lambda held: held.clear(),
        lambda held: held.setdefault("new", 1),
        lambda held: held.__setitem__("weight", 1),
        lambda held: held.__delitem__("weight"),
        lambda held: held.__ior__({"new": 2}),
    ],
)
def test_every_way_to_change_it_is_handed_back(change):
    module = nn.Linear(2, 2)
    expected = dict(module._parameters)
    change(expected)

    with listened_state([module], Louder):
        change(module._parameters)

    assert module._parameters == expected
    assert type(module._parameters) is dict
