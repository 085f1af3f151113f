from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path

import pytest
import torch
import torch.fx
from torch import nn

from pytest_fxgraph.recorder import user_lines
from pytest_fxgraph.recorder.user_lines import name_of_model, user_line


class Inner(nn.Module):
    def __init__(self, rootpath):
        super().__init__()
        self.rootpath = rootpath

    def forward(self):
        return user_line(self.rootpath)


def test_the_line_is_relative_to_rootdir():
    here = Path(__file__)
    line = inspect.currentframe().f_lineno + 1
    assert user_line(here.parent) == f"test_user_lines.py:{line}"
    assert user_line(here.parents[2]).startswith("tests/recorder/test_user_lines.py:")


def test_frames_of_torch_and_python_are_passed_over():
    line = inspect.currentframe().f_lineno + 1
    assert functools.reduce(lambda _, f: f(), [torch.no_grad()(lambda: user_line(Path(__file__).parent))], 0) == (
        f"test_user_lines.py:{line}"
    )
    assert Inner(Path(__file__).parent)().startswith("test_user_lines.py:")


def test_a_file_of_a_package_begins_at_its_nearest_folder_of_imports(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "site"), ""])
    names = {"user_line": user_line}
    source = "def line(rootpath):\n    return user_line(rootpath)\n"
    exec(compile(source, str(tmp_path / "site" / "package" / "model.py"), "exec"), names)

    assert names["line"](tmp_path / "project") == "package/model.py:2"


def test_the_frame_that_asks_is_the_innermost():
    assert next(user_lines.frames()) is inspect.currentframe()


def test_without_a_line_of_the_user_there_is_none(monkeypatch):
    monkeypatch.setattr(user_lines, "frames", lambda: iter(()))

    assert user_line(Path("/project")) == ""


def test_a_file_outside_of_all_folders_of_imports_has_its_whole_path(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/elsewhere"])
    names = {"user_line": user_line}
    exec(compile("def line(root):\n    return user_line(root)\n", "/nowhere/model.py", "exec"), names)

    assert names["line"](Path("/project")) == "/nowhere/model.py:2"


def named(x):
    return x


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (named, f"{__name__}.named"),
        (functools.partial(named, 1), f"{__name__}.named"),
        (Inner(None).forward, f"{__name__}.Inner.forward"),
        (torch.fx.symbolic_trace(nn.Linear(1, 1)), "torch.fx.graph_module.Linear"),
    ],
    ids=["module", "function", "partial", "method", "graph module"],
)
def test_a_model_is_named_with_its_python_module(model, name):
    assert name_of_model(model) == name
