"""`python -m fxcore.profile`: what it prints and writes."""

from __future__ import annotations

import json
import re
import sys
import types

import pytest

from fxcore.profile import _parser, main, peaks_named

MODEL = """
import torch
from torch import nn


def small():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU()), (torch.ones(2, 4),)


def alone():
    return nn.Linear(4, 8)


def number():
    return 7


class Transformed(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x)


class Scaled(nn.Module):
    def forward(self, factor, x):
        return x * factor


def scaled():
    return Scaled(), (2, torch.ones(3))


def uncounted():
    return Transformed(), torch.ones(8)
"""
QUICK = ("--warmup=0", "--repeats=2", "--peaks=h200")


@pytest.fixture(autouse=True)
def _models(tmp_path, monkeypatch):
    (tmp_path / "models_to_profile.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "models_to_profile", raising=False)


def test_it_prints_profile_roofline_critical_path_and_memory(capsys):
    status = main(["models_to_profile:small", *QUICK])

    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    for words in ("median us", "peaks (h200)", "critical path: 2 nodes", "peak activation memory"):
        assert words in out


def test_it_names_operators_without_a_count(capsys):
    main(["models_to_profile:uncounted", *QUICK])

    assert "operators without a count of FLOPs: fft" in capsys.readouterr().out


@pytest.mark.parametrize("is_there", [True, False])
def test_a_bar_is_shown_on_a_terminal_where_tqdm_is(monkeypatch, is_there):
    shown = []
    tqdm = types.ModuleType("tqdm")
    tqdm.tqdm = lambda numbers, **options: shown.append(options) or numbers
    monkeypatch.setitem(sys.modules, "tqdm", tqdm if is_there else None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    assert main(["models_to_profile:small", *QUICK]) == 0
    assert shown == [{"desc": "profiling", "leave": False}] * is_there


def test_it_writes_a_trace(tmp_path, capsys):
    main(["models_to_profile:small", *QUICK, "--trace=t.json"])

    assert len(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) == 2


def test_a_model_alone_needs_a_shape(capsys):
    assert main(["models_to_profile:alone", "--shape=2,4", *QUICK]) == 0
    assert main(["models_to_profile:alone", *QUICK]) == 2
    assert "or a model together with --shape" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("models_to_profile", "'models_to_profile' is no MODULE:FACTORY; write for instance my_models:resnet"),
        ("nowhere:model", "No module named 'nowhere'"),
        ("models_to_profile:none", "has no attribute 'none'"),
        ("models_to_profile:number", "models_to_profile:number returned a int; it has to return a model"),
    ],
)
def test_what_cannot_be_profiled_is_told_and_exits_with_2(capsys, factory, words):
    assert main([factory, *QUICK]) == 2
    assert words in capsys.readouterr().err


def test_the_help_tells_the_defaults_and_the_purpose():
    parser = _parser()
    told = {
        action.dest: int(found[1])
        for action in parser._actions
        if (found := re.search(r"\(default: (\d+)\)", action.help or ""))
    }

    assert told.keys() == {"warmup", "repeats", "most"}
    assert {name: parser.get_default(name) for name in told} == told
    assert parser.description.strip()


def test_the_machine_is_measured_on_the_device_of_the_model(monkeypatch, capsys):
    devices = []
    monkeypatch.setattr("fxcore.profile.measure_peaks", lambda device: devices.append(device) or peaks_named("h200"))

    assert main(["models_to_profile:small", "--warmup=0", "--repeats=1"]) == 0
    assert main(["models_to_profile:scaled", "--warmup=0", "--repeats=1"]) == 0

    assert devices == ["cpu", "cpu"]
    assert sys.path[0] == ""
