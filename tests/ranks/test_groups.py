"""Ranks are grouped by their graphs, up to constants that depend on the rank."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from fixtures.documents import document
from fixtures.process_groups import needs_fake_group
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.errors import CollectiveError
from pytest_fxgraph.ranks.groups import RankConstant, groups_of_equal_ranks

pytestmark = needs_fake_group


class Model(nn.Module):
    """Runs a function of the rank and the input."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.offset = torch.tensor([float(dist.get_rank()), 1.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(dist.get_rank(), x, self)


def programs_of(fx_ranks, function, frontend="make_fx"):
    return fx_ranks(lambda rank: Model(function), torch.ones(8, 8), world_size=4, frontend=frontend)


@pytest.mark.parametrize(
    ("function", "constants"),
    [
        (lambda rank, x, model: x * rank, ["%mul argument 1 is 0, 1, 2, 3"]),
        (lambda rank, x, model: x[:, :2] + model.offset, ["self._tensor_constant0 contents are [0.0, 1.0], [1.0, 1.0], "
                                                         "[2.0, 1.0], [3.0, 1.0]"]),
        (lambda rank, x, model: x.chunk(4)[rank], ["%output argument 0 is %getitem, %getitem_1, %getitem_2, "
                                                   "%getitem_3"]),
        (lambda rank, x, model: x[:, rank : rank + 2], ["%slice_1 argument 2 is 0, 1, 2, 3",
                                                        "%slice_1 argument 3 is 2, 3, 4, 5"]),
    ],
)  # fmt: skip
def test_numbers_and_contents_are_constants_of_the_rank(fx_ranks, function, constants):
    programs = programs_of(fx_ranks, function)
    programs.assert_spmd()
    assert [each.text for each in programs.groups[0].constants] == constants


@pytest.mark.parametrize("frontend", ["make_fx", "symbolic"])
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda rank, x, model: x.sum(rank % 2), "0"),
        (lambda rank, x, model: torch.softmax(x, rank % 2), "dim|argument 2"),
        (lambda rank, x, model: x.sum(0, keepdim=rank % 2 == 1), "True"),
        (lambda rank, x, model: x[: rank % 2 + 1] * 2, "slice"),
        (lambda rank, x, model: (x * rank).relu() if rank % 2 else (x * rank).sin(), "relu"),
    ],
)
def test_dimensions_booleans_shapes_and_branches_are_differences(fx_ranks, frontend, function, words):
    programs = programs_of(fx_ranks, function, frontend)
    assert [group.ranks for group in programs.groups] == [(0, 2), (1, 3)]
    with pytest.raises(CollectiveError, match=f"2 different graphs: ranks 0, 2; ranks 1, 3\nrank 1 .*(?:{words})"):
        programs.assert_spmd()


def test_values_of_many_ranks_are_short():
    many = RankConstant("%lt", "argument 1", tuple(str(3 * rank) for rank in range(1000)))
    assert many.text == "%lt argument 1 is 0 to 2997 by 3"
    assert RankConstant("self.mask", "contents", ("[" + "1, " * 40, "[]")).text == "self.mask contents differ"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (range(8), "0, 1, 2, 3, 4, 5, 6, 7"),
        (range(9), "0 to 8 by 1"),
        (range(0, -9, -1), "0 to -8 by -1"),
        ((0, 1, 2, 3, 4, 5, 6, 7, 9), "0, 1, 2, 3, 4, 5, 6, 7, 9"),
        ((0, 1, 2, 3, 4, 5, 6, 7, 8.0), "0, 1, 2, 3, 4, 5, 6, 7, 8.0"),
        (("x" * 60, "y"), f"{'x' * 60}, y"),
    ],
)
def test_numbers_of_more_than_eight_ranks_in_equal_steps_are_first_and_last(values, text):
    assert RankConstant("%a", "argument 1", tuple(map(str, values))).text == f"%a argument 1 is {text}"


