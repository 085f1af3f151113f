"""A module that traced code imports for the first time sees torch as it is."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder

import torch

import fxcore


def test_a_module_imported_while_tracing_keeps_torchs_own_functions(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("from torch import finfo, tensor, zeros\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)

    def function(x):
        import imported_late

        return x + imported_late.zeros(x.shape[0])

    fxcore.symbolic_trace(function, example_inputs=torch.rand(3))

    module = sys.modules.pop("imported_late")
    assert (module.finfo, module.tensor, module.zeros) == (torch.finfo, torch.tensor, torch.zeros)
    assert module.__loader__ is module.__spec__.loader
    assert type(module.__loader__).__name__ != "_UnpatchedLoader"
    assert sys.meta_path == before


def test_a_module_that_the_first_finder_finds_keeps_torchs_own_functions_too(tmp_path, monkeypatch):
    (tmp_path / "found_first.py").write_text("from torch import zeros\n", encoding="utf-8")

    class First:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return PathFinder.find_spec(name, [str(tmp_path)]) if name == "found_first" else None

    monkeypatch.setattr(sys, "meta_path", [First, *sys.meta_path])

    def function(x):
        import found_first

        return x + found_first.zeros(x.shape[0])

    fxcore.symbolic_trace(function, example_inputs=torch.rand(3))

    assert sys.modules.pop("found_first").zeros is torch.zeros
