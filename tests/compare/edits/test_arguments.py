from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord

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


def test_operands_have_the_names_of_the_obtained_graph():
    text = "%x = input x\n%{0} = torch.exp(%x)\n%{1} = torch.sin(%x)\n%c = f(%{2}, %{3})\nreturn (%{0}, %{1}, %c)"

    (edit,) = compare_documents(document(text.format(*"abab")), document(text.format(*"pqqp"))).edits

    assert edit.text == "f operands exchanged: exp, sin -> sin, exp"


@pytest.mark.parametrize(
    ("count", "scope", "obtained_scope"), [(1, "", " @ m"), (1, " @ m", ""), (1, " @ old", " @ m"), (250, "", " @ m")]
)
def test_an_argument_that_changed_has_the_place_of_each_call(count, scope, obtained_scope):
    graphs = [
        "\n".join(
            ["%n0 = input x", *(f"%n{n + 1} = f(%n{n}, {number}){place}" for n in range(count)), f"return %n{count}"]
        )
        for number, place in ((1, scope), (2, obtained_scope))
    ]

    difference = compare_documents(*map(document, graphs))

    assert [edit.text for edit in difference.edits] == ["f argument 2: 1 -> 2"]
    assert [site.where for site in difference.edits[0].sites] == ["m"] * count


def test_calls_beyond_the_limit_of_changes_are_told_if_they_differ_like_the_others():
    lines = [
        "%n0 = input x",
        *(f"%n{n + 1} = f(%n{n}, {{0}})" for n in range(250)),
        "%last = f(%n250, {1})",
        "return %last",
    ]
    text = "\n".join(lines)

    difference = compare_documents(document(text.format(1, 1)), document(text.format(2, 3)))

    assert {(edit.text, len(edit.sites)) for edit in difference.edits} == {("f argument 2: 1 -> 2", 250)}


def test_a_changed_module_after_a_removed_module_that_nothing_calls_is_told():
    text = "%x = input x\n%a = self.q(%x)\nreturn %a"
    changed = [ModuleRecord("q", "torch.nn.Linear", (("bias", bias),)) for bias in ("True", "False")]
    graphs = (
        document(text, modules=(ModuleRecord("p", "torch.nn.ReLU"), changed[0])),
        document(text, modules=(changed[1],)),
    )

    assert "nn.Linear bias True -> False" in [edit.text for edit in compare_documents(*graphs).edits]
