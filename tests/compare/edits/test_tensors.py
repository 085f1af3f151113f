from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import StateRecord

READS = "%x = input x\n%w = get fc.weight\n%y = torch.mul(%x, %w)\nreturn %y"
TRAINED = StateRecord("fc.weight", "parameter", "float32[4]", requires_grad=True)


def words(changed: StateRecord):
    return [edit.text for edit in compare_documents(*(document(READS, state=(s,)) for s in (TRAINED, changed))).edits]


def test_a_parameter_that_became_a_buffer_is_one_edit_with_all_its_fields():
    assert words(StateRecord("fc.weight", "buffer", "int8[4]")) == [
        "buffer weight: kind parameter -> buffer, float32[4] -> int8[4], requires_grad True -> False"
    ]


def test_fields_of_a_tensor_of_one_kind_are_edits_of_their_own():
    assert sorted(words(StateRecord("fc.weight", "parameter", "float32[8]"))) == [
        "parameter weight: float32[4] -> float32[8]",
        "requires_grad True -> False",
    ]


@pytest.mark.parametrize(("persistent", "text"), [(True, "is no longer"), (False, "is now")])
def test_a_buffer_enters_or_leaves_the_state_dict(persistent, text):
    buffer = StateRecord("fc.weight", "buffer", "float32[4]", persistent=persistent)
    graphs = [document(READS, state=(state,)) for state in (buffer, buffer._replace(persistent=not persistent))]

    (edit,) = compare_documents(*graphs).edits

    assert edit.text == f"buffer weight {text} in the state dict"
