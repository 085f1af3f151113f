from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from fixtures import constructor_table
from fixtures.constructor_table import main, table_of_installed_torch
from fixtures.torch_versions import TORCH
from pytest_fxgraph.document.constructors import (
    NEVER,
    TABLE,
    Parameter,
    constructor_parameters,
    parameters_in_table,
    recorded_parameters,
)

ROOT = Path(__file__).parents[2]
NORMS = {f"torch.nn.{lazy}{norm}Norm{n}d" for lazy in ("", "Lazy") for norm in ("Batch", "Instance") for n in (1, 2, 3)}


def names(parameters):
    return [each.name for each in parameters]


def test_parameters_come_with_the_value_that_goes_without_saying():
    in_place, *others = recorded_parameters(nn.ELU)[::-1]

    assert in_place == Parameter("inplace", unsaid=False)
    assert others == [Parameter("alpha")]


def test_where_state_is_made_is_no_configuration():
    assert names(recorded_parameters(nn.Linear)) == ["in_features", "out_features", "bias"]


def test_arguments_that_a_constructor_hands_on_are_those_of_its_base():
    assert names(recorded_parameters(nn.GRU))[:4] == ["mode", "input_size", "hidden_size", "num_layers"]


def test_a_class_that_is_made_while_running_says_what_its_base_says():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", nn.Identity())

    assert type(layer) is not nn.Linear
    assert recorded_parameters(type(layer)) == recorded_parameters(nn.Linear)


def test_the_table_has_defaults_and_tells_which_go_unsaid():
    assert parameters_in_table("torch.nn.Upsample") == {
        "size": (None, None),
        "scale_factor": (None, None),
        "mode": ("nearest", NEVER),
        "align_corners": (None, None),
        "recompute_scale_factor": (None, None),
    }
    assert parameters_in_table("torch.nn.GaussianNLLLoss")["eps"] == (1e-06, 1e-06)  # by keyword
    assert parameters_in_table("torch.nn.TransformerEncoderLayer")["activation"] == (NEVER, NEVER)
    assert parameters_in_table("somebody.Else") == {}


def test_the_installed_torch_differs_from_the_table_by_what_is_listed_here():
    installed = table_of_installed_torch()
    known = {kind: set(parameters_in_table(kind)) for kind in installed}
    texts = {kind: {text.partition("=")[0]: text for text in installed[kind]} for kind in installed}
    new = {kind: texts[kind].keys() - known[kind] - {"*"} for kind in installed if known[kind]}
    dropped = {kind: known[kind] - texts[kind].keys() for kind in installed}

    by_keyword = {"torch.nn.GroupNorm", "torch.nn.SyncBatchNorm", *NORMS} if TORCH >= (2, 13) else set()
    assert {kind for kind in new if new[kind] and kind.startswith("torch.nn.")} >= by_keyword
    assert all(new[kind] == {"bias"} for kind in by_keyword)
    assert not {kind for kind in dropped if dropped[kind]}


@pytest.mark.skipif(TORCH != (2, 6), reason="the table is made from torch 2.6")
def test_the_table_is_what_the_oldest_torch_says():
    run = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        "from fixtures import constructor_table as c; print(c.table_text())",
    ]

    text = subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert text.strip() == TABLE.read_text(encoding="utf-8").strip()


def test_another_torch_does_not_write_the_table(monkeypatch, capsys):
    monkeypatch.setattr(torch, "__version__", "2.60.1")
    monkeypatch.setattr(constructor_table, "TABLE", None)

    assert main() == 1
    assert "the table is made from torch 2.6, and this is 2.60.1: install that one" in capsys.readouterr().out


class OfTheFuture(nn.Module):
    """A class that a torch to come may have."""

    __module__ = "torch.nn.modules.future"

    def __init__(self, size, pace=1, *, _hidden=2, device=None):
        super().__init__()


def test_parameters_of_a_class_that_the_table_lacks_are_new():
    assert recorded_parameters(OfTheFuture) == (
        Parameter("size", None, is_new=True),
        Parameter("pace", 1, is_new=True),
    )
    assert not any(parameter.is_new for parameter in recorded_parameters(nn.Conv2d))


def test_a_constructor_that_hands_nothing_on_ends_the_search_as_the_module_does():
    class Mixin:
        def __init__(self, mixed=1):
            pass

    class Closed(OfTheFuture, Mixin):
        def __init__(self, only):
            pass

    class Open(nn.Module, Mixin):
        def __init__(self, first, *args):
            pass

    assert list(constructor_parameters(Closed)) == ["only"]
    assert list(constructor_parameters(Open)) == ["first"]