def groups(*texts, **parts):
    """Return the groups of ranks with these documents."""
    programs = [SimpleNamespace(rank=rank, document=document(text, **parts)) for rank, text in enumerate(texts)]
    return [(group.text, [each.text for each in group.constants]) for group in groups_of_equal_ranks(programs)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("%a = operator.add(%x, 1)", "%a = operator.add(%x, -2.5e-3)"),
        ("%a = torch.narrow(%x, 1, 0, 2)", "%a = torch.narrow(%x, 1, 2, 2)"),  # the start, and not the dimension
        ("%a = .narrow(%x, 1, 0, 2)", "%a = .narrow(%x, 1, 2, 2)"),
        ("%a = aten.slice.Tensor(%x, 1, 0, 2)", "%a = aten.slice.Tensor(%x, 1, 2, 4)"),
        ("%a = operator.getitem(%x, slice(0, 2, None))", "%a = operator.getitem(%x, slice(2, 4, None))"),
        ("%a = operator.getitem(%x, 0)", "%a = operator.getitem(%x, 1)"),
        ("%a = aten.add.Tensor(%x, %x, alpha=1)", "%a = aten.add.Tensor(%x, %x, alpha=2)"),
        ("%a = my.own.thing.deep(%x, 1)", "%a = my.own.thing.deep(%x, 2)"),
        ("%a = aten.max.other(%x, 1)", "%a = aten.max.other(%x, 2)"),
    ],
)
def test_numbers_that_choose_no_shape_are_constants_of_the_rank(first, second):
    ((ranks, constants),) = groups(*(f"%x = input x\n{line}\nreturn %a" for line in (first, second)))
    assert ranks == "0-1"
    assert constants


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("%a = torch.narrow(%x, 0, 0, 2)", "%a = torch.narrow(%x, 1, 0, 2)"),
        ("%a = .narrow(%x, 0, 0, 2)", "%a = .narrow(%x, 1, 0, 2)"),
        ("%a = aten.sum.dim_IntList(%x, [0])", "%a = aten.sum.dim_IntList(%x, [1])"),
        ("%a = aten.max.dim(%x, 0)", "%a = aten.max.dim(%x, 1)"),
        ("%a = torch.max(%x, 0)", "%a = torch.max(%x, 1)"),
        ("%a = torch.sum(%x, dim=0)", "%a = torch.sum(%x, dim=1)"),
        ("%a = operator.getitem(%x, slice(0, 2, None))", "%a = operator.getitem(%x, slice(2, 5, None))"),
        ("%a = operator.getitem(%x, slice(None, 2, None))", "%a = operator.getitem(%x, slice(None, 3, None))"),
        ("%a = operator.getitem(%x, slice(1, None, None))", "%a = operator.getitem(%x, slice(2, None, None))"),
        ("%a = operator.eq(%x, 'tp 1')", "%a = operator.eq(%x, 'tp 2')"),
        ('%a = operator.eq(%x, "tp 1")', '%a = operator.eq(%x, "tp 2")'),
        ("%a = torch.sum(%x, 1, True)", "%a = torch.sum(%x, 1, False)"),
        ("%a = operator.add(%x, %x)", "%a = operator.add(%x, 1)"),
    ],
)
def test_dimensions_sizes_and_words_make_another_program(first, second):
    found = groups(*(f"%x = input x\n{line}\nreturn %a" for line in (first, second)))
    assert found == [("0", []), ("1", [])]


def test_independent_calls_in_another_order_are_no_constants():
    lines = "%x = input x\n%a = torch.sin(%x)\n%b = torch.cos(%x)\nreturn (%a, %b)"
    other = "%x = input x\n%b = torch.cos(%x)\n%a = torch.sin(%x)\nreturn (%a, %b)"
    assert groups(lines, other) == [("0-1", [])]
    last = "%c = operator.add(%x, {})\nreturn %c"
    assert groups(
        lines.replace("return (%a, %b)", last.format(1)), other.replace("return (%a, %b)", last.format(2))
    ) == [("0-1", ["%c argument 1 is 1, 2"])]
    renamed = "%x = input x\n%c = torch.sin(%x)\n%d = operator.add(%c, 2)\nreturn %d"
    assert groups("%x = input x\n%a = torch.sin(%x)\n%b = operator.add(%a, 1)\nreturn %b", renamed) == [
        ("0-1", ["%b argument 1 is 1, 2"])
    ]


def test_contents_are_constants_of_the_rank_and_masks_are_not():
    def documents(value, contents):
        return [
            SimpleNamespace(rank=rank, document=document(
                "%x = input x\nreturn %x", state=(StateRecord("c", "constant", value, content=content),)
            ))
            for rank, content in enumerate(contents)
        ]  # fmt: skip

    (same,) = groups_of_equal_ranks(documents("float32[1]", ["[1.0]", "[1.0]"]))
    assert same.constants == ()
    (numbers,) = groups_of_equal_ranks(documents("float32[1]", ["[1.0]", "[2.0]"]))
    assert [each.text for each in numbers.constants] == ["self.c contents are [1.0], [2.0]"]
    assert [group.ranks for group in groups_of_equal_ranks(documents("bool", ["True", "False"]))] == [(0,), (1,)]
    assert [group.ranks for group in groups_of_equal_ranks(documents("float32[1]", ["[1.0]", None]))] == [(0,), (1,)]


def test_graphs_inside_graphs_have_constants_of_the_rank():
    programs = []
    for rank in range(2):
        inner = document(f"%x = input x\n%a = operator.add(%x, {rank})\nreturn %a")
        modules = (ModuleRecord("act", "torch.nn.ReLU"), ModuleRecord("body", "GraphModule", graph=inner))
        outer = document("%x = input x\n%b = self.body(%x)\nreturn %b", modules=modules)
        programs.append(SimpleNamespace(rank=rank, document=outer))

    (group,) = groups_of_equal_ranks(programs)

    assert [each.text for each in group.constants] == ["%a argument 1 is 0, 1"]
