from __future__ import annotations

import pytest
import torch

from pytest_fxgraph.captures.torch_internals import GuardedValue, InternalsError, _facts_of_guard, part_of_torch


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("L['k'] == 2", "value", "2"),
        ("L['k'] is None", "item", "None"),
        ("len(L['k']) == 3", "length", "3"),
        ("not L['k']", "empty", "0"),
        ("dict.__contains__(L['k'], 'a')", "key", "'a'"),
        ("set.__contains__(L['k'], 'a')", "key", "'a'"),
        ("___dict_contains('a', L['k'])", "key", "'a'"),
        ("not dict.__contains__(L['k'], 'a')", "no key", "'a'"),
        ("not ___dict_contains('a', L['k'])", "no key", "'a'"),
        ("hasattr(L['k'], 'a')", "attribute", "a"),
        ("not hasattr(L['k'], 'a')", "no attribute", "a"),
        ("L['k'] is L['y']", "alias", "L['y']"),
        ("L['y'] is L['k']", "alias", "L['y']"),
        ("list(dict.keys(L['k']))[0] == 'a'", "key", "'a'"),
        ("list(L['k'].keys())[0] == 'a'", "key", "'a'"),
        ("list(dict.keys(L['k'])) == ['a']", "keys", "['a']"),
        ("list(L['k'].keys()) == ['a']", "keys", "['a']"),
        ("___check_type_id(L['k'], 94), type=<class 'int'>", "type", "int"),
        ("___check_obj_id(L['k'], <id of True>)", "value", "True"),
        ("___check_obj_id(L['k'], type=<id of None>)", "value", "None"),
        ("___check_obj_id(L['k'], 7), type=<class 'function'>", "identity", "the same object"),
    ],
)
def test_a_guard_of_any_release_of_torch_is_read(code, kind, text):
    # The id of a test must be the same in every process.
    code = code.replace("<id of True>", str(id(True))).replace("<id of None>", str(id(None)))
    assert [*_facts_of_guard("L['k']", code)] == [GuardedValue(kind, "L['k']", text)]


def test_a_guard_of_another_form_says_nothing():
    assert [*_facts_of_guard("L['k']", "check_tensor(L['k'], Tensor)")] == []


def test_a_part_that_torch_lacks_is_named_with_its_purpose():
    assert part_of_torch("torch", "relu", "a test") is torch.relu
    for module, name in (("torch", "no_such_part"), ("torch.no_such_module", "x")):
        with pytest.raises(InternalsError, match=f"has no {module}.{name}, from which a test is read; use a release"):
            part_of_torch(module, name, "a test")
