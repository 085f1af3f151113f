"""Generated code with its blocks folded: each body once as a function, each block as a call, changes in comments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

import fxcore
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.code_folding import code_in_blocks
from pytest_fxgraph.document.text_writer import GraphText


class Block(nn.Module):
    def __init__(self, activate: Callable[[Any], Any]) -> None:
        super().__init__()
        self.up, self.down, self.activate = nn.Linear(4, 8), nn.Linear(8, 4), activate

    def forward(self, x, scale):
        hidden = self.up(x)
        return self.down(self.activate(hidden)) * scale + x, hidden


class Net(nn.Module):
    """Blocks with two inputs and two results."""

    def __init__(self, *activations: Callable[[Any], Any]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.blocks = nn.ModuleList([Block(each) for each in activations])

    def forward(self, x):
        kept = 0
        for block in self.blocks:
            x, hidden = block(x, self.scale)
            kept = kept + hidden
        return x, kept


def code(*activations: Callable[[Any], Any], folds: bool = True) -> list[str]:
    graph_module = fxcore.symbolic_trace(Net(*activations))
    document = replace(build_document(graph_module), code=graph_module.code)
    return [
        line for line in code_in_blocks(document, GraphText(document.nodes), folds=folds).split("\n") if line.strip()
    ]


def both(x):
    return torch.tanh(torch.relu(x))


SHARED = """
def blocks_N(self, _0, _1):
    up = self.up(_0)
    relu = torch.relu(up)
    down = self.down(relu);  relu = None
    mul = down * _1;  down = None
    add = mul + _0;  mul = _0 = None
    return up, add
def forward(self, x):
    scale = self.scale
    blocks_0_up, blocks_0_add = blocks_N(getattr(self.blocks, "0"), x, scale)
""".strip().split("\n")
# The last block frees the scale.
LAST = ["    # - mul = down * _1;  down = None", "    # + mul = down * _1;  down = _1 = None"]


def test_equal_blocks_are_calls_of_one_function_with_their_inputs_and_results():
    assert code(torch.relu, torch.relu, torch.relu) == [
        *SHARED,
        "    add_1 = 0 + blocks_0_up;  blocks_0_up = None",
        '    blocks_1_up, blocks_1_add = blocks_N(getattr(self.blocks, "1"), blocks_0_add, scale)',
        "    add_3 = add_1 + blocks_1_up;  add_1 = blocks_1_up = None",
        '    blocks_2_up, blocks_2_add = blocks_N(getattr(self.blocks, "2"), blocks_1_add, scale)',
        *LAST,
        "    add_5 = add_3 + blocks_2_up;  add_3 = blocks_2_up = None",
        "    return (blocks_2_add, add_5)",
    ]


def test_lines_of_a_block_that_differ_are_comments_below_its_call():
    lines = code(torch.relu, both, torch.relu, torch.relu)

    place = lines.index('    blocks_1_up, blocks_1_add = blocks_N(getattr(self.blocks, "1"), blocks_0_add, scale)')
    assert lines[: len(SHARED)] == SHARED
    assert lines[place + 1 : place + 5] == [
        "    # - down = self.down(relu);  relu = None",
        "    # + tanh = torch.tanh(relu);  relu = None",
        "    # + down = self.down(tanh);  tanh = None",
        "    add_3 = add_1 + blocks_1_up;  add_1 = blocks_1_up = None",
    ]


def test_no_value_in_a_block_shadows_a_builtin():
    assert [line for line in code(torch.abs, torch.abs, torch.abs) if "abs" in line] == [
        "    abs_ = torch.abs(up)",
        "    down = self.down(abs_);  abs_ = None",
    ]


def test_the_function_is_the_first_block_without_a_change_even_where_the_first_block_has_one():
    lines = code(torch.tanh, torch.relu, torch.relu, torch.relu)

    assert lines[: len(SHARED) + 4] == [
        *SHARED,
        "    # - relu = torch.relu(up)",
        "    # - down = self.down(relu);  relu = None",
        "    # + tanh = torch.tanh(up)",
        "    # + down = self.down(tanh);  tanh = None",
    ]
    assert [line for line in lines[len(SHARED) + 4 :] if "#" in line] == LAST


def test_a_block_that_stands_alone_keeps_its_lines():
    assert code(torch.relu) == [
        "def forward(self, x):",
        "    scale = self.scale",
        '    blocks_0_up = getattr(self.blocks, "0").up(x)',
        "    relu = torch.relu(blocks_0_up)",
        '    blocks_0_down = getattr(self.blocks, "0").down(relu);  relu = None',
        "    mul = blocks_0_down * scale;  blocks_0_down = scale = None",
        "    add = mul + x;  mul = x = None",
        "    add_1 = 0 + blocks_0_up;  blocks_0_up = None",
        "    return (add, add_1)",
    ]


def test_whole_code_has_the_names_of_the_text():
    lines = code(torch.relu, torch.relu, torch.relu, folds=False)

    assert lines[2:7] == [
        '    blocks_0_up = getattr(self.blocks, "0").up(x)',
        "    blocks_0_relu = torch.relu(blocks_0_up)",
        '    blocks_0_down = getattr(self.blocks, "0").down(blocks_0_relu);  blocks_0_relu = None',
        "    blocks_0_mul = blocks_0_down * scale;  blocks_0_down = None",
        "    blocks_0_add = blocks_0_mul + x;  blocks_0_mul = x = None",
    ]
    assert len(lines) == 21


def test_functions_of_blocks_stand_before_forward_and_behind_the_lines_before_it():
    document = build_document(fxcore.symbolic_trace(Net(torch.relu, torch.relu, torch.relu)))

    def lines(code: str) -> list[str]:
        return code_in_blocks(replace(document, code=code), GraphText(document.nodes), folds=True).split("\n")

    head = "def forward(self, x):"
    plain, wrapped = lines(document.code), lines(f"wrap('f')\n\n{document.code}")
    assert plain[0] == SHARED[0]
    assert head in plain
    assert wrapped == ["wrap('f')", "", *plain]
    assert lines(document.code.replace("forward", "run"))[0] == SHARED[0]
