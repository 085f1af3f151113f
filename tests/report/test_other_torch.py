from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.report.other_torch import other_torch_remark, with_remark
from pytest_fxgraph.report.text import short_lines

EXPORTED = "%x = input x\n%a = aten.native_layer_norm.default(%x)\n%b = aten.relu.default(%a)\nreturn %b"
REMARK = (
    "if the model is the same, torch 2.14 exports this operator otherwise: record a variant with "
    "--fx-update-golden --fx-update-variant"
)


def remark(expected: str, obtained: str) -> str | None:
    return other_torch_remark(compare_documents(document(expected), document(obtained)), "2.14.0a0")


def test_operators_that_torch_chooses_may_be_those_of_another_release():
    obtained = EXPORTED.replace("aten.native_layer_norm", "aten.layer_norm")
    difference = compare_documents(document(EXPORTED), document(obtained))

    assert remark(EXPORTED, obtained) == REMARK
    lines = with_remark(short_lines(difference, golden="g", command="pytest --fx-update-golden t.py"), REMARK)
    assert f"  {REMARK}" in lines
    assert lines[-1] == "    pytest --fx-update-golden t.py"
    assert len(lines) <= 6


@pytest.mark.parametrize(
    "obtained",
    [
        EXPORTED.replace("aten.relu.default", "torch.relu"),  # a name that the model wrote
        EXPORTED.replace("default(%a)", "default(%x)"),  # the same operators, wired otherwise
        EXPORTED,
    ],
)
def test_a_difference_that_the_model_made_is_not_put_down_to_torch(obtained):
    assert remark(EXPORTED, obtained) is None
    assert with_remark(["a", "b"], None) == ["a", "b"]
