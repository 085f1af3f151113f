"""The sizes that graphs leave free, on small models of our own: the packages of the list are not needed."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from benchmarks.reach import table
from benchmarks.reach.free_sizes import free_sizes_of, other_inputs
from fixtures.reach.model import Normal, ReachModel, call


class Summed(nn.Module):
    """Takes any size. Its loop is a constant of every graph."""

    def forward(self, x):
        return sum(x[index] for index in range(x.shape[0]))


class Projected(nn.Module):
    """Takes four columns alone."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


class Branching(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def reach_model(kind):
    return ReachModel("tests", kind.__name__, call(f"{__name__}:{kind.__name__}"), (Normal("B 4"),))


def test_each_size_is_changed_with_its_equals_and_alone():
    arguments = (torch.rand(2, 3), torch.rand(3, 5)), {}

    changed = [(places, [tuple(each.shape) for each in inputs()[0]]) for places, inputs in other_inputs(arguments)]

    assert changed == [
        ([(0, 0)], [(3, 3), (3, 5)]),
        ([(0, 0)], [(4, 3), (3, 5)]),
        ([(0, 1), (1, 0)], [(2, 4), (4, 5)]),
        ([(0, 1), (1, 0)], [(2, 6), (6, 5)]),
        ([(0, 1)], [(2, 4), (3, 5)]),
        ([(0, 1)], [(2, 6), (3, 5)]),
        ([(1, 0)], [(2, 3), (4, 5)]),
        ([(1, 0)], [(2, 3), (6, 5)]),
        ([(1, 1)], [(2, 3), (3, 6)]),
        ([(1, 1)], [(2, 3), (3, 10)]),
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Summed, {"eager": 2, "examples": 1, "export": 1, "dynamo": 1}),
        (Projected, {"eager": 1, "examples": 1, "export": 1, "dynamo": 1}),
        (Branching, {"eager": 2, "examples": "TraceError", "export": "GuardOnDataDependentSymNode"}),
    ],
)
def test_a_size_is_free_if_the_model_takes_it_and_the_graph_agrees(kind, expected):
    found = free_sizes_of(reach_model(kind), limit=60)

    assert {way: found[way] for way in expected} == expected


def test_results_of_sizes_alone_leave_the_other_tables_of_a_page(tmp_path):
    sizes = {"eager": 2, "examples": 2, "export": 1, "dynamo": 1}
    file, page = tmp_path / "sizes.jsonl", tmp_path / "page.md"
    file.write_text(json.dumps({"model": "tests/a", "status": "runs", "ways": {}, "sizes": sizes}))
    marks = f"{table.BEGIN}\nkept\n{table.END}\n{table.SIZES_BEGIN}\nold\n{table.SIZES_END}\n"
    page.write_text(marks)

    table.write_tables([str(file), str(page)])

    assert page.read_text().startswith(f"{table.BEGIN}\nkept\n{table.END}\n{table.SIZES_BEGIN}\n| model |")
    assert "old" not in page.read_text()


def test_the_table_counts_the_sizes_of_all_models_and_names_failures():
    sizes = {"eager": 2, "examples": "TraceError", "export": 1, "dynamo": 2}
    results = [{"model": f"tests/{name}", "status": "runs", "sizes": sizes} for name in "ab"]

    written = table.free_sizes(results)

    assert "| **all** | 4 | 0 | 2 | 4 |" in written
    assert "| tests/a | 2 | TraceError | 1 | 2 |" in written
