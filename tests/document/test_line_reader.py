"""A line of a golden is read, or refused with its reason."""

from __future__ import annotations

import re

import pytest

from pytest_fxgraph.document.costs import CostRecord
from pytest_fxgraph.document.line_reader import is_count, read_cost_record, read_module, read_node, read_state
from pytest_fxgraph.document.model import YamlDataError


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("%a = torch.relu(%x) # 1 # 2", "a second `#` stands in it; put a text with this character in quotes"),
        ("%a = torch.relu(%x) # float32[1]; in a; in b", "'in b' stands there twice, or is none of: effects:, meta:"),
        ("%a = torch.relu(%x) # float32[1]; made by hand", "'made by hand' stands there twice, or is none of"),
        ("%a = torch.relu(%x) # meta: tag", "the metadata 'tag' has no name, as in `meta: tag=1`"),
        ("%a = torch.relu", "expected (...) behind 'torch.relu', got ''"),
        ("%a = torch.relu(%x) 1", "expected (...) behind 'torch.relu', got '(%x) 1'"),
        ("%a = torch.relu 1 (%x)", "expected (...) behind 'torch.relu', got '1 (%x)'"),
        ("%a = torch.relu(%x", "a bracket is not closed: ')' is missing"),
        ("%a = (%x)", "'(%x)' calls nothing: a call is TARGET(...), self.PATH(...) or %NAME.METHOD(...)"),
        ("%a = torch.sum(%x, dim=1, dim=2)", "the keyword 'dim' stands there twice"),
        ("%a = torch.sum(dim=1, %x)", "the argument '%x' stands behind one with a keyword"),
        ("%a = torch.sum(%x, , 1)", "an argument is missing at a comma"),
        ('%a = call_function "torch.relu(%x)', "a quoted text does not end"),
        ("input x =", "expected `= DEFAULT`, `# VALUE` or nothing behind the input, got '='"),
        ("relu", "it is none of: input NAME, %NAME = TARGET(...), return ..., block PATH:, or a title"),
    ],
)
def test_a_node_that_no_writer_writes_is_refused_with_the_reason(line, reason):
    with pytest.raises(YamlDataError, match=re.escape(reason)):
        read_node(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("act", "it is no line of this section, such as `PATH: torch.nn.ReLU()` or `PATH: buffer int64[]`"),
        ("act: torch.nn.ReLU", "a module is written as `PATH: CLASS(name=value, ...)`"),
        ("act: torch.nn.ReLU() x", "a module is written as `PATH: CLASS(name=value, ...)`"),
        ("act: (1)", "a module is written as `PATH: CLASS(name=value, ...)`"),
        ("act: torch.nn.ReLU(1)", "the value '1' of the module has no name, as in `bias=True`"),
        ("act: torch.nn.ReLU(); training; training", "'training' stands there twice"),
        ("act: torch.nn.ReLU(); trained", "'trained' is none of: training, not training, is, named by"),
        ("act: torch.nn.ReLU(); training now", "'training now' is none of: training, not training, is, named by"),
        ("act: torch.nn.ReLU(); is", "'is' is none of: training, not training, is, named by"),
    ],
)
def test_a_module_that_no_writer_writes_is_refused_with_the_reason(line, reason):
    with pytest.raises(YamlDataError, match=re.escape(reason)):
        read_module(line, "")


def test_facts_of_a_module_are_read():
    record = read_module("act: torch.nn.ReLU(inplace=True); not training; named by torch", "block.")

    assert (record.path, record.training, record.name_from) == ("block.act", False, "torch")
    assert read_module('"odd path": torch.nn.ReLU(); training', "block.").path == "odd path"
    assert read_state("w: buffer int64[]", "block.").path == "block.w"


def test_the_default_of_an_input_may_be_one_character():
    assert read_node("input x = 3").record.args == read_node("input x =3").record.args == ("3",)


def test_a_parameter_requires_grad_unless_its_line_says_otherwise_and_a_buffer_only_if_its_line_says_so():
    facts = ["parameter float32[2]", "parameter float32[2]; no grad", "buffer float32[2]", "buffer float32[2]; no grad"]

    assert [read_state(f"w: {fact}", "").requires_grad for fact in facts] == [True, False, False, False]
    assert read_state("w: buffer float32[2]; requires grad", "").requires_grad


@pytest.mark.parametrize(
    ("call", "target", "is_relative"),
    [
        ('call_module "odd path"(%x)', "odd path", False),
        ("self.fc(%x)", "fc", True),
        ("self.fc.weight", "fc.weight", True),
        ("torch.exp(%x)", "torch.exp", False),
        ("%x.exp()", "exp", False),
        (".exp(1)", "exp", False),
        ('get_attr "w"()', "w", False),
    ],
)
def test_a_path_in_quotes_is_whole_and_any_other_path_is_in_the_block(call, target, is_relative):
    read = read_node(f"%a = {call}")

    assert (read.record.target, read.is_relative) == (target, is_relative)


@pytest.mark.parametrize(
    ("text", "base", "path"),
    [
        ("self.b", "block.", "block.b"),
        ("outer.b", "block.", "outer.b"),
        ("outer.b", "", "outer.b"),
        ("self.b", "", "self.b"),
    ],
)
def test_the_other_path_of_a_tensor_is_read_within_its_block(text, base, path):
    assert read_state(f"a: parameter float32[2]; is {text}", base).same_as == path


def test_an_output_in_general_form_is_told_from_a_return():
    lines = ['%output = output "output"(1)', '%x = placeholder "x"(1)', "return 1", "%a = torch.relu(1)"]

    assert [read_node(line).is_general for line in lines] == [True, False, False, False]


def test_a_count_is_a_whole_number_of_at_most_39_digits():
    assert all(map(is_count, ("0", "12", "9" * 39)))
    assert not any(map(is_count, ("", "-1", "1.0", "\u0661", "9" * 40)))


def test_a_cost_has_each_number_and_nothing_else():
    counts = {"flops": "1", "read": "2", "written": "3", "params": "4", "nodes": "5"}

    assert read_cost_record("", counts) == CostRecord(1, 2, 3, 4, 5)
    for wrong in ({**counts, "read": "-2"}, {**counts, "more": "1"}, {"flops": "1"}):
        with pytest.raises(YamlDataError, match="costs are whole numbers of flops, read, written, params, nodes"):
            read_cost_record("", wrong)
