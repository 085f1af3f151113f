from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents

VALUES = "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n"


@pytest.mark.parametrize(
    ("call", "other", "words"),
    [
        ("f(%a, %b)", "f(%b, %a)", "f operands exchanged: exp, sin -> sin, exp"),
        ("f(%a, 1)", "f(1, %a)", "f operands exchanged: exp, 1 -> 1, exp"),
        ("f(%a, %b, 1)", "f(%b, %a, 2)", "f operands exchanged: exp, sin -> sin, exp"),
        (
            "f(a=%a, b=%b, c=%a)",
            "f(a=%b, b=%a, c=%b)",
            "f reads sin in place of exp, reads exp in place of sin, reads sin in place of exp",
        ),
        ("f(1, 2)", "f(2, 3)", "f argument 1: 1 -> 2, argument 2: 2 -> 3"),
        ("f(1, 1)", "f(2, 2)", "f argument 1: 1 -> 2, argument 2: 1 -> 2"),
        ("f([%a, %b])", "f([%b, %a])", "f argument 1: operands exchanged, [exp, sin] -> [sin, exp]"),
        # a name that no node has
        ("f([%gone, %a, 1])", "f([%gone, %a, 2])", "f argument 1: [gone, exp, 1] -> [gone, exp, 2]"),
        ("f([%a, %b], 1)", "f([%a, %a], 1)", "f argument 1: [exp, sin] -> [exp, exp]"),
    ],
)
def test_a_call_with_other_arguments_has_its_words(call, other, words):
    graphs = (document(f"{VALUES}%c = {each}\nreturn (%a, %b, %c)") for each in (call, other))

    edits = compare_documents(*graphs).edits

    assert words in [edit.text for edit in edits]
