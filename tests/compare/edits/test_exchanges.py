from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.edits.exchanges import _moved_module
from pytest_fxgraph.compare.levels import compare_documents

BLOCKS = (0, 1, 2)


def stack(*order: str, is_residual: bool = False, others: tuple[str, ...] = ()):
    """Return blocks that run their modules in an order; each module has a norm and a layer.

    With `others`, the first and the last block have that order.
    """
    lines = ["%x = input x"]
    value = "x"
    for block in BLOCKS:
        for name in order if block == 1 or not others else others:
            path, node = f"layers.{block}.{name}", f"{name}_{block}"
            lines.append(f"%{node}_in = self.{path}.norm(%{value}) @ {path}.norm")
            lines.append(f"%{node} = self.{path}.fc(%{node}_in) @ {path}.fc")
            if is_residual:
                lines.append(f"%{node}_sum = torch.add(%{value}, %{node}) @ layers.{block}")
            value = f"{node}_sum" if is_residual else node
    return document("\n".join([*lines, f"return %{value}"]))


@pytest.mark.parametrize(
    ("order", "is_residual", "words"),
    [
        (("conv", "attn", "mlp"), True, "conv moved from after to before attn"),
        (("conv", "attn", "mlp"), False, "conv moved from after to before attn"),
        (("attn", "mlp", "conv"), True, "mlp moved from after to before conv"),
        (("attn", "mlp", "conv"), False, "mlp moved from after to before conv"),
        (("mlp", "attn", "conv"), True, "mlp moved from after conv to before attn"),
        (("conv", "mlp", "attn"), True, "attn moved from before conv to after mlp"),
    ],
)
def test_a_module_that_moved_past_others_is_one_edit(order, is_residual, words):
    before, after = (stack(*names, is_residual=is_residual) for names in (("attn", "conv", "mlp"), order))

    difference = compare_documents(before, after)

    edits = [edit for edit in difference.edits if edit.kind != "output"]
    assert [edit.text for edit in edits] == [words]
    assert [site.where for site in edits[0].sites] == [f"layers.{block}" for block in BLOCKS]
    assert not difference.rest


def test_the_modules_around_a_third_one_may_exchange_places():
    difference = compare_documents(*(stack(*names, is_residual=True) for names in ("abc", "cba")))

    assert [edit.text for edit in difference.edits] == ["c moved from after to before a"]


def test_two_moves_in_one_block_are_told_call_by_call():
    difference = compare_documents(*(stack(*names, is_residual=True) for names in ("abcd", "badc")))

    assert "moved" not in {edit.kind for edit in difference.edits}
    assert not difference.rest


def test_a_call_that_reads_another_module_is_no_exchange():
    before = document("%x = input x\n%a = torch.exp(%x) @ a\n%b = torch.sin(%x) @ b\n%c = f(%a)\nreturn (%c, %b)")
    after = document("%x = input x\n%b = torch.sin(%x) @ b\n%a = torch.exp(%x) @ a\n%c = f(%b)\nreturn (%c, %b)")

    edits = compare_documents(before, after).edits

    assert [edit.text for edit in edits if edit.kind != "output"] == ["f reads b in place of a"]


def test_modules_that_no_longer_read_each_other_are_no_exchange():
    before, after = (stack(*names, is_residual=True) for names in (("attn", "mlp"), ("mlp", "attn")))
    nodes = [node._replace(args=("%x",)) if node.name == "attn_0_in" else node for node in after.nodes]

    moved = [
        edit for edit in compare_documents(before, replace(after, nodes=tuple(nodes))).edits if edit.kind == "moved"
    ]

    assert [edit.text for edit in moved] == ["mlp moved from after to before attn"]
    assert [site.where for site in moved[0].sites] == ["layers.1", "layers.2"]


@pytest.mark.parametrize("is_residual", [True, False])
def test_modules_of_one_of_three_blocks_may_exchange_places(is_residual):
    graphs = [
        stack(*names, is_residual=is_residual, others=("attn", "mlp")) for names in (("attn", "mlp"), ("mlp", "attn"))
    ]

    edits = compare_documents(*graphs).edits

    assert [(edit.text, [site.where for site in edit.sites]) for edit in edits] == [
        ("mlp moved from after to before attn", ["layers.1"])
    ]


@pytest.mark.parametrize(
    ("spans", "others", "words"),
    [
        ({"a": (0, 1), "b": (2, 3)}, {"a": (2, 3), "b": (0, 1)}, "b moved from after to before a"),
        ({"a": (0, 1), "b": (2, 3)}, {"a": (0, 1), "b": (2, 3)}, ""),
        # modules that run in parts among each other have no order
        ({"a": (0, 2), "b": (1, 3)}, {"a": (2, 3), "b": (0, 1)}, ""),
        ({"a": (0, 1), "b": (2, 3)}, {"a": (1, 3), "b": (0, 2)}, ""),
        (
            {"a": (0, 0), "b": (1, 1), "c": (2, 2)},
            {"b": (0, 0), "c": (1, 1), "a": (2, 2)},
            "a moved from before b to after c",
        ),
        (
            {"a": (0, 0), "b": (1, 1), "c": (2, 2)},
            {"c": (0, 0), "a": (1, 1), "b": (2, 2)},
            "c moved from after b to before a",
        ),
    ],
)
def test_a_module_moved_if_its_nodes_ran_before_all_nodes_of_another_and_run_behind_them_now(spans, others, words):
    assert _moved_module(spans, others) == words
