from __future__ import annotations

import pytest
import torch

from pytest_fxgraph.document.values import tensor_text, value_of


def test_dtypes_have_one_name():
    assert tensor_text(torch.zeros(2, 3, dtype=torch.float)) == "float32[2, 3]"
    assert tensor_text(torch.zeros((), dtype=torch.long)) == "int64[]"
    assert tensor_text(torch.zeros(1, dtype=torch.half)) == "float16[1]"


@pytest.mark.parametrize("key", ["tensor_meta", "val", "example_value"])
def test_a_value_is_found_wherever_a_frontend_leaves_it(key):
    assert value_of({key: torch.zeros(2), "other": 1}) == "float32[2]"


def test_nested_values_keep_their_structure():
    x = torch.zeros(2)

    text = value_of({"val": ((x,), [x, None], {"k": x, 1: 3})})

    assert text == '((float32[2],), [float32[2], None], {"k": float32[2], 1: int})'


def test_a_node_that_nothing_is_known_of_has_no_value():
    assert value_of({"nn_module_stack": {}}) is None
