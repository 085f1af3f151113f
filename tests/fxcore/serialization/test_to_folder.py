from __future__ import annotations

import importlib
import re
import sys
import types
import warnings

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norms = nn.Sequential(nn.BatchNorm1d(2))
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        return self.norms(self.linear(x) * self.weight + self.shift)


@pytest.mark.filterwarnings("ignore:Was not able to save")
def test_the_written_module_is_the_same_module(tmp_path, monkeypatch):
    module = fxcore.symbolic_trace(Model()).eval()
    monkeypatch.syspath_prepend(tmp_path)

    module.to_folder(tmp_path / "written", "Again")
    again = importlib.import_module("written").Again().eval()
    for name in ("written", "written.module"):
        del sys.modules[name]

    x = torch.rand(3, 2)
    assert torch.equal(again(x), module(x))


def test_the_source_is_torch_fx_s(tmp_path):
    def source(fx):
        folder = tmp_path / "written"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fx.symbolic_trace(Model()).to_folder(folder)
        text = (folder / "module.py").read_text().replace("fxcore._pytree", "torch.fx._pytree")
        return text, [str(warning.message) for warning in caught], sorted(path.name for path in folder.iterdir())

    assert_same(source)


def test_functions_without_an_import_are_named(tmp_path, monkeypatch):
    def local(x):
        return x + 1

    def of_main(x):
        return x + 1

    of_main.__module__, of_main.__qualname__ = "__main__", "of_main"
    monkeypatch.setattr(sys.modules["__main__"], "of_main", of_main, raising=False)
    root, graph = nn.Module(), fxcore.Graph()
    root.child = Model()
    x = graph.call_module("child", (graph.placeholder("x"),))
    graph.output(graph.call_function(of_main, (graph.call_function(local, (x,)),)))

    with pytest.warns(UserWarning, match="pickled files|cannot write") as caught:
        fxcore.GraphModule(root, graph).to_folder(tmp_path / "written")

    pickled, missing = (str(warning.message) for warning in caught)
    assert pickled.endswith("saved as pickled files instead: ['child']")
    assert re.search(r"cannot write an import of .*local, .*of_main: .*Define the name in .*module\.py", missing)
    assert {warning.filename for warning in caught} == {__file__}


class Tools:
    @staticmethod
    def double(x):
        return 2 * x


def test_a_function_of_a_class_is_imported_with_its_class(tmp_path, monkeypatch):
    graph = fxcore.Graph()
    graph.output(graph.call_function(Tools.double, (graph.placeholder("x"),)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "tools_of_a_class", module := types.ModuleType("tools_of_a_class"))
    module.Tools = Tools
    monkeypatch.setattr(Tools, "__module__", module.__name__)
    monkeypatch.setattr(Tools.double, "__module__", module.__name__)

    fxcore.GraphModule(nn.Module(), graph).to_folder(tmp_path / "of_a_class")

    written = (tmp_path / "of_a_class" / "module.py").read_text()
    assert "import tools_of_a_class\n" in written
    assert importlib.import_module("of_a_class").FxModule()(torch.ones(1)) == 2
